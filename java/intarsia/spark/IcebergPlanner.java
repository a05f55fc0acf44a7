package intarsia.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * Leaves out files and row groups among the tasks of Iceberg's scans.
 *
 * <p>Iceberg has planned a task for each file of the snapshot, with its deleted rows. This class replaces the list of
 * tasks, as Iceberg itself does when it filters partitions at run time. Everything else is Iceberg's own: its reader,
 * deletes, and the division into splits. All calls of Iceberg are made by reflection, because its classes are
 * package-private, and because Spark may have none of them.
 *
 * <p>A data file of a snapshot never gets other rows: attaching and detaching indexes keep them, and their positions. So
 * excluded files need not be compared again when the query runs.
 */
final class IcebergPlanner {
  private static final String SCAN = "org.apache.iceberg.spark.source.SparkBatchQueryScan";

  /** The class of tasks for whole data files. Those of metadata tables have others. */
  private static final String TASK = "org.apache.iceberg.BaseFileScanTask";

  /** The versions of Iceberg whose internal interfaces are known. */
  private static final Set<String> VERSIONS = Set.of("1.11", "1.12");

  private static final Pattern UUID_IN_NAME = Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*$");

  private static final String NAME_MAPPING = "schema.name-mapping.default";

  private static final ClassValue<Map<String, Method>> METHODS = new ClassValue<>() {
    @Override
    protected Map<String, Method> computeValue(Class<?> type) {
      return new ConcurrentHashMap<>();
    }
  };

  private final Skipping skipping;
  private final Query query;

  IcebergPlanner(Skipping skipping, Query query) {
    this.skipping = skipping;
    this.query = query;
  }

  /** A scan, and all conditions under which the query reads its rows. */
  private static final class Found {
    final DataSourceV2ScanRelation relation;
    final Set<ObjectNode> conditions = new LinkedHashSet<>();
    String text = "";
    boolean isReadWhole;

    Found(DataSourceV2ScanRelation relation) {
      this.relation = relation;
    }

    void add(Expression condition) {
      if (condition == null) {
        isReadWhole = true;
        return;
      }
      conditions.add(new ExpressionJson(Scala.iterable(relation.output())).write(condition));
      text = condition.sql();
    }

    ObjectNode condition() {
      if (conditions.size() == 1) {
        return conditions.iterator().next();
      }
      ObjectNode any = JsonNodeFactory.instance.objectNode().put("op", "Or").put("type", "boolean");
      any.putArray("args").addAll(conditions);
      return any;
    }
  }

  /**
   * Plans the scans of a query that has been optimized, including those in subqueries.
   *
   * <p>Plans of subqueries alone are left as they are: Spark may still merge two of them, and does not compare the tasks
   * of their scans. The tasks of commands are left as they are, because DELETE, UPDATE and MERGE also use them to find
   * delete files.
   */
  void plan(LogicalPlan plan) {
    List<Found> scans = new ArrayList<>();
    List<LogicalPlan> roots = new ArrayList<>(List.of(plan));
    if (plan instanceof Subquery || !collect(plan, scans, roots)) {
      return;
    }
    boolean isChanged = false;
    for (Found scan : scans) {
      if (!scan.isReadWhole && query.begin(scan.relation.scan())) {
        plan(scan);
        isChanged = true;
      }
    }
    if (isChanged) {
      roots.forEach(LogicalPlan::invalidateStatsCache); // a small side of a join can be broadcast
    }
  }

  /** Collects the scans of a plan, and the roots of its subqueries; returns whether it contains no command. */
  private static boolean collect(LogicalPlan plan, List<Found> scans, List<LogicalPlan> roots) {
    if (plan instanceof Command) {
      return false;
    }
    if (plan instanceof Filter filter && isScan(filter.child())) {
      scan(filter.child(), scans).add(filter.condition());
    } else {
      if (isScan(plan)) {
        scan(plan, scans).add(null);
      }
      for (LogicalPlan child : Scala.iterable(plan.children())) {
        if (!collect(child, scans, roots)) {
          return false;
        }
      }
    }
    for (LogicalPlan subquery : Scala.iterable(plan.subqueries())) {
      roots.add(subquery);
      if (!collect(subquery, scans, roots)) {
        return false;
      }
    }
    return true;
  }

  private static boolean isScan(LogicalPlan plan) {
    return plan instanceof DataSourceV2ScanRelation relation && relation.scan().getClass().getName().equals(SCAN);
  }

  /** Returns the entry of a scan, which a plan may contain several times; scans of equal filters are equal. */
  private static Found scan(LogicalPlan plan, List<Found> scans) {
    DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
    for (Found known : scans) {
      if (known.relation.scan() == relation.scan()) {
        return known;
      }
    }
    Found found = new Found(relation);
    scans.add(found);
    return found;
  }

  private void plan(Found found) {
    ObjectNode condition = found.condition();
    if (!ExpressionJson.canExclude(condition)) {
      return;
    }
    DataSourceV2ScanRelation relation = found.relation;
    ObjectNode record =
        ScanPlanner.record(query, List.of(relation.relation().table().name()), found.text);
    try {
      String version = version(relation.scan());
      if (VERSIONS.stream().noneMatch(known -> version.startsWith(known + "."))) {
        skipping.unsupported(record, "this version of Intarsia does not support Iceberg " + version);
      } else if (relation.keyGroupedPartitioning().isDefined()) {
        skipping.notPlanned(record, "Spark has grouped the partitions of the scan");
      } else {
        plan(relation.scan(), condition, record);
      }
    } catch (UnsupportedFileSystemException error) { // Iceberg reads objects with a client of its own
      skipping.notPlanned(record, "Spark cannot read the files itself: " + error.getMessage());
    } catch (Exception | LinkageError error) {
      skipping.failed(record, error);
    }
  }

  private static String version(Scan scan) throws ReflectiveOperationException {
    Class<?> build = Class.forName("org.apache.iceberg.IcebergBuild", true, scan.getClass().getClassLoader());
    return String.valueOf(build.getMethod("version").invoke(null));
  }

  private void plan(Scan scan, ObjectNode condition, ObjectNode record) throws Exception {
    long started = System.nanoTime();
    List<?> tasks = (List<?>) call(scan, "tasks");
    List<Object> plannable = new ArrayList<>();
    for (Object task : tasks) {
      if (isPlannable(task)) {
        plannable.add(task);
      }
    }
    if (plannable.isEmpty()) {
      return;
    }
    ScanPlanner planner = new ScanPlanner(skipping, query);
    ObjectNode request = planner.request(condition, false);
    List<SnapshotFile> files = addTable(request, scan, plannable);
    List<FileVersion> objects = objects(files);
    Configuration settings = objects == null ? null : SparkSession.active().sessionState().newHadoopConf();
    if (settings != null) {
      ScanPlanner.addStores(request, objects, settings);
    }
    String root = settings == null ? null : dataFolder(call(scan, "table"));
    boolean isSealed = settings == null || files.stream().allMatch(SnapshotFile::hasOwnName);
    JsonNode reply = isSealed ? planner.ask(request, list(files, null, root), record, started) : null;
    if (!isSealed || reply != null && reply.has("unknown")) { // no lake index has the objects of the snapshot
      List<FileVersion> versions = Freshness.versions(objects, true, settings);
      reply = planner.ask(request, list(files, versions, root), record, started);
    }
    if (reply == null) {
      return;
    }
    Decision[] decisions = decisions(reply, plannable.size());
    List<Object> left = new ArrayList<>();
    int place = 0;
    for (Object task : tasks) {
      boolean isPlanned = place < decisions.length && plannable.get(place) == task;
      Decision decision = isPlanned ? decisions[place++] : Decision.WHOLE;
      if (!decision.isExcluded()) {
        left.add(decision.rowGroups() == null ? task : narrowed(task, decision.rowGroups()));
      }
    }
    method(scan.getClass(), "resetTasks").invoke(scan, left);
    skipping.planned(record.putNull("reason"));
  }

  private static boolean isPlannable(Object task) throws ReflectiveOperationException {
    if (!task.getClass().getName().equals(TASK)) {
      return false;
    }
    Object file = call(task, "file");
    return call(file, "format").toString().equals("PARQUET") && call(file, "keyMetadata") == null;
  }

  /** A file of a snapshot, which never gets other rows. */
  private record SnapshotFile(String path, long length) {
    /** Returns whether no other file ever had its name: writers of Iceberg put a UUID into it. */
    boolean hasOwnName() {
      return UUID_IN_NAME.matcher(path).find();
    }
  }

  /** Adds the columns of a table to a request, and returns its files. */
  private static List<SnapshotFile> addTable(ObjectNode request, Scan scan, List<Object> tasks) throws Exception {
    Class<?> parser = Class.forName("org.apache.iceberg.SchemaParser", true, scan.getClass().getClassLoader());
    Object schema = call(scan, "projection");
    Map<?, ?> properties = (Map<?, ?>) call(call(scan, "table"), "properties");
    ObjectNode table = request.putObject("iceberg");
    table.put("schema", (String) parser.getMethod("toJson", schema.getClass()).invoke(null, schema));
    table.put("name_mapping", (String) properties.get(NAME_MAPPING));
    List<SnapshotFile> files = new ArrayList<>();
    Set<Object> specs = new HashSet<>();
    for (Object task : tasks) {
      Object file = call(task, "file");
      files.add(new SnapshotFile((String) call(file, "location"), (Long) call(file, "fileSizeInBytes")));
      specs.add(call(task, "spec"));
    }
    ArrayNode fromPartitions = table.putArray("from_partitions"); // ids of columns that may not be read from files
    for (Object spec : specs) {
      for (Object field : (Iterable<?>) call(spec, "fields")) {
        if ((Boolean) call(call(field, "transform"), "isIdentity")) {
          fromPartitions.add((Integer) call(field, "sourceId"));
        }
      }
    }
    return files;
  }

  /** Returns the folder below which Iceberg writes the data of a table. */
  private static String dataFolder(Object table) throws ReflectiveOperationException {
    Object chosen = ((Map<?, ?>) call(table, "properties")).get("write.data.path");
    String folder = chosen == null ? call(table, "location") + "/data" : (String) chosen;
    return folder.replaceFirst("/+$", "");
  }

  /**
   * Returns the list of the files of a table.
   *
   * @param objects their current versions; null if they are local, or have not been listed
   * @param root the folder of objects; null if the files are local
   */
  private FileLists.FileList list(List<SnapshotFile> files, List<FileVersion> objects, String root) {
    ArrayNode partitions = JsonNodeFactory.instance.arrayNode();
    partitions.addArray();
    List<?> versions = objects == null ? files : objects;
    return skipping.planner().lists().of(files, versions, partitions, IntBuffer.allocate(0), known -> {
      known.putArray("partition_columns");
      known.set("partitions", partitions);
      ArrayNode paths = known.putArray("paths");
      ArrayNode sizes = known.putArray("sizes");
      ArrayNode times = known.putArray("times_ms");
      ArrayNode places = known.putArray("partition_of");
      for (int place = 0; place < files.size(); place++) {
        paths.add(files.get(place).path());
        sizes.add(objects == null ? files.get(place).length() : objects.get(place).length());
        times.addNull();
        places.add(0);
      }
      if (root != null) {
        known.put("root", root);
        ArrayNode logged = known.putArray("logged_sizes");
        files.forEach(file -> logged.add(file.length()));
        if (objects == null) { // manifests have no times, and no name is used twice
          ArrayNode none = known.putArray("logged_ms");
          files.forEach(file -> none.add(0));
        } else {
          ScanPlanner.addVersions(known, objects);
        }
      }
    });
  }

  /** Returns the files as objects that have not been listed; null if all files are local. */
  private static List<FileVersion> objects(List<SnapshotFile> files) {
    List<FileVersion> found = new ArrayList<>();
    for (SnapshotFile file : files) {
      // Iceberg's own client of S3 has another scheme for the same objects
      String path = file.path().startsWith("s3://") ? "s3a" + file.path().substring(2) : file.path();
      found.add(new FileVersion(new Path(path), file.length(), 0, null));
    }
    return found.stream().allMatch(file -> StoreSettings.storeOf(file.path()) == null) ? null : found;
  }

  /** What is read of a file; the row groups are those that start at some offsets, null for all. */
  private record Decision(boolean isExcluded, Set<Long> rowGroups) {
    static final Decision WHOLE = new Decision(false, null);
    static final Decision EXCLUDED = new Decision(true, null);
  }

  private static Decision[] decisions(JsonNode reply, int files) {
    JsonNode kept = reply.path("kept");
    if (reply.path("files").asInt(-1) != files || !kept.isArray()) {
      throw new IllegalArgumentException("the plan does not describe the " + files + " files of the scan");
    }
    Decision[] decisions = new Decision[files];
    Arrays.fill(decisions, Decision.EXCLUDED);
    for (JsonNode place : reply.path("unplanned")) {
      decisions[place.intValue()] = Decision.WHOLE;
    }
    for (JsonNode entry : kept) {
      Set<Long> offsets = new HashSet<>();
      for (int place = 2; place < entry.size(); place++) {
        offsets.add(entry.get(place).longValue());
      }
      if (!entry.path(0).isInt()) {
        throw new IllegalArgumentException("a file has no ordinal");
      }
      decisions[entry.get(0).intValue()] = offsets.isEmpty() ? Decision.WHOLE : new Decision(false, offsets);
    }
    return decisions;
  }

  /**
   * Returns a task that Iceberg splits into the tasks of some row groups; the task itself if it cannot be.
   *
   * <p>Iceberg splits every task before it sends them to executors, so this object stays on the driver.
   */
  private static Object narrowed(Object task, Set<Long> rowGroups) throws ReflectiveOperationException {
    List<?> offsets = (List<?>) call(call(task, "file"), "splitOffsets");
    if (offsets == null || !offsets.containsAll(rowGroups)) {
      return task;
    }
    List<Object> parts = new ArrayList<>();
    int count = 0;
    for (Object part : (Iterable<?>) method(task.getClass(), "split").invoke(task, 1L)) {
      if (++count > offsets.size()) { // Iceberg splits by size, because it does not trust the offsets
        return task;
      }
      if (rowGroups.contains((Long) call(part, "start"))) {
        parts.add(part);
      }
    }
    if (parts.size() != rowGroups.size()) {
      return task;
    }
    long bytes = 0;
    for (Object part : parts) {
      bytes += (Long) call(part, "sizeBytes");
    }
    Class<?> type =
        Class.forName("org.apache.iceberg.FileScanTask", true, task.getClass().getClassLoader());
    return Proxy.newProxyInstance(
        type.getClassLoader(), new Class<?>[] {type}, new RowGroups(task, parts, bytes));
  }

  /** The methods of a task that is split into some of its row groups. */
  private record RowGroups(Object task, List<Object> parts, long bytes)
      implements java.lang.reflect.InvocationHandler {
    @Override
    public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
      switch (method.getName()) {
        case "split":
          return parts;
        case "sizeBytes":
          return bytes;
        case "asFileScanTask":
          return self;
        case "equals":
          return self == arguments[0];
        default:
          try {
            return method.invoke(task, arguments);
          } catch (InvocationTargetException error) {
            throw error.getCause();
          }
      }
    }
  }

  private static Object call(Object target, String name) throws ReflectiveOperationException {
    return method(target.getClass(), name).invoke(target);
  }

  /** Returns a method of a class by its name, which has one without parameters, or one alone. */
  private static Method method(Class<?> owner, String name) throws NoSuchMethodException {
    Map<String, Method> known = METHODS.get(owner);
    Method method = known.get(name);
    if (method == null) {
      method = findMethod(owner, name);
      method.setAccessible(true);
      known.put(name, method);
    }
    return method;
  }

  private static Method findMethod(Class<?> owner, String name) throws NoSuchMethodException {
    Method found = null;
    for (Class<?> type = owner; type != null && found == null; type = type.getSuperclass()) {
      found = one(type.getDeclaredMethods(), name);
    }
    found = found == null ? one(owner.getMethods(), name) : found; // the default of an interface
    if (found == null) {
      throw new NoSuchMethodException(owner.getName() + "." + name);
    }
    return found;
  }

  private static Method one(Method[] methods, String name) {
    Method found = null;
    for (Method method : methods) {
      boolean isNamed = method.getName().equals(name) && !method.isBridge();
      if (isNamed && (found == null || method.getParameterCount() < found.getParameterCount())) {
        found = method;
      }
    }
    return found;
  }
}
