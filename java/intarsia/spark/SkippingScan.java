package intarsia.spark;

import java.lang.reflect.Constructor;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.collection.BitSet;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Spark's node of a scan, which compares excluded files in each run, and has metrics of skipped files and rows for
 * Spark's UI.
 *
 * <p>It is a subclass because Spark's node has a fixed set of metrics. It reads nothing itself. Where Spark copies a node,
 * it uses either {@code copy} or the constructor of the node's class, so copies are of this class, too.
 */
public final class SkippingScan extends FileSourceScanExec {
  private static final long serialVersionUID = 1L;

  private transient Map<String, SQLMetric> metrics;
  private transient SQLMetric filesSkipped;
  private transient SQLMetric rowsSkipped;
  private transient SQLMetric planningTime;
  private transient RDD<InternalRow> files;

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

  /** Returns a scan of this class, if the files have a plan; otherwise, the scan itself. */
  static SparkPlan of(FileSourceScanExec scan) {
    if (scan instanceof SkippingScan || !(scan.relation().location() instanceof SkippingIndex index)) {
      return scan;
    }
    return of(scan, index, scan.relation().fileFormat());
  }

  /** Returns a scan of this class, on another list of files and with another format. */
  static SkippingScan of(FileSourceScanExec scan, SkippingIndex index, FileFormat format) {
    SkippingScan found = (SkippingScan) scanOf(SkippingScan.class, scan, index.ofKept(), format);
    found.copyTagsFrom(scan);
    // an error is raised here, where Spark can still plan the scan with its own class
    found.driverMetrics();
    found.excluded();
    return found;
  }

  /** Creates a scan of a class with the arguments of another one, on another list of files. */
  private static FileSourceScanExec scanOf(
      Class<? extends FileSourceScanExec> type, FileSourceScanExec scan, SkippingIndex files, FileFormat format) {
    Object[] arguments = new Object[scan.productArity()];
    for (int place = 0; place < arguments.length; place++) {
      arguments[place] = scan.productElement(place);
    }
    arguments[0] = ScanPlanner.relation(scan.relation(), files, format);
    for (Constructor<?> constructor : type.getConstructors()) {
      if (constructor.getParameterCount() == arguments.length) {
        try {
          return (FileSourceScanExec) constructor.newInstance(arguments);
        } catch (ReflectiveOperationException error) {
          throw new IllegalStateException(error);
        }
      }
    }
    throw new IllegalStateException(type.getName() + " has no constructor with " + arguments.length + " arguments");
  }

  /**
   * Returns a scan of the excluded files. Spark selects its partitions and buckets and divides its files, as those of
   * this scan, but its reader is never used.
   */
  private FileSourceScanExec excluded() {
    SkippingIndex kept = (SkippingIndex) relation().location();
    return scanOf(FileSourceScanExec.class, this, kept.ofExcluded(), new Unread());
  }

  /** The files of each task: those to read, and those to compare first. */
  @Override
  public synchronized RDD<InternalRow> inputRDD() {
    if (files == null) {
      RDD<InternalRow> kept = super.inputRDD(); // a late plan is known now
      driverMetrics();
      FilePlans plans = plans();
      if (plans != null && plans.isSealed()) {
        return files = kept; // excluded files are not compared
      }
      // a new node belongs to the active session, and there is none if the frame runs as an RDD
      RDD<InternalRow> excluded = session().withActive(() -> excluded().inputRDD());
      files = SkippingRDD.of(kept, excluded, this::settings, bucketedScan(), filesSkipped);
    }
    return files;
  }

  /** Returns the settings with which Spark reads the files. */
  private Configuration settings() {
    return session().sessionState().newHadoopConfWithOptions(relation().options());
  }

  /** A format without a reader. */
  private static final class Unread extends ParquetFileFormat {
    private static final long serialVersionUID = 1L;

    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
        SparkSession session,
        StructType dataSchema,
        StructType partitionSchema,
        StructType requiredSchema,
        Seq<Filter> filters,
        Map<String, String> options,
        Configuration configuration) {
      return null;
    }
  }

  /** Adds the names of the indexes, which Spark would cut at 100 characters. */
  @Override
  public String simpleString(int maxFields) {
    return super.simpleString(maxFields) + ", SkippedBy: " + indexes();
  }

  /** Adds what EXPLAIN FORMATTED leaves out with the name of the format. */
  @Override
  public String verboseStringWithOperatorId() {
    return super.verboseStringWithOperatorId().stripTrailing()
        + "\nFormat: " + relation().fileFormat() + "\nSkippedBy: " + indexes() + "\n";
  }

  private String indexes() {
    FilePlans plans = plans();
    return plans == null ? "[]" : "[" + String.join(", ", plans.indexes()) + "]";
  }

  private FilePlans plans() {
    return relation().location() instanceof SkippingIndex index ? index.plans() : null;
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
    FilePlans plans = plans();
    if (plans != null) {
      driverMetrics();
      if (plans.isSealed()) {
        filesSkipped.set(((SkippingIndex) relation().location()).numExcluded());
      }
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
