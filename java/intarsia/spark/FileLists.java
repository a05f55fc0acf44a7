package intarsia.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.SoftReference;
import java.nio.IntBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.hadoop.fs.Path;

/**
 * The last lists of files that were planned.
 *
 * <p>A table may have a million files, whose names are a hundred megabytes. So the planner gets a list of files once, and
 * its name with the requests that follow.
 */
final class FileLists {
  private static final int MOST_LISTS = 4;
  private static final AtomicLong COUNT = new AtomicLong();

  /** Another JVM may have used the same planner. */
  private static final String NAMES = UUID.randomUUID() + "-";

  private final Deque<SoftReference<FileList>> lists = new ArrayDeque<>();

  /**
   * A list of files.
   *
   * @param name its name in requests
   * @param files the files as they are listed; equal elements are equal versions of a file
   * @param versions the versions of the files that are planned: those of a log may not be the current ones
   * @param partitions the distinct partition values, and for each file the ordinal of its values
   */
  record FileList(
      String name,
      List<?> files,
      List<?> versions,
      JsonNode partitions,
      IntBuffer partitionOf,
      Consumer<ObjectNode> columns,
      Places places) {
    private boolean isSame(FileList other) {
      return files.equals(other.files)
          && (versions == files && other.versions == other.files || versions.equals(other.versions))
          && partitions.equals(other.partitions)
          && partitionOf.equals(other.partitionOf);
    }

    /** Returns the file at a place in the list of a file system, as it is listed. */
    FileVersion listed(int place) {
      return (FileVersion) files.get(place);
    }

    /** Returns the planned version of the file at a place in the list of a file system. */
    FileVersion planned(int place) {
      return (FileVersion) versions.get(place);
    }

    /** Returns the place of a path in the list of a file system; -1 if it is not in the list. */
    int place(Path path) {
      return places.of(files, path);
    }

    /** Returns the place of a file in the list of a file system; -1 if it is not in the list, or as another version. */
    int place(FileVersion file) {
      int place = place(file.path());
      return place >= 0 && listed(place).isSame(file) ? place : -1;
    }
  }

  /** The places of files by path, which are found when one is needed. */
  static final class Places {
    private Map<Path, Integer> found;

    private synchronized int of(List<?> files, Path path) {
      if (found == null) {
        found = new HashMap<>(files.size() * 2);
        for (int place = 0; place < files.size(); place++) {
          found.put(((FileVersion) files.get(place)).path(), place);
        }
      }
      return found.getOrDefault(path, -1);
    }
  }

  /**
   * Returns the list of some files: a known one, if it is equal.
   *
   * @param columns adds the files to a request
   */
  synchronized FileList of(
      List<?> files,
      List<?> versions,
      JsonNode partitions,
      IntBuffer partitionOf,
      Consumer<ObjectNode> columns) {
    String name = NAMES + COUNT.incrementAndGet();
    FileList made = new FileList(name, files, versions, partitions, partitionOf, columns, new Places());
    FileList found = made;
    for (SoftReference<FileList> known : List.copyOf(lists)) {
      FileList list = known.get();
      if (list == null) {
        lists.remove(known);
      } else if (list.isSame(made)) {
        lists.remove(known);
        found = list;
        break;
      }
    }
    lists.addFirst(new SoftReference<>(found));
    if (lists.size() > MOST_LISTS) {
      lists.removeLast();
    }
    return found;
  }
}
