package intarsia.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.BasicFileAttributes;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.deploy.SparkHadoopUtil;
import org.apache.spark.sql.execution.datasources.PartitionedFile;

/**
 * Checks whether a file is still the one that was planned, by its length and its time of modification.
 *
 * <p>Spark lists the files of a frame once. A file that is replaced later keeps its old length and time in that list,
 * and plain Spark reads its new rows.
 */
final class Freshness {
  private Freshness() {}

  /** Returns whether a file has the length and the time that Spark listed; a stat of a local file. */
  static boolean isUnchanged(PartitionedFile file) {
    return isUnchanged(file.toPath(), file.fileSize(), file.modificationTime());
  }

  /** Returns whether a file has a length and a time; false if it cannot be found. */
  static boolean isUnchanged(Path path, long length, long modified) {
    try {
      if ("file".equals(path.toUri().getScheme())) {
        BasicFileAttributes found =
            Files.readAttributes(java.nio.file.Path.of(path.toUri().getPath()), BasicFileAttributes.class);
        return found.size() == length && found.lastModifiedTime().toMillis() == modified;
      }
      FileStatus found = path.getFileSystem(SparkHadoopUtil.get().conf()).getFileStatus(path);
      return found.getLen() == length && found.getModificationTime() == modified;
    } catch (IOException | RuntimeException error) { // such as a name that the locale cannot represent
      return false;
    }
  }
}
