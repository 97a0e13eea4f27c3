"""The pytest side of `hudi_server`: real Apache Hudi as a judge of tables."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scripts import environment

SERVER = Path(__file__).with_name("hudi_server.py")
START_SECONDS = 180.0
REQUEST_SECONDS = 180.0
NOT_INHERITED = ("PYTHONPATH", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")

#: of Apache Hudi's indexer, which works beside writers with a lock only
INDEXER = {
    "hoodie.metadata.index.async": "true",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.metadata.enable": "true",
}
#: the settings of indexes
ENABLED = {
    "column_stats": "index.column.stats",
    "bloom_filters": "index.bloom.filter",
    "record_index": "record.index",
}
THREE_LEVEL_LISTS = {"parquet.avro.write-old-list-structure": "false"}
"""Hadoop setting without which Hudi's writer fails on lists that hold nulls."""


class HudiError(Exception):
    """Apache Hudi refused a request; the text ends with the Java exceptions, root last.

    Attributes: causes (Java exceptions, outermost first; empty when the error is not Java's), log (a path).
    """

    def __init__(self, message: str, causes: Sequence[str] = (), log: Path | None = None) -> None:
        self.causes = tuple(causes)
        self.log = log
        chain = "".join(f"\n  caused by {cause}" for cause in self.causes[1:])
        super().__init__(f"{self.causes[0] if self.causes else message}{chain}")


class HudiTimeout(HudiError):
    """The server gave no answer in time; it has been killed."""


def bundle_jar(version: str) -> Path:
    """Where the local Maven repository keeps the Spark 3.5 bundle of a Hudi version (it may not be there)."""
    artifact = "hudi-spark3.5-bundle_2.12"
    folder = environment.maven_repository() / "org/apache/hudi" / artifact / version
    return folder / f"{artifact}-{version}.jar"


def missing(version: str) -> str | None:
    """What keeps a server of this version from starting here, or None."""
    for need in (environment.interpreter(environment.HUDI), bundle_jar(version)):
        if not need.exists():
            return f"Apache Hudi {version} needs {need}, which is not there; scripts/setup makes it"
    if environment.spark_java(environment.spark_environment(environment.HUDI) | os.environ) is None:
        return f"Apache Hudi {version} needs Java; scripts/setup makes one"
    return None


class HudiServer:
    """One Spark session with one Hudi bundle. A context manager; not for several threads.

    Start-up takes seconds, so a test session keeps one for each version. Tables are given as local paths, or
    as URIs that the session has a file system for. After a time-out the process is gone and every further
    request raises HudiError.
    """

    def __init__(self, version: str, jars: Sequence[Path] = (), packages: Sequence[str] = ()) -> None:
        """`jars` are added to the session, and those packages of this process which its environment lacks."""
        self._packages = tuple(packages)
        self.version = version
        self._jars = (bundle_jar(version), *jars)
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> HudiServer:
        self.work_dir = Path(tempfile.mkdtemp(prefix=f"hudi-{self.version}-"))
        self.log = self.work_dir / "server.log"
        variables = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        variables.update(environment.spark_environment(environment.HUDI))
        # for programs that use our library in the session
        lent = self.work_dir / "packages"
        lent.mkdir()
        for name in self._packages:
            (lent / name).symlink_to(next(iter(importlib.import_module(name).__path__)))
        variables["PYTHONPATH"] = os.pathsep.join(
            [str(environment.ROOT), str(environment.ROOT / "spark_jobs"), str(lent)]
        )
        python = environment.interpreter(environment.HUDI)
        command = [str(python), str(SERVER), "--jar", ",".join(map(str, self._jars))]
        command += ["--work-dir", str(self.work_dir)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=variables,
            cwd=self.work_dir,
            start_new_session=True,
        )
        threading.Thread(target=self._collect, args=(self._process,), daemon=True).start()
        try:
            self._answer("start", START_SECONDS)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            with contextlib.suppress(HudiError):
                self.request("stop", timeout=30)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=20)
            self._kill()
        shutil.rmtree(self.work_dir, ignore_errors=True)

    def read(
        self,
        path: str | Path,
        *,
        metadata: bool | None = None,
        columns: Sequence[str] = (),
        where: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Snapshot query; `metadata` switches the use of the metadata table, None leaves Hudi's default."""
        settings = dict(options or {})
        if metadata is not None:
            settings["hoodie.metadata.enable"] = str(metadata).lower()
        value = self.request("read", path=str(path), columns=list(columns), where=where, options=settings)
        table = pq.read_table(value["parquet"])
        shutil.rmtree(value["parquet"])
        return table.replace_schema_metadata(None)

    def read_incremental(self, path: str | Path, *, begin: str, end: str | None = None) -> pa.Table:
        """Rows changed by instants after `begin` up to and including `end` (None: the newest)."""
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": begin,
        }
        if end is not None:
            options["hoodie.datasource.read.end.instanttime"] = end
        return self.read(path, options=options)

    def read_as_of(self, path: str | Path, instant: str) -> pa.Table:
        """The snapshot as an instant left it."""
        return self.read(path, options={"as.of.instant": instant})

    def read_optimized(self, path: str | Path) -> pa.Table:
        """Base files only."""
        return self.read(path, options={"hoodie.datasource.query.type": "read_optimized"})

    def write(
        self,
        path: str | Path,
        rows: pa.Table,
        options: Mapping[str, str],
        *,
        operation: str = "upsert",
        mode: str = "append",
    ) -> None:
        """Write rows with Hudi's own writer; `mode` is Spark's save mode ("overwrite": a new table)."""
        with tempfile.TemporaryDirectory(dir=self.work_dir) as folder:
            source = str(Path(folder) / "rows.parquet")
            pq.write_table(rows, source)
            self.request(
                "write", source=source, path=str(path), options=dict(options), operation=operation, mode=mode
            )

    @contextlib.contextmanager
    def writing(
        self, path: str | Path, rows: pa.Table, options: Mapping[str, str], *, pause: int
    ) -> Iterator[None]:
        """An upsert that is under way meanwhile: it takes so many milliseconds a row."""
        with tempfile.TemporaryDirectory(dir=self.work_dir) as folder:
            source = str(Path(folder) / "rows.parquet")
            pq.write_table(rows, source)
            self.request(
                "write",
                source=source,
                path=str(path),
                options=dict(options),
                operation="upsert",
                mode="append",
                pause=pause,
            )
            try:
                yield
            finally:
                self.request("join")

    def bootstrap(
        self, path: str | Path, source: str | Path, options: Mapping[str, str], *, schema: str = ""
    ) -> None:
        """Make a table of the Parquet files below `source`; `schema` is DDL, "": that of the files."""
        settings = {**options, "hoodie.bootstrap.base.path": str(source)}
        self.request("bootstrap", path=str(path), options=settings, schema=schema)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run one statement; a row is a dict, values that JSON lacks come as text."""
        rows: list[dict[str, Any]] = self.request("sql", statement=statement)
        return rows

    def call(self, procedure: str, **arguments: str | int | bool) -> list[dict[str, Any]]:
        """`CALL procedure(name => value, ...)`."""
        given = ", ".join(
            f"{name} => '{value}'" if isinstance(value, str) else f"{name} => {str(value).lower()}"
            for name, value in arguments.items()
        )
        return self.sql(f"call {procedure}({given})")

    def timeline(self, path: str | Path) -> dict[str, str]:
        """Instant -> operation of every completed commit, its metadata parsed by Hudi's own classes."""
        found: dict[str, str] = self.request("timeline", path=str(path))
        return found

    def buckets(self, keys: Sequence[str], fields: str, count: int) -> list[int]:
        """Of `count` buckets the one of each record key, by its hash fields."""
        found: list[int] = self.request("buckets", keys=list(keys), fields=fields, buckets=count)
        return found

    def ring(self, partition: str, count: int, keys: Sequence[str], fields: str) -> dict[str, Any]:
        """The first hash ring of a partition with `count` buckets: `json`, and `prefixes`, of the file id of
        each record key, by its hash fields.
        """
        found: dict[str, Any] = self.request(
            "ring", partition=partition, buckets=count, keys=list(keys), fields=fields
        )
        return found

    def try_lock(self, path: str | Path, *, expire: int = 0) -> tuple[bool, str | None]:
        """Whether Hudi's file system lock of a table was free and is taken now, else what its holder left.
        `expire` (minutes) counts for the first call, up to `close_lock`.
        """
        found = self.request("lock", path=str(path), call="tryLock", expire=expire)
        return found["taken"], found["owner"]

    def unlock(self, path: str | Path) -> None:
        self.request("lock", path=str(path), call="unlock", expire=0)

    def close_lock(self, path: str | Path) -> None:
        """Hudi deletes the file, whoever made it."""
        self.request("lock", path=str(path), call="close", expire=0)

    def java_class(self, source: Path) -> None:
        """A class that Hudi loads by its name from now on."""
        self.request("java_class", source=source.read_text())

    def program(self, name: str, *arguments: Any) -> dict[str, Any]:
        """What a program of tests/spark answers in this session of Spark 3.5."""
        found: dict[str, Any] = self.request("program", program=name, arguments=arguments)
        return found

    def hfile(self, path: str | Path, keys: Sequence[str], prefixes: Sequence[str]) -> dict[str, Any]:
        """Records of an HFile as Hudi's reader gives them: `all`, those of `keys` and of `prefixes`, which
        are sorted; besides `count`, `ends` (least and greatest key), `bloom` (keys that may be there).
        """
        found: dict[str, Any] = self.request(
            "hfile", path=str(path), keys=list(keys), prefixes=list(prefixes)
        )
        return found

    def index_differences(
        self, path: str | Path, files: Sequence[tuple[str, str]], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Where Hudi finds other statistics of columns or another bloom filter in a metadata table than in
        the base files themselves, which are (partition path, name).
        """
        found = self.request("indexes", path=str(path), files=list(files), columns=list(columns))
        return [item for item in found if _plain(item["stored"]) != _plain(item["own"])]

    def indexing(
        self,
        path: str | Path,
        call: str,
        indexes: Sequence[str] = (),
        instant: str = "",
        options: Mapping[str, str] | None = None,
    ) -> str | None:
        """`schedule` indexes, whose instant is returned, `run` an instant, or `drop` indexes."""
        settings = {**INDEXER, **(options or {})}
        settings |= {f"hoodie.metadata.{ENABLED[name]}.enable": "true" for name in indexes}
        found: str | None = self.request(
            "indexing",
            path=str(path),
            call=call,
            indexes=list(indexes),
            instant=instant,
            options=settings,
        )
        return found

    def log_compaction(
        self, path: str | Path, call: str, options: Mapping[str, str], instant: str = ""
    ) -> str | None:
        """`schedule` a log compaction, whose instant is returned, or `run` an instant."""
        found: str | None = self.request(
            "log_compaction", path=str(path), call=call, instant=instant, options=dict(options)
        )
        return found

    @contextlib.contextmanager
    def hadoop(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Hadoop settings of the session for a while, THREE_LEVEL_LISTS for example."""
        self.request("hadoop", settings=dict(settings))
        try:
            yield
        finally:
            self.request("hadoop", settings=dict.fromkeys(settings))

    def request(self, op: str, *, timeout: float = REQUEST_SECONDS, **fields: Any) -> Any:
        """Send one request and return its answer's value; HudiError carries what Java said."""
        process = self._process
        if process is None or process.poll() is not None or process.stdin is None:
            raise HudiError(f"the Apache Hudi {self.version} server is not running", log=self.log)
        process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        process.stdin.flush()
        return self._answer(op, timeout)

    def _answer(self, op: str, timeout: float) -> Any:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            self._kill()
            tail = self._log_tail()
            raise HudiTimeout(f"{op}: no answer from Hudi {self.version} in {timeout:g} s\n{tail}") from None
        if line is None:
            raise HudiError(f"{op}: the Hudi {self.version} server died\n{self._log_tail()}", log=self.log)
        answer = json.loads(line)
        if not answer["ok"]:
            raise HudiError(answer["error"], answer["causes"], self.log)
        return answer["value"]

    def _collect(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _log_tail(self) -> str:
        try:
            return self.log.read_text(errors="replace")[-3000:]
        except OSError:
            return "(no log)"

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _plain(texts: Any) -> Any:
    """Numbers without the zeros behind their points: decimals have more in the metadata table."""
    if not isinstance(texts, list):
        return texts
    return [text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text for text in texts]
