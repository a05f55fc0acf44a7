package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;

/**
 * A comparison of an expression with constants.
 *
 * @param condition the comparison, or the list
 * @param operand the expression
 * @param isMirrored whether the constant is on the left
 */
record Comparands(Expression condition, Expression operand, boolean isMirrored) {
  /** Longer lists are not converted: a value takes up to two bisections. */
  private static final int MAX_CONSTANTS = 1_000;

  /** Returns the comparands of a condition; null if it is another one, or neither side is constant. */
  static Comparands of(Expression condition) {
    if (condition instanceof In || condition instanceof InSet) {
      return new Comparands(condition, condition.children().apply(0), false);
    }
    boolean isOrder = condition instanceof LessThan
        || condition instanceof LessThanOrEqual
        || condition instanceof GreaterThan
        || condition instanceof GreaterThanOrEqual;
    if (!isOrder && !(condition instanceof EqualTo)) {
      return null;
    }
    Expression left = condition.children().apply(0);
    Expression right = condition.children().apply(1);
    if (ExpressionJson.isConstant(left)) {
      return new Comparands(condition, right, true);
    }
    return ExpressionJson.isConstant(right) ? new Comparands(condition, left, false) : null;
  }

  /** Returns the condition for another operand of the same type. */
  Expression with(Expression other) {
    List<Expression> children = new ArrayList<>();
    Scala.iterable(condition.children()).forEach(children::add);
    children.set(isMirrored ? 1 : 0, other);
    return condition.withNewChildren(Scala.seq(children));
  }

  /** Returns whether the condition is true if the operand equals one of the constants. */
  boolean isEquality() {
    return condition instanceof EqualTo || condition instanceof In || condition instanceof InSet;
  }

  /** Returns the values of the constants; null if some of a list are not constant, or there are too many. */
  List<Object> constants() {
    List<Object> values = new ArrayList<>();
    if (condition instanceof InSet set) {
      Scala.iterable(set.hset()).forEach(values::add);
    } else {
      for (int place = 0; place < condition.children().size(); place++) {
        Expression child = condition.children().apply(place);
        if (place == (isMirrored ? 1 : 0)) { // the operand
          continue;
        }
        if (!ExpressionJson.isConstant(child)) {
          return null;
        }
        values.add(child.eval(null));
      }
    }
    return values.size() > MAX_CONSTANTS ? null : values;
  }
}
