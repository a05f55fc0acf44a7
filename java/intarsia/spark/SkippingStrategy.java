package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;

/**
 * Plans a scan as Spark does, and replaces its node by a {@link SkippingScan}.
 *
 * <p>If that fails, Spark plans the scan with its own node, and excluded files are compared with their plans once.
 *
 * <p>It precedes all other strategies. It asks them for the scans of Delta tables; see {@link DeltaPlanner}.
 */
public final class SkippingStrategy extends SparkStrategy {
  private static final Logger LOG = LoggerFactory.getLogger(SkippingStrategy.class);
  private static volatile boolean hasWarned;

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    try {
      LogicalRelation relation = relation(plan);
      if (relation == null || !(relation.relation() instanceof HadoopFsRelation files)) {
        return Scala.seq(found);
      }
      if (DeltaPlanner.isDelta(files)) {
        SparkPlan planned = ofDelta(plan, relation, Skipping.of(SparkSession.active()));
        return Scala.seq(planned == null ? List.of() : List.of(planned));
      }
      if (files.fileFormat() instanceof SkippingParquetFormat) { // other engines replace nodes of Spark's own class
        for (SparkPlan planned : Scala.iterable(FileSourceStrategy$.MODULE$.apply(plan))) {
          found.add(withMetrics(planned));
        }
      }
    } catch (Exception | LinkageError error) {
      if (!hasWarned) {
        hasWarned = true;
        LOG.warn("Intarsia cannot replace the node of a scan, which skips without metrics", error);
      }
      found.clear();
    }
    return Scala.seq(found);
  }

  /** Returns the relation of a plan that is a scan, with conditions and projections; null for other plans. */
  private static LogicalRelation relation(LogicalPlan plan) {
    while (plan instanceof Filter || plan instanceof Project) {
      plan = plan.children().head();
    }
    return plan instanceof LogicalRelation relation ? relation : null;
  }

  /** Plans the scans of Delta tables of an optimized plan with another planner than that of the session. */
  public static void planDelta(LogicalPlan plan, Skipping skipping) {
    LogicalRelation relation = relation(plan);
    if (relation != null && relation.relation() instanceof HadoopFsRelation files && DeltaPlanner.isDelta(files)) {
      ofDelta(plan, relation, skipping);
      return;
    }
    for (LogicalPlan child : Scala.iterable(plan.children())) {
      planDelta(child, skipping);
    }
  }

  private static SparkPlan ofDelta(LogicalPlan plan, LogicalRelation relation, Skipping skipping) {
    List<SparkStrategy> others = new ArrayList<>();
    for (SparkStrategy strategy : Scala.iterable(SparkSession.active().sessionState().planner().strategies())) {
      if (!(strategy instanceof SkippingStrategy)) {
        others.add(strategy);
      }
    }
    return skipping == null ? null : new DeltaPlanner(skipping).plan(plan, relation, others);
  }

  private static SparkPlan withMetrics(SparkPlan plan) {
    if (plan instanceof FileSourceScanExec scan) {
      return SkippingScan.of(scan);
    }
    List<SparkPlan> children = new ArrayList<>();
    for (SparkPlan child : Scala.iterable(plan.children())) {
      children.add(withMetrics(child));
    }
    return plan.withNewChildren(Scala.seq(children));
  }
}
