"""A Spark 3.5 session with one Apache Hudi bundle, served over stdin and stdout.

Run by `tests.support.hudi_client` with the interpreter of the Hudi venv (it must have pyspark 3.5):

    hudi_server.py --jar BUNDLE.jar[,MORE.jar...] --work-dir DIR

One JSON document a line. A request is `{"op": ..., ...}`; an answer is `{"ok": true, "value": ...}` or
`{"ok": false, "error": ..., "causes": [...]}` where `causes` are the Java exceptions, root last.
The first line, sent when the session is up, is an answer whose value is `{"hudi": version}`.
Everything that Spark and log4j print goes to `DIR/server.log`. End of input ends the server.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

os.environ["TZ"] = "UTC"
time.tzset()

SESSION = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# Tables here are tiny: compilation, by the JVM and of generated code, costs more than slow code does
# (start, read and two upserts take 39 s of CPU with the defaults, 16 s so).
JAVA_OPTIONS = "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

# Every write path of Hudi 1.x, procedures included, upgrades an older table unless the session has both too.
KEEP_VERSION_6 = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}

WRITE_DEFAULTS = {
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.rollback.parallelism": "1",
    "hoodie.finalize.write.parallelism": "1",
    "hoodie.bloom.index.parallelism": "1",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.markers.delete.parallelism": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}


class Server:
    """Answers requests one at a time on one Spark session."""

    def __init__(self, jar: str, work_dir: Path) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("hudi-judge").config("spark.jars", jar)
        java = f"{JAVA_OPTIONS} -Dderby.system.home={work_dir}"
        settings = dict(SESSION)
        settings["spark.driver.extraJavaOptions"] = java
        settings["spark.local.dir"] = str(work_dir / "spark")
        settings["spark.sql.warehouse.dir"] = str(work_dir / "warehouse")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("WARN")
        self.version = Path(jar.partition(",")[0]).stem.rsplit("-", 1)[-1]
        self.first = self.version.startswith("0.")
        self.work_dir = work_dir
        self.answers = 0
        self.locks: dict[str, Any] = {}
        self.threads = ThreadPoolExecutor(2)
        self.beside: list[Future[Any]] = []
        if not self.first:
            for name, value in KEEP_VERSION_6.items():
                self.spark.sql(f"set {name}={value}")

    def read(self, request: dict[str, Any]) -> dict[str, Any]:
        """Query a table and write the answer as a folder of one Parquet file, whose path is returned."""
        frame = self.spark.read.format("hudi").options(**request.get("options", {})).load(request["path"])
        if request.get("where"):
            frame = frame.where(request["where"])
        if request.get("columns"):
            frame = frame.select(*[f"`{name}`" for name in request["columns"]])
        self.answers += 1
        target = str(self.work_dir / f"answer-{self.answers:05d}")
        frame.coalesce(1).write.parquet(target)
        return {"parquet": target, "schema": frame.schema.simpleString()}

    def write(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the rows of a Parquet file with one of Hudi's operations.

        With a pause, in milliseconds a row, it is done in a thread; `join` waits for it.
        """
        frame = self.spark.read.parquet(request["source"]).coalesce(1)
        if request.get("pause"):
            sleep = f"java_method('java.lang.Thread', 'sleep', {request['pause']}L)"
            frame = frame.where(f"{sleep} is not null")
        options = dict(WRITE_DEFAULTS)
        if not self.first:
            options.update(KEEP_VERSION_6)
        options["hoodie.datasource.write.operation"] = request["operation"]
        options.update(request.get("options", {}))
        writer = frame.write.format("hudi").options(**options).mode(request["mode"])
        if request.get("pause"):
            self.beside.append(self.threads.submit(writer.save, request["path"]))
        else:
            writer.save(request["path"])
        return {}

    def join(self, request: dict[str, Any]) -> dict[str, Any]:
        """Wait for the writes that were begun with a pause; raises what they raised."""
        begun, self.beside = self.beside, []
        for write in begun:
            write.result()
        return {}

    def bootstrap(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make a table of the Parquet files under the folder that the options name."""
        from pyspark.sql.types import StructType

        frame = self.spark.createDataFrame([], request["schema"] or StructType([]))
        options = {**WRITE_DEFAULTS, "hoodie.datasource.write.operation": "bootstrap"}
        options["hoodie.bootstrap.parallelism"] = "2"
        options.update(request["options"])
        frame.write.format("hudi").options(**options).mode("overwrite").save(request["path"])
        return {}

    def sql(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Run one statement (a query, DDL or a CALL) and return its rows."""
        return [row.asDict(recursive=True) for row in self.spark.sql(request["statement"]).collect()]

    def hadoop(self, request: dict[str, Any]) -> dict[str, Any]:
        """Set (or, with null, unset) Hadoop settings of the session."""
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        for name, value in request["settings"].items():
            conf.unset(name) if value is None else conf.set(name, value)
        return {}

    def timeline(self, request: dict[str, Any]) -> dict[str, str]:
        """Read every completed commit of a table with Hudi's own classes: instant -> operation type."""
        jvm: Any = self.spark.sparkContext._jvm
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        storage = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(conf)
        builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        client = builder.setConf(storage).setBasePath(request["path"]).build()
        commits = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        kind = "org.apache.hudi.common.model.HoodieCommitMetadata"
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        metadata = jvm.java.lang.Class.forName(kind, True, loader)
        found = {}
        for instant in commits.getInstants():
            if self.first:
                details = commits.getInstantDetails(instant).get()
                commit = jvm.org.apache.hudi.common.model.HoodieCommitMetadata.fromBytes(details, metadata)
                found[instant.getTimestamp()] = commit.getOperationType().toString()
            else:
                commit = commits.readCommitMetadata(instant)
                found[instant.requestedTime()] = commit.getOperationType().toString()
        return found

    def buckets(self, request: dict[str, Any]) -> list[int]:
        """The bucket of each record key, of Hudi's bucket index."""
        jvm: Any = self.spark.sparkContext._jvm
        bucket = jvm.org.apache.hudi.index.bucket.BucketIdentifier.getBucketId
        return [bucket(key, request["fields"], request["buckets"]) for key in request["keys"]]

    def ring(self, request: dict[str, Any]) -> dict[str, Any]:
        """The first hash ring of a partition, and the file id's prefix of each record key in it."""
        jvm: Any = self.spark.sparkContext._jvm
        hudi = jvm.org.apache.hudi
        made = hudi.common.model.HoodieConsistentHashingMetadata(request["partition"], request["buckets"])
        ring = hudi.index.bucket.ConsistentBucketIdentifier(made)
        found = [ring.getBucket(key, request["fields"]).getFileIdPrefix() for key in request["keys"]]
        return {"json": bytes(made.toBytes()).decode(), "prefixes": found}

    def lock(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call Hudi's file system lock provider of a table: tryLock, unlock or close, which forgets it."""
        jvm: Any = self.spark.sparkContext._jvm
        path, call = request["path"], request["call"]
        if path not in self.locks:
            conf = self.spark.sparkContext._jsc.hadoopConfiguration()
            storage = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(conf)
            settings = jvm.org.apache.hudi.common.config.TypedProperties()
            settings.setProperty("hoodie.base.path", path)
            settings.setProperty("hoodie.write.lock.filesystem.expire", str(request["expire"]))
            locks = jvm.org.apache.hudi.client.transaction.lock
            made = jvm.org.apache.hudi.common.config.LockConfiguration(settings)
            self.locks[path] = locks.FileSystemBasedLockProvider(made, storage)
        provider = self.locks[path]
        if call == "tryLock":
            taken = provider.tryLock(0, jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
            return {"taken": taken, "owner": None if taken else provider.getCurrentOwnerLockInfo()}
        getattr(provider, call)()
        if call == "close":
            del self.locks[path]
        return {}

    def java_class(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile a class, which Hudi then loads by its name as it does those of its bundle."""
        jvm: Any = self.spark.sparkContext._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(request["source"])
        compiled = compiler.getBytecodes()
        folder = self.work_dir / "classes"
        for name in compiled:
            place = folder.joinpath(*name.split(".")).with_suffix(".class")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(compiled[name])
        loader.addURL(jvm.java.io.File(str(folder)).toURI().toURL())
        return {}

    def program(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a program of tests/spark, our library's, with the session (see tests/spark/server.py)."""
        module = importlib.import_module(f"tests.spark.{request['program']}")
        found: dict[str, Any] = module.answer(self.spark, *request["arguments"])
        return found

    def indexing(self, request: dict[str, Any]) -> str | None:
        """Call Hudi's write client: `schedule` indexes (the instant), `run` an instant, `drop` indexes."""
        jvm: Any = self.spark.sparkContext._jvm
        client, indexes = self._client(request), jvm.java.util.ArrayList()
        kinds = jvm.org.apache.hudi.metadata.MetadataPartitionType
        for name in request["indexes"]:
            indexes.add(kinds.valueOf(name.upper()))
        try:
            if request["call"] == "schedule":
                planned = client.scheduleIndexing(indexes)
                return planned.get() if planned.isPresent() else None
            if request["call"] == "run":
                client.index(request["instant"])
            else:
                client.dropIndex(indexes)
            return None
        finally:
            client.close()

    def log_compaction(self, request: dict[str, Any]) -> str | None:
        """Call Hudi's write client: `schedule` a log compaction (the instant), or `run` an instant."""
        jvm: Any = self.spark.sparkContext._jvm
        client, none = self._client(request), jvm.org.apache.hudi.common.util.Option.empty()
        try:
            if request["call"] == "schedule":
                planned = client.scheduleLogCompaction(none)
                return planned.get() if planned.isPresent() else None
            client.logCompact(request["instant"], True)
            return None
        finally:
            client.close()

    def _client(self, request: dict[str, Any]) -> Any:
        jvm: Any = self.spark.sparkContext._jvm
        hudi = jvm.org.apache.hudi
        settings = jvm.java.util.Properties()
        for name, value in {**WRITE_DEFAULTS, **request["options"]}.items():
            settings.setProperty(name, value)
        builder = hudi.config.HoodieWriteConfig.newBuilder().withPath(request["path"]).forTable("t")
        config = builder.withProperties(settings).withEmbeddedTimelineServerEnabled(False).build()
        engine = hudi.client.common.HoodieSparkEngineContext(self.spark.sparkContext._jsc)
        return hudi.client.SparkRDDWriteClient(engine, config)

    def hfile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read an HFile of records with Hudi's own reader: HBase's in 0.15.0, a native one in 1.x."""
        jvm: Any = self.spark.sparkContext._jvm
        hudi = jvm.org.apache.hudi
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        storage_conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(conf)
        path = hudi.storage.StoragePath(request["path"])
        storage = hudi.storage.hadoop.HoodieHadoopStorage(path, storage_conf)
        kind = hudi.common.model.HoodieRecord.HoodieRecordType.AVRO
        factory = hudi.io.storage.HoodieIOFactory.getIOFactory(storage).getReaderFactory(kind)
        reader = factory.getFileReader(hudi.common.config.HoodieConfig(), path)
        bloom = reader.readBloomFilter()
        answer: dict[str, Any] = {
            "count": reader.getTotalRecords(),
            "ends": list(reader.readMinMaxRecordKeys()),
            "bloom": [key for key in request["keys"] if bloom.mightContain(key)],
        }
        looks = {
            "all": reader.getRecordIterator(),
            "keys": reader.getRecordsByKeysIterator(jvm.java.util.ArrayList(request["keys"])),
            "prefixes": reader.getRecordsByKeyPrefixIterator(jvm.java.util.ArrayList(request["prefixes"])),
        }
        for name, records in looks.items():
            answer[name] = []
            while records.hasNext():
                answer[name].append(json.loads(str(records.next().getData().toString())))
            records.close()
        reader.close()
        return answer

    def indexes(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Statistics of columns and bloom filters of base files, by the metadata table and by the files, as
        Hudi's validation of metadata tables compares them.
        """
        jvm: Any = self.spark.sparkContext._jvm
        hudi, array_list = jvm.org.apache.hudi, jvm.java.util.ArrayList
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        storage_conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(conf)
        base = hudi.storage.StoragePath(request["path"])
        storage = hudi.storage.hadoop.HoodieHadoopStorage(base, storage_conf)
        engine = hudi.common.engine.HoodieLocalEngineContext(storage_conf)
        settings = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True)
        settings = settings.withMetadataIndexColumnStats(True).withMetadataIndexBloomFilter(True).build()
        metadata = hudi.metadata.HoodieTableMetadata.create(engine, storage, settings, request["path"])
        footers = hudi.common.util.ParquetUtils()
        util = hudi.metadata.HoodieTableMetadataUtil

        def said(ranges: Any) -> list[str]:
            names = ("MinValue", "MaxValue", "NullCount", "ValueCount", "TotalSize", "TotalUncompressedSize")
            return [str(getattr(ranges, f"get{name}")()) for name in names]

        found = []
        for partition, name in request["files"]:
            pairs = array_list()
            pairs.add(hudi.common.util.collection.Pair.of(partition, name))
            place = hudi.storage.StoragePath(f"{request['path']}/{partition}/{name}")
            for column in request["columns"]:
                stored = list(metadata.getColumnStats(pairs, column).values())
                columns = array_list()
                columns.add(column)
                own = footers.readColumnStatsFromMetadata(storage, place, columns)
                answer = {"file": name, "what": column, "stored": None, "own": None}
                if stored:
                    answer["stored"] = said(util.convertColumnStatsRecordToColumnRangeMetadata(stored[0]))
                if len(own):
                    answer["own"] = said(own[0])
                found.append(answer)
            bloom = metadata.getBloomFilter(partition, name)
            own = footers.readBloomFilterFromMetadata(storage, place)
            answer = {"file": name, "what": "bloom filter", "stored": None, "own": None}
            if bloom.isPresent():
                answer["stored"] = bloom.get().serializeToString()
            if own is not None:
                answer["own"] = own.serializeToString()
            found.append(answer)
        metadata.close()
        return found


def java_causes(error: BaseException) -> list[str]:
    """The chain of Java exceptions behind a PySpark error, outermost first."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    causes: list[str] = []
    while java is not None and len(causes) < 12:
        causes.append(str(java.toString()))
        java = java.getCause()
    return causes


def serve(server: Server, requests: TextIO, answers: TextIO) -> None:
    """Answer until a stop request or the end of input."""
    verbs = {
        "read": server.read,
        "write": server.write,
        "join": server.join,
        "bootstrap": server.bootstrap,
        "sql": server.sql,
        "hadoop": server.hadoop,
        "timeline": server.timeline,
        "buckets": server.buckets,
        "ring": server.ring,
        "lock": server.lock,
        "java_class": server.java_class,
        "hfile": server.hfile,
        "indexes": server.indexes,
        "indexing": server.indexing,
        "log_compaction": server.log_compaction,
        "program": server.program,
    }

    def answer(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document, default=str) + "\n")
        answers.flush()

    answer({"ok": True, "value": {"hudi": server.version}})
    for line in requests:
        request = json.loads(line)
        if request["op"] == "stop":
            answer({"ok": True, "value": None})
            return
        try:
            answer({"ok": True, "value": verbs[request["op"]](request)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the client raises it
            traceback.print_exc()
            sys.stderr.flush()
            text = str(error) or repr(error)
            answer({"ok": False, "error": text[:4000], "causes": java_causes(error)})


def main() -> None:
    """Parse the arguments, move all noise to the log file, start Spark and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jar", required=True)
    parser.add_argument("--work-dir", required=True, type=Path)
    arguments = parser.parse_args()
    work_dir: Path = arguments.work_dir
    work_dir.mkdir(parents=True, exist_ok=True)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    log = os.open(work_dir / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    import pyspark

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    server = Server(arguments.jar, work_dir)
    try:
        serve(server, requests, answers)
    finally:
        server.spark.stop()


if __name__ == "__main__":
    main()
