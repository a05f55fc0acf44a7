package intarsia.spark;

import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A call with a time limit, so that a planner that hangs delays a query but never blocks it. */
final class TimeLimit {
  private static final ExecutorService THREADS = Executors.newCachedThreadPool(TimeLimit::daemon);

  private TimeLimit() {}

  /**
   * Returns the result of a call.
   *
   * @throws IOException if the call fails or does not end in time; it then continues, and its result is discarded
   */
  static <T> T call(Callable<T> call, long timeoutMillis) throws IOException {
    Future<T> result = THREADS.submit(call);
    try {
      return timeoutMillis > 0 ? result.get(timeoutMillis, TimeUnit.MILLISECONDS) : result.get();
    } catch (TimeoutException error) {
      result.cancel(true);
      throw new IOException("no answer after " + timeoutMillis + " ms");
    } catch (InterruptedException error) {
      result.cancel(true);
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while waiting for an answer");
    } catch (ExecutionException error) {
      throw error.getCause() instanceof IOException cause ? cause : new IOException(error.getCause());
    }
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task, "intarsia");
    thread.setDaemon(true);
    return thread;
  }
}
