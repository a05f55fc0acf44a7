package intarsia.spark;

import java.lang.reflect.Constructor;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.collection.BitSet;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Spark's node of a scan, with metrics of skipped files and rows, which Spark's UI shows.
 *
 * <p>It is a subclass because Spark's node has a fixed set of metrics. It reads nothing itself. Where Spark copies a node,
 * it uses either {@code copy} or the constructor of the node's class, so copies have the metrics, too.
 */
public final class SkippingScan extends FileSourceScanExec {
  private static final long serialVersionUID = 1L;

  private transient Map<String, SQLMetric> metrics;
  private transient SQLMetric filesSkipped;
  private transient SQLMetric rowsSkipped;
  private transient SQLMetric planningTime;

  /** For Spark 4.1 and 4.2, which also call it to copy the node. */
  public SkippingScan(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType schema,
      Seq<Expression> partitionFilters,
      Option<BitSet> buckets,
      Option<Object> numBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> table,
      boolean isBucketingOff) {
    super(relation, stream, output, schema, partitionFilters, buckets, numBuckets, dataFilters, table, isBucketingOff);
  }

  /** For Spark 4.3, which also calls it to copy the node. */
  public SkippingScan(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType schema,
      Seq<Expression> partitionFilters,
      Option<BitSet> buckets,
      Option<Object> numBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> table,
      boolean isBucketingOff,
      boolean isSingleTask) {
    super(
        relation, stream, output, schema, partitionFilters, buckets, numBuckets, dataFilters, table, isBucketingOff,
        isSingleTask);
  }

  /** Returns a scan with the metrics, if its files have a plan; otherwise, the scan itself. */
  static SparkPlan of(FileSourceScanExec scan) throws ReflectiveOperationException {
    if (scan instanceof SkippingScan || !(scan.relation().location() instanceof SkippingIndex)) {
      return scan;
    }
    Object[] arguments = new Object[scan.productArity()];
    for (int place = 0; place < arguments.length; place++) {
      arguments[place] = scan.productElement(place);
    }
    for (Constructor<?> constructor : SkippingScan.class.getConstructors()) {
      if (constructor.getParameterCount() == arguments.length) {
        SkippingScan found = (SkippingScan) constructor.newInstance(arguments);
        found.copyTagsFrom(scan);
        found.driverMetrics(); // an error is raised here, where Spark can still plan the scan without these metrics
        return found;
      }
    }
    return scan;
  }

  @Override
  public synchronized Map<String, SQLMetric> driverMetrics() {
    if (metrics == null) {
      SQLMetrics$ create = SQLMetrics$.MODULE$;
      filesSkipped = create.createMetric(sparkContext(), "number of files skipped by indexes");
      rowsSkipped = create.createMetric(sparkContext(), "number of rows skipped by indexes");
      planningTime = create.createNanoTimingMetric(sparkContext(), "time of planning with indexes", -1);
      metrics = with(with(with(super.driverMetrics(), "filesSkipped", filesSkipped), "rowsSkipped", rowsSkipped),
          "planningTime", planningTime);
    }
    return metrics;
  }

  @SuppressWarnings("unchecked") // Java sees updated() without type parameters
  private static Map<String, SQLMetric> with(Map<String, SQLMetric> metrics, String name, SQLMetric metric) {
    return (Map<String, SQLMetric>) (Map<?, ?>) metrics.updated(name, metric);
  }

  /** Spark calls this when it has created the reader and selected the files, so a late plan is known. */
  @Override
  public void sendDriverMetrics() {
    FilePlans plans = relation().location() instanceof SkippingIndex index ? index.plans() : null;
    if (plans != null) {
      driverMetrics();
      filesSkipped.set(plans.filesSkipped());
      rowsSkipped.set(plans.rowsSkipped());
      planningTime.set(plans.planningNanos());
    }
    super.sendDriverMetrics();
  }

  @Override
  public FileSourceScanExec copy(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType schema,
      Seq<Expression> partitionFilters,
      Option<BitSet> buckets,
      Option<Object> numBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> table,
      boolean isBucketingOff) {
    return new SkippingScan(
        relation, stream, output, schema, partitionFilters, buckets, numBuckets, dataFilters, table, isBucketingOff);
  }

  @Override
  public FileSourceScanExec copy(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType schema,
      Seq<Expression> partitionFilters,
      Option<BitSet> buckets,
      Option<Object> numBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> table,
      boolean isBucketingOff,
      boolean isSingleTask) {
    return new SkippingScan(
        relation, stream, output, schema, partitionFilters, buckets, numBuckets, dataFilters, table, isBucketingOff,
        isSingleTask);
  }

  /** Spark keeps the old node if a rule returns an equal one. So nodes without these metrics do not equal this one. */
  @Override
  public boolean equals(Object other) {
    return other instanceof SkippingScan && super.equals(other);
  }

  @Override
  public int hashCode() {
    return super.hashCode();
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof SkippingScan;
  }
}
