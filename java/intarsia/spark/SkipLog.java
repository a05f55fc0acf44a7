package intarsia.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The plans of the last scans, for {@code ias.last_skips(spark)}.
 *
 * <p>It is in the JVM, not in Python, because the planner may be another process, and because failures to reach the
 * planner are recorded, too.
 */
final class SkipLog {
  private static final int MOST_RECORDS = 256;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Deque<ObjectNode> records = new ArrayDeque<>();

  synchronized void add(ObjectNode record) {
    records.addLast(record);
    if (records.size() > MOST_RECORDS) {
      records.removeFirst();
    }
  }

  /** Returns the records of the last query that had any, in JSON. */
  synchronized String last() {
    ArrayNode found = JSON.createArrayNode();
    JsonNode query = records.isEmpty() ? null : records.peekLast().get("query");
    for (ObjectNode record : records) {
      if (record.get("query").equals(query)) {
        found.add(record);
      }
    }
    return found.toString();
  }
}
