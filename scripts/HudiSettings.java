import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/** Prints "kind TAB name TAB default" for each setting that the classes of a Hudi bundle, the argument, declare. */
public class HudiSettings {
  private static final String NAME = "hoodie\\.[a-zA-Z0-9_.-]*[a-zA-Z0-9_]";

  public static void main(String[] args) throws Exception {
    Class<?> property = Class.forName("org.apache.hudi.common.config.ConfigProperty");
    try (JarFile jar = new JarFile(args[0])) {
      for (JarEntry entry : Collections.list(jar.entries())) {
        String path = entry.getName();
        boolean ours = path.startsWith("org/apache/hudi/") || path.startsWith("org/apache/spark/sql/");
        if (!ours || !path.endsWith(".class")) {
          continue;
        }
        byte[] bytes = jar.getInputStream(entry).readAllBytes();
        if (!new String(bytes, "ISO-8859-1").contains("hoodie.")) {
          continue;
        }
        String name = path.substring(0, path.length() - ".class".length()).replace('/', '.');
        try {
          look(Class.forName(name), property);
        } catch (Throwable error) {
          System.err.println("not loaded: " + name + ": " + error);
        }
      }
    }
  }

  private static void look(Class<?> type, Class<?> property) throws Exception {
    for (Field field : type.getDeclaredFields()) {
      boolean text = field.getType() == String.class;
      boolean fixed = Modifier.isStatic(field.getModifiers());
      if (!text && field.getType() != property || !fixed && !type.getName().endsWith("$")) {
        continue;
      }
      field.setAccessible(true);
      Object value = field.get(fixed ? null : type.getField("MODULE$").get(null));
      if (value == null) {
        continue;
      }
      if (text) {
        print("text", value, null);
        continue;
      }
      boolean has = property.getMethod("hasDefaultValue").invoke(value).equals(true);
      Object usual = has ? property.getMethod("defaultValue").invoke(value) : null;
      print("property", property.getMethod("key").invoke(value), usual);
      for (Object other : (List<?>) property.getMethod("getAlternatives").invoke(value)) {
        print("property", other, usual);
      }
    }
  }

  private static void print(String kind, Object name, Object usual) {
    if (name.toString().matches(NAME)) {
      String value = usual == null ? "" : usual.toString().replaceAll("\\s+", " ");
      System.out.println(kind + "\t" + name + "\t" + value);
    }
  }
}
