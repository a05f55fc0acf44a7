package intarsia.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * The optimizer rule: every filter on plain Parquet files is planned, those in subqueries included.
 *
 * <p>It runs after all of Spark's own rules, so filters have been pushed down and partitions pruned. It plans at once,
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
      return plan.transformWithSubqueries(new PlanFilters(new ScanPlanner(skipping, Query.current())));
    } catch (Exception | LinkageError error) {
      skipping.failed(error);
      return plan;
    }
  }


  private static final class PlanFilters extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final ScanPlanner planner;

    PlanFilters(ScanPlanner planner) {
      this.planner = planner;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return plan instanceof Filter filter
          && filter.child() instanceof LogicalRelation relation
          && ScanPlanner.isPlain(relation);
    }

    @Override
    @SuppressWarnings("unchecked") // B is a supertype of LogicalPlan, which Java cannot express
    public <A extends LogicalPlan, B> B applyOrElse(A plan, Function1<A, B> otherwise) {
      if (!isDefinedAt(plan)) {
        return otherwise.apply(plan);
      }
      Filter filter = (Filter) (LogicalPlan) plan;
      LogicalRelation relation = (LogicalRelation) filter.child();
      if (planner.query().isUnplannable(filter)) {
        return (B) filter;
      }
      LogicalRelation planned = planner.plan(relation, filter.condition());
      if (planned == relation) {
        planner.query().addUnplannable(filter);
        return (B) filter;
      }
      return (B) filter.withNewChildren(Scala.seq(List.of(planned)));
    }
  }
}
