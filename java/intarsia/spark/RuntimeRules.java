package intarsia.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.adaptive.AdaptiveRulesHolder;

/**
 * Adds the rule of adaptive execution to a running session, and removes it.
 *
 * <p>Spark takes such rules only from extensions, when a session starts. A running session has them in a final field,
 * which this class sets by reflection.
 */
public final class RuntimeRules {
  private RuntimeRules() {}

  /** Replaces the rule of a session; null removes it. */
  public static void set(AdaptiveRulesHolder holder, JoinKeyRule rule) throws ReflectiveOperationException {
    List<Rule<LogicalPlan>> rules = new ArrayList<>();
    for (Rule<LogicalPlan> other : Scala.iterable(holder.runtimeOptimizerRules())) {
      if (!other.getClass().getName().equals(JoinKeyRule.class.getName())) {
        rules.add(other);
      }
    }
    if (rule != null) {
      rules.add(rule);
    }
    Field field = AdaptiveRulesHolder.class.getDeclaredField("runtimeOptimizerRules");
    field.setAccessible(true);
    field.set(holder, Scala.seq(rules));
  }
}
