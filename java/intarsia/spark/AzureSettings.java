package intarsia.spark;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Date;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/** The options of stores of Azure, which ABFS has resolved: settings can be those of an account, or of all. */
final class AzureSettings {
  static final Set<String> CLASSES = Set.of(
      "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem", "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem");

  private static final String TYPE = "fs.azure.account.auth.type";
  private static final Set<String> TYPES_WITHOUT_TOKENS = Set.of("SharedKey", "SAS");
  private static final String APPENDED = "fs.azure.io.read.tolerate.concurrent.append";

  private AzureSettings() {}

  /** Returns the setting that the planner does not support; null if there is none. */
  static String unsupported(FileSystem store) throws ReflectiveOperationException {
    Configuration conf = store.getConf();
    for (String key : new String[] {"encoded.client-provided-key", "context.provider.type"}) {
      if (isSet(store, "fs.azure.encryption." + key)) {
        return "fs.azure.encryption." + key;
      }
    }
    if (conf.getBoolean(APPENDED, false)) {
      return APPENDED + "=true, with which readers do not detect replaced objects";
    }
    String host = store.getUri().getHost();
    if (!host.endsWith(".core.windows.net") && !host.endsWith(".fabric.microsoft.com")) {
      return "the accounts of " + host.substring(host.indexOf('.') + 1);
    }
    String type = type(store);
    if (type.equals("UserboundSASWithOAuth")) {
      return TYPE + "=" + type;
    }
    boolean isFixed = isSet(store, "fs.azure.sas.fixed.token");
    return type.equals("SAS") && !isFixed ? "fs.azure.sas.token.provider.type, only fs.azure.sas.fixed.token" : null;
  }

  static ObjectNode options(FileSystem store) throws ReflectiveOperationException {
    Object resolved = resolved(store);
    String host = store.getUri().getHost();
    String account = host.substring(0, host.indexOf('.'));
    boolean isSecure = store.getScheme().equals("abfss")
        || (Boolean) StoreSettings.call(resolved, "isHttpsAlwaysUsed")
        || !TYPES_WITHOUT_TOKENS.contains(type(store)); // as ABFS, which sends no token without TLS
    String scheme = isSecure ? "https://" : "http://";
    String other = store.getConf().getTrimmed("fs.azure.abfs.endpoint", ""); // that of an emulator
    ObjectNode options = JsonNodeFactory.instance.objectNode();
    options.put("azure_storage_account_name", account);
    options.put("azure_container_name", store.getUri().getUserInfo());
    options.put(
        "azure_storage_endpoint",
        scheme + (other.contains(":") ? other + "/" + account : host.replaceFirst("[.]dfs[.]", ".blob.")));
    options.put("allow_http", !isSecure);
    addCredentials(options.putObject("credentials"), store, resolved);
    return options;
  }

  private static void addCredentials(ObjectNode credentials, FileSystem store, Object resolved)
      throws ReflectiveOperationException {
    switch (type(store)) {
      case "SharedKey" -> credentials.put("access_key", (String) StoreSettings.call(resolved, "getStorageAccountKey"));
      case "SAS" -> {
        Object provider = StoreSettings.call(resolved, "getSASTokenProvider");
        String token = (String) StoreSettings.call(provider, "getSASToken", null, null, null, null);
        credentials.put("sas_token", token.startsWith("?") ? token.substring(1) : token);
      }
      default -> {
        Object token = StoreSettings.call(StoreSettings.call(resolved, "getTokenProvider"), "getToken");
        Date expiry = (Date) StoreSettings.call(token, "getExpiry");
        credentials.put("token", (String) StoreSettings.call(token, "getAccessToken"));
        credentials.put("expires_at_ms", expiry == null ? null : expiry.getTime());
      }
    }
  }

  private static Object resolved(FileSystem store) throws ReflectiveOperationException {
    return StoreSettings.call(StoreSettings.call(store, "getAbfsStore"), "getAbfsConfiguration");
  }

  private static String type(FileSystem store) throws ReflectiveOperationException {
    return StoreSettings.call(resolved(store), "getAuthType", store.getUri().getHost()).toString();
  }

  /** Returns whether a setting has a value, for the account or for all. */
  private static boolean isSet(FileSystem store, String key) {
    Configuration conf = store.getConf();
    return conf.get(key) != null || conf.get(key + "." + store.getUri().getHost()) != null;
  }
}
