package intarsia.spark;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.Date;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/**
 * The options of stores of Google, by the connector of Google and that of Hadoop.
 *
 * <p>Both make an object for the credentials of all kinds, such as the key of a service account or a provider of tokens.
 * The planner gets a token from it, which is valid for an hour, and no key.
 */
final class GoogleSettings {
  static final Set<String> CLASSES = Set.of(
      "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem");

  /** The settings that change what is read, or how, in ways that the planner does not know. */
  private static final String[] UNSUPPORTED = {
    "fs.gs.encryption.key", "fs.gs.proxy.username", "fs.gs.proxy.password"
  };

  private static final String PAYS = "fs.gs.requester.pays.mode";

  /** The credentials of the open file systems, which keep their tokens until they expire. */
  private static final Map<FileSystem, Object> CREDENTIALS = Collections.synchronizedMap(new WeakHashMap<>());

  private GoogleSettings() {}

  /** Returns the setting that the planner does not support; null if there is none. */
  static String unsupported(FileSystem store) {
    Configuration conf = store.getConf();
    for (String key : UNSUPPORTED) {
      if (!conf.getTrimmed(key, "").isEmpty()) {
        return key;
      }
    }
    String mode = conf.getTrimmed(PAYS, "DISABLED");
    return mode.equals("DISABLED") ? null : PAYS + "=" + mode;
  }

  static ObjectNode options(FileSystem store) throws ReflectiveOperationException {
    Configuration conf = store.getConf();
    ObjectNode options = JsonNodeFactory.instance.objectNode();
    String address = conf.getTrimmed("fs.gs.storage.root.url", "");
    if (!address.isEmpty()) {
      options.put("google_base_url", address.replaceFirst("/+$", ""));
      options.put("allow_http", address.startsWith("http://"));
    }
    String proxy = conf.getTrimmed("fs.gs.proxy.address", "");
    if (!proxy.isEmpty()) {
      options.put("proxy_url", proxy.contains("://") ? proxy : "http://" + proxy);
    }
    ObjectNode credentials = options.putObject("credentials");
    Object found = CREDENTIALS.get(store);
    if (found == null && (found = credentials(store)) != null) {
      CREDENTIALS.put(store, found);
    }
    if (found != null) { // else, requests are anonymous
      StoreSettings.call(found, "refreshIfExpired");
      Object token = StoreSettings.call(found, "getAccessToken");
      Date expiry = (Date) StoreSettings.call(token, "getExpirationTime");
      credentials.put("token", (String) StoreSettings.call(token, "getTokenValue"));
      credentials.put("expires_at_ms", expiry == null ? null : expiry.getTime());
    }
    return options;
  }

  /** Returns the object that a connector has for its credentials; null if requests are anonymous. */
  private static Object credentials(FileSystem store) throws ReflectiveOperationException {
    for (Method method : store.getClass().getDeclaredMethods()) {
      if (method.getName().equals("getCredentials") && !Modifier.isStatic(method.getModifiers())) {
        boolean isPlain = method.getParameterTypes()[0].isAssignableFrom(Configuration.class);
        method.setAccessible(true);
        return method.invoke(store, isPlain ? store.getConf() : configuration(store));
      }
    }
    throw new NoSuchMethodException(store.getClass().getName() + ".getCredentials");
  }

  private static Object configuration(FileSystem store) throws ReflectiveOperationException {
    Method method = store.getClass().getDeclaredMethod("getFileSystemConfiguration");
    method.setAccessible(true);
    return method.invoke(store);
  }
}
