package intarsia.spark;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Stream;

/**
 * A Python process that answers requests over its standard input and output.
 *
 * <p>It exists because not every JVM of Spark belongs to a Python program: a Connect server, spark-sql and Scala
 * applications have no Python driver, and executors have no gateway to one.
 *
 * <p>A request is four bytes with the length of a text, and the text in UTF-8. A reply is one byte, {@code A} for an
 * answer or {@code E} for an error, followed by a length and a text in the same form. The process is started with the
 * first request, and again after it has died. It has to end when its input does, so that it does not outlive this JVM.
 */
public final class PythonProcess implements Planner, AutoCloseable {
  private static final int MOST_REPLY_BYTES = 1 << 30;
  private static final long KILL_MILLIS = 60_000;

  private final List<String> command;
  private Process process;
  private DataOutputStream requests;
  private DataInputStream replies;

  /** The process that was killed last, and those that it had started. */
  private List<ProcessHandle> killed = List.of();

  public PythonProcess(List<String> command) {
    this.command = List.copyOf(command);
  }

  /**
   * Returns the answer to a request. A process that does not reply to it is killed.
   *
   * @param timeoutMillis the time limit; 0 for no limit
   * @throws IOException if the process cannot be started, dies, is too slow, or answers with an error
   */
  @Override
  public synchronized String ask(String request, long timeoutMillis) throws IOException {
    start();
    DataOutputStream out = requests;
    DataInputStream in = replies;
    Reply reply;
    try {
      reply = TimeLimit.call(() -> exchange(out, in, request), timeoutMillis);
    } catch (IOException error) {
      close(); // an interrupted exchange cannot be continued
      throw error;
    }
    if (reply.isError) {
      throw new IOException(reply.text);
    }
    return reply.text;
  }

  /** Ends the process. The next request starts another one. */
  @Override
  public synchronized void close() {
    if (process != null) {
      killed = Stream.concat(process.descendants(), Stream.of(process.toHandle())).toList();
      killed.forEach(ProcessHandle::destroyForcibly);
      process.destroyForcibly(); // closes its streams, too
      process = null;
    }
  }

  /**
   * Waits for the end of a process that was killed, because a killed process may still complete a write.
   *
   * @throws IOException if it does not end
   */
  synchronized void awaitKilled() throws IOException {
    for (ProcessHandle one : killed) {
      TimeLimit.call(() -> one.onExit().get(), KILL_MILLIS);
    }
  }

  private void start() throws IOException {
    if (process != null && process.isAlive()) {
      return;
    }
    Process started = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    requests = new DataOutputStream(new BufferedOutputStream(started.getOutputStream()));
    replies = new DataInputStream(new BufferedInputStream(started.getInputStream()));
    Runtime.getRuntime().addShutdownHook(new Thread(started::destroyForcibly));
    process = started;
  }

  /** Sends a request and returns the reply; a thread that is given up cannot touch the streams of the next process. */
  private Reply exchange(DataOutputStream out, DataInputStream in, String request) throws IOException {
    try {
      byte[] bytes = request.getBytes(StandardCharsets.UTF_8);
      out.writeInt(bytes.length);
      out.write(bytes);
      out.flush();
      int kind = in.readUnsignedByte();
      int length = in.readInt();
      if (kind != 'A' && kind != 'E' || length < 0 || length > MOST_REPLY_BYTES) {
        throw new IOException("the process printed something that is not a reply");
      }
      byte[] reply = in.readNBytes(length);
      if (reply.length < length) {
        throw new EOFException();
      }
      return new Reply(kind == 'E', new String(reply, StandardCharsets.UTF_8));
    } catch (EOFException error) {
      throw new IOException("the process has ended: " + String.join(" ", command));
    }
  }

  private record Reply(boolean isError, String text) {}
}
