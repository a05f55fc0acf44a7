package intarsia.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's own commit protocol, which also indexes the Parquet files of a task before the task commits.
 *
 * <p>It exists because only a commit protocol sees the files of {@code df.write} between the end of a task and the
 * commit, while they are private to the attempt: no reader sees a file without its indexes, and an attempt that is
 * not committed leaves nothing. How files are named, moved and removed is unchanged.
 *
 * <p>A Python process of the executor builds the indexes. If that fails, the file is left as Spark wrote it, and the
 * outcome is recorded, unless the writer asked for a failure.
 */
public class IndexingCommitProtocol extends SQLHadoopMapReduceCommitProtocol {
  /** Options of a writer, and the settings of the session for writers without them. */
  private static final String[] INDEXES = {"intarsia.indexes", "spark.intarsia.write.indexes"};

  private static final String[] ON_ERROR = {"intarsia.on_error", "spark.intarsia.write.on_error"};

  private static final String PYTHON = "spark.intarsia.write.python";
  private static final long TIMEOUT_MILLIS = 3_600_000;
  private static final int MOST_JOBS = 100;

  /** The idle processes of this JVM by their Python: tasks that commit at the same time need one each. */
  private static final ConcurrentHashMap<String, ConcurrentLinkedDeque<PythonProcess>> IDLE =
      new ConcurrentHashMap<>();

  /** The outcomes of the last jobs of this driver, the latest first. */
  private static final ConcurrentLinkedDeque<List<String>> JOBS = new ConcurrentLinkedDeque<>();

  private final String folder;

  /** The files of this attempt: where they are now, and where they will be. */
  private transient List<String[]> files;

  public IndexingCommitProtocol(String jobId, String path, boolean dynamicPartitionOverwrite) {
    super(jobId, path, dynamicPartitionOverwrite);
    folder = path;
  }

  /** Returns the outcomes of the files of the last jobs, as texts; the latest job first. */
  public static List<List<String>> jobs() {
    return List.copyOf(JOBS);
  }

  @Override
  public void setupTask(TaskAttemptContext context) {
    files = new ArrayList<>();
    super.setupTask(context);
  }

  @Override
  public String newTaskTempFile(TaskAttemptContext context, Option<String> directory, FileNameSpec name) {
    String file = super.newTaskTempFile(context, directory, name);
    return noted(file, directory.isEmpty() ? folder : folder + "/" + directory.get());
  }

  @Override
  public String newTaskTempFileAbsPath(TaskAttemptContext context, String directory, FileNameSpec name) {
    return noted(super.newTaskTempFileAbsPath(context, directory, name), directory);
  }

  private String noted(String file, String directory) {
    if (files != null && file.endsWith(".parquet")) {
      files.add(new String[] {file, directory + "/" + new Path(file).getName()});
    }
    return file;
  }

  @Override
  public TaskCommitMessage commitTask(TaskAttemptContext context) {
    ArrayList<String> outcomes = new ArrayList<>();
    Configuration settings = context.getConfiguration();
    String indexes = setting(settings, INDEXES);
    if (!indexes.isEmpty()) {
      boolean fails = setting(settings, ON_ERROR).equals("fail");
      String python = settings.get(PYTHON, "python3");
      for (String[] file : files) {
        outcomes.add(indexed(file, indexes, python, fails));
      }
    }
    // only classes that every class loader has: the driver reads the message before it has any of ours
    Object own = super.commitTask(context).obj();
    return new TaskCommitMessage(new Tuple2<Object, Serializable>(own, outcomes));
  }

  /** Returns the outcome for a file: {@code A} and the answer, or {@code E} and its final path and an error. */
  private static String indexed(String[] file, String indexes, String python, boolean fails) {
    try {
      ConcurrentLinkedDeque<PythonProcess> idle =
          IDLE.computeIfAbsent(python, key -> new ConcurrentLinkedDeque<>());
      PythonProcess process = idle.poll();
      if (process == null) {
        process = new PythonProcess(List.of(python, "-m", "intarsia.spark.write_server"));
      }
      try {
        return "A" + process.ask(String.join("\0", indexes, file[0], file[1]), TIMEOUT_MILLIS);
      } finally {
        idle.push(process); // one that has died starts again
      }
    } catch (IOException | RuntimeException error) {
      if (fails) {
        throw new IllegalStateException(file[1] + ": cannot be indexed: " + error.getMessage(), error);
      }
      return "E" + file[1] + "\0" + error.getMessage();
    }
  }

  private static String setting(Configuration settings, String[] names) {
    return settings.get(names[0], settings.get(names[1], ""));
  }

  @Override
  public void commitJob(JobContext context, Seq<TaskCommitMessage> messages) {
    List<TaskCommitMessage> own = new ArrayList<>();
    List<String> outcomes = new ArrayList<>();
    for (TaskCommitMessage message : CollectionConverters.asJava(messages)) {
      Tuple2<?, ?> both = (Tuple2<?, ?>) message.obj();
      own.add(new TaskCommitMessage(both._1()));
      for (Object outcome : (List<?>) both._2()) {
        outcomes.add((String) outcome);
      }
    }
    super.commitJob(context, CollectionConverters.asScala(own).toList());
    if (!outcomes.isEmpty()) {
      JOBS.push(outcomes);
      while (JOBS.size() > MOST_JOBS) {
        JOBS.pollLast();
      }
    }
  }
}
