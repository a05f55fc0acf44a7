package intarsia.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * The optimizer rule that plans every filter on plain Parquet files and Iceberg tables, also those in subqueries.
 *
 * <p>It runs after all of Spark's own rules, so filters have been pushed down and partitions pruned. It plans immediately,
 * not when the query runs. So {@code explain()} shows the plan, and the size of the remaining data can change a join.
 */
public final class SkipRule extends Rule<LogicalPlan> {
  private final Skipping skipping;

  public SkipRule(Skipping skipping) {
    this.skipping = skipping;
  }

  public Skipping skipping() {
    return skipping;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      if (!skipping.isOn()) {
        return plan;
      }
      Query query = Query.current();
      new IcebergPlanner(skipping, query).plan(plan);
      ScanPlanner planner = new ScanPlanner(skipping, query);
      return plan.transformWithSubqueries(
          new Rewrite(SkipRule::isFilterOnFiles, filter -> planned(planner, (Filter) filter)));
    } catch (Exception | LinkageError error) {
      skipping.failed(error);
      return plan;
    }
  }

  private static boolean isFilterOnFiles(LogicalPlan plan) {
    return plan instanceof Filter filter
        && filter.child() instanceof LogicalRelation relation
        && ScanPlanner.isPlain(relation);
  }

  private static LogicalPlan planned(ScanPlanner planner, Filter filter) {
    if (planner.query().isUnplannable(filter)) {
      return filter;
    }
    LogicalRelation relation = (LogicalRelation) filter.child();
    LogicalRelation planned = planner.plan(relation, filter.condition());
    if (planned == relation) {
      planner.query().addUnplannable(filter);
      return filter;
    }
    return filter.withNewChildren(Scala.seq(List.of(planned)));
  }
}
