package intarsia.spark;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;
import org.apache.parquet.hadoop.ParquetOutputCommitter;

/**
 * The committer that Hadoop's settings choose for a store, such as the staging committers of S3A.
 *
 * <p>Spark asks only committers of this superclass where a task writes its files. The class of spark-hadoop-cloud with
 * this purpose is not in PySpark.
 */
public final class StoreCommitter extends ParquetOutputCommitter {
  private final PathOutputCommitter committer;

  StoreCommitter(Path folder, TaskAttemptContext context) throws IOException {
    super(folder, context);
    committer = PathOutputCommitterFactory.getCommitterFactory(folder, context.getConfiguration())
        .createOutputCommitter(folder, context);
  }

  /** Returns whether the settings choose a committer for the store of a folder. */
  static boolean isSet(Path folder, Configuration settings) {
    String scheme = folder.toUri().getScheme();
    String key = String.format(PathOutputCommitterFactory.COMMITTER_FACTORY_SCHEME_PATTERN, scheme);
    return scheme != null && settings.get(key) != null;
  }

  @Override
  public Path getWorkPath() {
    try {
      return committer.getWorkPath();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public void setupJob(JobContext context) throws IOException {
    committer.setupJob(context);
  }

  @Override
  public void commitJob(JobContext context) throws IOException {
    committer.commitJob(context);
  }

  @Override
  public void abortJob(JobContext context, JobStatus.State state) throws IOException {
    committer.abortJob(context, state);
  }

  @Override
  public void setupTask(TaskAttemptContext context) throws IOException {
    committer.setupTask(context);
  }

  @Override
  public boolean needsTaskCommit(TaskAttemptContext context) throws IOException {
    return committer.needsTaskCommit(context);
  }

  @Override
  public void commitTask(TaskAttemptContext context) throws IOException {
    committer.commitTask(context);
  }

  @Override
  public void abortTask(TaskAttemptContext context) throws IOException {
    committer.abortTask(context);
  }
}
