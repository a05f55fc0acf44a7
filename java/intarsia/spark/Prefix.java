package intarsia.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.Substring;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.unsafe.types.UTF8String;

/** Conditions on the first characters of a column, as {@code left(s, 2) = 'de'}, which means {@code s LIKE 'de%'}. */
final class Prefix {
  private Prefix() {}

  /** Returns a comparison of the first characters of a column as one of the column; null if it is another. */
  static Expression unwrapped(Comparands comparands) {
    if (!comparands.isEquality()
        || !(comparands.operand() instanceof Substring part)
        || !(part.pos() instanceof Literal start)
        || !(part.len() instanceof Literal length)
        || !(start.value() instanceof Integer first)
        || !(length.value() instanceof Integer count)
        || first < 0
        || first > 1) { // 0 is the first character, too
      return null;
    }
    List<Object> values = comparands.constants();
    Expression any = null;
    for (Object value : values == null ? List.of() : values) {
      Expression one = starts(part.str(), value, count);
      if (one == null) {
        return null;
      }
      any = any == null ? one : new Or(any, one);
    }
    return any;
  }

  /** Returns the condition that the first characters of a text are a value; null if it is too long for that. */
  private static Expression starts(Expression text, Object value, int count) {
    if (!(value instanceof UTF8String prefix)) {
      return new Literal(null, BooleanType$.MODULE$);
    }
    if (prefix.numChars() > count) {
      return null;
    }
    Literal literal = new Literal(value, text.dataType());
    // a shorter text is its own prefix
    return prefix.numChars() < count ? new EqualTo(text, literal) : new StartsWith(text, literal);
  }
}
