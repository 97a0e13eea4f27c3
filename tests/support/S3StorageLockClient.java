package org.apache.hudi.aws.transaction.lock;

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Properties;

import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/**
 * What hudi-aws has by this name, which needs the SDK of AWS: the conditional requests alone, to the tests'
 * store, which looks at no signature. Compiled by Janino, which knows no lambdas.
 */
public class S3StorageLockClient implements StorageLockClient {
  private static final String SIGNED = "AWS4-HMAC-SHA256 "
      + "Credential=tests/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
  private final HttpClient client = HttpClient.newHttpClient();
  private final String endpoint;
  private final String path;

  public S3StorageLockClient(String owner, String path, Properties settings) {
    this.endpoint = settings.getProperty("hoodie.tests.s3.endpoint");
    this.path = path;
  }

  public Pair tryUpsertLockFile(StorageLockData data, Option previous) {
    try {
      HttpRequest.Builder put = request(this.path);
      if (previous.isPresent()) {
        put.header("If-Match", ((StorageLockFile) previous.get()).getVersionId());
      } else {
        put.header("If-None-Match", "*");
      }
      put.PUT(HttpRequest.BodyPublishers.ofByteArray(StorageLockFile.toByteArray(data)));
      HttpResponse answer = this.client.send(put.build(), HttpResponse.BodyHandlers.ofByteArray());
      if (answer.statusCode() == 200) {
        return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, version(answer))));
      }
      // a conflict: S3 was writing the object for another one
      boolean lost = answer.statusCode() == 412 || answer.statusCode() == 409;
      return Pair.of(
          lost ? LockUpsertResult.ACQUIRED_BY_OTHERS : LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    } catch (Exception error) {
      return Pair.of(LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  public Pair readCurrentLockFile() {
    try {
      HttpResponse answer = this.client.send(request(this.path).build(), HttpResponse.BodyHandlers.ofByteArray());
      if (answer.statusCode() == 404) {
        return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
      }
      if (answer.statusCode() != 200) {
        return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
      }
      ByteArrayInputStream body = new ByteArrayInputStream((byte[]) answer.body());
      return Pair.of(LockGetResult.SUCCESS, Option.of(StorageLockFile.createFromStream(body, version(answer))));
    } catch (Exception error) {
      return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  /** Of a setting of audits, which no table of the tests has. */
  public Option readObject(String path, boolean checkExistsFirst) {
    return Option.empty();
  }

  public boolean writeObject(String path, String content) {
    return false;
  }

  public void close() {
  }

  private HttpRequest.Builder request(String path) {
    URI place = URI.create(this.endpoint + path.substring(path.indexOf("://") + 2));
    return HttpRequest.newBuilder(place).header("Authorization", SIGNED);
  }

  private static String version(HttpResponse answer) {
    return (String) answer.headers().firstValue("etag").get();
  }
}
