package intarsia.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Spark's own commit protocol, which also indexes the Parquet files of a task before the task commits.
 *
 * <p>It exists because only a commit protocol can access the files of {@code df.write} between the end of a task and
 * the commit, while they are private to the attempt: no reader sees a file without its indexes, and an attempt that is
 * not committed leaves no files. How files are named, moved and removed is unchanged. In stores, the committer that
 * Hadoop's settings choose does that.
 */
public class IndexingCommitProtocol extends SQLHadoopMapReduceCommitProtocol {
  private final String folder;
  private final boolean isDynamic;
  private transient WrittenFiles files;

  public IndexingCommitProtocol(String jobId, String path, boolean dynamicPartitionOverwrite) {
    super(jobId, path, dynamicPartitionOverwrite);
    folder = path;
    isDynamic = dynamicPartitionOverwrite;
  }

  @Override
  public OutputCommitter setupCommitter(TaskAttemptContext context) {
    Path to = new Path(folder);
    if (isDynamic || !StoreCommitter.isSet(to, context.getConfiguration())) {
      return super.setupCommitter(context);
    }
    try {
      return new StoreCommitter(to, context);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void setupTask(TaskAttemptContext context) {
    files = new WrittenFiles(folder);
    super.setupTask(context);
  }

  @Override
  public String newTaskTempFile(TaskAttemptContext context, Option<String> directory, FileNameSpec name) {
    String file = super.newTaskTempFile(context, directory, name);
    files.add(file, directory);
    return file;
  }

  @Override
  public String newTaskTempFileAbsPath(TaskAttemptContext context, String directory, FileNameSpec name) {
    String file = super.newTaskTempFileAbsPath(context, directory, name);
    files.add(file, directory);
    return file;
  }

  @Override
  public TaskCommitMessage commitTask(TaskAttemptContext context) {
    var outcomes = files.index(context.getConfiguration(), Map.of());
    return WrittenFiles.message(super.commitTask(context), outcomes);
  }

  @Override
  public void commitJob(JobContext context, Seq<TaskCommitMessage> messages) {
    super.commitJob(context, WrittenFiles.own(messages));
    WrittenFiles.record(messages);
  }
}
