package intarsia.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;

/**
 * The files of a scan, of which excluded ones are read if they have changed.
 *
 * <p>Spark plans the tasks of a frame once, and runs them whenever the frame runs: for a second action, for lost blocks
 * of a cached frame, for retries. Plain Spark then reads the current bytes of its files. So each run of a task compares
 * its share of the excluded files, with a stat each, and reads those that are no longer as they were planned.
 */
final class SkippingRDD extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;

  /** Spark warns of tasks of more than 1,000 KiB; a file with a path of ordinary length takes 200 to 300 bytes. */
  private static final int MOST_COMPARED = 2000;

  private final RDD<InternalRow> files;
  private final SQLMetric filesSkipped;
  private final transient Task[] tasks;

  private SkippingRDD(RDD<InternalRow> files, Task[] tasks, SQLMetric filesSkipped) {
    // not a dependency, because there may be more partitions
    super(files.context(), Scala.seq(List.of()), ClassTag.apply(InternalRow.class));
    this.files = files;
    this.tasks = tasks;
    this.filesSkipped = filesSkipped;
  }

  /**
   * @param kept the files to read
   * @param excluded the files that are excluded, whose reader is not used
   * @param isBucketed whether each partition has the files of a bucket
   * @param filesSkipped counts the excluded files that have not changed
   */
  static RDD<InternalRow> of(
      RDD<InternalRow> kept, RDD<InternalRow> excluded, boolean isBucketed, SQLMetric filesSkipped) {
    List<PartitionedFile> all = new ArrayList<>();
    for (Partition partition : excluded.partitions()) {
      all.addAll(Arrays.asList(((FilePartition) partition).files()));
    }
    if (all.isEmpty()) {
      return kept;
    }
    Partition[] before = kept.partitions();
    int enough = (all.size() + MOST_COMPARED - 1) / MOST_COMPARED;
    Task[] tasks = new Task[isBucketed ? before.length : Math.max(before.length, enough)];
    for (int place = 0; place < tasks.length; place++) {
      PartitionedFile[] read =
          place < before.length ? ((FilePartition) before[place]).files() : new PartitionedFile[0];
      List<PartitionedFile> compared = isBucketed
          ? Arrays.asList(((FilePartition) excluded.partitions()[place]).files())
          : all.subList(start(place, tasks.length, all.size()), start(place + 1, tasks.length, all.size()));
      tasks[place] = new Task(place, read, compared.toArray(PartitionedFile[]::new));
    }
    return new SkippingRDD(kept, tasks, filesSkipped);
  }

  /** Returns the first of the files of a task, if all tasks have about as many. */
  private static int start(int task, int tasks, int files) {
    return (int) ((long) task * files / tasks);
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
    for (PartitionedFile file : task.excluded) {
      if (!Freshness.isUnchanged(file)) {
        read.add(file);
      } else if (file.start() == 0) { // the first part of a file
        filesSkipped.add(1);
      }
    }
    return files.compute(new FilePartition(task.index(), read.toArray(PartitionedFile[]::new)), context);
  }
}
