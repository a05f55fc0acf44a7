package intarsia.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * The filters of a scan when it starts, in the JSON of {@link ExpressionJson}.
 *
 * <p>The value of a scalar subquery is unknown when a query is planned. When the scan starts, Spark has replaced it by
 * its value in the filters that it passes to the reader. These have their own classes, with names instead of
 * attributes.
 */
final class LateFilters {
  private LateFilters() {}

  /** Adds the comparisons among some filters to the arguments of an AND. */
  static void add(Seq<Filter> filters, StructType schema, ArrayNode conjuncts) {
    for (Filter filter : Scala.iterable(filters)) {
      StructField field = field(filter, schema);
      ObjectNode node = null;
      if (filter instanceof EqualTo same) {
        node = comparison("EqualTo", field, same.value());
      } else if (filter instanceof EqualNullSafe same) {
        node = comparison("EqualNullSafe", field, same.value());
      } else if (filter instanceof GreaterThan greater) {
        node = comparison("GreaterThan", field, greater.value());
      } else if (filter instanceof GreaterThanOrEqual greater) {
        node = comparison("GreaterThanOrEqual", field, greater.value());
      } else if (filter instanceof LessThan less) {
        node = comparison("LessThan", field, less.value());
      } else if (filter instanceof LessThanOrEqual less) {
        node = comparison("LessThanOrEqual", field, less.value());
      }
      if (node != null) {
        conjuncts.add(node);
      }
    }
  }

  /** Returns the column of a filter; null if it has several, or a field of a struct, whose name also has dots. */
  private static StructField field(Filter filter, StructType schema) {
    String[][] columns = filter.v2references();
    for (StructField field : schema.fields()) {
      if (columns.length == 1 && columns[0].length == 1 && field.name().equals(columns[0][0])) {
        return field;
      }
    }
    return null;
  }

  private static ObjectNode comparison(String op, StructField field, Object value) {
    return field == null
        ? null
        : ExpressionJson.comparison(op, field, CatalystTypeConverters.convertToCatalyst(value));
  }
}
