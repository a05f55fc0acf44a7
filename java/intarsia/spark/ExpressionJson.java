package intarsia.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.ZoneOffset;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Contains;
import org.apache.spark.sql.catalyst.expressions.ElementAt;
import org.apache.spark.sql.catalyst.expressions.EndsWith;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetMapValue;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Lower;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.optimizer.LikeSimplification$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.optimizer.RewriteWithExpression$;
import org.apache.spark.sql.catalyst.optimizer.SimplifyCasts$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Catalyst's expressions in JSON: values in Catalyst's internal form, casts and types included.
 *
 * <p>An expression is an object with {@code op}, {@code type} and {@code args}; {@code Column} and {@code Literal} have
 * a {@code name} and a {@code value}. A column that is {@code filled} has a default in files without it. Conditions on
 * functions of a column are written as conditions on the column where one is known. Everything else becomes
 * {@code {"op": "?"}}, which Python treats as TRUE. So only expressions in the list below can exclude rows.
 *
 * <p>A column is an attribute of the relation itself. Metadata columns such as {@code _metadata.file_name} are not: a
 * file has no such column, and a missing column is null in every row.
 */
public final class ExpressionJson {
  private static final Map<Class<?>, String> NAMES = Map.ofEntries(
      Map.entry(And.class, "And"),
      Map.entry(Or.class, "Or"),
      Map.entry(Not.class, "Not"),
      Map.entry(EqualTo.class, "EqualTo"),
      Map.entry(EqualNullSafe.class, "EqualNullSafe"),
      Map.entry(LessThan.class, "LessThan"),
      Map.entry(LessThanOrEqual.class, "LessThanOrEqual"),
      Map.entry(GreaterThan.class, "GreaterThan"),
      Map.entry(GreaterThanOrEqual.class, "GreaterThanOrEqual"),
      Map.entry(In.class, "In"),
      Map.entry(InSet.class, "In"),
      Map.entry(IsNull.class, "IsNull"),
      Map.entry(IsNotNull.class, "IsNotNull"),
      Map.entry(IsNaN.class, "IsNaN"),
      Map.entry(StartsWith.class, "StartsWith"),
      Map.entry(EndsWith.class, "EndsWith"),
      Map.entry(Contains.class, "Contains"),
      Map.entry(Like.class, "Like"),
      Map.entry(RLike.class, "RLike"),
      Map.entry(Cast.class, "Cast"),
      Map.entry(Lower.class, "Lower"),
      Map.entry(ArrayContains.class, "ArrayContains"),
      Map.entry(GetMapValue.class, "GetMapValue"),
      Map.entry(ElementAt.class, "ElementAt"));

  /** Conversions of comparisons of functions to conditions on their columns. */
  private static final List<Function<Comparands, Expression>> CONVERSIONS =
      List.of(MonotonicFunction::unwrapped, Prefix::unwrapped, Coalesced::unwrapped);

  /** A condition of which nothing is known. */
  static final Expression UNKNOWN = new BoundReference(0, BooleanType$.MODULE$, true);

  private static final String METADATA_COLUMN = "__metadata_col";

  /** The key of the value that Spark returns for the rows of files without the column. */
  private static final String EXISTS_DEFAULT = "EXISTS_DEFAULT";

  /** The key of a field of a variant, which Spark reads as a struct of the parts that a query needs. */
  private static final String VARIANT_PART = "__VARIANT_METADATA_KEY";

  /** Other texts may depend on the time of the query, such as "now", or a time of day without a date. */
  private static final Pattern MOMENT = Pattern.compile("\\d{4}(-.*)?");

  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  private final Map<ExprId, AttributeReference> columns = new HashMap<>();

  /**
   * @param output the attributes of the relation
   */
  ExpressionJson(Iterable<AttributeReference> output) {
    for (AttributeReference attribute : output) {
      if (!attribute.metadata().contains(METADATA_COLUMN)) {
        columns.put(attribute.exprId(), attribute);
      }
    }
  }

  /** Returns the condition of an analyzed plan on a single relation, in JSON. */
  public static String ofAnalyzed(LogicalPlan analyzed) {
    LogicalPlan replaced = RewriteWithExpression$.MODULE$.apply(ReplaceExpressions$.MODULE$.apply(analyzed));
    LogicalPlan plan = LikeSimplification$.MODULE$.apply(
        SimplifyCasts$.MODULE$.apply(PushDownPredicates$.MODULE$.apply(replaced)));
    List<Expression> conditions = new ArrayList<>();
    while (plan instanceof Filter || plan instanceof Project || plan instanceof SubqueryAlias) {
      if (plan instanceof Filter filter) {
        conditions.add(filter.condition());
      }
      plan = plan.children().apply(0);
    }
    if (conditions.isEmpty() || !(plan instanceof LogicalRelation relation)) {
      return unknown().toString();
    }
    ExpressionJson json = new ExpressionJson(Scala.iterable(relation.output()));
    ObjectNode all = JSON.objectNode().put("op", "And").put("type", "boolean");
    ArrayNode arguments = all.putArray("args");
    conditions.forEach(condition -> arguments.add(json.write(condition)));
    return all.toString();
  }

  /** Returns an expression in JSON. */
  ObjectNode write(Expression expression) {
    if (expression instanceof AttributeReference || expression instanceof GetStructField) {
      return column(expression);
    }
    if (expression instanceof Literal literal) {
      return literal(literal.value(), literal.dataType());
    }
    if (isConstant(expression)) {
      return folded(expression);
    }
    Expression onColumn = unwrapped(expression);
    if (onColumn != null) {
      return write(onColumn);
    }
    String name = NAMES.get(expression.getClass());
    if (name == null) {
      return unknown();
    }
    ObjectNode node = node(name, expression.dataType());
    ArrayNode arguments = node.putArray("args");
    if (expression instanceof And || expression instanceof Or) {
      List<Expression> parts = parts(expression);
      parts.forEach(part -> arguments.add(write(part)));
      if (expression instanceof And) {
        implied(parts).forEach(condition -> arguments.add(write(condition)));
      }
      return node;
    }
    for (Expression child : Scala.iterable(expression.children())) {
      arguments.add(write(child));
    }
    if (expression instanceof InSet set) {
      DataType type = set.child().dataType();
      for (Object value : Scala.iterable(set.hset())) {
        arguments.add(literal(value, type));
      }
    }
    if (expression instanceof Cast cast && cast.child().dataType() instanceof TimestampNTZType) {
      node.put("utc", cast.timeZoneId().isDefined() && cast.zoneId().normalized().equals(ZoneOffset.UTC));
    }
    if (expression instanceof Like like) {
      node.put("escape", String.valueOf(like.escapeChar()));
    }
    return node;
  }

  /** Returns a condition on a function of columns as one on the columns; null if it is another. */
  private static Expression unwrapped(Expression condition) {
    try {
      if (condition instanceof StartsWith test) {
        return TimeText.unwrapped(test);
      }
      Comparands comparands = Comparands.of(condition);
      if (comparands == null) {
        return null;
      }
      for (Function<Comparands, Expression> conversion : CONVERSIONS) {
        Expression found = conversion.apply(comparands);
        if (found != null) {
          return found;
        }
      }
    } catch (RuntimeException error) { // which Spark raises when the query runs
      return null;
    }
    return null;
  }

  private static List<Expression> implied(List<Expression> conditions) {
    try {
      return DaysOfYear.implied(conditions);
    } catch (RuntimeException error) { // as above
      return List.of();
    }
  }

  /** Returns the comparison of a column with a value in Catalyst's form. */
  static ObjectNode comparison(String op, StructField field, Object value) {
    ObjectNode comparison = JSON.objectNode().put("op", op).put("type", "boolean");
    ObjectNode column = node("Column", field.dataType());
    if (field.metadata().contains(EXISTS_DEFAULT)) {
      column.put("filled", true);
    }
    column.putArray("name").add(field.name());
    comparison.putArray("args").add(column).add(literal(value, field.dataType()));
    return comparison;
  }

  /** Returns whether an expression in JSON can exclude anything but nulls. */
  static boolean canExclude(ObjectNode node) {
    String op = node.get("op").asText();
    if (!op.equals("And") && !op.equals("Or")) {
      boolean isOnNulls = op.equals("IsNotNull") && node.get("args").get(0).get("op").asText().equals("Column");
      return !op.equals("?") && !isOnNulls;
    }
    boolean isAnd = op.equals("And");
    for (var argument : node.get("args")) {
      if (canExclude((ObjectNode) argument) == isAnd) {
        return isAnd;
      }
    }
    return !isAnd;
  }

  /** Returns the operands of a chain of ANDs or ORs, which may be long, without recursion. */
  static List<Expression> parts(Expression chain) {
    List<Expression> parts = new ArrayList<>();
    Deque<Expression> open = new ArrayDeque<>(List.of(chain));
    while (!open.isEmpty()) {
      Expression next = open.pop();
      if (next.getClass() != chain.getClass()) {
        parts.add(next);
        continue;
      }
      open.push(next.children().apply(1));
      open.push(next.children().apply(0));
    }
    return parts;
  }

  /** Returns whether an expression is a literal, or a cast, sign or lower case of one; Spark has folded the others. */
  static boolean isConstant(Expression expression) {
    Expression at = expression;
    while (at instanceof Cast || at instanceof UnaryMinus || at instanceof Lower) {
      Expression child = at.children().apply(0);
      DataType type = at.dataType();
      boolean isTemporal =
          type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType;
      if (isTemporal && child.dataType() instanceof StringType) {
        boolean isCertain = child instanceof Literal text
            && (text.value() == null || MOMENT.matcher(text.value().toString()).matches());
        if (!isCertain) {
          return false;
        }
      }
      at = child;
    }
    return at instanceof Literal;
  }

  private static ObjectNode folded(Expression constant) {
    try {
      return literal(constant.eval(null), constant.dataType());
    } catch (RuntimeException error) { // which Spark raises when the query runs
      return unknown();
    }
  }

  private ObjectNode column(Expression expression) {
    List<String> path = new ArrayList<>();
    Expression at = expression;
    while (at instanceof GetStructField field) {
      StructField part = ((StructType) field.child().dataType()).fields()[field.ordinal()];
      if (part.metadata().contains(VARIANT_PART)) { // no file has a column of its name
        return unknown();
      }
      path.add(0, part.name());
      at = field.child();
    }
    AttributeReference found = at instanceof AttributeReference attribute ? columns.get(attribute.exprId()) : null;
    if (found == null) {
      return unknown();
    }
    path.add(0, found.name());
    ObjectNode node = node("Column", expression.dataType());
    if (found.metadata().contains(EXISTS_DEFAULT)) {
      node.put("filled", true);
    }
    ArrayNode names = node.putArray("name");
    path.forEach(names::add);
    return node;
  }

  private static ObjectNode literal(Object value, DataType type) {
    ObjectNode node = node("Literal", type);
    if (value == null) {
      return node.putNull("value");
    }
    if (value instanceof Boolean bool) {
      return node.put("value", bool);
    }
    if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
      return node.put("value", ((Number) value).longValue());
    }
    if (value instanceof Float || value instanceof Double) { // as text, because of NaN and infinities
      return node.put("value", Double.toString(((Number) value).doubleValue()));
    }
    if (value instanceof Decimal decimal) {
      return node.put("value", decimal.toJavaBigDecimal().toPlainString());
    }
    if (value instanceof byte[] bytes && type instanceof BinaryType) {
      return node.put("value", HexFormat.of().formatHex(bytes));
    }
    if (value instanceof UTF8String text && text.isValid()) {
      return node.put("value", text.toString());
    }
    return unknown();
  }

  private static ObjectNode node(String op, DataType type) {
    return JSON.objectNode().put("op", op).put("type", type.catalogString());
  }

  private static ObjectNode unknown() {
    return JSON.objectNode().put("op", "?");
  }
}
