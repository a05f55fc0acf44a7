package intarsia.spark;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Checks at the start of a query whether its files are still those that were planned.
 *
 * <p>Spark lists the files of a frame once. A file that is replaced later keeps its old length and time in that list,
 * and plain Spark reads its new rows. So an excluded file is compared with the file system before it is left out. A
 * local file costs a stat. Files of other file systems are listed by folder, and only if the plan is older than two
 * seconds, because each listing is a request.
 */
final class Freshness {
  private static final long YOUNG_NANOS = 2_000_000_000L;

  private final Configuration configuration;
  private final long planned = System.nanoTime();
  private Map<Path, Map<Path, FileStatus>> folders = new HashMap<>();
  private long listed = planned;

  Freshness(Configuration configuration) {
    this.configuration = configuration;
  }

  /** Returns whether a file has the length and the time of modification that Spark listed. */
  synchronized boolean isUnchanged(FileStatus file) {
    try {
      Path path = file.getPath();
      if ("file".equals(path.toUri().getScheme())) {
        return isSame(file, new File(path.toUri().getPath()));
      }
      long now = System.nanoTime();
      if (now - planned < YOUNG_NANOS) {
        return true;
      }
      if (now - listed >= YOUNG_NANOS) { // another run of the same plan
        folders = new HashMap<>();
        listed = now;
      }
      FileStatus found = inFolder(path.getParent()).get(path);
      return found != null && isSame(file, found);
    } catch (IOException error) {
      return false;
    }
  }

  static boolean isSame(FileStatus file, FileStatus found) {
    return found.getLen() == file.getLen() && found.getModificationTime() == file.getModificationTime();
  }

  static boolean isSame(FileStatus file, File local) throws IOException {
    BasicFileAttributes found = Files.readAttributes(local.toPath(), BasicFileAttributes.class);
    return found.size() == file.getLen() && found.lastModifiedTime().toMillis() == file.getModificationTime();
  }

  private Map<Path, FileStatus> inFolder(Path folder) throws IOException {
    Map<Path, FileStatus> found = folders.get(folder);
    if (found == null) {
      found = new HashMap<>();
      for (FileStatus file : folder.getFileSystem(configuration).listStatus(folder)) {
        found.put(file.getPath(), file);
      }
      folders.put(folder, found);
    }
    return found;
  }
}
