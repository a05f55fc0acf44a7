package intarsia.spark;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The state that the rules of a session share: the planner, its limits, the record of the last scans.
 *
 * <p>All failures are handled here. The query continues without skipping, the failure is recorded, and the first one of
 * its kind is logged as a warning. After several failures in a row, scans are not planned for a minute, so that a
 * planner that hangs does not delay every query.
 */
public final class Skipping {
  private static final Logger LOG = LoggerFactory.getLogger(Skipping.class);
  private static final int MOST_FAILURES = 3;
  private static final long PAUSE_NANOS = 60_000_000_000L;

  private final Planner planner;
  private final long timeoutMillis;
  private final SkipLog log = new SkipLog();
  private final AtomicInteger failures = new AtomicInteger();
  private final Set<String> warned = ConcurrentHashMap.newKeySet();
  private volatile long pausedUntil = System.nanoTime();
  private volatile boolean isEnabled = true;

  public Skipping(Planner planner, long timeoutMillis) {
    this.planner = planner;
    this.timeoutMillis = timeoutMillis;
  }

  /** Returns whether scans are planned now: {@code SET spark.intarsia.enabled = false} turns it off. */
  boolean isOn() {
    return isEnabled
        && System.nanoTime() - pausedUntil >= 0
        && Boolean.parseBoolean(SQLConf.get().getConfString("spark.intarsia.enabled", "true"));
  }

  /** Turns planning on or off. Queries that were planned before keep their plans. */
  public void setEnabled(boolean isEnabled) {
    this.isEnabled = isEnabled;
  }

  /** Returns the records of the last query, in JSON. */
  public String lastSkips() {
    return log.last();
  }

  Planner planner() {
    return planner;
  }

  long timeoutMillis() {
    return timeoutMillis;
  }

  void planned(ObjectNode record) {
    failures.set(0);
    log.add(record);
  }

  /** Records that a scan is not planned, which is not a failure. */
  void notPlanned(ObjectNode record, String reason) {
    log.add(record.put("reason", reason));
  }

  void failed(Throwable error) {
    failed(JsonNodeFactory.instance.objectNode().put("query", Query.newName()), error);
  }

  void failed(ObjectNode record, Throwable error) {
    log.add(record.put("reason", "failed: " + error));
    if (warned.add(error.getClass().getName())) {
      LOG.warn("Intarsia cannot plan a scan, which Spark reads without skipping", error);
    }
    if (failures.incrementAndGet() >= MOST_FAILURES) {
      failures.set(0);
      pausedUntil = System.nanoTime() + PAUSE_NANOS;
    }
  }
}
