package intarsia.spark;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.DayOfMonth;
import org.apache.spark.sql.catalyst.expressions.DayOfWeek;
import org.apache.spark.sql.catalyst.expressions.DayOfYear;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Month;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Quarter;
import org.apache.spark.sql.catalyst.expressions.WeekDay;
import org.apache.spark.sql.catalyst.expressions.WeekOfYear;
import org.apache.spark.sql.catalyst.expressions.Year;
import org.apache.spark.sql.types.DataTypes;

/**
 * Conditions on the parts of a date in given years, as {@code year(d) = 2024 AND month(d) = 3}. Spark evaluates them for
 * each day of the years, and the result is ranges of days.
 */
final class DaysOfYear {
  private static final Set<Class<?>> PARTS = Set.of(
      DayOfMonth.class, DayOfWeek.class, DayOfYear.class, Month.class, Quarter.class, WeekDay.class, WeekOfYear.class);

  private static final Set<Class<?>> CONDITIONS = Set.of(
      And.class,
      EqualTo.class,
      GreaterThan.class,
      GreaterThanOrEqual.class,
      In.class,
      InSet.class,
      LessThan.class,
      LessThanOrEqual.class,
      Not.class,
      Or.class);

  private static final int MAX_YEARS = 20;

  private DaysOfYear() {}

  /** Returns what conditions that are all true imply for days. */
  static List<Expression> implied(List<Expression> conditions) {
    List<Expression> found = new ArrayList<>();
    for (Expression condition : conditions) {
      Comparands comparands = Comparands.of(condition);
      if (comparands != null && comparands.isEquality() && comparands.operand() instanceof Year year) {
        List<Expression> ofDay = new ArrayList<>();
        for (Expression other : conditions) {
          Expression bound = bind(other, year.child());
          if (bound != null) {
            ofDay.add(bound);
          }
        }
        List<Object> years = ofDay.isEmpty() ? null : comparands.constants();
        if (years != null && years.size() <= MAX_YEARS) {
          found.add(ranges(year.child(), days(years, ofDay)));
        }
      }
    }
    return found;
  }

  /** Returns a condition on parts of a date as one of a row that has only the date; null if it is another. */
  private static Expression bind(Expression expression, Expression date) {
    if (PARTS.contains(expression.getClass())) {
      return expression.children().apply(0).semanticEquals(date)
          ? expression.withNewChildren(Scala.seq(List.of(new BoundReference(0, DataTypes.DateType, false))))
          : null;
    }
    if (!CONDITIONS.contains(expression.getClass())) {
      return null;
    }
    List<Expression> children = new ArrayList<>();
    boolean isOfDate = false;
    for (Expression child : Scala.iterable(expression.children())) {
      boolean isConstant = ExpressionJson.isConstant(child);
      Expression bound = isConstant ? child : bind(child, date);
      if (bound == null) {
        return null;
      }
      isOfDate |= !isConstant;
      children.add(bound);
    }
    return isOfDate ? expression.withNewChildren(Scala.seq(children)) : null;
  }

  private static TreeSet<Integer> days(List<Object> years, List<Expression> conditions) {
    TreeSet<Integer> found = new TreeSet<>();
    for (Object year : years) {
      if (year == null) {
        continue;
      }
      LocalDate first = LocalDate.of((Integer) year, 1, 1);
      for (int day = (int) first.toEpochDay(); day < first.plusYears(1).toEpochDay(); day++) {
        GenericInternalRow row = new GenericInternalRow(new Object[] {day});
        if (conditions.stream().allMatch(condition -> Boolean.TRUE.equals(condition.eval(row)))) {
          found.add(day);
        }
      }
    }
    return found;
  }

  private static Expression ranges(Expression date, TreeSet<Integer> days) {
    Expression any = Literal.FalseLiteral();
    while (!days.isEmpty()) {
      int start = days.pollFirst();
      int stop = start + 1;
      while (days.remove(stop)) {
        stop++;
      }
      any = new Or(any, new And(new GreaterThanOrEqual(date, day(start)), new LessThan(date, day(stop))));
    }
    return any;
  }

  private static Literal day(int day) {
    return new Literal(day, DataTypes.DateType);
  }
}
