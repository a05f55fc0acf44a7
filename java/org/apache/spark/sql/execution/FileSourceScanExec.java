package org.apache.spark.sql.execution;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.streaming.SparkDataStream;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.collection.BitSet;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Signatures of Spark's node of a scan, for the compiler only: this class is not in the jar.
 *
 * <p>The constructor has ten arguments in Spark 4.1 and 4.2, and eleven in 4.3. A subclass for all versions needs both
 * at compile time. At run time, only the one of the running version is called.
 */
public class FileSourceScanExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  /** The constructor of Spark 4.1 and 4.2. */
  public FileSourceScanExec(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType requiredSchema,
      Seq<Expression> partitionFilters,
      Option<BitSet> optionalBucketSet,
      Option<Object> optionalNumCoalescedBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> tableIdentifier,
      boolean disableBucketedScan) {}

  /** The constructor of Spark 4.3. */
  public FileSourceScanExec(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType requiredSchema,
      Seq<Expression> partitionFilters,
      Option<BitSet> optionalBucketSet,
      Option<Object> optionalNumCoalescedBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> tableIdentifier,
      boolean disableBucketedScan,
      boolean markedForSingleTaskExecution) {}

  public native FileSourceScanExec copy(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType requiredSchema,
      Seq<Expression> partitionFilters,
      Option<BitSet> optionalBucketSet,
      Option<Object> optionalNumCoalescedBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> tableIdentifier,
      boolean disableBucketedScan);

  public native FileSourceScanExec copy(
      HadoopFsRelation relation,
      Option<SparkDataStream> stream,
      Seq<Attribute> output,
      StructType requiredSchema,
      Seq<Expression> partitionFilters,
      Option<BitSet> optionalBucketSet,
      Option<Object> optionalNumCoalescedBuckets,
      Seq<Expression> dataFilters,
      Option<TableIdentifier> tableIdentifier,
      boolean disableBucketedScan,
      boolean markedForSingleTaskExecution);

  public native HadoopFsRelation relation();

  public native Seq<Expression> partitionFilters();

  public native Seq<Expression> dataFilters();

  public native Map<String, SQLMetric> driverMetrics();

  public native void sendDriverMetrics();

  public native RDD<InternalRow> inputRDD();

  public native boolean bucketedScan();

  @Override
  public native String simpleString(int maxFields);

  @Override
  public native String verboseStringWithOperatorId();

  @Override
  public native RDD<InternalRow> doExecute();

  @Override
  public native Seq<Attribute> output();

  @Override
  public native Seq<SparkPlan> children();

  @Override
  public native SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children);

  @Override
  public native boolean canEqual(Object other);

  @Override
  public native int productArity();

  @Override
  public native Object productElement(int place);
}
