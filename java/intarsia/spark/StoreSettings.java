package intarsia.spark;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UnsupportedFileSystemException;

/**
 * The options with which the planner reads what Spark reads, translated from Spark's own file system.
 *
 * <p>That file system has the settings of the bucket, and resolves credentials of every kind. So the planner has the
 * rights of Spark, and needs no settings of its own. The options contain secrets, and must not be logged or kept.
 */
public final class StoreSettings {
  private static final String S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem";

  /** The schemes of stores whose listings have ETags. */
  private static final Set<String> WITH_ETAGS = Set.of("s3a", "s3", "abfs", "abfss");

  private static final String STORES = "those of S3A, ABFS and Google's connector";
  private static final String AMAZON = ".amazonaws.com";

  private StoreSettings() {}

  /** Returns the name of the store of a file: its scheme and its bucket; null for a local file. */
  static String storeOf(Path file) {
    URI uri = file.toUri();
    return uri.getAuthority() == null ? null : uri.getScheme() + "://" + uri.getAuthority();
  }

  /** Returns whether listings of a file's store have ETags. */
  static boolean hasEtags(Path file) {
    return WITH_ETAGS.contains(String.valueOf(file.toUri().getScheme()));
  }

  /**
   * Returns whether the versions of an object have different times. Google's file system has no ETags, but times in
   * milliseconds, and an object is replaced at most once in a second. A stream is bound to the version of its status.
   */
  static boolean hasExactTimes(Path file) {
    return "gs".equals(file.toUri().getScheme());
  }

  /**
   * Returns the result of {@link #of} for a job in Python; empty if Spark has no file system for it.
   *
   * <p>The {@code reason} of a failure is for a warning: the job has settings of its own, or fails with them.
   */
  public static String json(String file, Configuration settings) {
    try {
      return of(new Path(file), settings).toString();
    } catch (UnsupportedFileSystemException | RuntimeException | LinkageError error) {
      return "{}";
    } catch (IOException error) {
      return JsonNodeFactory.instance.objectNode().put("reason", error.getMessage()).toString();
    }
  }

  /**
   * Returns the {@code options} of a store in the planner's terms, or the {@code reason} why it cannot plan its files.
   *
   * @throws IOException if the file system or its credentials are not available
   */
  static ObjectNode of(Path file, Configuration settings) throws IOException {
    FileSystem store;
    try {
      store = file.getFileSystem(settings);
    } catch (UnsupportedFileSystemException error) {
      throw error;
    } catch (IOException | RuntimeException error) { // whose text may contain a secret, such as a wrong key
      if (error.getCause() instanceof ClassNotFoundException) {
        throw new UnsupportedFileSystemException("the file system of " + storeOf(file) + " is not on the class path");
      }
      throw unavailable(file, error);
    }
    ObjectNode found = JsonNodeFactory.instance.objectNode();
    String name = store.getClass().getName();
    boolean isAzure = AzureSettings.CLASSES.contains(name);
    boolean isGoogle = GoogleSettings.CLASSES.contains(name);
    if (!isAzure && !isGoogle && !name.equals(S3A)) {
      return found.put("reason", "files of " + store.getScheme() + " are not planned, only local ones and " + STORES);
    }
    try {
      String unsupported = isAzure ? AzureSettings.unsupported(store)
          : isGoogle ? GoogleSettings.unsupported(store) : unsupported(store);
      if (unsupported != null) {
        return found.put("reason", "the planner does not support " + unsupported);
      }
      found.set(
          "options",
          isAzure ? AzureSettings.options(store) : isGoogle ? GoogleSettings.options(store) : options(store));
      return found;
    } catch (InvocationTargetException error) {
      throw unavailable(file, error.getCause());
    } catch (Exception error) {
      throw new IOException("this version of " + name + " is not supported", error);
    }
  }

  /** Returns an error without the text of its cause, which may contain a secret. */
  private static IOException unavailable(Path file, Throwable cause) {
    String scheme = String.valueOf(file.toUri().getScheme());
    String setting = scheme.startsWith("abfs") ? "fs.azure.account.auth.type"
        : scheme.equals("gs") ? "fs.gs.auth.type" : "fs.s3a.aws.credentials.provider";
    return new IOException(
        "the credentials of " + storeOf(file) + " are not available (" + cause.getClass().getSimpleName() + "); check "
            + setting + " and the settings that it requires");
  }

  private static String unsupported(FileSystem store) {
    Configuration conf = store.getConf();
    String encryption = conf.getTrimmed("fs.s3a.encryption.algorithm", "");
    String detection = conf.getTrimmed("fs.s3a.change.detection.mode", "server");
    if (encryption.startsWith("CSE") || encryption.equals("SSE-C")) {
      return "the encryption " + encryption;
    }
    if (!detection.equals("server") && !detection.equals("client")) {
      return "fs.s3a.change.detection.mode=" + detection + ", with which readers do not detect replaced objects";
    }
    for (String key : new String[] {"accesspoint.arn", "custom.signers", "signing-algorithm", "proxy.username"}) {
      if (!conf.getTrimmed("fs.s3a." + key, "").isEmpty()) {
        return "fs.s3a." + key;
      }
    }
    return store.getUri().getAuthority().endsWith("--x-s3") ? "buckets of S3 Express" : null;
  }

  private static ObjectNode options(FileSystem store) throws Exception {
    Configuration conf = store.getConf();
    Object internals = call(store, "getS3AInternals");
    ObjectNode options = JsonNodeFactory.instance.objectNode();
    boolean isInPath = conf.getBoolean("fs.s3a.path.style.access", false);
    options.put("aws_virtual_hosted_style_request", !isInPath);
    String region = conf.getTrimmed("fs.s3a.endpoint.region", "");
    if (region.isEmpty()) {
      region = (String) call(call(internals, "getBucketMetadata"), "bucketRegion");
    }
    region = region == null ? "us-east-1" : region;
    options.put("aws_region", region);
    String endpoint = conf.getTrimmed("fs.s3a.endpoint", "");
    if (endpoint.isEmpty() || endpoint.endsWith("s3" + AMAZON)) { // the address of all regions
      String service = conf.getBoolean("fs.s3a.endpoint.fips", false) ? "s3-fips." : "s3.";
      endpoint = service + region + AMAZON + (region.startsWith("cn-") ? ".cn" : "");
    }
    String scheme = conf.getBoolean("fs.s3a.connection.ssl.enabled", true) ? "https" : "http";
    URI address = URI.create(endpoint.contains("://") ? endpoint : scheme + "://" + endpoint);
    String bucket = isInPath ? "" : store.getUri().getAuthority() + ".";
    options.put("aws_endpoint_url", address.getScheme() + "://" + bucket + address.getAuthority());
    options.put("allow_http", address.getScheme().equals("http"));
    if (conf.getBoolean("fs.s3a.requester.pays.enabled", false)) {
      options.put("aws_request_payer", true);
    }
    String proxy = conf.getTrimmed("fs.s3a.proxy.host", "");
    if (!proxy.isEmpty()) {
      options.put("proxy_url", "http://" + proxy + ":" + conf.getInt("fs.s3a.proxy.port", 80));
    }
    addCredentials(options.putObject("credentials"), internals);
    return options;
  }

  /** Adds a key with its secret; nothing if requests are anonymous. */
  private static void addCredentials(ObjectNode credentials, Object internals) throws Exception {
    try (AutoCloseable shared = (AutoCloseable) call(internals, "shareCredentials", "intarsia")) {
      Object found = call(shared, "resolveCredentials");
      String key = (String) call(found, "accessKeyId");
      if (key != null) {
        credentials.put("access_key_id", key);
        credentials.put("secret_access_key", (String) call(found, "secretAccessKey"));
        boolean isSession = method(found, "sessionToken", 0) != null;
        credentials.put("token", isSession ? (String) call(found, "sessionToken") : null);
      }
    }
  }

  /** Calls a method of a file system, which is not needed for compiling. */
  static Object call(Object target, String name, Object... arguments) throws ReflectiveOperationException {
    Method method = method(target, name, arguments.length);
    if (method == null) {
      throw new NoSuchMethodException(target.getClass().getName() + "." + name);
    }
    method.setAccessible(true); // the class that implements a public interface may be private
    return method.invoke(target, arguments);
  }

  private static Method method(Object target, String name, int arguments) {
    for (Method method : target.getClass().getMethods()) {
      if (method.getName().equals(name) && method.getParameterCount() == arguments) {
        return method;
      }
    }
    return null;
  }
}
