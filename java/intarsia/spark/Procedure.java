package intarsia.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A procedure that Python runs; its result is a table.
 *
 * @param texts the parameters: name, type, and the default in SQL unless the parameter is required
 */
record Procedure(String name, String purpose, List<String> texts) implements UnboundProcedure {

  /** Returns the purpose and the parameters, which {@code DESCRIBE PROCEDURE} does not show by itself. */
  @Override
  public String description() {
    return purpose + ": " + name + "(" + String.join(", ", texts) + ")";
  }

  @Override
  public BoundProcedure bind(StructType types) {
    ProcedureParameter[] parameters = parameters();
    List<String> names = Arrays.stream(parameters).map(ProcedureParameter::name).toList();
    for (int i = 0; i < types.length(); i++) {
      StructField given = types.fields()[i];
      int named = names.indexOf(given.name().toLowerCase(Locale.ROOT));
      int place = named < 0 ? i : named; // Spark itself names arguments without a name
      boolean isText = given.dataType() instanceof StringType || given.dataType() instanceof NullType;
      if (place < parameters.length && parameters[place].dataType() instanceof StringType && !isText) {
        throw new IllegalArgumentException(String.format( // Spark would cast it: true is all rows for delete
            "%s: %s is of type %s; pass a text in quotes, and other arguments by name",
            name, names.get(place), given.dataType().simpleString()));
      }
    }
    return new Bound(this); // Spark checks and casts the other arguments
  }

  private ProcedureParameter[] parameters() {
    return texts.stream().map(Procedure::parameter).toArray(ProcedureParameter[]::new);
  }

  private static ProcedureParameter parameter(String text) {
    String[] parts = text.split(" ", 3);
    var builder = ProcedureParameter.in(parts[0], DataType.fromDDL(parts[1]));
    return (parts.length < 3 ? builder : builder.defaultValue(parts[2])).build();
  }

  private Iterator<Scan> call(InternalRow input) {
    ProcedureParameter[] parameters = parameters();
    ObjectNode arguments = Procedures.JSON.createObjectNode();
    for (int i = 0; i < parameters.length; i++) {
      if (!input.isNullAt(i)) {
        arguments.set(parameters[i].name(), toJson(input.get(i, parameters[i].dataType())));
      }
    }
    JsonNode answer = Procedures.run(name, arguments);
    StructType schema = StructType.fromDDL(answer.get("schema").asText());
    List<InternalRow> rows = new ArrayList<>();
    for (JsonNode values : answer.get("rows")) {
      Object[] row = new Object[schema.length()];
      for (int i = 0; i < row.length; i++) {
        row[i] = fromJson(values.get(i), schema.fields()[i]);
      }
      rows.add(new GenericInternalRow(row));
    }
    Scan result = new Result(schema, rows.toArray(InternalRow[]::new));
    return List.of(result).iterator();
  }

  private static JsonNode toJson(Object value) {
    if (value instanceof ArrayData array) {
      ArrayNode found = Procedures.JSON.createArrayNode();
      for (int i = 0; i < array.numElements(); i++) {
        found.add(array.isNullAt(i) ? null : array.getUTF8String(i).toString());
      }
      return found;
    }
    return Procedures.JSON.valueToTree(value instanceof UTF8String text ? text.toString() : value);
  }

  private static Object fromJson(JsonNode value, StructField field) {
    return fromJson(value, field.dataType());
  }

  private static Object fromJson(JsonNode value, DataType type) {
    if (value.isNull()) {
      return null;
    }
    if (type instanceof ArrayType array) {
      List<Object> items = new ArrayList<>();
      value.forEach(item -> items.add(fromJson(item, array.elementType())));
      return new GenericArrayData(items.toArray());
    }
    if (type.equals(DataTypes.LongType)) {
      return value.longValue();
    }
    if (type.equals(DataTypes.DoubleType)) {
      return value.doubleValue();
    }
    if (type.equals(DataTypes.BooleanType)) {
      return value.booleanValue();
    }
    return UTF8String.fromString(value.textValue());
  }

  /** A procedure whose arguments Spark has bound: until then, it coerces types within the arguments. */
  private record Bound(Procedure procedure) implements BoundProcedure {
    @Override
    public String name() {
      return procedure.name();
    }

    @Override
    public String description() {
      return procedure.description();
    }

    @Override
    public boolean isDeterministic() {
      return false;
    }

    @Override
    public ProcedureParameter[] parameters() {
      return procedure.parameters();
    }

    @Override
    public Iterator<Scan> call(InternalRow input) {
      return procedure.call(input);
    }
  }

  /** The rows of a result. */
  private record Result(StructType readSchema, InternalRow[] rows) implements LocalScan {}
}
