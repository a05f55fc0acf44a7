package intarsia.spark;

import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
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
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
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
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A function of a column that keeps or reverses the order of its values, such as {@code year(t)}.
 *
 * <p>A comparison with its result is one with the column: {@code to_date(t) = DATE'2024-03-01'} is true from the first
 * to the last microsecond of that day. The first value with a result is found by bisection, and Spark itself computes
 * the results, so time zones and calendars are its own.
 *
 * <p>Where a clock is set back or forward, local times are not in the order of moments. Conditions whose bounds are
 * there are not converted.
 *
 * <p>The column of a {@link TimeText} is the date or time in it, which may be a function, too.
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

  // Spark supports no dates outside.
  private static final LocalDate FIRST_DAY = LocalDate.of(1, 1, 1);
  private static final LocalDate LAST_DAY = LocalDate.of(9999, 12, 31);

  // Outside, years may not have four digits, and the JSON of conditions has no certain dates.
  private static final LocalDate FIRST_DAY_IN_TEXT = LocalDate.of(1901, 1, 1);
  private static final LocalDate LAST_DAY_IN_TEXT = LocalDate.of(9989, 12, 31);

  private static final long MICROS_PER_DAY = 86_400_000_000L;

  /** More than a clock is ever changed. */
  private static final Duration LONGEST_CHANGE = Duration.ofDays(2);

  private Expression column;
  private boolean isDecreasing;
  private final boolean isText;
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
        return function.inDomain(function.isAmong(values));
      }
      return values.get(0) == null ? null : function.inDomain(function.compared(comparands, values.get(0)));
    } catch (NotMonotonic error) {
      return null;
    }
  }

  /** Returns the function in an expression; null if it is a column, or a cast of numbers. */
  private static MonotonicFunction of(Expression expression) throws NotMonotonic {
    if (isColumn(expression)) {
      return null;
    }
    MonotonicFunction function = new MonotonicFunction(expression);
    return isTemporal(expression.dataType()) || isTemporal(function.column.dataType()) ? function : null;
  }

  private MonotonicFunction(Expression expression) throws NotMonotonic {
    Expression text = TimeText.of(expression);
    isText = text != null;
    if (isText) {
      List<Expression> children = new ArrayList<>();
      Scala.iterable(text.children()).forEach(children::add);
      children.set(0, reference(children.get(0)));
      bound = over(text, children);
    } else {
      bound = bind(expression);
    }
    if (column == null) { // it is constant
      throw new NotMonotonic();
    }
    DataType type = column.dataType();
    if (isTemporal(type)) {
      long first = (isText ? FIRST_DAY_IN_TEXT : FIRST_DAY).toEpochDay();
      long last = (isText ? LAST_DAY_IN_TEXT : LAST_DAY).toEpochDay();
      least = type instanceof DateType ? first : first * MICROS_PER_DAY;
      greatest = type instanceof DateType ? last : (last + 1) * MICROS_PER_DAY - 1;
    } else {
      least = type instanceof LongType ? Long.MIN_VALUE : Integer.MIN_VALUE;
      greatest = type instanceof LongType ? Long.MAX_VALUE : Integer.MAX_VALUE;
    }
  }

  private static boolean isColumn(Expression expression) {
    return expression instanceof AttributeReference || expression instanceof GetStructField;
  }

  static boolean isTemporal(DataType type) {
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
    if (isColumn(expression)) {
      return reference(expression);
    }
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
    return over(expression, children);
  }

  private Expression reference(Expression value) {
    column = value;
    return withMoment(new BoundReference(0, value.dataType(), false));
  }

  private Expression over(Expression function, List<Expression> children) {
    if (function instanceof TimeZoneAwareExpression aware && aware.timeZoneId().isDefined()) {
      zones.add(aware.zoneId());
    }
    return withMoment(function.withNewChildren(Scala.seq(children)));
  }

  private Expression withMoment(Expression found) {
    if (found.dataType() instanceof TimestampType) {
      moments.add(found);
    }
    return found;
  }

  /** Returns a condition that excludes nothing where texts are not in the order of moments. */
  private Expression inDomain(Expression condition) {
    if (!isText) {
      return condition;
    }
    Expression isOutside = new Or(new LessThan(column, value(least)), new GreaterThan(column, value(greatest)));
    return new Or(condition, new And(isOutside, ExpressionJson.UNKNOWN));
  }

  private Expression isAmong(List<Object> values) throws NotMonotonic {
    TreeSet<Object> results = new TreeSet<>(this::compare);
    Expression any = null;
    for (Object value : values) {
      if (value == null) {
        any = new Literal(null, BooleanType$.MODULE$);
      } else {
        results.add(value);
      }
    }
    List<long[]> ranges = new ArrayList<>();
    for (Object result : results) {
      long start = first(result, true);
      long stop = first(result, false);
      long[] last = ranges.isEmpty() ? null : ranges.get(ranges.size() - 1);
      if (last != null && last[1] == start) {
        last[1] = stop;
      } else {
        ranges.add(new long[] {start, stop});
      }
    }
    for (long[] range : ranges) {
      Expression within = new And(
          new GreaterThanOrEqual(column, certain(range[0])), new LessThan(column, certain(range[1])));
      any = any == null ? within : new Or(any, within);
    }
    return any;
  }

  private Expression compared(Comparands comparands, Object result) throws NotMonotonic {
    Expression comparison = comparands.condition();
    boolean isLess = comparison instanceof LessThan || comparison instanceof LessThanOrEqual;
    boolean includesResult = comparison instanceof LessThanOrEqual || comparison instanceof GreaterThanOrEqual;
    boolean isBefore = isLess == (comparands.isMirrored() == isDecreasing);
    boolean isIncluded = isBefore != includesResult;
    if (!isTemporal(column.dataType())) { // all numbers of the type are known
      if (reaches(least, result, isIncluded)) {
        return isBefore ? Literal.FalseLiteral() : Literal.TrueLiteral();
      }
      if (!reaches(greatest, result, isIncluded)) {
        return isBefore ? Literal.TrueLiteral() : Literal.FalseLiteral();
      }
    }
    Literal first = certain(first(result, isIncluded));
    return isBefore ? new LessThan(column, first) : new GreaterThanOrEqual(column, first);
  }

  /**
   * Returns the first value of the column that has a result, or one after it.
   *
   * @param isIncluded whether the first value with the result itself is meant
   */
  private long first(Object result, boolean isIncluded) throws NotMonotonic {
    if (reaches(least, result, isIncluded) || !reaches(greatest, result, isIncluded)) {
      throw new NotMonotonic();
    }
    long below = least;
    long found = greatest;
    while (found - below != 1) {
      long middle = (below & found) + ((below ^ found) >> 1); // the sum could overflow
      if (reaches(middle, result, isIncluded)) {
        found = middle;
      } else {
        below = middle;
      }
    }
    return found;
  }

  /** Returns whether a value of the column has a result, if that is included, or one after it. */
  private boolean reaches(long value, Object result, boolean isIncluded) throws NotMonotonic {
    Object found;
    try {
      found = bound.eval(row(value));
    } catch (RuntimeException error) {
      if (isTemporal(column.dataType())) {
        throw new NotMonotonic();
      }
      return value > 0; // the moment of a number may be out of range
    }
    if (found == null) {
      throw new NotMonotonic();
    }
    int order = compare(found, result);
    return isIncluded ? order >= 0 : order > 0;
  }

  /** Compares results so that they are in the order of the column's values. */
  private int compare(Object left, Object right) {
    int order = isText
        ? ((UTF8String) left).compareTo((UTF8String) right)
        : Long.compare(((Number) left).longValue(), ((Number) right).longValue());
    return isDecreasing ? -order : order;
  }

  /** Returns a value of the column at which no clock is changed. */
  private Literal certain(long value) throws NotMonotonic {
    for (Expression moment : moments) {
      long micros = (Long) moment.eval(row(value));
      if (zones.stream().anyMatch(zone -> isNearChange(micros, zone.getRules()))) {
        throw new NotMonotonic();
      }
    }
    return value(value);
  }

  private Literal value(long value) {
    return new Literal(internal(value), column.dataType());
  }

  private InternalRow row(long value) {
    return new GenericInternalRow(new Object[] {internal(value)});
  }

  private Object internal(long value) {
    boolean isInt = column.dataType() instanceof DateType || column.dataType() instanceof IntegerType;
    return isInt ? (Object) (int) value : (Object) value;
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
