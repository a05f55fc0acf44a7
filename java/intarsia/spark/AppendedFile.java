package intarsia.spark;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * A local file to which another process appends, and which can be restored if that process dies.
 *
 * <p>The process never changes the first bytes. So the length and the checksums of Hadoop suffice to restore the file
 * from any state in which the process may leave it.
 */
final class AppendedFile {
  private final File file;
  private final Path sidecar;
  private final long length;

  /** The bytes of Hadoop's file of checksums; null if there is none. */
  private final byte[] checksums;

  /**
   * Records the length and the checksums of a file.
   *
   * @throws IOException if the file does not exist, or cannot be read
   */
  AppendedFile(String path) throws IOException {
    file = new File(path);
    sidecar = new File(file.getParent(), "." + file.getName() + ".crc").toPath();
    if (!file.isFile()) {
      throw new FileNotFoundException(path + ": no such file on this machine");
    }
    length = file.length();
    checksums = currentChecksums();
  }

  /** Returns the path on this machine of a file of Spark; null if the file is elsewhere. */
  static String localPath(String path) {
    URI uri = new org.apache.hadoop.fs.Path(path).toUri();
    return uri.getScheme() == null || uri.getScheme().equals("file") ? uri.getPath() : null;
  }

  /**
   * Restores the file and its checksums; no other process may change them any more.
   *
   * @throws IOException if that fails; the file cannot be used then
   */
  void restore() throws IOException {
    try (RandomAccessFile open = new RandomAccessFile(file, "rw")) {
      if (open.length() < length) {
        throw new IOException("the file has " + open.length() + " of " + length + " bytes");
      }
      open.setLength(length);
    }
    if (checksums == null) {
      Files.deleteIfExists(sidecar);
    } else if (!Arrays.equals(checksums, currentChecksums())) {
      Files.write(sidecar, checksums);
    }
  }

  private byte[] currentChecksums() throws IOException {
    return Files.exists(sidecar) ? Files.readAllBytes(sidecar) : null;
  }
}
