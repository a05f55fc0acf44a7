package intarsia.spark;

import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A change of some nodes of a plan, in the form that Spark's transformations of plans take. */
final class Rewrite extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
  private final Predicate<LogicalPlan> changes;
  private final UnaryOperator<LogicalPlan> change;

  /**
   * @param changes whether a node is changed
   * @param change returns the node that replaces it
   */
  Rewrite(Predicate<LogicalPlan> changes, UnaryOperator<LogicalPlan> change) {
    this.changes = changes;
    this.change = change;
  }

  @Override
  public boolean isDefinedAt(LogicalPlan plan) {
    return changes.test(plan);
  }

  @Override
  @SuppressWarnings("unchecked") // B is a supertype of LogicalPlan, which Java cannot express
  public <A extends LogicalPlan, B> B applyOrElse(A plan, Function1<A, B> otherwise) {
    return isDefinedAt(plan) ? (B) change.apply(plan) : otherwise.apply(plan);
  }
}
