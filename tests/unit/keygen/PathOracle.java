// Recipe of hudi_0_15_0.json: asks Apache Hudi 0.15.0 for partition paths and Java for number texts.
// Class path: hudi-spark3.5-bundle_2.12-0.15.0.jar and the jars of pyspark 3.5.
import org.apache.avro.Schema;
import org.apache.avro.generic.*;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.keygen.*;
import java.io.*;
import java.nio.file.*;
import java.util.*;

public class PathOracle {
  // stdin lines: tab separated: kind \t k=v|k=v... \t type \t value ; prints result or !error
  static Object val(String type, String v) {
    if (v.equals("\\N")) return null;
    switch (type) {
      case "long": return Long.parseLong(v);
      case "int": return Integer.parseInt(v);
      case "double": return Double.parseDouble(v);
      case "float": return Float.parseFloat(v);
      default: return v;
    }
  }
  public static void main(String[] a) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    String line;
    Map<String, BaseKeyGenerator> cache = new HashMap<>();
    Map<String, Schema> schemas = new HashMap<>();
    while ((line = in.readLine()) != null) {
      String[] p = line.split("\t", -1);
      String r;
      try {
        if (p[0].equals("double")) r = Double.toString(Double.longBitsToDouble(Long.parseLong(p[1])));
        else if (p[0].equals("float")) r = Float.toString(Float.intBitsToFloat(Integer.parseInt(p[1])));
        else {
          BaseKeyGenerator g = cache.get(p[1]);
          if (g == null) {
            TypedProperties props = new TypedProperties();
            props.setProperty("hoodie.datasource.write.recordkey.field", "v");
            props.setProperty("hoodie.datasource.write.partitionpath.field", "v");
            for (String kv : p[1].split("\\|")) { int i = kv.indexOf('='); props.setProperty(kv.substring(0, i), kv.substring(i + 1)); }
            g = new TimestampBasedAvroKeyGenerator(props);
            cache.put(p[1], g);
          }
          String t = p[2].equals("ts") ? "{\"type\":\"long\",\"logicalType\":\"timestamp-micros\"}" : p[2].equals("date") ? "{\"type\":\"int\",\"logicalType\":\"date\"}" : "\"" + p[2] + "\"";
          Schema s = schemas.computeIfAbsent(t, x -> new Schema.Parser().parse("{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"v\",\"type\":[\"null\"," + x + "],\"default\":null}]}"));
          GenericRecord rec = new GenericData.Record(s);
          rec.put("v", val(p[2].equals("ts") ? "long" : p[2].equals("date") ? "int" : p[2], p[3]));
          r = g.getPartitionPath(rec);
        }
      } catch (Throwable e) { Throwable c = e; while (c.getCause() != null) c = c.getCause(); r = "!" + c.getClass().getSimpleName() + " " + String.valueOf(c.getMessage()).replace("\n", " "); }
      out.println(r);
    }
  }
}
