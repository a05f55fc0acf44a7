package intarsia.spark;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * A Python process that answers requests over its standard input and output.
 *
 * <p>It exists because not every JVM of Spark belongs to a Python program: a Connect server, spark-sql and Scala
 * applications have no Python driver, and executors have no gateway to one.
 *
 * <p>A request is four bytes with its number, four bytes with the length of a text, and the text in UTF-8. A reply is
 * the number of its request, one byte, {@code A} for an answer or {@code E} for an error, and a length and a text in
 * the same form. Several threads can send requests at the same time; the replies may come in any order. The process is
 * started with the first request, and again after it has died. It has to end when its input does, so that it does not
 * outlive this JVM.
 */
public final class PythonProcess implements Planner, AutoCloseable {
  private static final int MOST_REPLY_BYTES = 1 << 30;
  private static final long KILL_MILLIS = 60_000;

  private final List<String> command;
  private final Map<String, String> environment;
  private Connection connection;

  public PythonProcess(List<String> command) {
    this(command, Map.of());
  }

  /**
   * Creates a process.
   *
   * @param environment variables of its environment, in addition to those of this process
   */
  PythonProcess(List<String> command, Map<String, String> environment) {
    this.command = List.copyOf(command);
    this.environment = Map.copyOf(environment);
  }

  /**
   * Returns the answer to a request.
   *
   * @param timeoutMillis the longest time, including the time that other requests take; 0 for no limit. The process is
   *     killed after this time, unless it has answered other requests meanwhile
   * @throws IOException if the process cannot be started, dies, is too slow, or answers with an error
   */
  @Override
  public String ask(String request, long timeoutMillis) throws IOException {
    Connection used = connected();
    int answered = used.answered.get();
    CompletableFuture<String> reply = new CompletableFuture<>();
    try {
      return TimeLimit.call(() -> used.exchange(request, reply), timeoutMillis);
    } catch (IOException error) {
      boolean hangs = !reply.isDone() && used.answered.get() == answered;
      boolean isNeeded = Thread.currentThread().isInterrupted() && used.hasOthers(reply);
      if (hangs && !isNeeded) {
        used.kill();
      }
      throw error;
    }
  }

  /** Ends the process. The next request starts another one. */
  @Override
  public synchronized void close() {
    if (connection != null) {
      connection.kill();
    }
  }

  /**
   * Waits for the end of a process that was killed, because a killed process may still complete a write.
   *
   * @throws IOException if it does not end
   */
  synchronized void awaitKilled() throws IOException {
    if (connection != null) {
      for (ProcessHandle one : connection.killed) {
        TimeLimit.call(() -> one.onExit().get(), KILL_MILLIS);
      }
    }
  }

  private synchronized Connection connected() throws IOException {
    if (connection == null || !connection.killed.isEmpty() || !connection.process.isAlive()) {
      ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
      builder.environment().putAll(environment);
      Process process = builder.start();
      connection = new Connection(process, String.join(" ", command));
    }
    return connection;
  }

  /** A running process, and the requests that it has not answered. */
  private static final class Connection {
    private final Process process;
    private final String name;
    private final DataOutputStream requests;
    private final Map<Integer, CompletableFuture<String>> waiting = new ConcurrentHashMap<>();
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger answered = new AtomicInteger();
    private volatile IOException end;

    /** The process, if it was killed, and those that it had started. */
    private volatile List<ProcessHandle> killed = List.of();

    Connection(Process process, String name) {
      this.process = process;
      this.name = name;
      this.requests = new DataOutputStream(new BufferedOutputStream(process.getOutputStream()));
      Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
      Thread reader = new Thread(this::read, "intarsia replies");
      reader.setDaemon(true);
      reader.start();
    }

    String exchange(String request, CompletableFuture<String> reply) throws IOException, InterruptedException {
      int number = sent.incrementAndGet();
      waiting.put(number, reply);
      try {
        byte[] bytes = request.getBytes(StandardCharsets.UTF_8);
        synchronized (requests) {
          requests.writeInt(number);
          requests.writeInt(bytes.length);
          requests.write(bytes);
          requests.flush();
        }
        if (end != null) { // the thread that reads may have ended before the request was added
          reply.completeExceptionally(end);
        }
        return reply.get();
      } catch (ExecutionException error) {
        throw (IOException) error.getCause();
      } finally {
        waiting.remove(number);
      }
    }

    synchronized void kill() {
      if (killed.isEmpty()) {
        killed = Stream.concat(process.descendants(), Stream.of(process.toHandle())).toList();
      }
      killed.forEach(ProcessHandle::destroyForcibly);
      process.destroyForcibly(); // closes its streams, too
    }

    /** Returns whether other requests wait for a reply. */
    boolean hasOthers(CompletableFuture<String> reply) {
      return waiting.values().stream().anyMatch(other -> other != reply);
    }

    /** Passes replies to their requests until the process ends. */
    private void read() {
      IOException failure = new IOException("the process has ended: " + name);
      try (DataInputStream replies = new DataInputStream(new BufferedInputStream(process.getInputStream()))) {
        while (true) {
          CompletableFuture<String> reply = waiting.get(replies.readInt());
          int kind = replies.readUnsignedByte();
          int length = replies.readInt();
          if (kind != 'A' && kind != 'E' || length < 0 || length > MOST_REPLY_BYTES) {
            failure = new IOException("the process printed something that is not a reply");
            break;
          }
          byte[] bytes = replies.readNBytes(length);
          if (bytes.length < length) {
            break;
          }
          answered.incrementAndGet();
          String text = new String(bytes, StandardCharsets.UTF_8);
          if (reply == null) {
            continue; // its caller did not wait
          }
          if (kind == 'A') {
            reply.complete(text);
          } else {
            reply.completeExceptionally(new IOException(text));
          }
        }
      } catch (EOFException error) {
        // it has ended
      } catch (IOException error) {
        failure = error;
      }
      end = failure;
      kill();
      for (CompletableFuture<String> reply : waiting.values()) {
        reply.completeExceptionally(failure);
      }
    }
  }
}
