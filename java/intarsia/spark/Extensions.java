package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkStrategy;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * The entry point for sessions that are configured at start: {@code spark.sql.extensions=intarsia.spark.Extensions}.
 *
 * <p>Every session of the application skips: those of a Connect server, spark-sql, a Scala program, and {@code
 * newSession()}. The planner is a Python process, started with the first scan.
 *
 * <p>{@link SkipRule} has to run after all rules of Spark, and {@link SkippingStrategy} before all strategies.
 * Extensions cannot add such ones. So a check of analyzed plans, which changes nothing, adds them to each session before
 * its first plan is optimized.
 *
 * <p>A session and those that its {@code newSession()} creates have the same extensions. So the sessions that are
 * created from a running session can be enabled, too.
 */
public final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  private static final Logger LOG = LoggerFactory.getLogger(Extensions.class);
  private static final Set<String> SUPPORTED = Set.of("4.1", "4.2", "4.3");
  private static final String PYTHON = "spark.intarsia.python";
  private static final String TIMEOUT = "spark.intarsia.timeoutMillis";
  private static final String DEFAULT_TIMEOUT = "10000";

  /** One process for all sessions, which share its caches. */
  private static PythonProcess process;

  private static final Map<SparkSessionExtensions, SharedPlanner> PLANNERS = new WeakHashMap<>();
  private static final Map<SparkSession, Skipping> SESSIONS = new WeakHashMap<>();

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    String[] parts = version.split("\\.");
    if (parts.length < 2 || !SUPPORTED.contains(parts[0] + "." + parts[1])) {
      LOG.warn("This version of Intarsia does not support Spark {}; queries run without skipping", version);
      return BoxedUnit.UNIT;
    }
    SharedPlanner planner = planner(extensions);
    planner.set((request, timeoutMillis) -> process().ask(request, timeoutMillis), timeoutMillis());
    return BoxedUnit.UNIT;
  }

  /** Returns the planner of the sessions with these extensions, which use it from their start. */
  public static synchronized SharedPlanner planner(SparkSessionExtensions extensions) {
    SharedPlanner known = PLANNERS.get(extensions);
    if (known != null) {
      return known;
    }
    SharedPlanner planner = new SharedPlanner();
    extensions.injectCheckRule(session -> new AddRule(session, planner));
    extensions.injectRuntimeOptimizerRule(session -> new JoinKeyRule(skipping(session, planner)));
    PLANNERS.put(extensions, planner);
    return planner;
  }

  private static Skipping skipping(SparkSession session, SharedPlanner planner) {
    synchronized (SESSIONS) {
      return SESSIONS.computeIfAbsent(session, key -> new Skipping(planner));
    }
  }

  private static synchronized PythonProcess process() {
    if (process == null) {
      process = new PythonProcess(List.of(python(), "-m", "intarsia.spark.serving", "planner"));
    }
    return process;
  }

  /** Returns the Python of the processes beside the driver. */
  static String python() {
    return SparkEnv.get().conf().get(PYTHON, "python3");
  }

  private static long timeoutMillis() {
    return Long.parseLong(SparkEnv.get().conf().get(TIMEOUT, DEFAULT_TIMEOUT));
  }

  /** Adds the rule and the strategy to a session when its first plan has been analyzed. */
  private static final class AddRule extends AbstractFunction1<LogicalPlan, BoxedUnit> {
    private final SparkSession session;
    private final SharedPlanner planner;
    private boolean isAdded;

    AddRule(SparkSession session, SharedPlanner planner) {
      this.session = session;
      this.planner = planner;
    }

    @Override
    public synchronized BoxedUnit apply(LogicalPlan plan) {
      if (!isAdded) {
        isAdded = true;
        try {
          add();
        } catch (Exception | LinkageError error) {
          LOG.warn("Intarsia cannot add its rule to a session, which runs without skipping", error);
        }
      }
      return BoxedUnit.UNIT;
    }

    private void add() {
      var methods = ((org.apache.spark.sql.classic.SparkSession) session).experimental();
      Seq<Rule<LogicalPlan>> rules = methods.extraOptimizations();
      for (Rule<LogicalPlan> rule : Scala.iterable(rules)) {
        if (rule.getClass().getName().equals(SkipRule.class.getName())) {
          return; // a clone of a session has the rules of the first one
        }
      }
      ArrayList<Rule<LogicalPlan>> all = new ArrayList<>();
      Scala.iterable(rules).forEach(all::add);
      all.add(new SkipRule(skipping(session, planner)));
      methods.extraOptimizations_$eq(Scala.seq(all));
      // before the strategies of other extensions, such as Delta's
      ArrayList<SparkStrategy> strategies = new ArrayList<>(List.of(new SkippingStrategy()));
      Scala.iterable(methods.extraStrategies()).forEach(strategies::add);
      methods.extraStrategies_$eq(Scala.seq(strategies));
    }
  }
}
