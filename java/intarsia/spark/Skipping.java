package intarsia.spark;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The state that the rules of a session share: the planner, and the record of the last scans.
 *
 * <p>All failures are handled here. The query continues without skipping, the failure is recorded, and the first one of
 * its kind is logged as a warning.
 */
public final class Skipping {
  private static final Logger LOG = LoggerFactory.getLogger(Skipping.class);

  private final SharedPlanner planner;
  private final SkipLog log = new SkipLog();
  private final Set<String> warned = ConcurrentHashMap.newKeySet();

  public Skipping(SharedPlanner planner) {
    this.planner = planner;
  }

  /** Returns the state of a session; null if it is not enabled. */
  static Skipping of(SparkSession session) {
    for (Rule<LogicalPlan> rule : Scala.iterable(session.experimental().extraOptimizations())) {
      if (rule instanceof SkipRule skips) {
        return skips.skipping();
      }
    }
    return null;
  }

  /** Returns whether scans are planned now: {@code SET spark.intarsia.enabled = false} turns it off. */
  boolean isOn() {
    return planner.isOn()
        && Boolean.parseBoolean(SQLConf.get().getConfString("spark.intarsia.enabled", "true"));
  }

  /** Returns the records of the last query, in JSON. */
  public String lastSkips() {
    return log.last();
  }

  SharedPlanner planner() {
    return planner;
  }

  void planned(ObjectNode record) {
    planner.succeeded();
    log.add(record);
  }

  /** Records that a scan is not planned, which is not a failure. */
  void notPlanned(ObjectNode record, String reason) {
    planner.succeeded();
    log.add(record.put("reason", reason));
  }

  /** Records that the planner is not asked about a scan. */
  void leftAlone(ObjectNode record, String reason) {
    log.add(record.put("reason", reason));
  }

  /** Records that a scan is not planned because it is of an unknown version, with one warning. */
  void unsupported(ObjectNode record, String reason) {
    log.add(record.put("reason", reason));
    if (warned.add(reason)) {
      LOG.warn("Spark reads a scan without skipping: {}", reason);
    }
  }

  void failed(Throwable error) {
    failed(JsonNodeFactory.instance.objectNode().put("query", Query.newName()), error);
  }

  void failed(ObjectNode record, Throwable error) {
    log.add(record.put("reason", "failed: " + error));
    if (warned.add(error.getClass().getName())) {
      LOG.warn("Intarsia cannot plan a scan, which Spark reads without skipping", error);
    }
    planner.failed();
  }
}
