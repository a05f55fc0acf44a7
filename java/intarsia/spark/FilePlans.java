package intarsia.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.immutable.Seq;

/**
 * The rows that a scan has to read from each planned file.
 *
 * <p>A plan belongs to a path and a version of the file. A listed file without a plan of its own is read
 * as a whole. So files that are added or replaced after planning are never lost.
 */
final class FilePlans {
  /** The key of the row ranges in the constant metadata of a file, by which they reach the executors. */
  static final String ROWS = "intarsia.rows";

  /** The planner's decision about one file; {@code rows} are pairs of start and stop, null for all rows. */
  private record Decision(FileVersion listed, FileVersion planned, boolean isExcluded, long[] rows, long bytes) {}

  private final List<FileStatus> files;
  private final List<FileVersion> versions;
  private final Configuration settings;
  private final Map<String, Decision> decisions = new HashMap<>();
  private final String summary;
  private final List<String> indexes = new ArrayList<>();
  private final long planningNanos;
  private final long rowsSkipped;
  private long keptBytes;

  /**
   * @param files the files that were planned, as they are listed
   * @param versions the versions that were planned
   * @param settings those of their file systems; null if all files are local
   * @param reply the planner's answer: {@code kept}, an array for each file to read with its ordinal, the bytes to
   *     read, and its row ranges, if not all rows; {@code unplanned}, the ordinals of files without a plan; {@code
   *     summary} and {@code indexes} for {@code explain()}; {@code statuses}, the length and the time of each file,
   *     unless they are those of {@code versions}
   * @throws IllegalArgumentException if the answer does not describe these files
   */
  FilePlans(
      List<FileStatus> files,
      List<FileVersion> versions,
      Configuration settings,
      JsonNode reply,
      long planningNanos) {
    this.files = files;
    this.versions = versions;
    this.settings = settings;
    this.summary = reply.path("summary").asText();
    reply.path("indexes").forEach(name -> indexes.add(name.asText()));
    this.planningNanos = planningNanos;
    JsonNode rowCounts = reply.path("report").path("rows");
    this.rowsSkipped = rowCounts.path("total").asLong() - rowCounts.path("candidates").asLong();
    JsonNode kept = reply.path("kept");
    if (reply.path("files").asInt(-1) != files.size() || !kept.isArray()) {
      throw new IllegalArgumentException("the plan does not describe the " + files.size() + " files of the scan");
    }
    for (int place = 0; place < files.size(); place++) {
      decisions.put(key(files.get(place)), decision(place, reply, true, null, 0));
    }
    for (JsonNode place : reply.path("unplanned")) {
      FileStatus file = files.get(place.intValue());
      decisions.remove(key(file));
      keptBytes += file.getLen();
    }
    for (JsonNode entry : kept) {
      int ordinal = entry.required(0).intValue();
      long bytes = entry.required(1).longValue();
      long[] rows = entry.size() == 2 ? null : new long[entry.size() - 2];
      for (int place = 2; place < entry.size(); place++) {
        rows[place - 2] = entry.get(place).longValue();
      }
      if (rows != null && rows.length % 2 != 0) {
        throw new IllegalArgumentException("a row range has no end");
      }
      decisions.put(key(files.get(ordinal)), decision(ordinal, reply, false, rows, bytes));
      keptBytes += bytes;
    }
  }

  private Decision decision(int ordinal, JsonNode reply, boolean isExcluded, long[] rows, long bytes) {
    FileVersion listed = FileVersion.of(files.get(ordinal));
    JsonNode status = reply.path("statuses").path(ordinal);
    FileVersion planned = status.isArray()
        ? new FileVersion(listed.path(), status.required(0).longValue(), status.required(1).longValue(), null)
        : versions.get(ordinal);
    return new Decision(listed, planned, isExcluded, rows, bytes);
  }

  /** A summary for {@code explain()}: the parts of the files that are read. Spark cuts it at 100 characters. */
  String summary() {
    return summary;
  }

  /** The names of the indexes that excluded files or rows. */
  List<String> indexes() {
    return indexes;
  }

  long planningNanos() {
    return planningNanos;
  }

  /** The estimated number of bytes to read. */
  long keptBytes() {
    return keptBytes;
  }

  /** The number of rows of the planned files that are not read. */
  long rowsSkipped() {
    return rowsSkipped;
  }

  /** Returns the URIs of the planned files that are not excluded. */
  String[] inputFiles() {
    return files.stream()
        .filter(file -> {
          Decision decision = decisions.get(key(file));
          return decision == null || !decision.isExcluded();
        })
        .map(file -> SparkPath.fromFileStatus(file).urlEncoded())
        .toArray(String[]::new);
  }

  /** The number of bytes to read from a file, if only some of its rows are read; -1 for other files. */
  long narrowedBytes(String path) {
    Decision decision = decisions.get(path);
    return decision == null || decision.rows() == null ? -1 : decision.bytes();
  }

  /** Returns some of the listed files; those to read have their row ranges. */
  Seq<PartitionDirectory> apply(Seq<PartitionDirectory> listed, SkippingIndex.Listed which) {
    Set<FileVersion> changed =
        which == SkippingIndex.Listed.CURRENT ? Freshness.changed(excluded(listed), settings) : Set.of();
    List<PartitionDirectory> directories = new ArrayList<>();
    for (PartitionDirectory directory : Scala.iterable(listed)) {
      List<FileStatusWithMetadata> files = new ArrayList<>();
      for (FileStatusWithMetadata file : Scala.iterable(directory.files())) {
        FileStatusWithMetadata planned = apply(file, which, changed);
        if (planned != null) {
          files.add(planned);
        }
      }
      if (!files.isEmpty()) {
        directories.add(new PartitionDirectory(directory.values(), Scala.seq(files)));
      }
    }
    return Scala.seq(directories);
  }

  /** Returns those of the listed files that are excluded. */
  private List<FileVersion> excluded(Seq<PartitionDirectory> listed) {
    List<FileVersion> found = new ArrayList<>();
    for (PartitionDirectory directory : Scala.iterable(listed)) {
      for (FileStatusWithMetadata file : Scala.iterable(directory.files())) {
        Decision decision = decision(FileVersion.of(file.fileStatus()));
        if (decision != null && decision.isExcluded()) {
          found.add(decision.planned());
        }
      }
    }
    return found;
  }

  /** Returns what was planned for a listed file; null if it was not planned, or another version was. */
  private Decision decision(FileVersion listed) {
    Decision decision = decisions.get(listed.path().toString());
    return decision != null && decision.listed().isSame(listed) ? decision : null;
  }

  @SuppressWarnings("unchecked") // Java sees updated() without type parameters
  private FileStatusWithMetadata apply(
      FileStatusWithMetadata file, SkippingIndex.Listed which, Set<FileVersion> changed) {
    Decision decision = decision(FileVersion.of(file.fileStatus()));
    if (decision != null && decision.isExcluded()) {
      boolean isListed = switch (which) {
        case CURRENT -> changed.contains(decision.planned());
        case KEPT -> false;
        case EXCLUDED -> true;
      };
      return isListed ? decision.planned().remember(file) : null;
    }
    if (which == SkippingIndex.Listed.EXCLUDED) {
      return null;
    }
    if (decision == null || decision.rows() == null) {
      return file;
    }
    // executors compare the version of the file when they open it
    FileStatusWithMetadata planned = decision.planned().remember(file);
    return new FileStatusWithMetadata(planned.fileStatus(), planned.metadata().updated(ROWS, decision.rows()));
  }

  private static String key(FileStatus file) {
    return file.getPath().toString();
  }
}
