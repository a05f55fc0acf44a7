package intarsia.spark;

import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.DateFormatClass;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FromUnixTime;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SecondsToTimestamp;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Dates and times as text with the longest unit first, as {@code date_format(t, 'yyyy-MM')}: the order of the texts is
 * that of the moments, in years of four digits.
 */
final class TimeText {
  /** Formats in which each unit has a fixed number of digits. */
  private static final Pattern FORMAT = Pattern.compile(
      "yyyy(_MM(_dd((_|'T')HH(_mm(_ss([.,]S{1,6})?)?)?)?)?)?".replace("_", "[-/.:_ ]?"));

  /** A character after all those of the texts. */
  private static final UTF8String LAST = UTF8String.fromString("~");

  private TimeText() {}

  /** Returns an expression for such a text, whose first child is a date or time; null if it is another. */
  static Expression of(Expression expression) {
    if (!(expression.dataType() instanceof StringType type) || !type.supportsBinaryOrdering()) {
      return null;
    }
    if (expression instanceof Cast cast) {
      return MonotonicFunction.isTemporal(cast.child().dataType()) ? cast : null;
    }
    if (expression instanceof FromUnixTime text && isOrdered(text.format())) {
      return new DateFormatClass(new SecondsToTimestamp(text.sec()), text.format(), text.timeZoneId());
    }
    return expression instanceof DateFormatClass text && isOrdered(text.right()) ? text : null;
  }

  private static boolean isOrdered(Expression format) {
    return format instanceof Literal literal
        && literal.value() != null
        && FORMAT.matcher(literal.value().toString()).matches()
        && !SQLConf.get().legacyTimeParserPolicy().toString().equals("LEGACY"); // it formats by another calendar
  }

  /** Returns the condition that such a text starts with a constant, as comparisons; null if it is another. */
  static Expression unwrapped(StartsWith condition) {
    Expression text = condition.left();
    if (of(text) == null || !(condition.right() instanceof Literal literal) || literal.value() == null) {
      return null;
    }
    Literal after = new Literal(UTF8String.concat((UTF8String) literal.value(), LAST), literal.dataType());
    return new And(new GreaterThanOrEqual(text, literal), new LessThan(text, after));
  }
}
