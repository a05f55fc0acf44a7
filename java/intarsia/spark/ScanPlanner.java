package intarsia.spark;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.LocalDate;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Requests a plan for one relation and the condition above it, and stores the plan in the relation. */
final class ScanPlanner {
  /** The exact classes of Spark that are supported. Delta has its own, for which see {@link DeltaPlanner}. */
  private static final Set<String> FILE_INDEXES = Set.of(
      "org.apache.spark.sql.execution.datasources.InMemoryFileIndex",
      "org.apache.spark.sql.execution.datasources.CatalogFileIndex");

  private static final int MOST_CONDITION_CHARACTERS = 1000;
  private static final Seq<Expression> NONE = Scala.seq(List.of());
  private static final ObjectMapper JSON =
      JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build(); // safe in every encoding

  private final Skipping skipping;
  private final Query query;

  ScanPlanner(Skipping skipping, Query query) {
    this.skipping = skipping;
    this.query = query;
  }

  Query query() {
    return query;
  }

  /** Returns whether a relation consists of plain Parquet files that no other index has pruned. */
  static boolean isPlain(LogicalRelation relation) {
    return relation.relation() instanceof HadoopFsRelation files
        && files.fileFormat().getClass() == ParquetFileFormat.class
        && FILE_INDEXES.contains(files.location().getClass().getName())
        && !isSorted(files);
  }

  /** Returns whether Spark takes a bucket for sorted if it has one file, which it may have only after skipping. */
  private static boolean isSorted(HadoopFsRelation files) {
    return files.bucketSpec().isDefined() && isSet(SQLConf.get(), "spark.sql.legacy.bucketedTableScan.outputOrdering");
  }

  /** Returns a plain relation without the plan that it may have; null if it is not plain. */
  static LogicalRelation withoutPlan(LogicalRelation relation) {
    if (isPlain(relation)) {
      return relation;
    }
    if (relation.relation() instanceof HadoopFsRelation files && files.location() instanceof SkippingIndex index) {
      LogicalRelation whole = withFiles(relation, files, index.inner(), new ParquetFileFormat());
      return isPlain(whole) ? whole : null;
    }
    return null;
  }

  /** Returns the relation with a plan for the rows that may match; the relation itself if there is none. */
  LogicalRelation plan(LogicalRelation relation, Expression condition) {
    try {
      return planned(relation, condition);
    } catch (Exception | LinkageError error) {
      skipping.failed(error);
      return relation;
    }
  }

  private LogicalRelation planned(LogicalRelation relation, Expression condition) {
    HadoopFsRelation files = (HadoopFsRelation) relation.relation();
    ObjectNode node = new ExpressionJson(Scala.iterable(relation.output())).write(condition);
    boolean isLate = hasScalarSubquery(condition) && !isReadByOthers();
    FilePlans plans = null;
    if (ExpressionJson.canExclude(node)) {
      plans = plans(files, node, condition.sql(), partitionFilters(relation, files, condition), NONE);
    }
    if (plans == null && !isLate) {
      return relation;
    }
    // unsupported expressions have equal JSON and exclude nothing; values of subqueries can exclude rows
    String identity = isLate ? node + condition.canonicalized().toString() : node.toString();
    SkippingIndex index = new SkippingIndex(files.location(), identity, plans, skipping);
    if (isReadByOthers()) {
      return withFiles(relation, files, index, files.fileFormat());
    }
    SkippingParquetFormat.LatePlan late = null;
    if (isLate) {
      Seq<Expression> onPartitions = partitionFilters(relation, files, condition);
      late = filters -> latePlans(files, node, condition.sql(), onPartitions, filters);
    }
    return withFiles(relation, files, index, new SkippingParquetFormat(new ParquetFileFormat(), index, late));
  }

  private FilePlans latePlans(
      HadoopFsRelation files, ObjectNode condition, String text, Seq<Expression> onPartitions, Seq<Filter> filters) {
    try {
      ObjectNode all = JsonNodeFactory.instance.objectNode().put("op", "And").put("type", "boolean");
      ArrayNode conjuncts = all.putArray("args").add(condition);
      LateFilters.add(filters, files.dataSchema(), conjuncts);
      return conjuncts.size() > 1 && skipping.isOn() ? plans(files, all, text, onPartitions, NONE) : null;
    } catch (Exception | LinkageError error) {
      skipping.failed(error);
      return null;
    }
  }

  private static boolean hasScalarSubquery(Expression condition) {
    if (condition instanceof ScalarSubquery) {
      return true;
    }
    for (Expression child : Scala.iterable(condition.children())) {
      if (hasScalarSubquery(child)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Returns the plans of the files of a relation; null if there are none, for any reason.
   *
   * @param partitionFilters the filters by which the relation lists files with matching partition values
   * @param dataFilters those by which it may leave out other files
   */
  FilePlans plans(
      HadoopFsRelation files,
      ObjectNode condition,
      String text,
      Seq<Expression> partitionFilters,
      Seq<Expression> dataFilters) {
    ObjectNode record = record(query, files, text);
    try {
      return plans(files, condition, record, partitionFilters, dataFilters);
    } catch (Exception | LinkageError error) {
      skipping.failed(record, error);
      return null;
    }
  }

  private FilePlans plans(
      HadoopFsRelation files,
      ObjectNode condition,
      ObjectNode record,
      Seq<Expression> partitionFilters,
      Seq<Expression> dataFilters)
      throws IOException, ReflectiveOperationException {
    long started = System.nanoTime();
    Seq<PartitionDirectory> directories;
    try {
      directories = files.location().listFiles(partitionFilters, dataFilters);
    } catch (RuntimeException error) { // such as a value that cannot be cast: the query fails, not the planner
      skipping.leftAlone(record, "Spark cannot list the files: " + error.getMessage());
      return null;
    }
    List<FileVersion> listed = new ArrayList<>();
    for (PartitionDirectory directory : Scala.iterable(directories)) {
      Scala.iterable(directory.files()).forEach(file -> listed.add(FileVersion.of(file.fileStatus())));
    }
    if (listed.isEmpty()) {
      return null;
    }
    boolean isDelta = DeltaPlanner.isDelta(files);
    if (isDelta && DeltaPlanner.isLittleLeft(files.location(), listed)) {
      skipping.leftAlone(record, "the log of the table has left little to read");
      return null;
    }
    Configuration settings = settings(files, listed);
    boolean isLogged = isDelta && listed.stream().noneMatch(file -> StoreSettings.hasExactTimes(file.path()));
    List<FileVersion> versions = isLogged ? listed : Freshness.versions(listed, isDelta, settings);
    FileLists.FileList list = list(files, listed, versions, directories, settings != null);
    boolean hasFieldIds =
        isSet(SQLConf.get(), "spark.sql.parquet.fieldId.read.enabled") && hasFieldIds(files.dataSchema());
    ObjectNode request = request(condition, hasFieldIds);
    if (isDelta) {
      DeltaPlanner.addColumns(request, files);
    }
    if (settings != null) {
      addStores(request, listed, settings);
    }
    JsonNode reply = ask(request, list, record, started);
    if (reply != null && reply.has("unknown")) { // no lake index has the objects of the log
      versions = Freshness.versions(listed, true, settings);
      list = list(files, listed, versions, directories, true);
      reply = ask(request, list, record, started);
    }
    if (reply == null) {
      return null;
    }
    FilePlans plans = new FilePlans(list, settings, reply, System.nanoTime() - started);
    if (isDelta) {
      plans.keep(partitionFilters, dataFilters, directories);
    }
    skipping.planned(record.putNull("reason"));
    return plans;
  }

  /** Returns the record of a scan of files, for the log. */
  static ObjectNode record(Query query, HadoopFsRelation files, String condition) {
    List<String> paths = new ArrayList<>();
    for (Path path : Scala.iterable(files.location().rootPaths())) {
      paths.add(path.toString());
    }
    return record(query, paths, condition);
  }

  /** Returns the record of a scan, for the log. */
  static ObjectNode record(Query query, List<String> paths, String condition) {
    ObjectNode record = JsonNodeFactory.instance.objectNode().put("query", query.name());
    paths.forEach(record.putArray("paths")::add);
    return record.put("condition", condition.substring(0, Math.min(condition.length(), MOST_CONDITION_CHARACTERS)));
  }

  /**
   * Returns the planner's answer to a request; null if it has a reason why nothing is skipped, which is recorded. It is
   * {@code unknown} if the planner needs the ETags of objects whose versions are those of a log.
   *
   * @param list the files of the request
   * @param started when planning started, in nanoseconds
   */
  JsonNode ask(ObjectNode request, FileLists.FileList list, ObjectNode record, long started) throws IOException {
    request.put("list", list.name());
    JsonNode reply = ask(request);
    if (reply.path("unknown").asText().equals("list")) {
      ObjectNode withFiles = request.deepCopy(); // the request may be made again with another list
      list.columns().accept(withFiles);
      reply = ask(withFiles);
    }
    record.put("planning_ms", (System.nanoTime() - started) / 1e6);
    record.set("report", reply.path("report"));
    record.put("advice", reply.path("advice").textValue());
    if (reply.hasNonNull("reason")) {
      skipping.notPlanned(record, reply.get("reason").asText());
      return null;
    }
    return reply;
  }

  private JsonNode ask(ObjectNode request) throws IOException {
    return JSON.readTree(skipping.planner().ask(JSON.writeValueAsString(request)));
  }

  /** Returns the settings with which Spark reads a relation; null if all files are local. */
  private static Configuration settings(HadoopFsRelation files, List<FileVersion> listed) {
    boolean isLocal = listed.stream().allMatch(file -> StoreSettings.storeOf(file.path()) == null);
    return isLocal ? null : files.sparkSession().sessionState().newHadoopConfWithOptions(files.options());
  }

  /** Adds how the planner reaches the stores of the files. */
  static void addStores(ObjectNode request, List<FileVersion> files, Configuration settings)
      throws IOException {
    ObjectNode stores = request.putObject("stores");
    for (FileVersion file : files) {
      String name = StoreSettings.storeOf(file.path());
      if (name != null && !stores.has(name)) {
        stores.set(name, StoreSettings.of(file.path(), settings));
      }
    }
  }

  private static LogicalRelation withFiles(
      LogicalRelation relation, HadoopFsRelation files, FileIndex location, FileFormat format) {
    return relation.copy(
        relation(files, location, format),
        relation.output(),
        relation.catalogTable(),
        relation.isStreaming(),
        relation.stream());
  }

  /** Returns a relation with another list of files and another format. */
  static HadoopFsRelation relation(HadoopFsRelation files, FileIndex location, FileFormat format) {
    return new HadoopFsRelation(
        location,
        files.partitionSchema(),
        files.dataSchema(),
        files.bucketSpec(),
        format,
        files.options(),
        files.sparkSession());
  }

  /** Returns the list of the files that a relation has listed, in the versions that are planned. */
  private FileLists.FileList list(
      HadoopFsRelation files,
      List<FileVersion> listed,
      List<FileVersion> versions,
      Seq<PartitionDirectory> directories,
      boolean hasObjects) {
    StructType partitionSchema = files.partitionSchema();
    ArrayNode partitions = JsonNodeFactory.instance.arrayNode();
    IntBuffer partitionOf = IntBuffer.allocate(listed.size());
    for (PartitionDirectory directory : Scala.iterable(directories)) {
      int[] places = new int[directory.files().size()];
      Arrays.fill(places, partitions.size());
      partitionOf.put(places);
      partitions.add(values(directory.values(), partitionSchema));
    }
    partitionOf.flip();
    boolean isDelta = DeltaPlanner.isDelta(files);
    return skipping.planner().lists().of(listed, versions, partitions, partitionOf, request -> {
      ArrayNode names = request.putArray("partition_columns");
      for (StructField field : partitionSchema.fields()) {
        names.add(field.name());
      }
      addFiles(request, versions, isDelta, partitions, partitionOf);
      if (hasObjects) {
        addObjects(request, files, listed, versions, isDelta);
      }
    });
  }

  /** Adds files to a request; those of a snapshot of a table format have no times. */
  private static void addFiles(
      ObjectNode request, List<FileVersion> files, boolean isSnapshot, ArrayNode partitions, IntBuffer partitionOf) {
    request.set("partitions", partitions);
    ArrayNode paths = request.putArray("paths");
    ArrayNode sizes = request.putArray("sizes");
    ArrayNode times = request.putArray("times_ms");
    ArrayNode places = request.putArray("partition_of");
    for (int place = 0; place < files.size(); place++) {
      FileVersion file = files.get(place);
      paths.add(file.path().toString());
      sizes.add(file.length());
      times.add(isSnapshot ? null : file.modified());
      places.add(partitionOf.get(place));
    }
  }

  /** Adds to a request what is known of objects: their ETags, or the times in the log of a table format. */
  private static void addObjects(
      ObjectNode request,
      HadoopFsRelation files,
      List<FileVersion> listed,
      List<FileVersion> versions,
      boolean isSnapshot) {
    if (files.location().rootPaths().size() == 1) {
      request.put("root", files.location().rootPaths().head().toString());
    }
    if (!addVersions(request, versions) && isSnapshot) {
      ArrayNode times = request.putArray("logged_ms");
      listed.forEach(object -> times.add(object.modified()));
    }
    if (isSnapshot) {
      ArrayNode sizes = request.putArray("logged_sizes");
      listed.forEach(object -> sizes.add(object.length()));
    }
  }

  /** Adds what names the versions of listed objects, their ETags or their times; returns whether there is any. */
  static boolean addVersions(ObjectNode request, List<FileVersion> versions) {
    if (versions.stream().anyMatch(object -> object.etag() != null)) {
      ArrayNode etags = request.putArray("etags");
      versions.forEach(object -> etags.add(object.etag()));
    } else if (versions.stream().anyMatch(object -> StoreSettings.hasExactTimes(object.path()))) {
      ArrayNode times = request.putArray("object_ms");
      versions.forEach(object -> times.add(object.modified()));
    } else {
      return false;
    }
    return true;
  }

  /** Returns a request with a condition and the settings of the session, without files. */
  ObjectNode request(ObjectNode condition, boolean hasFieldIds) {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.set("condition", condition);
    SQLConf conf = SQLConf.get();
    request.putObject("settings")
        .put("case_sensitive", conf.caseSensitiveAnalysis())
        .put("int96_conversion", isSet(conf, "spark.sql.parquet.int96TimestampConversion"))
        .put("field_ids", hasFieldIds)
        .put("timeout_ms", skipping.planner().timeoutMillis());
    return request;
  }

  /** Returns the conditions on partition columns alone, which Spark's own file index evaluates. */
  private static Seq<Expression> partitionFilters(
      LogicalRelation relation, HadoopFsRelation files, Expression condition) {
    Set<String> partitionColumns = new HashSet<>();
    for (StructField field : files.partitionSchema().fields()) {
      partitionColumns.add(field.name());
    }
    List<Expression> found = new ArrayList<>();
    if (!partitionColumns.isEmpty()) {
      List<Attribute> attributes = new ArrayList<>();
      Scala.iterable(relation.output()).forEach(attributes::add);
      List<Expression> conjuncts =
          condition instanceof And ? ExpressionJson.parts(condition) : List.of(condition);
      Seq<Expression> normalized =
          DataSourceStrategy$.MODULE$.normalizeExprs(Scala.seq(conjuncts), Scala.seq(attributes));
      for (Expression part : Scala.iterable(normalized)) {
        boolean isOnPartition = part.deterministic() && !part.references().isEmpty();
        for (var reference : Scala.iterable(part.references())) {
          isOnPartition &= partitionColumns.contains(reference.name());
        }
        if (isOnPartition && !SubqueryExpression.hasSubquery(part)) {
          found.add(part);
        }
      }
    }
    return Scala.seq(found);
  }

  /** Returns partition values as text; the planner parses them by the column's type, if it is supported. */
  private static ArrayNode values(InternalRow row, StructType schema) {
    ArrayNode values = JsonNodeFactory.instance.arrayNode();
    for (int place = 0; place < schema.length(); place++) {
      var type = schema.fields()[place].dataType();
      if (row.isNullAt(place)) {
        values.addNull();
      } else if (type instanceof IntegerType) {
        values.add(Integer.toString(row.getInt(place)));
      } else if (type instanceof LongType) {
        values.add(Long.toString(row.getLong(place)));
      } else if (type instanceof StringType) {
        values.add(row.getUTF8String(place).toString());
      } else if (type instanceof DateType) {
        values.add(LocalDate.ofEpochDay(row.getInt(place)).toString());
      } else {
        values.add("?");
      }
    }
    return values;
  }

  /** Returns whether another engine replaces Spark's Parquet reader, which it does only for Spark's own format. */
  static boolean isReadByOthers() {
    SQLConf conf = SQLConf.get();
    String extensions = conf.getConfString("spark.plugins", "") + conf.getConfString("spark.sql.extensions", "");
    return extensions.matches("(?is).*(comet|gluten|rapids).*");
  }

  /** Returns whether Spark may find columns by field id: otherwise, it finds them by name, whatever the settings. */
  private static boolean hasFieldIds(StructType schema) {
    return ParquetUtils$.MODULE$.hasFieldIds(schema);
  }

  private static boolean isSet(SQLConf conf, String key) {
    return Boolean.parseBoolean(conf.getConfString(key, "false"));
  }
}
