package intarsia.spark;

import java.io.IOException;
import java.util.function.Function;

/** The planner in the Python program that owns this JVM, called back through py4j. */
public final class PythonCallback implements Planner {
  private final Function<Object, Object> python;

  @SuppressWarnings("unchecked") // py4j's proxies have no type parameters
  public PythonCallback(Function<?, ?> python) {
    this.python = (Function<Object, Object>) python;
  }

  @Override
  public String ask(String request, long timeoutMillis) throws IOException {
    return TimeLimit.call(() -> (String) python.apply(request), timeoutMillis);
  }
}
