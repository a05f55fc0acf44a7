package intarsia.spark;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's commit protocol of streaming file sinks, which also indexes the Parquet files of a task before the task
 * commits.
 *
 * <p>Tasks of a sink write files under their final names, and a manifest lists the files of each micro-batch with
 * their lengths. The lengths are read when a task commits, so the files are indexed first. Readers of the manifest
 * see no file without its indexes, and a micro-batch is committed by Spark alone, once.
 *
 * <p>A sink does not pass the options of its writer on, as {@code df.write} does. They are read from the running
 * query by reflection; if that fails, the settings of the session apply.
 */
public class IndexingStreamCommitProtocol extends ManifestFileCommitProtocol {
  private static final Logger LOG = LoggerFactory.getLogger(IndexingStreamCommitProtocol.class);
  private static final String QUERY_ID = "sql.streaming.queryId";

  private final String folder;
  private final HashMap<String, String> options = new HashMap<>();
  private transient WrittenFiles files;

  public IndexingStreamCommitProtocol(String jobId, String path) {
    super(jobId, path);
    folder = path;
  }

  @Override
  public void setupJob(JobContext context) {
    super.setupJob(context);
    try {
      options.putAll(optionsOfQuery());
    } catch (ReflectiveOperationException | RuntimeException error) {
      LOG.warn("Intarsia cannot read the options of the stream to {}; the session's indexes apply", folder, error);
    }
  }

  /** Returns the options for this class of the query that runs in this thread. */
  private static Map<String, String> optionsOfQuery() throws ReflectiveOperationException {
    SparkSession session = SparkSession.active();
    UUID query = UUID.fromString(session.sparkContext().getLocalProperty(QUERY_ID));
    Object execution = session.sharedState().activeStreamingQueries().get(query);
    Object sink = execution.getClass().getMethod("sink").invoke(execution);
    Field field = sink.getClass().getDeclaredField("options");
    field.setAccessible(true);
    Map<String, String> found = new HashMap<>();
    for (Map.Entry<?, ?> option :
        CollectionConverters.asJava((scala.collection.Map<?, ?>) field.get(sink)).entrySet()) {
      if (option.getKey() instanceof String name && name.startsWith("intarsia.")) {
        found.put(name, (String) option.getValue());
      }
    }
    return found;
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
  public TaskCommitMessage commitTask(TaskAttemptContext context) {
    var outcomes = files.index(context.getConfiguration(), options);
    return WrittenFiles.message(super.commitTask(context), outcomes);
  }

  @Override
  public void onTaskCommit(TaskCommitMessage message) {
    super.onTaskCommit(WrittenFiles.own(message));
  }

  @Override
  public void commitJob(JobContext context, Seq<TaskCommitMessage> messages) {
    super.commitJob(context, WrittenFiles.own(messages));
    WrittenFiles.record(messages);
  }
}
