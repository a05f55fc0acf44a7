package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.BooleanType$;

/** Conditions on the first of some values that is not null, as {@code coalesce(x, 0) > 5}. */
final class Coalesced {
  private Coalesced() {}

  /** Returns a comparison of a coalesced value as comparisons of each value; null if it is another. */
  static Expression unwrapped(Comparands comparands) {
    if (!(comparands.operand() instanceof Coalesce coalesce)) {
      return null;
    }
    List<Expression> items = new ArrayList<>();
    Scala.iterable(coalesce.children()).forEach(items::add);
    Expression found = of(comparands, items.remove(items.size() - 1));
    while (!items.isEmpty()) {
      Expression item = items.remove(items.size() - 1);
      found = new Or(
          new And(new IsNotNull(item), of(comparands, item)), new And(new IsNull(item), found));
    }
    return found;
  }

  private static Expression of(Comparands comparands, Expression operand) {
    Expression condition = comparands.with(operand);
    return ExpressionJson.isConstant(operand) && comparands.constants() != null
        ? new Literal(condition.eval(null), BooleanType$.MODULE$)
        : condition;
  }
}
