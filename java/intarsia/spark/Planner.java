package intarsia.spark;

import java.io.IOException;

/**
 * The planner in Python: it answers a request for a plan, in JSON, with the plan, in JSON.
 *
 * <p>All decisions about indexes are made in Python, by the code that also plans tables. The JVM only applies them.
 */
public interface Planner {
  /**
   * Returns the answer to a request.
   *
   * @param timeoutMillis the longest time to wait; 0 for no limit
   * @throws IOException if there is no answer in time
   */
  String ask(String request, long timeoutMillis) throws IOException;
}
