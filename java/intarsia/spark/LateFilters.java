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
      ObjectNode node = null;
      if (filter instanceof EqualTo same) {
        node = comparison("EqualTo", same.attribute(), same.value(), schema);
      } else if (filter instanceof EqualNullSafe same) {
        node = comparison("EqualNullSafe", same.attribute(), same.value(), schema);
      } else if (filter instanceof GreaterThan greater) {
        node = comparison("GreaterThan", greater.attribute(), greater.value(), schema);
      } else if (filter instanceof GreaterThanOrEqual greater) {
        node = comparison("GreaterThanOrEqual", greater.attribute(), greater.value(), schema);
      } else if (filter instanceof LessThan less) {
        node = comparison("LessThan", less.attribute(), less.value(), schema);
      } else if (filter instanceof LessThanOrEqual less) {
        node = comparison("LessThanOrEqual", less.attribute(), less.value(), schema);
      }
      if (node != null) {
        conjuncts.add(node);
      }
    }
  }

  private static ObjectNode comparison(String op, String name, Object value, StructType schema) {
    for (StructField field : schema.fields()) {
      if (field.name().equals(name)) {
        return ExpressionJson.comparison(op, field, CatalystTypeConverters.convertToCatalyst(value));
      }
    }
    return null; // a field of a struct
  }
}
