package intarsia.spark;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The planner of several sessions, with the time limit of each request.
 *
 * <p>After several failures in a row, no session asks it for a minute, so that a planner that hangs does not delay
 * every query.
 */
public final class SharedPlanner {
  private static final int MOST_FAILURES = 3;
  private static final long PAUSE_NANOS = 60_000_000_000L;

  private record Limited(Planner planner, long timeoutMillis) {}

  private final FileLists lists = new FileLists();
  private final AtomicInteger failures = new AtomicInteger();
  private volatile Limited current;
  private volatile long pausedUntil;

  public SharedPlanner() {}

  /**
   * Sets the planner of all of these sessions.
   *
   * @param planner null for none, which turns skipping off
   * @param timeoutMillis the longest time that a request may take; 0 for no limit
   */
  public synchronized void set(Planner planner, long timeoutMillis) {
    failures.set(0);
    pausedUntil = System.nanoTime();
    current = planner == null ? null : new Limited(planner, timeoutMillis);
  }

  /** Returns whether there is a planner that can be asked now. */
  boolean isOn() {
    return current != null && System.nanoTime() - pausedUntil >= 0;
  }

  long timeoutMillis() {
    Limited limited = current;
    return limited == null ? 0 : limited.timeoutMillis();
  }

  /**
   * Returns the answer to a request.
   *
   * @throws IOException if there is no answer in time
   */
  String ask(String request) throws IOException {
    Limited limited = current;
    if (limited == null) {
      throw new IOException("skipping was turned off");
    }
    return limited.planner().ask(request, limited.timeoutMillis());
  }

  /** The lists of files in its requests. */
  FileLists lists() {
    return lists;
  }

  void succeeded() {
    failures.set(0);
  }

  void failed() {
    if (failures.incrementAndGet() >= MOST_FAILURES) {
      failures.set(0);
      pausedUntil = System.nanoTime() + PAUSE_NANOS;
    }
  }
}
