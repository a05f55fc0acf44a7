package intarsia.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;

/**
 * The Parquet files of one attempt of a task, which get indexes before the task commits.
 *
 * <p>It is a separate class because Spark has one commit protocol for {@code df.write} and another one for streams,
 * without a common superclass for their files.
 *
 * <p>A Python process of the executor builds the indexes. If that fails, or if the process dies, the file is restored
 * as Spark wrote it, and the outcome is recorded, unless the writer's options request a failure. A file that cannot be
 * restored fails the task.
 */
public final class WrittenFiles {
  /** Options of a writer, and the settings of the session for writers without them. */
  private static final String[] INDEXES = {"intarsia.indexes", "spark.intarsia.write.indexes"};

  private static final String[] ON_ERROR = {"intarsia.on_error", "spark.intarsia.write.on_error"};

  /** The options of a writer. */
  static final List<String> OPTIONS = List.of(INDEXES[0], ON_ERROR[0]);

  private static final String PYTHON = "spark.intarsia.write.python";
  private static final String TIMEOUT = "spark.intarsia.write.timeoutMillis";
  private static final long DEFAULT_TIMEOUT_MILLIS = 3_600_000;
  private static final int MOST_JOBS = 100;

  /** The idle processes of this JVM by the path of Python: tasks that commit at the same time need one each. */
  private static final ConcurrentHashMap<String, ConcurrentLinkedDeque<PythonProcess>> IDLE =
      new ConcurrentHashMap<>();

  /** The outcomes of the last jobs of this driver, the latest first. */
  private static final ConcurrentLinkedDeque<List<String>> JOBS = new ConcurrentLinkedDeque<>();

  private final String folder;

  /** The files of the attempt: the current and the final path of each. */
  private final List<String[]> files = new ArrayList<>();

  WrittenFiles(String folder) {
    this.folder = folder;
  }

  /** Returns the outcomes of the files of the last jobs, as texts; the latest job first. */
  public static List<List<String>> jobs() {
    return List.copyOf(JOBS);
  }

  /** Adds a file that the task will write into a folder below that of the table. */
  void add(String file, Option<String> directory) {
    add(file, directory.isEmpty() ? folder : folder + "/" + directory.get());
  }

  /** Adds a file that the task will write, and the folder in which it will be. */
  void add(String file, String directory) {
    if (file.endsWith(".parquet")) {
      String path = directory + "/" + new Path(file).getName();
      String local = AppendedFile.localPath(path);
      files.add(new String[] {file, local == null ? path : local});
    }
  }

  /**
   * Adds indexes to the files.
   *
   * @param options options of the writer that precede those in the settings
   * @return the outcomes of the files, as texts
   */
  ArrayList<String> index(Configuration settings, Map<String, String> options) {
    ArrayList<String> outcomes = new ArrayList<>();
    String indexes = setting(settings, options, INDEXES);
    if (!indexes.isEmpty()) {
      boolean fails = setting(settings, options, ON_ERROR).equals("fail");
      String python = settings.get(PYTHON, "python3");
      long timeoutMillis = settings.getLong(TIMEOUT, DEFAULT_TIMEOUT_MILLIS);
      for (String[] file : files) {
        String store = AppendedFile.localPath(file[0]) == null ? StoreSettings.json(file[0], settings) : "";
        outcomes.add(indexed(file, store, indexes, python, timeoutMillis, fails));
      }
    }
    return outcomes;
  }

  private static String setting(Configuration settings, Map<String, String> options, String[] names) {
    String option = options.get(names[0]);
    return option != null ? option : settings.get(names[0], settings.get(names[1], ""));
  }

  /** Returns the outcome for a file: {@code A} and the answer, or {@code E} and its final path and an error. */
  private static String indexed(
      String[] file, String store, String indexes, String python, long timeoutMillis, boolean fails) {
    ConcurrentLinkedDeque<PythonProcess> idle = IDLE.computeIfAbsent(python, key -> new ConcurrentLinkedDeque<>());
    PythonProcess process = idle.poll();
    if (process == null) {
      process = new PythonProcess(List.of(python, "-m", "intarsia.spark.serving", "writes"));
    }
    AppendedFile before = null;
    try {
      String local = AppendedFile.localPath(file[0]);
      before = local == null ? null : new AppendedFile(local); // object stores replace objects as a whole
      String path = local == null ? file[0] : local;
      return "A" + process.ask(String.join("\0", indexes, path, file[1], store), timeoutMillis);
    } catch (IOException | RuntimeException error) {
      restore(before, process, file[1], error);
      if (fails) {
        throw new IllegalStateException(file[1] + ": cannot be indexed: " + error.getMessage(), error);
      }
      return "E" + file[1] + "\0" + error.getMessage();
    } finally {
      idle.push(process); // a process that has died is started again
    }
  }

  /**
   * Restores a file that was not indexed.
   *
   * @throws IllegalStateException if that fails, so that the task fails and the file is not committed
   */
  private static void restore(AppendedFile before, PythonProcess process, String shown, Exception cause) {
    if (before != null) {
      try {
        process.awaitKilled();
        before.restore();
      } catch (IOException | RuntimeException error) {
        error.addSuppressed(cause);
        throw new IllegalStateException(shown + ": cannot be restored: " + error.getMessage(), error);
      }
    }
  }

  /** Returns the message of a task with the outcomes of its files. */
  static TaskCommitMessage message(TaskCommitMessage own, ArrayList<String> outcomes) {
    // only classes that every class loader has: the driver reads the message before it loads the jar
    return new TaskCommitMessage(new Tuple2<Object, Serializable>(own.obj(), outcomes));
  }

  /** Returns the message of Spark's own protocol in a message. */
  static TaskCommitMessage own(TaskCommitMessage message) {
    return new TaskCommitMessage(((Tuple2<?, ?>) message.obj())._1());
  }

  static Seq<TaskCommitMessage> own(Seq<TaskCommitMessage> messages) {
    List<TaskCommitMessage> own = new ArrayList<>();
    for (TaskCommitMessage message : Scala.iterable(messages)) {
      own.add(own(message));
    }
    return Scala.seq(own);
  }

  /** Records the outcomes of a job that was committed. */
  static void record(Seq<TaskCommitMessage> messages) {
    List<String> outcomes = new ArrayList<>();
    for (TaskCommitMessage message : Scala.iterable(messages)) {
      for (Object outcome : (List<?>) ((Tuple2<?, ?>) message.obj())._2()) {
        outcomes.add((String) outcome);
      }
    }
    if (!outcomes.isEmpty()) {
      JOBS.push(outcomes);
      while (JOBS.size() > MOST_JOBS) {
        JOBS.pollLast();
      }
    }
  }
}
