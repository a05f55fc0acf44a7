package intarsia.spark;

import com.fasterxml.jackson.databind.JsonNode;
import intarsia.spark.FileLists.FileList;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.expressions.Expression;
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

  /** What is read of a file; {@code rows} are pairs of start and stop, null for all rows. */
  private record Kept(FileVersion planned, long[] rows, long bytes) {}

  /** What a snapshot of a table format has listed by some conditions. */
  private record Listed(List<Seq<Expression>> filters, Seq<PartitionDirectory> directories) {}

  private final FileList files;
  private final Configuration settings;
  private Listed listed;
  private final Map<Integer, Kept> kept = new HashMap<>();
  private final BitSet unplanned = new BitSet();
  private final boolean isSealed;
  private final String summary;
  private final List<String> indexes = new ArrayList<>();
  private final long planningNanos;
  private final long rowsSkipped;
  private long keptBytes;

  /**
   * @param files the files that were planned
   * @param settings those of their file systems; null if all files are local
   * @param reply the planner's answer: {@code kept}, an array for each file to read with its ordinal, the bytes to
   *     read, and its row ranges, if not all rows; {@code unplanned}, the ordinals of files without a plan; {@code
   *     summary} and {@code indexes} for {@code explain()}; {@code is_sealed}, whether files never get other rows;
   *     {@code statuses}, for each of {@code kept} its length, its time and its ETag, unless they are those of the list
   * @throws IllegalArgumentException if the answer does not describe these files
   */
  FilePlans(FileList files, Configuration settings, JsonNode reply, long planningNanos) {
    this.files = files;
    this.settings = settings;
    this.isSealed = reply.path("is_sealed").asBoolean();
    this.summary = reply.path("summary").asText();
    reply.path("indexes").forEach(name -> indexes.add(name.asText()));
    this.planningNanos = planningNanos;
    JsonNode rowCounts = reply.path("report").path("rows");
    this.rowsSkipped = rowCounts.path("total").asLong() - rowCounts.path("candidates").asLong();
    JsonNode entries = reply.path("kept");
    int count = files.files().size();
    if (reply.path("files").asInt(-1) != count || !entries.isArray()) {
      throw new IllegalArgumentException("the plan does not describe the " + count + " files of the scan");
    }
    for (JsonNode place : reply.path("unplanned")) {
      unplanned.set(place.intValue());
      keptBytes += files.listed(place.intValue()).length();
    }
    for (int at = 0; at < entries.size(); at++) {
      JsonNode entry = entries.get(at);
      FileVersion version = files.planned(entry.required(0).intValue());
      long[] rows = entry.size() == 2 ? null : new long[entry.size() - 2];
      for (int place = 2; place < entry.size(); place++) {
        rows[place - 2] = entry.get(place).longValue();
      }
      if (rows != null && rows.length % 2 != 0) {
        throw new IllegalArgumentException("a row range has no end");
      }
      JsonNode status = reply.path("statuses").path(at);
      FileVersion planned = status.isArray()
          ? new FileVersion(
              version.path(), status.required(0).longValue(), status.required(1).longValue(), status.path(2).textValue())
          : version;
      long bytes = entry.required(1).longValue();
      kept.put(entry.get(0).intValue(), new Kept(planned, rows, bytes));
      keptBytes += bytes;
    }
  }

  /** Keeps the files of a snapshot, which Spark need not list again with the same conditions. */
  void keep(Seq<Expression> partitionFilters, Seq<Expression> dataFilters, Seq<PartitionDirectory> directories) {
    listed = new Listed(List.of(partitionFilters, dataFilters), directories);
  }

  /** Returns the files that a snapshot has listed by these conditions; null if they are not known. */
  Seq<PartitionDirectory> listed(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    if (listed == null) {
      return null;
    }
    var filters = List.of(DeltaPlanner.listable(partitionFilters), DeltaPlanner.listable(dataFilters));
    return filters.equals(listed.filters()) ? listed.directories() : null;
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

  /** The number of bytes to read from a file, if only some of its rows are read; -1 for other files. */
  long narrowedBytes(Path path) {
    Kept found = kept.get(files.place(path));
    return found == null || found.rows() == null ? -1 : found.bytes();
  }

  /** Whether files never get other rows, so that excluded ones need not be compared when the scan runs. */
  boolean isSealed() {
    return isSealed;
  }

  /** Returns the URIs of the planned files that are not excluded. */
  String[] inputFiles() {
    return IntStream.range(0, files.files().size())
        .filter(place -> unplanned.get(place) || kept.containsKey(place))
        .mapToObj(place -> SparkPath.fromPath(files.listed(place).path()).urlEncoded())
        .toArray(String[]::new);
  }

  /** Returns some of the listed files; those to read have their row ranges. */
  Seq<PartitionDirectory> apply(Seq<PartitionDirectory> listed, SkippingIndex.Listed which) {
    Set<FileVersion> changed = which == SkippingIndex.Listed.CURRENT && !isSealed
        ? Freshness.changed(excluded(listed), settings)
        : Set.of();
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
  List<FileVersion> excluded(Seq<PartitionDirectory> listed) {
    List<FileVersion> found = new ArrayList<>();
    for (PartitionDirectory directory : Scala.iterable(listed)) {
      for (FileStatusWithMetadata file : Scala.iterable(directory.files())) {
        int place = place(FileVersion.of(file.fileStatus()));
        if (place >= 0 && !kept.containsKey(place)) {
          found.add(files.planned(place));
        }
      }
    }
    return found;
  }

  /** Returns the place of a listed file among the planned ones; -1 if it was not planned, or another version was. */
  private int place(FileVersion listed) {
    int place = files.place(listed);
    return place >= 0 && unplanned.get(place) ? -1 : place;
  }

  @SuppressWarnings("unchecked") // Java sees updated() without type parameters
  private FileStatusWithMetadata apply(
      FileStatusWithMetadata file, SkippingIndex.Listed which, Set<FileVersion> changed) {
    int place = place(FileVersion.of(file.fileStatus()));
    Kept found = kept.get(place);
    if (place >= 0 && found == null) {
      FileVersion excluded = files.planned(place);
      boolean isListed = switch (which) {
        case CURRENT -> changed.contains(excluded);
        case KEPT -> false;
        case EXCLUDED -> !isSealed;
      };
      return isListed ? excluded.remember(file) : null;
    }
    if (which == SkippingIndex.Listed.EXCLUDED) {
      return null;
    }
    if (found == null || found.rows() == null) {
      return file;
    }
    // executors compare the version of the file when they open it
    FileStatusWithMetadata planned = found.planned().remember(file);
    return new FileStatusWithMetadata(planned.fileStatus(), planned.metadata().updated(ROWS, found.rows()));
  }
}
