package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.Substring;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/** Conditions on the first characters of a column, as {@code left(s, 2) = 'de'}, which means {@code s LIKE 'de%'}. */
final class Prefix {
  private Prefix() {}

  /** Returns a condition on the first characters of a column as one on the column; null if it is another. */
  static Expression unwrapped(Expression condition) {
    if (!(condition instanceof EqualTo) && !(condition instanceof In) && !(condition instanceof InSet)) {
      return null;
    }
    List<Expression> operands = new ArrayList<>();
    Scala.iterable(condition.children()).forEach(operands::add);
    if (condition instanceof InSet set) {
      DataType type = set.child().dataType();
      Scala.iterable(set.hset()).forEach(value -> operands.add(new Literal(value, type)));
    }
    if (ExpressionJson.isConstant(operands.get(0))) {
      operands.add(operands.remove(0));
    }
    if (!(operands.remove(0) instanceof Substring part)
        || !(part.pos() instanceof Literal start)
        || !(part.len() instanceof Literal length)
        || !(start.value() instanceof Integer first)
        || !(length.value() instanceof Integer count)
        || first < 0
        || first > 1 // 0 is the first character, too
        || operands.size() > MonotonicFunction.MAX_VALUES) {
      return null;
    }
    Expression any = null;
    for (Expression operand : operands) {
      Expression one = ExpressionJson.isConstant(operand) ? starts(part.str(), operand, count) : null;
      if (one == null) {
        return null;
      }
      any = any == null ? one : new Or(any, one);
    }
    return any;
  }

  /** Returns the condition that the first characters of a text are a constant; null if it is too long for that. */
  private static Expression starts(Expression text, Expression constant, int count) {
    if (!(constant.eval(null) instanceof UTF8String prefix)) {
      return new Literal(null, BooleanType$.MODULE$);
    }
    if (prefix.numChars() > count) {
      return null;
    }
    // a shorter text is its own prefix
    return prefix.numChars() < count ? new EqualTo(text, constant) : new StartsWith(text, constant);
  }
}
