package intarsia.spark;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.RecordReaderIterator;
import org.slf4j.LoggerFactory;
import scala.collection.Iterator;

/**
 * Narrows an open vectorized reader of Spark to some rows of its file.
 *
 * <p>Spark's reader gets row groups from a package-private object. There is no public API for row ranges. So this
 * class replaces that object, before the first batch, by one that reads the planned rows of each row group, which
 * parquet-java supports. The rest of the reader, and {@code _metadata.row_index}, work as usual.
 *
 * <p>If anything is not as expected, the reader is left as it is and reads all rows, which Spark filters.
 */
final class RowNarrowing {
  private static final int MOST_LEVELS = 3;
  private static volatile boolean hasWarned;

  private RowNarrowing() {}

  /** Narrows a reader to rows of its file, given as pairs of start and stop. */
  static void narrow(Iterator<InternalRow> rows, PartitionedFile file, long[] ranges) {
    try {
      RecordReaderIterator<?> records = recordsBelow(rows, MOST_LEVELS);
      if (records != null) {
        Object reader = field(RecordReaderIterator.class, "rowReader").get(records);
        FileVersion planned = FileVersion.of(file);
        // a local file is open now; the status of an open object is known
        if (reader.getClass().getSimpleName().equals("VectorizedParquetRecordReader")
            && (planned.isObject() || Freshness.isUnchanged(planned))) {
          narrow(reader, planned, ranges);
        }
      }
    } catch (ReflectiveOperationException | RuntimeException | LinkageError error) {
      if (!hasWarned) {
        hasWarned = true;
        LoggerFactory.getLogger(RowNarrowing.class)
            .warn("Intarsia cannot narrow Spark's Parquet reader, which reads whole files", error);
      }
    }
  }

  /** Returns the iterator of a reader, which Delta wraps to mark deleted rows; null if it is not found. */
  private static RecordReaderIterator<?> recordsBelow(Iterator<?> rows, int levels) throws IllegalAccessException {
    if (rows instanceof RecordReaderIterator<?> records) {
      return records;
    }
    for (Field field : levels == 0 ? new Field[0] : rows.getClass().getDeclaredFields()) {
      if (Iterator.class.isAssignableFrom(field.getType())) {
        field.setAccessible(true);
        RecordReaderIterator<?> found =
            field.get(rows) instanceof Iterator<?> inner ? recordsBelow(inner, levels - 1) : null;
        if (found != null) {
          return found;
        }
      }
    }
    return null;
  }

  private static void narrow(Object reader, FileVersion planned, long[] ranges) throws ReflectiveOperationException {
    Class<?> base = reader.getClass().getSuperclass();
    Field source = field(base, "reader");
    Field total = field(base, "totalRowCount");
    Set<ColumnPath> columns = new HashSet<>();
    for (ColumnDescriptor column : ((MessageType) field(base, "requestedSchema").get(reader)).getColumns()) {
      columns.add(ColumnPath.get(column.getPath()));
    }
    if (columns.isEmpty()) { // rows are only counted
      return;
    }
    Object whole = source.get(reader);
    ParquetFileReader file = (ParquetFileReader) field(whole.getClass(), "reader").get(whole);
    if (planned.isObject() && !planned.isSame(opened(file))) {
      return;
    }
    List<Step> steps = steps(file, columns, ranges);
    Object narrowed = Proxy.newProxyInstance(
        source.getType().getClassLoader(), new Class<?>[] {source.getType()}, new Rows(whole, file, steps));
    total.setLong(reader, steps.stream().mapToLong(step -> step.rows().rowCount()).sum());
    source.set(reader, narrowed);
  }

  /** Returns the version of an object to which its open stream is bound: all reads of another version fail. */
  private static FileVersion opened(ParquetFileReader file) throws ReflectiveOperationException {
    Object source = field(ParquetFileReader.class, "file").get(file);
    return FileVersion.of((FileStatus) field(HadoopInputFile.class, "stat").get(source));
  }

  /** The rows to read of a row group, relative to it. */
  private record Step(int rowGroup, RowRanges rows) {}

  private static List<Step> steps(ParquetFileReader file, Set<ColumnPath> columns, long[] ranges)
      throws ReflectiveOperationException {
    // the rows that are left by the filters that Spark pushed down
    Method filtered = ParquetFileReader.class.getDeclaredMethod("getRowRanges", int.class);
    filtered.setAccessible(true);
    boolean isFiltered = file.getFilteredRecordCount() < file.getRecordCount();
    List<Step> steps = new ArrayList<>();
    List<BlockMetaData> rowGroups = file.getRowGroups(); // those of this split, in which ordinals are positions
    for (int ordinal = 0; ordinal < rowGroups.size(); ordinal++) {
      BlockMetaData rowGroup = rowGroups.get(ordinal);
      long count = rowGroup.getRowCount();
      if (rowGroup.getRowIndexOffset() < 0) {
        throw new IllegalStateException("the first row of a row group is unknown");
      }
      RowRanges planned = within(ranges, rowGroup.getRowIndexOffset(), count);
      if (planned.rowCount() == 0) {
        continue;
      }
      if (!hasPages(file, ordinal, columns)) {
        planned = RowRanges.createSingle(count);
      }
      RowRanges rows = planned;
      if (isFiltered) {
        rows = RowRanges.intersection(planned, (RowRanges) filtered.invoke(file, ordinal));
      }
      if (rows.rowCount() > 0) {
        steps.add(new Step(ordinal, rows));
      }
    }
    return steps;
  }

  /** Returns whether the pages of all columns can be found, without which parquet-java cannot read single ones. */
  private static boolean hasPages(ParquetFileReader file, int ordinal, Set<ColumnPath> columns) {
    BlockMetaData rowGroup = file.getRowGroups().get(ordinal);
    for (ColumnChunkMetaData chunk : rowGroup.getColumns()) {
      if (!columns.contains(chunk.getPath())) {
        continue;
      }
      if (chunk.getOffsetIndexReference() == null) {
        return false;
      }
      OffsetIndex pages;
      try {
        pages = file.getColumnIndexStore(ordinal).getOffsetIndex(chunk.getPath());
      } catch (RuntimeException error) { // it is missing or damaged
        return false;
      }
      if (pages == null || !isSound(pages, rowGroup.getRowCount())) {
        return false;
      }
    }
    return true;
  }

  private static boolean isSound(OffsetIndex pages, long rows) {
    int count = pages.getPageCount();
    if (count == 0 || pages.getFirstRowIndex(0) != 0 || pages.getFirstRowIndex(count - 1) >= rows) {
      return false;
    }
    for (int page = 1; page < count; page++) {
      if (pages.getFirstRowIndex(page) <= pages.getFirstRowIndex(page - 1)
          || pages.getOffset(page) < pages.getOffset(page - 1) + pages.getCompressedPageSize(page - 1)) {
        return false;
      }
    }
    return true;
  }

  /** Returns the part of the ranges that is in a row group, relative to it. */
  private static RowRanges within(long[] ranges, long first, long count) {
    List<long[]> found = new ArrayList<>();
    for (int place = 0; place < ranges.length; place += 2) {
      long start = Math.max(ranges[place] - first, 0);
      long stop = Math.min(ranges[place + 1] - first, count);
      if (start < stop) {
        found.add(new long[] {start, stop});
      }
    }
    if (found.isEmpty()) {
      return RowRanges.EMPTY;
    }
    // ranges can be made only from pages
    return RowRanges.create(count, IntStream.range(0, found.size()).iterator(), new RangesAsPages(found));
  }

  /** Row ranges in the form of pages. */
  private record RangesAsPages(List<long[]> ranges) implements OffsetIndex {
    @Override
    public int getPageCount() {
      return ranges.size();
    }

    @Override
    public long getOffset(int page) {
      return 0;
    }

    @Override
    public int getCompressedPageSize(int page) {
      return 0;
    }

    @Override
    public long getFirstRowIndex(int page) {
      return ranges.get(page)[0];
    }

    @Override
    public int getPageOrdinal(int page) {
      return page;
    }

    @Override
    public long getLastRowIndex(int page, long count) {
      return ranges.get(page)[1] - 1;
    }
  }

  /** Replaces the source of row groups of Spark's reader, whose interface is package-private. */
  private static final class Rows implements java.lang.reflect.InvocationHandler {
    private final Object whole;
    private final ParquetFileReader file;
    private final List<Step> steps;
    private int next;

    Rows(Object whole, ParquetFileReader file, List<Step> steps) {
      this.whole = whole;
      this.file = file;
      this.steps = steps;
    }

    @Override
    public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
      if (method.getName().equals("readNextRowGroup")) {
        if (next == steps.size()) {
          return null;
        }
        Step step = steps.get(next++);
        return file.readFilteredRowGroup(step.rowGroup(), step.rows());
      }
      try {
        method.setAccessible(true);
        return method.invoke(whole, arguments);
      } catch (InvocationTargetException error) {
        throw error.getCause();
      }
    }
  }

  private static Field field(Class<?> owner, String name) throws NoSuchFieldException {
    for (Class<?> type = owner; type != null; type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (field.getName().equals(name)) {
          field.setAccessible(true);
          return field;
        }
      }
    }
    throw new NoSuchFieldException(owner.getName() + "." + name);
  }
}
