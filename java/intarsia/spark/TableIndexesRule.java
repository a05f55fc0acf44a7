package intarsia.spark;

import java.net.URI;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import scala.collection.immutable.Map;

/**
 * Gives a writer the table's properties that name the indexes of new files, as options.
 *
 * <p>Spark gives a writer the options of its table, but not the properties, which {@code ALTER TABLE} can change. CREATE
 * TABLE AS SELECT writes into a folder before there is a table, so this rule notes the table that is created last.
 */
public final class TableIndexesRule extends Rule<LogicalPlan> {
  private final SparkSession session;
  private CatalogTable created;

  public TableIndexesRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public synchronized LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof CreateDataSourceTableAsSelectCommand command) {
      created = command.table();
    } else if (plan instanceof InsertIntoHadoopFsRelationCommand write) {
      if (write.catalogTable().isDefined()) {
        return with(write, write.catalogTable().get());
      }
      if (created != null && write.outputPath().equals(new Path(location(created)))) {
        return with(write, created);
      }
    }
    return plan;
  }

  private URI location(CatalogTable table) {
    return table.storage().locationUri().isDefined()
        ? table.location()
        : session.sessionState().catalog().defaultTablePath(table.identifier());
  }

  @SuppressWarnings("unchecked") // Java sees Scala's Map.updated without its types
  private static LogicalPlan with(InsertIntoHadoopFsRelationCommand write, CatalogTable table) {
    Map<String, String> options = write.options();
    for (String name : WrittenFiles.OPTIONS) {
      if (!options.contains(name) && table.properties().contains(name)) {
        options = options.updated(name, table.properties().apply(name));
      }
    }
    if (options == write.options()) {
      return write;
    }
    return new InsertIntoHadoopFsRelationCommand(
        write.outputPath(),
        write.staticPartitions(),
        write.ifPartitionNotExists(),
        write.partitionColumns(),
        write.bucketSpec(),
        write.fileFormat(),
        options,
        write.query(),
        write.mode(),
        write.catalogTable(),
        write.fileIndex(),
        write.outputColumnNames());
  }
}
