package intarsia.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The catalog {@code intarsia}, which has procedures and no tables: {@code CALL intarsia.index(table => 't', …)}.
 *
 * <p>The procedures are the jobs of {@code intarsia.spark} in Python, so SQL has no implementation of its own. The
 * Python program that owns this JVM runs them. Where there is none, as in spark-sql, a Python process beside the driver
 * does, and reaches the session over py4j, as every PySpark program does.
 */
public final class Procedures implements ProcedureCatalog {
  static final ObjectMapper JSON = new ObjectMapper();

  /** The properties of the calling thread by which its jobs are cancelled and scheduled. */
  private static final List<String> THREAD_PROPERTIES = List.of(
      "spark.jobGroup.id",
      "spark.job.description",
      "spark.job.interruptOnCancel",
      "spark.job.tags",
      "spark.scheduler.pool");

  private static final Map<String, SparkSession> CALLERS = new ConcurrentHashMap<>();
  private static final AtomicLong LAST_CALL = new AtomicLong();

  /** Runs the procedures. */
  private static Planner python;

  private static final Map<String, Procedure> ALL = new LinkedHashMap<>();

  private static void add(String name, String description, String... parameters) {
    ALL.put(name, new Procedure(name, description, List.of(parameters)));
  }

  static {
    add(
        "index",
        "Attach indexes to the files of a table or path, without changing their data",
        "table STRING",
        "page_index BOOLEAN FALSE",
        "statistics BOOLEAN FALSE",
        "bloom ARRAY<STRING> NULL",
        "distinct ARRAY<STRING> NULL",
        "indexes STRING NULL",
        "lake_index STRING NULL",
        "only STRING 'all'",
        "min_file_size BIGINT 0",
        "older_than DOUBLE 0",
        "max_failures INT NULL",
        "register BOOLEAN FALSE");
    add("detach", "Restore the original files of a table or path", "table STRING");
    add(
        "verify",
        "Check the indexes of the files of a table or path against their data",
        "table STRING",
        "quick BOOLEAN FALSE",
        "sample INT NULL",
        "seed INT 0");
    add("show_indexes", "List the indexes of the files of a table or path", "table STRING");
    add("lake_index", "Build or extend the lake index of a table or path", "table STRING", "location STRING 'cache'");
    add(
        "optimize",
        "Write the rows of a table or path to a new folder or in place, sorted and indexed",
        "table STRING",
        "destination STRING NULL",
        "sort_by ARRAY<STRING> NULL",
        "zorder_by ARRAY<STRING> NULL",
        "hilbert_by ARRAY<STRING> NULL",
        "partition_by ARRAY<STRING> NULL",
        "target_file_size BIGINT NULL",
        "rows_per_page INT NULL",
        "compression STRING NULL",
        "indexes STRING NULL",
        "in_place BOOLEAN FALSE");
    add(
        "delete",
        "Delete the rows of a table or path that match, and rewrite only the files that have them",
        "table STRING",
        "where STRING",
        "dry_run BOOLEAN FALSE");
    add(
        "advise",
        "Advise an order of rows and indexes for queries",
        "table STRING",
        "queries ARRAY<STRING>",
        "sample_rows INT NULL");
    add("skips", "List what each scan of the last query of this session skipped, and why");
  }

  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier identifier) {
    Procedure found = identifier.namespace().length > 0 ? null : ALL.get(identifier.name().toLowerCase(Locale.ROOT));
    if (found == null) {
      throw new IllegalArgumentException(
          "there is no procedure " + name + "." + identifier + "; there are " + String.join(", ", ALL.keySet()));
    }
    return found;
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    String[] none = {};
    return namespace.length > 0
        ? new Identifier[0]
        : ALL.keySet().stream().map(key -> Identifier.of(none, key)).toArray(Identifier[]::new);
  }

  /** Lets the Python program that owns this JVM run the procedures. */
  public static synchronized void serveBy(Planner planner) {
    python = planner;
  }

  /** Returns the session that has made a call, for the Python that runs it. */
  public static SparkSession caller(String call) {
    return CALLERS.get(call);
  }

  /**
   * Runs a procedure in Python, without a limit of time.
   *
   * @throws IllegalArgumentException if it fails; PySpark shows its message alone
   */
  static JsonNode run(String procedure, ObjectNode arguments) {
    SparkSession session = SparkSession.active();
    String call = Long.toString(LAST_CALL.incrementAndGet());
    ObjectNode request = JSON.createObjectNode().put("procedure", procedure).put("call", call);
    request.set("arguments", arguments);
    SparkContext context = session.sparkContext();
    ObjectNode properties = request.putObject("properties");
    THREAD_PROPERTIES.forEach(key -> properties.put(key, context.getLocalProperty(key)));
    CALLERS.put(call, session);
    try {
      JsonNode answer = JSON.readTree(python().ask(request.toString(), 0));
      if (answer.has("error")) {
        throw new IllegalArgumentException(procedure + ": " + answer.get("error").asText());
      }
      return answer;
    } catch (IOException error) {
      throw new IllegalArgumentException(procedure + ": " + error.getMessage(), error);
    } finally {
      CALLERS.remove(call);
    }
  }

  private static synchronized Planner python() {
    if (python == null) {
      Py4JServer server = new Py4JServer(SparkEnv.get().conf());
      server.start();
      python = new PythonProcess(
          Arrays.asList(Extensions.python(), "-m", "intarsia.spark.serving", "procedures"),
          Map.of(
              "PYSPARK_GATEWAY_PORT",
              Integer.toString(server.getListeningPort()),
              "PYSPARK_GATEWAY_SECRET",
              server.secret()));
    }
    return python;
  }
}
