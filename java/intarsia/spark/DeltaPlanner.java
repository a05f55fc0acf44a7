package intarsia.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Plans the scans of Delta tables, when Delta itself has planned them.
 *
 * <p>Delta has a strategy that adds to each scan what finds its deleted rows. It does so only for Delta's own classes. So
 * the logical plan has to keep them, and this class asks Delta's strategy first, and replaces the node of the scan then.
 * All calls of Delta are made by reflection, because Spark may have none of its classes.
 *
 * <p>A data file of Delta never gets other rows: attaching and detaching indexes keep them, and their numbers. The log
 * keeps the length that a file had before. So the planner finds its current one, which tasks compare.
 */
final class DeltaPlanner {
  private static final String INDEX = "org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex";
  private static final String FORMAT = "org.apache.spark.sql.delta.DeltaParquetFileFormat";

  /** The versions of Delta whose internal interfaces are known. */
  private static final Set<String> VERSIONS = Set.of("4.4");

  /** Spark reads so many bytes in about the time in which the planner answers. */
  private static final long FEW_BYTES = 4L << 20;

  /** The log has left few files if the table has so many times as many. */
  private static final long FEW_OF = 10;

  /** Delta adds columns to scans with deleted rows, and conditions on them. */
  private static final String ADDED = "__delta_internal_";

  /** The plan of a relation: adaptive execution plans the same relation again after each stage. */
  private static final TreeNodeTag<Planned> PLANNED = new TreeNodeTag<>("intarsia.planned");

  private record Planned(FileIndex files, String condition, FilePlans plans) {}

  private final Skipping skipping;
  private final ScanPlanner planner;

  DeltaPlanner(Skipping skipping) {
    this.skipping = skipping;
    this.planner = new ScanPlanner(skipping, Query.current());
  }

  /** Returns whether a relation is a snapshot of a Delta table that a query reads, not one that a command changes. */
  static boolean isDelta(HadoopFsRelation files) {
    return files.location().getClass().getName().equals(INDEX) && files.fileFormat().getClass().getName().equals(FORMAT);
  }

  /**
   * Returns the nodes of a plan that is a scan with conditions and projections; null if nothing is skipped.
   *
   * @param others the other strategies of the session
   */
  SparkPlan plan(LogicalPlan plan, LogicalRelation relation, List<SparkStrategy> others) {
    try {
      Expression condition = condition(plan);
      HadoopFsRelation files = (HadoopFsRelation) relation.relation();
      if (condition == null || !skipping.isOn() || ScanPlanner.isReadByOthers() || isInTransaction(files)) {
        return null;
      }
      ObjectNode node = new ExpressionJson(columns(relation, files)).write(condition);
      if (!ExpressionJson.canExclude(node) || !isSupported(files, condition.sql())) {
        return null;
      }
      for (SparkStrategy other : others) {
        for (SparkPlan planned : Scala.iterable(other.apply(plan))) {
          return withSkipping(planned, relation, node, condition.sql()); // as Spark, which takes the first one
        }
      }
    } catch (Exception | LinkageError error) {
      skipping.failed(error);
    }
    return null;
  }

  /** Returns the conditions on the relation below; null if there is none. */
  private static Expression condition(LogicalPlan plan) {
    Expression found = null;
    for (LogicalPlan at = plan; !(at instanceof LogicalRelation); at = at.children().head()) {
      for (Expression expression : Scala.iterable(at.expressions())) {
        found = expression.deterministic() ? found : null; // it may have other values if there are fewer rows
      }
      if (at instanceof Filter filter) {
        found = found == null ? filter.condition() : new And(found, filter.condition());
      }
    }
    return found;
  }

  /**
   * Returns the columns of a table.
   *
   * <p>Delta plans the subqueries of a scan with it. Then their relations also have the columns that Delta adds, which
   * are in no file, and must not be taken for columns that are null.
   */
  private static List<AttributeReference> columns(LogicalRelation relation, HadoopFsRelation files)
      throws ReflectiveOperationException {
    Set<String> names = new HashSet<>(Arrays.asList(schema(files).fieldNames()));
    List<AttributeReference> found = new ArrayList<>();
    for (AttributeReference column : Scala.iterable(relation.output())) {
      if (names.contains(column.name())) {
        found.add(column);
      }
    }
    return found;
  }

  private static StructType schema(HadoopFsRelation files) throws ReflectiveOperationException {
    Object format = files.fileFormat();
    return (StructType) format.getClass().getMethod("referenceSchema").invoke(format);
  }

  /** Returns whether a command is changing a table: what it reads decides what it removes. */
  private static boolean isInTransaction(HadoopFsRelation files) throws ReflectiveOperationException {
    Object active = classOfDelta(files, "org.apache.spark.sql.delta.OptimisticTransaction")
        .getMethod("getActive")
        .invoke(null);
    return ((Option<?>) active).isDefined();
  }

  private boolean isSupported(HadoopFsRelation files, String text) throws ReflectiveOperationException {
    String version = (String) classOfDelta(files, "io.delta.package").getMethod("VERSION").invoke(null);
    boolean isKnown = VERSIONS.stream().anyMatch(known -> version.startsWith(known + "."));
    if (!isKnown) {
      ObjectNode record = ScanPlanner.record(Query.current(), files, text);
      skipping.unsupported(record, "this version of Intarsia does not support Delta " + version);
    }
    return isKnown;
  }

  private static Class<?> classOfDelta(HadoopFsRelation files, String name) throws ClassNotFoundException {
    return Class.forName(name, true, files.location().getClass().getClassLoader());
  }

  private SparkPlan withSkipping(SparkPlan plan, LogicalRelation relation, ObjectNode condition, String text) {
    if (plan instanceof FileSourceScanExec scan) {
      return isDelta(scan.relation()) ? skipping(scan, relation, condition, text) : scan;
    }
    List<SparkPlan> children = new ArrayList<>();
    for (SparkPlan child : Scala.iterable(plan.children())) {
      children.add(withSkipping(child, relation, condition, text));
    }
    return plan.withNewChildren(Scala.seq(children));
  }

  private SparkPlan skipping(FileSourceScanExec scan, LogicalRelation relation, ObjectNode condition, String text) {
    HadoopFsRelation files = scan.relation();
    FilePlans plans = plans(scan, relation, condition, text);
    if (plans == null) {
      return scan;
    }
    SkippingIndex index = new SkippingIndex(files.location(), condition.toString(), plans, skipping);
    return SkippingScan.of(
        scan, index, new SkippingParquetFormat((ParquetFileFormat) files.fileFormat(), index, null));
  }

  private FilePlans plans(FileSourceScanExec scan, LogicalRelation relation, ObjectNode condition, String text) {
    FileIndex location = scan.relation().location();
    String identity = condition.toString();
    Option<Planned> before = relation.getTagValue(PLANNED);
    if (before.isDefined() && before.get().files() == location && before.get().condition().equals(identity)) {
      return before.get().plans();
    }
    FilePlans plans = planner.plans(
        scan.relation(), condition, text, listable(scan.partitionFilters()), listable(scan.dataFilters()));
    relation.setTagValue(PLANNED, new Planned(location, identity, plans));
    return plans;
  }

  /** Returns whether the log of a table has left so little of it that a plan costs as much as it could save. */
  static boolean isLittleLeft(FileIndex location, List<FileVersion> listed) throws ReflectiveOperationException {
    if (listed.stream().mapToLong(FileVersion::length).sum() > FEW_BYTES) {
      return false;
    }
    Object scan = location.getClass().getMethod("preparedScan").invoke(location);
    Object total = scan.getClass().getMethod("total").invoke(scan);
    Option<?> files = (Option<?>) total.getClass().getMethod("files").invoke(total);
    return files.isDefined() && (Long) files.get() >= FEW_OF * listed.size();
  }

  /** Adds the columns of a table to a request, if they may have other names in files. */
  static void addColumns(ObjectNode request, HadoopFsRelation files) throws ReflectiveOperationException {
    Object format = files.fileFormat();
    Object mapping = format.getClass().getMethod("columnMappingMode").invoke(format);
    String mode = (String) mapping.getClass().getMethod("name").invoke(mapping);
    if (!mode.equals("none")) {
      request.putObject("delta").put("mode", mode).put("schema", schema(files).json());
    }
  }

  /** Returns the conditions with which Delta has listed the files before, so that it does not read its log again. */
  static Seq<Expression> listable(Seq<Expression> filters) {
    List<Expression> found = new ArrayList<>();
    for (Expression filter : Scala.iterable(filters)) {
      boolean isOwn = !SubqueryExpression.hasSubquery(filter);
      for (Attribute reference : Scala.iterable(filter.references())) {
        isOwn &= !reference.name().startsWith(ADDED);
      }
      if (isOwn) {
        found.add(filter);
      }
    }
    return Scala.seq(found);
  }
}
