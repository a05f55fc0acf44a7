package intarsia.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
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
   * Returns the files that are not as they were planned, or cannot be found. It costs a stat of each local file; for
   * objects, see {@link #current}.
   *
   * @param settings those of the file systems; they may be null if there are no objects
   */
  static Set<FileVersion> changed(Collection<FileVersion> planned, Configuration settings) {
    Set<FileVersion> changed = new HashSet<>();
    Map<Path, FileVersion> objects = new HashMap<>();
    for (FileVersion file : planned) {
      if (file.isObject()) {
        objects.put(file.path(), file);
      } else if (!isUnchanged(file)) {
        changed.add(file);
      }
    }
    try {
      Map<Path, FileVersion> current = objects.isEmpty() ? Map.of() : current(objects.keySet(), settings);
      for (FileVersion object : objects.values()) {
        FileVersion found = current.get(object.path());
        if (found == null || !object.isSame(found)) {
          changed.add(object);
        }
      }
    } catch (IOException | RuntimeException error) { // Spark reads them, or raises its own error
      changed.addAll(objects.values());
    }
    return changed;
  }

  /**
   * Returns the versions of listed files. Spark's list has the ETags of objects only if it is that of one folder, and
   * the log of Delta has none. Such objects are listed again.
   *
   * @param isLog whether the files never get other rows, and have the length that a log has recorded
   * @param settings those of the file systems; they may be null if there are no objects
   */
  static List<FileVersion> versions(List<FileVersion> listed, boolean isLog, Configuration settings)
      throws IOException {
    List<Path> unknown = listed.stream()
        .filter(file -> file.etag() == null)
        .filter(file -> StoreSettings.hasEtags(file.path()) || isLog && StoreSettings.hasExactTimes(file.path()))
        .map(FileVersion::path)
        .toList();
    if (unknown.isEmpty()) {
      return listed;
    }
    Map<Path, FileVersion> current = current(unknown, settings);
    return listed.stream()
        .map(file -> {
          FileVersion found = current.get(file.path());
          // stores may list times in other units
          boolean isListed = found != null
              && (isLog || found.length() == file.length() && found.modified() / 1000 == file.modified() / 1000);
          return isListed ? found : file;
        })
        .toList();
  }

  /**
   * Returns the current versions of objects, without those that cannot be found.
   *
   * <p>It costs one request for a thousand objects if there are few others below their common folder; otherwise, one for
   * each folder, or for each object.
   */
  static Map<Path, FileVersion> current(Collection<Path> objects, Configuration settings) throws IOException {
    Map<Path, FileVersion> found = new HashMap<>();
    Map<Path, Set<Path>> folders = new HashMap<>();
    for (Path object : objects) {
      folders.computeIfAbsent(object.getParent(), folder -> new HashSet<>()).add(object);
    }
    Path common = folders.size() == 1 ? null : commonFolder(folders.keySet());
    // other objects must not more than double the number of requests
    if (common != null && list(common, true, Set.copyOf(objects), 2L * folders.size() * PAGE, settings, found)) {
      return found;
    }
    for (Map.Entry<Path, Set<Path>> entry : folders.entrySet()) {
      Set<Path> left = new HashSet<>(entry.getValue());
      left.removeAll(found.keySet());
      boolean isListed = left.size() > 1
          && list(entry.getKey(), false, left, (long) left.size() * PAGE, settings, found);
      for (Path object : isListed ? Set.<Path>of() : left) {
        if (!found.containsKey(object)) {
          try {
            found.put(object, FileVersion.of(object.getFileSystem(settings).getFileStatus(object)));
          } catch (FileNotFoundException error) { // it was deleted
            continue;
          }
        }
      }
    }
    return found;
  }

  /**
   * Adds the versions of objects in a folder.
   *
   * @param most the number of objects to list
   * @return whether all objects of the folder, or all wanted ones, were listed
   */
  private static boolean list(
      Path folder, boolean isDeep, Set<Path> wanted, long most, Configuration settings, Map<Path, FileVersion> found)
      throws IOException {
    int left = wanted.size();
    RemoteIterator<LocatedFileStatus> listed = folder.getFileSystem(settings).listFiles(folder, isDeep);
    for (; left > 0 && listed.hasNext(); most--) {
      if (most == 0) {
        return false;
      }
      FileStatus file = listed.next();
      if (wanted.contains(file.getPath())) {
        found.put(file.getPath(), FileVersion.of(file));
        left--;
      }
    }
    return true;
  }

  /** Returns the folder that contains all of the folders; null if they are in several stores. */
  private static Path commonFolder(Collection<Path> folders) {
    Path common = null;
    for (Path folder : folders) {
      common = common == null ? folder : common;
      while (common != null && !(folder + "/").startsWith(common.isRoot() ? common.toString() : common + "/")) {
        common = common.getParent();
      }
    }
    return common;
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
