package intarsia.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A Parquet format of Spark or Delta, whose readers read only the planned rows of each file.
 *
 * <p>It is a subclass of Spark's format because the reader of a file is created by the format, on the executors. All
 * decoding is that of the inner format. A second reason is {@code explain()}, which prints the format.
 */
public final class SkippingParquetFormat extends ParquetFileFormat {
  private static final long serialVersionUID = 1L;

  /** The columns of Delta that say whether a row is deleted, and which number it has. */
  private static final Set<String> DELETION_COLUMNS =
      Set.of("__delta_internal_is_row_deleted", "__delta_internal_row_index");

  private final ParquetFileFormat inner;
  private final transient SkippingIndex index; // null on executors
  private final transient LatePlan late;
  private final transient FilePlans early;
  private final String summary;

  /** Plans a scan again with the filters that it has when it starts; the result is null if nothing is gained. */
  interface LatePlan {
    FilePlans plan(Seq<Filter> filters);
  }

  /**
   * @param late null if the filters were known before
   */
  SkippingParquetFormat(ParquetFileFormat inner, SkippingIndex index, LatePlan late) {
    this.inner = inner;
    this.index = index;
    this.late = late;
    this.early = index.plans();
    this.summary = index.plans() == null ? "when it starts" : index.plans().summary();
  }

  @Override
  public String toString() {
    return inner + ", Intarsia: " + summary;
  }

  /** A file is cut into splits by the bytes to read, not by its size. */
  @Override
  public boolean isSplitable(SparkSession session, Map<String, String> options, Path path) {
    FilePlans plans = index == null ? null : index.plans();
    long bytes = plans == null ? -1 : plans.narrowedBytes(path);
    if (bytes >= 0 && bytes <= session.sessionState().conf().filesOpenCostInBytes()) {
      return false;
    }
    return inner.isSplitable(session, options, path);
  }

  @Override
  public boolean supportBatch(SparkSession session, StructType schema) {
    return inner.supportBatch(session, schema);
  }

  @Override
  public Option<Seq<String>> vectorTypes(StructType requiredSchema, StructType partitionSchema, SQLConf conf) {
    return inner.vectorTypes(requiredSchema, partitionSchema, conf);
  }

  @Override
  public Seq<StructField> metadataSchemaFields() {
    return inner.metadataSchemaFields();
  }

  @Override
  public Map<String, Function1<PartitionedFile, Object>> fileConstantMetadataExtractors() {
    return inner.fileConstantMetadataExtractors();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SkippingParquetFormat format && inner.equals(format.inner);
  }

  @Override
  public int hashCode() {
    return inner.hashCode();
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration configuration) {
    if (late != null) { // Spark creates the reader before it lists the files
      FilePlans plans = late.plan(filters);
      index.setPlans(plans == null ? early : plans); // never those of an earlier run
    }
    Function1<PartitionedFile, Iterator<InternalRow>> reader = inner.buildReaderWithPartitionValues(
        session, dataSchema, partitionSchema, requiredSchema, filters, options, configuration);
    return countsRows(requiredSchema) ? reader : new Reader(reader);
  }

  /** Returns whether Delta finds deleted rows by counting all rows, not by the numbers that Spark's reader returns. */
  private static boolean countsRows(StructType requiredSchema) {
    List<String> names = Arrays.asList(requiredSchema.fieldNames());
    return names.stream().anyMatch(DELETION_COLUMNS::contains)
        && !names.contains(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME());
  }

  /** Opens a file as Spark does, and narrows the reader to the planned rows. */
  private static final class Reader extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
      implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Function1<PartitionedFile, Iterator<InternalRow>> reader;

    Reader(Function1<PartitionedFile, Iterator<InternalRow>> reader) {
      this.reader = reader;
    }

    @Override
    public Iterator<InternalRow> apply(PartitionedFile file) {
      Iterator<InternalRow> rows = reader.apply(file);
      Option<Object> ranges = file.otherConstantMetadataColumnValues().get(FilePlans.ROWS);
      if (ranges.isDefined() && ranges.get() instanceof long[] starts) {
        RowNarrowing.narrow(rows, file, starts);
      }
      return rows;
    }
  }
}
