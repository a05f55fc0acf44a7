package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
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
 * <p>{@link SkipRule} has to run after all rules of Spark. Extensions cannot add such a rule. So a check of analyzed
 * plans, which changes nothing, adds it to each session before its first plan is optimized.
 */
public final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  private static final Logger LOG = LoggerFactory.getLogger(Extensions.class);
  private static final Set<String> SUPPORTED = Set.of("4.1", "4.2", "4.3");
  private static final String PYTHON = "spark.intarsia.python";
  private static final String TIMEOUT = "spark.intarsia.timeoutMillis";
  private static final String DEFAULT_TIMEOUT = "10000";

  /** One planner for all sessions, which share its caches. */
  private static PythonProcess planner;

  private static final Map<SparkSession, Skipping> SESSIONS = new WeakHashMap<>();

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    String[] parts = version.split("\\.");
    if (parts.length < 2 || !SUPPORTED.contains(parts[0] + "." + parts[1])) {
      LOG.warn("This version of Intarsia does not support Spark {}; queries run without skipping", version);
      return BoxedUnit.UNIT;
    }
    extensions.injectCheckRule(AddRule::new);
    extensions.injectPlannerStrategy(session -> new SkippingStrategy());
    extensions.injectRuntimeOptimizerRule(session -> new JoinKeyRule(skipping(session)));
    return BoxedUnit.UNIT;
  }

  private static Skipping skipping(SparkSession session) {
    synchronized (SESSIONS) {
      return SESSIONS.computeIfAbsent(session, Extensions::newSkipping);
    }
  }

  private static Skipping newSkipping(SparkSession session) {
    var conf = session.sparkContext().conf();
    if (planner == null) {
      planner = new PythonProcess(
          List.of(conf.get(PYTHON, "python3"), "-m", "intarsia.spark.planner_process"));
    }
    return new Skipping(planner, Long.parseLong(conf.get(TIMEOUT, DEFAULT_TIMEOUT)));
  }

  /** Adds the rule to a session when its first plan has been analyzed. */
  private static final class AddRule extends AbstractFunction1<LogicalPlan, BoxedUnit> {
    private final SparkSession session;
    private boolean isAdded;

    AddRule(SparkSession session) {
      this.session = session;
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
      all.add(new SkipRule(skipping(session)));
      methods.extraOptimizations_$eq(Scala.seq(all));
    }
  }
}
