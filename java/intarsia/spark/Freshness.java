package intarsia.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/**
 * Checks whether files are still those that were planned.
 *
 * <p>Spark lists the files of a frame once. A file that is replaced later keeps its old length and time in that list,
 * and plain Spark reads its new rows.
 */
final class Freshness {
  /** A store lists this number of objects with one request. */
  private static final int PAGE = 1000;

  private Freshness() {}

  /**
   * Returns the files that are not as they were planned, or cannot be found. It costs a stat of each local file, and of
   * objects one request for each folder, or for each thousand of them.
   *
   * @param settings those of the file systems; they may be null if there are no objects
   */
  static Set<FileVersion> changed(Collection<FileVersion> planned, Configuration settings) {
    Set<FileVersion> changed = new HashSet<>();
    Map<Path, Map<Path, FileVersion>> folders = new HashMap<>();
    for (FileVersion file : planned) {
      if (file.isObject()) {
        folders.computeIfAbsent(file.path().getParent(), folder -> new HashMap<>()).put(file.path(), file);
      } else if (!isUnchanged(file)) {
        changed.add(file);
      }
    }
    folders.forEach((folder, objects) -> changed.addAll(changed(folder, objects, settings)));
    return changed;
  }

  private static List<FileVersion> changed(Path folder, Map<Path, FileVersion> objects, Configuration settings) {
    List<FileVersion> changed = new ArrayList<>();
    try {
      FileSystem store = folder.getFileSystem(settings);
      // a listing of other objects must not cost more than a request for each of these
      long most = objects.size() == 1 ? 0 : (long) objects.size() * PAGE;
      Map<Path, FileVersion> left = new HashMap<>(objects);
      if (most > 0) {
        RemoteIterator<LocatedFileStatus> listed = store.listFiles(folder, false);
        for (; !left.isEmpty() && most > 0 && listed.hasNext(); most--) {
          FileVersion found = FileVersion.of(listed.next());
          FileVersion planned = left.remove(found.path());
          if (planned != null && !planned.isSame(found)) {
            changed.add(planned);
          }
        }
      }
      for (FileVersion planned : left.values()) { // the listing has ended, so it was deleted
        if (most > 0 || !isUnchanged(planned, store)) {
          changed.add(planned);
        }
      }
      return changed;
    } catch (IOException | RuntimeException error) { // Spark reads them, or raises its own error
      return List.copyOf(objects.values());
    }
  }

  private static boolean isUnchanged(FileVersion planned, FileSystem store) {
    try {
      return planned.isSame(FileVersion.of(store.getFileStatus(planned.path())));
    } catch (IOException error) {
      return false;
    }
  }

  /** Returns whether a local file is as it was planned; false if it cannot be found, or is not local. */
  static boolean isUnchanged(FileVersion planned) {
    try {
      java.nio.file.Path path = java.nio.file.Path.of(planned.path().toUri().getPath());
      BasicFileAttributes found = Files.readAttributes(path, BasicFileAttributes.class);
      return "file".equals(planned.path().toUri().getScheme())
          && found.size() == planned.length()
          && found.lastModifiedTime().toMillis() == planned.modified();
    } catch (IOException | RuntimeException error) { // such as a name that the locale cannot represent
      return false;
    }
  }
}
