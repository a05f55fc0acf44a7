package intarsia.spark;

import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.Option;

/**
 * A file as it was at one time.
 *
 * @param modified its time of modification in milliseconds
 * @param etag the name that a store gives to the bytes of an object; null for other files
 */
record FileVersion(Path path, long length, long modified, String etag) {
  /** The key of the ETag in the constant metadata of a file, by which it reaches the executors. */
  private static final String ETAG = "intarsia.etag";

  /** The key of the length and the time of a file that is listed with others. */
  private static final String STATUS = "intarsia.status";

  static FileVersion of(FileStatus file) {
    String etag = file instanceof EtagSource source ? source.getEtag() : null;
    if (etag != null && !etag.endsWith("\"")) { // as ABFS, unlike other clients of Azure
      etag = etag.isEmpty() ? null : '"' + etag + '"';
    }
    return new FileVersion(file.getPath(), file.getLen(), file.getModificationTime(), etag);
  }

  /** Returns the version that was planned, of a file with the metadata of {@link #remember}. */
  static FileVersion of(PartitionedFile file) {
    Option<Object> etag = file.otherConstantMetadataColumnValues().get(ETAG);
    Option<Object> status = file.otherConstantMetadataColumnValues().get(STATUS);
    long[] found = status.isDefined() ? (long[]) status.get() : new long[] {file.fileSize(), file.modificationTime()};
    return new FileVersion(file.toPath(), found[0], found[1], etag.isDefined() ? (String) etag.get() : null);
  }

  /** Adds to a listed file what Spark does not pass on to tasks. */
  FileStatusWithMetadata remember(FileStatusWithMetadata listed) {
    FileStatusWithMetadata known = etag == null ? listed : with(listed, ETAG, etag);
    boolean isListed = length == listed.getLen() && modified == listed.getModificationTime();
    return isListed ? known : with(known, STATUS, new long[] {length, modified});
  }

  @SuppressWarnings("unchecked") // Java sees updated() without type parameters
  private static FileStatusWithMetadata with(FileStatusWithMetadata file, String key, Object value) {
    return new FileStatusWithMetadata(file.fileStatus(), file.metadata().updated(key, value));
  }

  /** Returns whether it is in an object store. */
  boolean isObject() {
    return path.toUri().getAuthority() != null;
  }

  /**
   * Returns whether two versions have the same bytes. Stores disagree on the times of an object, but not on ETags; a store
   * without ETags in Hadoop has times in milliseconds.
   */
  boolean isSame(FileVersion other) {
    return length == other.length
        && (etag == null ? other.etag == null && modified == other.modified : etag.equals(other.etag));
  }
}
