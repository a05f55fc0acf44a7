package intarsia.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.physical.BroadcastPartitioning;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.adaptive.BroadcastQueryStageExec;
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.joins.HashedRelation;
import org.apache.spark.sql.execution.joins.HashedRelationBroadcastMode;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Product;
import scala.collection.immutable.Seq;

/**
 * The rule of adaptive execution: the join keys of a finished broadcast become an IN condition on the other side.
 *
 * <p>The optimizer cannot use the keys of a small table, because they are known only when the table has been read.
 * Adaptive execution then plans the rest of the query again. This rule plans the scan of the other side with the keys.
 * If that excludes anything, it adds the condition to the plan, so that scans with different keys are not equal.
 *
 * <p>A side is narrowed only if the join drops its rows without a match. That applies to both sides of an inner join,
 * and to the left side of a semi join, which is also IN and EXISTS. Outer joins, NOT IN and sort-merge joins are not
 * changed.
 */
public final class JoinKeyRule extends Rule<LogicalPlan> {
  private static final String MOST_KEYS = "spark.intarsia.maxJoinKeys";
  private static final String DEFAULT_MOST_KEYS = "10000";
  private static final int MOST_SEEN = 1000;

  private final Skipping skipping;

  /** The broadcasts that have been tried; they are planned once, although Spark applies the rule many times. */
  private final Set<Long> seen = Collections.synchronizedSet(Collections.newSetFromMap(new LinkedHashMap<>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<Long, Boolean> eldest) {
      return size() > MOST_SEEN;
    }
  }));

  public JoinKeyRule(Skipping skipping) {
    this.skipping = skipping;
  }

  public Skipping skipping() {
    return skipping;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      Rewrite joins = new Rewrite(JoinKeyRule::hasBroadcast, this::narrowedOrSame);
      return skipping.isOn() ? plan.transformDown(joins) : plan;
    } catch (Exception | LinkageError error) {
      skipping.failed(error);
      return plan;
    }
  }

  private static boolean hasBroadcast(LogicalPlan plan) {
    return plan instanceof Join join
        && (isBroadcast(join.left()) && join.joinType() == Inner$.MODULE$
            || isBroadcast(join.right())
                && (join.joinType() == Inner$.MODULE$ || join.joinType() == LeftSemi$.MODULE$));
  }

  private LogicalPlan narrowedOrSame(LogicalPlan join) {
    try {
      return narrowed((Join) join);
    } catch (Exception | LinkageError error) {
      skipping.failed(error);
      return join;
    }
  }

  private static boolean isBroadcast(LogicalPlan plan) {
    return plan instanceof LogicalQueryStage stage
        && stage.physicalPlan() instanceof BroadcastQueryStageExec broadcast
        && broadcast.isMaterialized();
  }

  @SuppressWarnings("unchecked") // the elements of Scala's tuple of eight
  private LogicalPlan narrowed(Join join) throws Exception {
    var found = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (found.isEmpty()) {
      return join;
    }
    Product parts = found.get();
    Seq<Expression> left = (Seq<Expression>) parts.productElement(1);
    Seq<Expression> right = (Seq<Expression>) parts.productElement(2);
    boolean isLeftBuilt = isBroadcast(join.left()) && join.joinType() == Inner$.MODULE$;
    LogicalQueryStage built = (LogicalQueryStage) (isLeftBuilt ? join.left() : join.right());
    LogicalPlan other = isLeftBuilt ? join.right() : join.left();
    LogicalPlan narrowed = other;
    for (int place = 0; place < left.size(); place++) {
      Expression key = isLeftBuilt ? left.apply(place) : right.apply(place);
      Expression probe = isLeftBuilt ? right.apply(place) : left.apply(place);
      if (!probe.deterministic() || !key.dataType().equals(probe.dataType()) || !isNew(built, probe)) {
        continue;
      }
      scala.collection.immutable.Set<Object> values = keys(built, key, left.size());
      if (values != null) {
        LogicalPlan planned = withCondition(narrowed, new InSet(probe, values));
        narrowed = planned == null ? narrowed : planned;
      }
    }
    if (narrowed == other) {
      return join;
    }
    return join.withNewChildren(Scala.seq(isLeftBuilt ? List.of(built, narrowed) : List.of(narrowed, built)));
  }

  private boolean isNew(LogicalQueryStage built, Expression probe) {
    return seen.add((long) System.identityHashCode(built.physicalPlan()) << 32 | probe.semanticHash() & 0xffffffffL);
  }

  /** Returns the values of one key of a broadcast; null if there are too many, or if they are not supported. */
  private static scala.collection.immutable.Set<Object> keys(LogicalQueryStage built, Expression key, int count)
      throws Exception {
    BroadcastQueryStageExec stage = (BroadcastQueryStageExec) built.physicalPlan();
    if (!(stage.plan().outputPartitioning() instanceof BroadcastPartitioning partitioning)
        || !(partitioning.mode() instanceof HashedRelationBroadcastMode mode)
        || mode.isNullAware()
        || mode.key().size() != count // several short keys are packed into one number
        || !(key instanceof AttributeReference attribute)) {
      return null;
    }
    int place = place(mode.key(), ordinal(Scala.iterable(stage.output()), attribute));
    Object value = ((Broadcast<?>) stage.broadcast().relationFuture().get()).value();
    if (place < 0 || !(value instanceof HashedRelation relation)) {
      return null;
    }
    int most = Integer.parseInt(SQLConf.get().getConfString(MOST_KEYS, DEFAULT_MOST_KEYS));
    DataType stored = mode.key().apply(place).dataType();
    Set<Object> found = new HashSet<>();
    scala.collection.Iterator<InternalRow> rows = relation.asReadOnlyCopy().keys();
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      if (row.isNullAt(place)) {
        continue; // null never matches
      }
      found.add(converted(row.get(place, stored), stored, key.dataType()));
      if (found.size() > most) {
        return null;
      }
    }
    return Scala.set(found);
  }

  /** Returns a stored key, which is a long if it was a shorter integer, in its own type. */
  private static Object converted(Object value, DataType stored, DataType type) {
    if (value instanceof UTF8String text) {
      return text.clone(); // the row is used again
    }
    if (value instanceof Long number && stored instanceof LongType && !stored.equals(type)) {
      return switch (type.catalogString()) {
        case "int" -> (Object) Math.toIntExact(number);
        case "smallint" -> (short) Math.toIntExact(number);
        case "tinyint" -> (byte) Math.toIntExact(number);
        default -> throw new IllegalArgumentException("a key of type " + type.catalogString());
      };
    }
    return value;
  }

  /** Returns the position of the key that is a column of the broadcast rows; -1 if no key is. */
  private static int place(Seq<Expression> keys, int ordinal) {
    for (int place = 0; place < keys.size(); place++) {
      Expression key = keys.apply(place);
      if (key instanceof Cast cast && cast.dataType() instanceof LongType
          && cast.child().dataType() instanceof NumericType) {
        key = cast.child();
      }
      if (ordinal >= 0 && key instanceof BoundReference bound && bound.ordinal() == ordinal) {
        return place;
      }
    }
    return -1;
  }

  private static int ordinal(Iterable<Attribute> output, AttributeReference attribute) {
    int ordinal = 0;
    for (Attribute column : output) {
      if (column.exprId().equals(attribute.exprId())) {
        return ordinal;
      }
      ordinal++;
    }
    return -1;
  }

  /** Returns a plan with a condition on the scan that has its columns; null if that excludes nothing. */
  private LogicalPlan withCondition(LogicalPlan plan, InSet condition) {
    if (plan instanceof LogicalRelation relation) {
      return planned(relation, condition, null);
    }
    if (plan instanceof Filter filter && filter.child() instanceof LogicalRelation relation) {
      return planned(relation, condition, filter.condition());
    }
    boolean passes = plan instanceof Filter filter && filter.condition().deterministic()
        || plan instanceof Project projection && isDeterministic(projection)
        || plan instanceof Join join
            && (join.joinType() == Inner$.MODULE$ || join.joinType() == LeftSemi$.MODULE$);
    if (!passes) {
      return null;
    }
    if (plan instanceof Project project) {
      condition = new InSet(withoutAlias(condition.child(), project), condition.hset());
    }
    List<LogicalPlan> children = new ArrayList<>();
    boolean isNarrowed = false;
    for (LogicalPlan child : Scala.iterable(plan.children())) {
      boolean hasColumns = !isNarrowed && condition.references().subsetOf(child.outputSet());
      LogicalPlan narrowed = hasColumns ? withCondition(child, condition) : null;
      isNarrowed |= narrowed != null;
      children.add(narrowed == null ? child : narrowed);
    }
    return isNarrowed ? plan.withNewChildren(Scala.seq(children)) : null;
  }

  /** Returns whether a projection has no values that depend on which rows are read. */
  private static boolean isDeterministic(Project project) {
    for (NamedExpression named : Scala.iterable(project.projectList())) {
      if (!((Expression) named).deterministic()) {
        return false;
      }
    }
    return true;
  }

  /** Returns the column that a projection renames. */
  private static Expression withoutAlias(Expression column, Project project) {
    for (NamedExpression named : Scala.iterable(project.projectList())) {
      if (named instanceof Alias alias
          && column instanceof AttributeReference attribute
          && alias.exprId().equals(attribute.exprId())
          && alias.child() instanceof AttributeReference) {
        return alias.child();
      }
    }
    return column;
  }

  private LogicalPlan planned(LogicalRelation relation, InSet condition, Expression before) {
    LogicalRelation whole = ScanPlanner.withoutPlan(relation);
    if (whole == null || isMistaken(condition, relation)) {
      return null;
    }
    Expression both = before == null ? condition : new And(before, condition);
    LogicalRelation planned = new ScanPlanner(skipping, Query.current()).plan(whole, both);
    return planned == whole ? null : new Filter(both, planned);
  }

  /** Returns whether another column has the same name with dots: Spark pushes the condition down, and loses rows. */
  private static boolean isMistaken(InSet condition, LogicalRelation relation) {
    List<String> names = new ArrayList<>();
    new ExpressionJson(Scala.iterable(relation.output()))
        .write(condition.child())
        .path("name")
        .forEach(name -> names.add(name.asText()));
    return count(relation.schema(), String.join(".", names)) > 1;
  }

  /** Returns the number of columns whose names, with dots between them, are a text. */
  private static int count(StructType schema, String text) {
    int found = 0;
    for (StructField field : schema.fields()) {
      String start = field.name() + ".";
      if (text.equalsIgnoreCase(field.name())) {
        found++;
      } else if (field.dataType() instanceof StructType inner && text.regionMatches(true, 0, start, 0, start.length())) {
        found += count(inner, text.substring(start.length()));
      }
    }
    return found;
  }
}
