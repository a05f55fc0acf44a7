package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
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
 */
public final class SkippingStrategy extends SparkStrategy {
  private static final Logger LOG = LoggerFactory.getLogger(SkippingStrategy.class);
  private static volatile boolean hasWarned;

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    List<SparkPlan> found = new ArrayList<>();
    try {
      if (hasPlan(plan)) {
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

  /**
   * Returns whether a plan is a scan, with conditions and projections, of files that have a plan and are read by Spark.
   * Other engines replace nodes of Spark's own class.
   */
  private static boolean hasPlan(LogicalPlan plan) {
    while (plan instanceof Filter || plan instanceof Project) {
      plan = plan.children().head();
    }
    return plan instanceof LogicalRelation relation
        && relation.relation() instanceof HadoopFsRelation files
        && files.fileFormat() instanceof SkippingParquetFormat;
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
