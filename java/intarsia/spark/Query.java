package intarsia.spark;

import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.QueryPlanningTracker$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Option;

/**
 * A query that is being planned.
 *
 * <p>The optimizer applies a rule until the plan no longer changes, so a scan that cannot be narrowed is visited
 * several times. These scans are stored here. So each of them is planned, and recorded, once.
 *
 * <p>Scans with a plan are not stored. A plan may contain the same object twice, in a join and in the subquery
 * that prunes the partitions of its other side. Spark reuses the result of one for the other only if both have a plan.
 */
final class Query {
  private static final AtomicLong COUNT = new AtomicLong();

  /** Spark has one tracker for each query. */
  private static final Map<QueryPlanningTracker, Query> QUERIES = new WeakHashMap<>();

  private final String name;

  /** Hashes of the identities of plans: plans stay collectable, and a collision only leaves a scan unplanned. */
  private final Set<Integer> unplannable = ConcurrentHashMap.newKeySet();

  /** Hashes of the identities of scans that are changed in place. */
  private final Set<Integer> begun = ConcurrentHashMap.newKeySet();

  private Query(String name) {
    this.name = name;
  }

  /** Returns the query that this thread plans. */
  static Query current() {
    Option<QueryPlanningTracker> tracker = QueryPlanningTracker$.MODULE$.get();
    if (tracker.isEmpty()) {
      return new Query(newName());
    }
    synchronized (QUERIES) {
      return QUERIES.computeIfAbsent(tracker.get(), key -> new Query(newName()));
    }
  }

  /** The name in records of scans: that of the execution, so that all parts of a query have the same name. */
  String name() {
    return name;
  }

  /** Returns whether a scan was seen before and could not be planned. */
  boolean isUnplannable(LogicalPlan scan) {
    return unplannable.contains(System.identityHashCode(scan));
  }

  void addUnplannable(LogicalPlan scan) {
    unplannable.add(System.identityHashCode(scan));
  }

  /** Returns whether a scan that is changed in place is seen for the first time. */
  boolean begin(Object scan) {
    return begun.add(System.identityHashCode(scan));
  }

  static String newName() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    String execution =
        session.isDefined() ? session.get().sparkContext().getLocalProperty("spark.sql.execution.id") : null;
    return execution == null ? "plan " + COUNT.incrementAndGet() : "execution " + execution;
  }
}
