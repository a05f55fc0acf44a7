package intarsia.spark;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Spark's list of the files of a relation, without the files that a plan excludes.
 *
 * <p>Spark lists the files of a scan through its {@code FileIndex}. So files are left out here, and everything else is
 * Spark's own: the native reader, column pruning, dynamic partition pruning.
 *
 * <p>Spark lists the files of a frame once, and reads their current bytes whenever the frame runs. {@link SkippingScan}
 * compares excluded files with their plans in each run. For the scans of other engines, they are compared here, once.
 *
 * <p>Two of them are equal if they have the same list and the same condition. Spark reuses exchanges, and merges
 * subqueries, if the relations in them are equal.
 */
public final class SkippingIndex implements FileIndex {
  /** The files that an index lists. */
  enum Listed {
    /** All files that have to be read now: excluded files that have changed are listed. */
    CURRENT,

    /** The files that are not excluded; the scan compares the others when it runs. */
    KEPT,

    /** The files that are excluded. */
    EXCLUDED
  }

  private final FileIndex inner;
  private final String condition;
  private final Listed which;
  private final transient Skipping skipping;
  private final transient AtomicReference<FilePlans> plans;

  /** What was listed by partition filters: what a scan keeps and what it excludes has to come from one listing. */
  private final transient Map<Seq<Expression>, Listing> listings;

  /** All files, and the plan that was applied to them. */
  private record Listing(Seq<PartitionDirectory> files, FilePlans plans) {}

  /**
   * @param condition the condition that was planned
   * @param plans null if the scan is planned when it starts
   */
  SkippingIndex(FileIndex inner, String condition, FilePlans plans, Skipping skipping) {
    this(inner, condition, Listed.CURRENT, new AtomicReference<>(plans), new ConcurrentHashMap<>(), skipping);
  }

  private SkippingIndex(
      FileIndex inner,
      String condition,
      Listed which,
      AtomicReference<FilePlans> plans,
      Map<Seq<Expression>, Listing> listings,
      Skipping skipping) {
    this.inner = inner;
    this.condition = condition;
    this.which = which;
    this.plans = plans;
    this.listings = listings;
    this.skipping = skipping;
  }

  /** Returns an index for a scan, which lists the files that are not excluded; a late plan applies to both. */
  SkippingIndex ofKept() {
    return new SkippingIndex(inner, condition, Listed.KEPT, plans, new ConcurrentHashMap<>(), skipping);
  }

  /** Returns an index of the files that this index has left out, when it listed with the same filters. */
  SkippingIndex ofExcluded() {
    return new SkippingIndex(inner, condition, Listed.EXCLUDED, plans, listings, skipping);
  }

  @Override
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    if (which == Listed.EXCLUDED) {
      Listing left = listings.get(partitionFilters);
      if (left == null) {
        throw new IllegalStateException("the scan has not listed the files that it keeps");
      }
      return left.plans() == null ? Scala.seq(List.of()) : left.plans().apply(left.files(), which);
    }
    FilePlans known = plans();
    Seq<PartitionDirectory> before = known == null ? null : known.listed(partitionFilters, dataFilters);
    Seq<PartitionDirectory> listed = before == null ? inner.listFiles(partitionFilters, dataFilters) : before;
    Seq<PartitionDirectory> found = listed;
    try {
      found = known == null ? listed : known.apply(listed, which);
    } catch (Exception | LinkageError error) {
      known = null;
      skipping.failed(error);
    }
    if (which == Listed.KEPT) {
      listings.put(partitionFilters, new Listing(listed, known));
    }
    return found;
  }

  /** The number of files of a snapshot of a table format that were left out; others are compared and counted by tasks. */
  long numExcluded() {
    return listings.values().stream()
        .filter(listing -> listing.plans() != null && listing.plans().isSealed())
        .mapToLong(listing -> listing.plans().excluded(listing.files()).size())
        .sum();
  }

  /** Replaces the plan by one that also uses values of the running query. */
  void setPlans(FilePlans plans) {
    this.plans.set(plans);
  }

  FilePlans plans() {
    return plans.get();
  }

  FileIndex inner() {
    return inner;
  }

  @Override
  public Seq<Path> rootPaths() {
    return inner.rootPaths();
  }

  /** The remaining files, so that {@code frame.inputFiles()} does not list excluded ones. */
  @Override
  public String[] inputFiles() {
    FilePlans known = plans();
    return known == null ? inner.inputFiles() : known.inputFiles();
  }

  @Override
  public void refresh() {
    inner.refresh();
  }

  /** The number of remaining bytes, so that Spark can broadcast a relation that is small after skipping. */
  @Override
  public long sizeInBytes() {
    FilePlans known = plans();
    return known == null ? inner.sizeInBytes() : Math.max(1, known.keptBytes());
  }

  @Override
  public StructType partitionSchema() {
    return inner.partitionSchema();
  }

  @Override
  public boolean isTimeTravel() {
    return inner.isTimeTravel();
  }

  /** Spark shows this time as a part of the scan's "metadata time". */
  @Override
  public Option<Object> metadataOpsTimeNs() {
    FilePlans known = plans();
    long nanos = known == null ? 0 : known.planningNanos();
    Option<Object> theirs = inner.metadataOpsTimeNs();
    return Option.apply(nanos + (theirs.isDefined() ? (Long) theirs.get() : 0L));
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SkippingIndex index
        && inner.equals(index.inner)
        && condition.equals(index.condition);
  }

  @Override
  public int hashCode() {
    return inner.hashCode();
  }

  @Override
  public String toString() {
    return inner.toString();
  }
}
