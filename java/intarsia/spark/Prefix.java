package intarsia.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.Substring;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.unsafe.types.UTF8String;

/** Conditions on the first characters of a column, as {@code left(s, 2) = 'de'}, which means {@code s LIKE 'de%'}. */
final class Prefix {
  private Prefix() {}

  /** Returns a condition on the first characters of a column as one on the column; null if it is another. */
  static Expression unwrapped(Expression condition) {
    if (!(condition instanceof EqualTo) && !(condition instanceof In)) {
      return null;
    }
    List<Expression> operands = new ArrayList<>();
    Scala.iterable(condition.children()).forEach(operands::add);
    if (operands.get(0) instanceof Literal) {
      operands.add(operands.remove(0));
    }
    if (!(operands.remove(0) instanceof Substring part)
        || !(part.pos() instanceof Literal start)
        || !(part.len() instanceof Literal length)
        || !(start.value() instanceof Integer first)
        || !(length.value() instanceof Integer count)
        || first < 0
        || first > 1) { // 0 is the first character, too
      return null;
    }
    Expression any = null;
    for (Expression operand : operands) {
      if (!(operand instanceof Literal literal)) {
        return null;
      }
      Expression one = starts(part.str(), literal, count);
      if (one == null) {
        return null;
      }
      any = any == null ? one : new Or(any, one);
    }
    return any;
  }

  /** Returns the condition that the first characters of a text are a literal; null if it is too long for that. */
  private static Expression starts(Expression text, Literal literal, int count) {
    if (!(literal.value() instanceof UTF8String prefix)) {
      return new Literal(null, BooleanType$.MODULE$);
    }
    if (prefix.numChars() > count) {
      return null;
    }
    // a shorter text is its own prefix
    return prefix.numChars() < count ? new EqualTo(text, literal) : new StartsWith(text, literal);
  }
}
