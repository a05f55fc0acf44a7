package intarsia.spark;

import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AddMonths;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.DateAdd;
import org.apache.spark.sql.catalyst.expressions.DateDiff;
import org.apache.spark.sql.catalyst.expressions.DateSub;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LastDay;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MicrosToTimestamp;
import org.apache.spark.sql.catalyst.expressions.MillisToTimestamp;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.SecondsToTimestamp;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.TruncDate;
import org.apache.spark.sql.catalyst.expressions.TruncTimestamp;
import org.apache.spark.sql.catalyst.expressions.UnixDate;
import org.apache.spark.sql.catalyst.expressions.UnixMicros;
import org.apache.spark.sql.catalyst.expressions.UnixMillis;
import org.apache.spark.sql.catalyst.expressions.UnixSeconds;
import org.apache.spark.sql.catalyst.expressions.Year;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * A function of a column that keeps or reverses the order of its values, such as {@code year(t)}.
 *
 * <p>A comparison with its result is one with the column: {@code to_date(t) = DATE'2024-03-01'} is true from the first
 * to the last microsecond of that day. The first value with a result is found by bisection, and Spark itself computes
 * the results, so time zones and calendars are its own.
 *
 * <p>Where a clock is set back or forward, local times are not in the order of moments. Conditions whose bounds are
 * there are not converted.
 */
final class MonotonicFunction {
  private static final Set<Class<?>> FUNCTIONS = Set.of(
      AddMonths.class,
      DateAdd.class,
      DateDiff.class,
      DateSub.class,
      LastDay.class,
      MicrosToTimestamp.class,
      MillisToTimestamp.class,
      SecondsToTimestamp.class,
      TruncDate.class,
      TruncTimestamp.class,
      UnixDate.class,
      UnixMicros.class,
      UnixMillis.class,
      UnixSeconds.class,
      Year.class);

  // 0001-01-01 and 9999-12-31; Spark supports no dates outside
  private static final long FIRST_DAY = -719_162;
  private static final long LAST_DAY = 2_932_896;
  private static final long MICROS_PER_DAY = 86_400_000_000L;

  /** More than a clock is ever changed. */
  private static final Duration LONGEST_CHANGE = Duration.ofDays(2);

  private Expression column;
  private boolean isDecreasing;
  private final Set<ZoneId> zones = new HashSet<>();
  private final List<Expression> moments = new ArrayList<>();
  private final Expression bound;
  private final long least;
  private final long greatest;

  /** Returns a comparison of a monotonic function of a column as one of the column; null if it is another. */
  static Expression unwrapped(Comparands comparands) {
    try {
      MonotonicFunction function = of(comparands.operand());
      List<Object> values = function == null ? null : comparands.constants();
      if (values == null) {
        return null;
      }
      if (comparands.isEquality()) {
        return function.isAmong(values);
      }
      return values.get(0) instanceof Number number ? function.compared(comparands, number.longValue()) : null;
    } catch (NotMonotonic error) {
      return null;
    }
  }

  /** Returns the function in an expression; null if it is a column, or a cast of numbers. */
  private static MonotonicFunction of(Expression expression) throws NotMonotonic {
    if (isColumn(expression) || !isOrdered(expression.dataType())) {
      return null;
    }
    MonotonicFunction function = new MonotonicFunction(expression);
    return isTemporal(expression.dataType()) || isTemporal(function.column.dataType()) ? function : null;
  }

  private MonotonicFunction(Expression expression) throws NotMonotonic {
    bound = bind(expression);
    if (column == null) { // it is constant
      throw new NotMonotonic();
    }
    DataType type = column.dataType();
    if (type instanceof DateType) {
      least = FIRST_DAY;
      greatest = LAST_DAY;
    } else if (isTemporal(type)) {
      least = FIRST_DAY * MICROS_PER_DAY;
      greatest = (LAST_DAY + 1) * MICROS_PER_DAY - 1;
    } else {
      least = type instanceof LongType ? Long.MIN_VALUE : Integer.MIN_VALUE;
      greatest = type instanceof LongType ? Long.MAX_VALUE : Integer.MAX_VALUE;
    }
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof AttributeReference || expression instanceof GetStructField;
  }

  private static boolean isTemporal(DataType type) {
    return type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  private static boolean isOrdered(DataType type) {
    return isTemporal(type) || type instanceof LongType || type instanceof IntegerType;
  }

  /** Returns the expression as a function of a row that has only the column. */
  private Expression bind(Expression expression) throws NotMonotonic {
    if (!isOrdered(expression.dataType())) {
      throw new NotMonotonic();
    }
    Expression found;
    if (isColumn(expression)) {
      column = expression;
      found = new BoundReference(0, expression.dataType(), false);
    } else {
      boolean isCast = expression instanceof Cast && !(expression.dataType() instanceof IntegerType);
      if (!isCast && !FUNCTIONS.contains(expression.getClass())) {
        throw new NotMonotonic();
      }
      List<Expression> children = new ArrayList<>();
      for (Expression child : Scala.iterable(expression.children())) {
        if (ExpressionJson.isConstant(child)) {
          children.add(child);
          continue;
        }
        if (column != null) { // of another argument
          throw new NotMonotonic();
        }
        boolean isSubtrahend = expression instanceof DateDiff || expression instanceof DateSub;
        isDecreasing ^= isSubtrahend && !children.isEmpty();
        children.add(bind(child));
      }
      found = expression.withNewChildren(Scala.seq(children));
      if (expression instanceof TimeZoneAwareExpression aware && aware.timeZoneId().isDefined()) {
        zones.add(aware.zoneId());
      }
    }
    if (found.dataType() instanceof TimestampType) {
      moments.add(found);
    }
    return found;
  }

  private Expression isAmong(List<Object> values) throws NotMonotonic {
    TreeSet<Long> keys = new TreeSet<>();
    Expression any = null;
    for (Object value : values) {
      if (value == null) {
        any = new Literal(null, BooleanType$.MODULE$);
      } else {
        keys.add(signed(((Number) value).longValue()));
      }
    }
    while (!keys.isEmpty()) {
      long start = keys.pollFirst();
      long stop = start + 1;
      while (keys.remove(stop)) {
        stop++;
      }
      Expression range = isBetween(start, stop);
      any = any == null ? range : new Or(any, range);
    }
    return any;
  }

  private Expression compared(Comparands comparands, long value) throws NotMonotonic {
    Expression comparison = comparands.condition();
    long key = signed(value);
    boolean isLess = comparison instanceof LessThan || comparison instanceof LessThanOrEqual;
    boolean includesValue = comparison instanceof LessThanOrEqual || comparison instanceof GreaterThanOrEqual;
    return isLess == (comparands.isMirrored() == isDecreasing)
        ? new LessThan(column, first(includesValue ? key + 1 : key))
        : new GreaterThanOrEqual(column, first(includesValue ? key : key + 1));
  }

  private Expression isBetween(long start, long stop) throws NotMonotonic {
    return new And(new GreaterThanOrEqual(column, first(start)), new LessThan(column, first(stop)));
  }

  /** Returns the first value of the column whose key is not less than this one. */
  private Literal first(long key) throws NotMonotonic {
    if (key(least) >= key || key(greatest) < key) {
      throw new NotMonotonic();
    }
    long below = least;
    long found = greatest;
    while (found - below != 1) {
      long middle = (below & found) + ((below ^ found) >> 1); // the sum could overflow
      if (key(middle) < key) {
        below = middle;
      } else {
        found = middle;
      }
    }
    for (Expression moment : moments) {
      long micros = (Long) moment.eval(row(found));
      if (zones.stream().anyMatch(zone -> isNearChange(micros, zone.getRules()))) {
        throw new NotMonotonic();
      }
    }
    Object value = column.dataType() instanceof DateType || column.dataType() instanceof IntegerType
        ? (Object) (int) found
        : (Object) found;
    return new Literal(value, column.dataType());
  }

  /** Returns the result for a value of the column, negated if the function is decreasing. */
  private long key(long value) throws NotMonotonic {
    try {
      if (bound.eval(row(value)) instanceof Number result) {
        return signed(result.longValue());
      }
    } catch (RuntimeException error) {
      if (!isTemporal(column.dataType())) { // the moment of a number may be out of range
        return value < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
      }
    }
    throw new NotMonotonic();
  }

  private long signed(long result) {
    return isDecreasing ? -result : result;
  }

  private InternalRow row(long value) {
    boolean isInt = column.dataType() instanceof DateType || column.dataType() instanceof IntegerType;
    return new GenericInternalRow(new Object[] {isInt ? (Object) (int) value : (Object) value});
  }

  /** Returns whether a clock is changed at a moment, or so little before or after that local times repeat. */
  private static boolean isNearChange(long micros, ZoneRules rules) {
    Instant at = Instant.ofEpochSecond(
        Math.floorDiv(micros, 1_000_000L), Math.floorMod(micros, 1_000_000L) * 1_000L);
    ZoneOffsetTransition change = rules.nextTransition(at.minus(LONGEST_CHANGE));
    while (change != null && change.getInstant().isBefore(at.plus(LONGEST_CHANGE))) {
      Duration length = change.getDuration().abs();
      Duration since = Duration.between(change.getInstant(), at);
      if (since.compareTo(length.negated()) > 0 && since.compareTo(length.plusSeconds(1)) <= 0) {
        return true;
      }
      change = rules.nextTransition(change.getInstant());
    }
    return false;
  }

  /** The expression is not a monotonic function of one column, or a bound is uncertain. */
  private static final class NotMonotonic extends Exception {
    private NotMonotonic() {
      super(null, null, false, false);
    }
  }
}
