package intarsia.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;

/**
 * The files of a scan, of which excluded ones are read if they have changed.
 *
 * <p>Spark plans the tasks of a frame once, and runs them whenever the frame runs: for a second action, for lost blocks
 * of a cached frame, for retries. Plain Spark then reads the current bytes of its files. So each run of a task compares
 * its share of the excluded files, and reads those that are no longer as they were planned.
 */
final class SkippingRDD extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;

  /** Spark warns of tasks of more than 1,000 KiB; a file with a path of ordinary length takes 200 to 300 bytes. */
  private static final int MOST_COMPARED = 2000;

  private final RDD<InternalRow> files;
  private final Broadcast<SerializableConfiguration> settings; // null if no object is compared
  private final SQLMetric filesSkipped;
  private final transient Task[] tasks;

  private SkippingRDD(
      RDD<InternalRow> files, Task[] tasks, Broadcast<SerializableConfiguration> settings, SQLMetric filesSkipped) {
    // not a dependency, because there may be more partitions
    super(files.context(), Scala.seq(List.of()), ClassTag.apply(InternalRow.class));
    this.files = files;
    this.tasks = tasks;
    this.settings = settings;
    this.filesSkipped = filesSkipped;
  }

  /**
   * @param kept the files to read
   * @param excluded the files that are excluded, whose reader is not used
   * @param settings those of the file systems of objects
   * @param isBucketed whether each partition has the files of a bucket
   * @param filesSkipped counts the excluded files that have not changed
   */
  static RDD<InternalRow> of(
      RDD<InternalRow> kept,
      RDD<InternalRow> excluded,
      Supplier<Configuration> settings,
      boolean isBucketed,
      SQLMetric filesSkipped) {
    List<PartitionedFile> all = new ArrayList<>();
    for (Partition partition : excluded.partitions()) {
      all.addAll(Arrays.asList(((FilePartition) partition).files()));
    }
    if (all.isEmpty()) {
      return kept;
    }
    Partition[] before = kept.partitions();
    int enough = (all.size() + MOST_COMPARED - 1) / MOST_COMPARED;
    boolean hasObjects = all.stream().anyMatch(file -> FileVersion.of(file).isObject());
    if (hasObjects) { // those of a folder are compared together
      all.sort(Comparator.comparing(file -> file.toPath().toString()));
    }
    Task[] tasks = new Task[isBucketed ? before.length : Math.max(before.length, enough)];
    for (int place = 0; place < tasks.length; place++) {
      PartitionedFile[] read =
          place < before.length ? ((FilePartition) before[place]).files() : new PartitionedFile[0];
      List<PartitionedFile> compared = isBucketed
          ? Arrays.asList(((FilePartition) excluded.partitions()[place]).files())
          : share(all, place, hasObjects ? enough : tasks.length);
      tasks[place] = new Task(place, read, compared.toArray(PartitionedFile[]::new));
    }
    Broadcast<SerializableConfiguration> sent =
        hasObjects ? SerializableConfiguration.broadcast(kept.context(), settings.get()) : null;
    return new SkippingRDD(kept, tasks, sent, filesSkipped);
  }

  /** Returns the files of a task, if the first tasks have about as many. */
  private static List<PartitionedFile> share(List<PartitionedFile> files, int task, int tasks) {
    return task >= tasks
        ? List.of()
        : files.subList(
            (int) ((long) task * files.size() / tasks), (int) ((task + 1L) * files.size() / tasks));
  }

  /** The files to read, and the excluded files to compare. */
  private static final class Task extends FilePartition {
    private static final long serialVersionUID = 1L;

    private final PartitionedFile[] excluded;

    Task(int index, PartitionedFile[] files, PartitionedFile[] excluded) {
      super(index, files);
      this.excluded = excluded;
    }
  }

  @Override
  public Partition[] getPartitions() {
    return tasks;
  }

  @Override
  public Seq<String> getPreferredLocations(Partition split) {
    return Scala.seq(Arrays.asList(((FilePartition) split).preferredLocations()));
  }

  @Override
  public Iterator<InternalRow> compute(Partition split, TaskContext context) {
    Task task = (Task) split;
    List<PartitionedFile> read = new ArrayList<>(Arrays.asList(task.files()));
    Set<FileVersion> changed = Freshness.changed(
        Arrays.stream(task.excluded).map(FileVersion::of).toList(), settings == null ? null : settings.value().value());
    for (PartitionedFile file : task.excluded) {
      if (changed.contains(FileVersion.of(file))) {
        read.add(file);
      } else if (file.start() == 0) { // the first part of a file
        filesSkipped.add(1);
      }
    }
    return files.compute(new FilePartition(task.index(), read.toArray(PartitionedFile[]::new)), context);
  }
}
