"""More malicious tables: properties, commits, files of our own, logs, archives, and odd files and folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from typing import Any

from hoodie.codec.avro import schema_json, write_datum
from hoodie.format.log_block import BlockType, HeaderKey, encode_block
from tests.security.corpus import (
    NEW,
    OUT,
    Case,
    Lake,
    clean,
    clustering,
    compaction,
    container,
    each_stat,
    in_commit,
    inflight_commit,
    instant_named,
    prop,
    restore,
    rollback,
)

DEEP = "[" * 100_000
DIGITS = "9" * 5000


def file(place: str, data: bytes | str) -> Case:
    """A file below `.hoodie`."""
    return lambda lake: lake.write(place, data)


def folder(place: str) -> Case:
    """A folder where a file belongs."""

    def forge(lake: Lake) -> None:
        path = lake.newest() if place == "commit" else lake.table / place
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)

    return forge


def stats(**values: Any) -> Case:
    return in_commit(lambda content: each_stat(content, **values))


def says(**values: Any) -> Case:
    """The newest commit says other things."""
    return in_commit(lambda content: content.update(values))


def extra(**values: Any) -> Case:
    return in_commit(lambda content: content["extraMetadata"].update(values))


def doubling(levels: int = 40) -> str:
    """A schema in which each record has the one before twice: small, and endless when it is written out."""
    inner: Any = "long"
    for level in range(levels):
        again = f"r{level - 1}" if level else "long"
        pair = [{"name": "a", "type": inner}, {"name": "b", "type": again}]
        inner = {"type": "record", "name": f"r{level}", "fields": pair}
    columns = [{"name": "id", "type": "string"}, {"name": "x", "type": inner}]
    return json.dumps({"type": "record", "name": "top", "fields": columns})


def schema(kind: Any) -> str:
    fields = [{"name": name, "type": "string"} for name in ("id", "region")]
    fields += [{"name": "ts", "type": "long"}, {"name": "x", "type": kind}]
    return json.dumps({"type": "record", "name": "top", "fields": fields})


def token(**values: Any) -> Case:
    def forge(lake: Lake) -> None:
        content: dict[str, Any] = {
            "token": "token",
            "instant": lake.first,
            "action": "commit",
            "fingerprint": "",
        }
        content |= {"operation": "upsert", "totals": {}, **values}
        name = hashlib.sha256(b"token").hexdigest()
        lake.write(f".aux/airflow-tokens/{name}.json", json.dumps(content))
        lake.commit(lambda commit: commit["extraMetadata"].update({"airflow.token": "token"}))

    return forge


def token_root(text: str, number: int = 1, spaces: int = 0) -> Case:
    """A root of the index of tokens, whole as far as its checksum tells."""

    def forge(lake: Lake) -> None:
        packer = zlib.compressobj()
        parts = [packer.compress(text.encode())]
        parts += [packer.compress(b" " * (1 << 20)) for _ in range(spaces >> 20)]
        data = b"".join([*parts, packer.flush()])
        head = b"airflow-hoodie token index 1\n" + hashlib.sha256(data).digest()
        lake.write(f".aux/airflow-tokens/index/roots/{number}", head + data)
        lake.write(f".aux/airflow-tokens/index/nodes/{'a' * 32}", head + data)

    return forge


def log(content: Callable[[Lake], bytes], version: int = 9, instant: str | None = None) -> Case:
    """A log file on top of a base file of `eu`."""

    def forge(lake: Lake) -> None:
        name = lake.base_file().name
        file_id, base = name.split("_")[0], name.rpartition("_")[2].removesuffix(".parquet")
        place = lake.base_file().with_name(f".{file_id}_{instant or base}.log.{version}_1-0-1")
        place.write_bytes(content(lake))

    return forge


def archived(**values: Any) -> Case:
    def forge(lake: Lake) -> None:
        record = {
            "commitTime": "20200101000000000",
            "actionType": "commit",
            "actionState": "COMPLETED",
            "stateTransitionTime": None,
            **values,
        }
        datum = write_datum("HoodieArchivedMetaEntry", record)
        content = struct.pack(">iii", 3, 1, len(datum)) + datum
        headers: dict[int, str] = {HeaderKey.SCHEMA: json.dumps(schema_json("HoodieArchivedMetaEntry"))}
        data = b"".join(map(bytes, encode_block(BlockType.AVRO_DATA, headers, [content])))
        lake.write("archived/.commits_.archive.1_1-0-1", data)

    return forge


def of_slice(make: Callable[..., Case], **values: Any) -> Case:
    """A plan of a file slice that is there."""

    def forge(lake: Lake) -> None:
        name = lake.base_file().name
        told = {"fileId": name.split("_")[0], "dataFilePath": name, **values}
        if make is compaction:
            told["baseInstantTime"] = name.rpartition("_")[2].removesuffix(".parquet")
        make(**told)(lake)

    return forge


def plan_of_many(count: int) -> Case:
    strategy = {
        "strategyClassName": "victim_module:Payload",
        "strategyParams": {"hoodie.clustering.plan.strategy.sort.columns": "../../victim,id"},
        "version": 1,
    }
    return of_slice(clustering, outputs=count, strategy=strategy)


def regex(lake: Lake) -> None:
    lake.property("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.TimestampBasedKeyGenerator")
    for name, value in {
        "timestamp.type": "DATE_STRING",
        "input.dateformat": "a" * 60 + "!",
        "input.dateformat.list.delimiter.regex": "(a+)+$",
        "output.dateformat": "yyyy",
    }.items():
        lake.property(f"hoodie.keygen.timebased.{name}", value)


def pending_markers(name: str, data: bytes | str) -> Case:
    """A marker file of a write that was not completed."""

    def forge(lake: Lake) -> None:
        lake.pending()
        lake.write(f".temp/{NEW}/{name}", data)

    return forge


def partition(name: bytes) -> Case:
    """A folder that is a partition, with a base file of another one."""

    def forge(lake: Lake) -> None:
        place = os.path.join(os.fsencode(lake.table), name)
        os.mkdir(place)
        shutil.copy(lake.table / "eu" / ".hoodie_partition_metadata", place.decode(errors="surrogateescape"))
        shutil.copy(lake.base_file(), place.decode(errors="surrogateescape"))

    return forge


MORE: dict[str, Case] = {
    # plans
    "clean of a partition's metadata file": clean({"eu": [".hoodie_partition_metadata"]}),
    "clean of .hoodie as a file": clean({"": [".hoodie"]}),
    "clean of the table as a partition": clean({}, [""]),
    "clean of /": clean({"/": ["etc"]}),
    "clean of .HOODIE": clean({".HOODIE": ["hoodie.properties"]}),
    "clean of a file with a name too long": clean({"eu": ["x" * 300]}),
    "clean of a partition too deep": clean({"/".join(["d" * 200] * 30): ["x.parquet"]}),
    "clean of a file as a folder": clean({"eu/.hoodie_partition_metadata": ["x.parquet"]}),
    "rollback request of a partition's metadata file": rollback(
        NEW, {"partitionPath": "eu", "filesToBeDeleted": ["/x/eu/.hoodie_partition_metadata"]}
    ),
    "rollback of an unknown action": rollback(NEW),
    "rollback of a number": rollback("7", {"partitionPath": "eu", "filesToBeDeleted": []}, inflight=True),
    "restore of nothing": restore(NEW),
    "clustering of a class of Python": plan_of_many(1),
    "clustering into 2**31 files": plan_of_many((1 << 31) - 1),
    "clustering into -1 files": plan_of_many(-1),
    "compaction of endless numbers": of_slice(
        compaction, metrics={"TOTAL_LOG_FILES_SIZE": 1e308, "TOTAL_IO_READ_MB": float("inf")}
    ),
    "compaction of no numbers": of_slice(compaction, metrics={"TOTAL_LOG_FILES_SIZE": float("nan")}),
    "compaction of the same slice from elsewhere": of_slice(compaction, dataFilePath="/victim/a.parquet"),
    "compaction of a bootstrap outside": of_slice(compaction, bootstrapFilePath="file:/etc/hostname"),
    "clustering of a bootstrap outside": of_slice(clustering, bootstrapFilePath="file:/etc/hostname"),
    **{
        f"{action} of {what}": instant_named(f"{NEW}.{action}", data)
        for action in (
            "indexing.requested",
            "logcompaction.requested",
            "restore.requested",
            "replacecommit.requested",
            "savepoint",
            "clean",
            "rollback",
            "replacecommit",
        )
        for what, data in (("no Avro", "{}"), ("deep JSON", DEEP))
    },
    "indexing request of 2**40 records": lambda lake: lake.write(
        f"{NEW}.indexing.requested",
        container("x", {"type": "record", "name": "x", "fields": []}, 1 << 40),
    ),
    # instants
    "an instant of one digit": instant_named("7.commit"),
    "a pending instant of one digit": instant_named("7.commit.requested", ""),
    "an instant of no month": instant_named("20269999000000000.commit.requested", ""),
    "an instant at the end of time": instant_named("99991231235959999.commit.requested", ""),
    "a commit at the end of time": instant_named("99991231235959999.clean", ""),
    "an instant of 23 digits": instant_named(f"{'9' * 23}.commit.requested", ""),
    "an instant before all time": instant_named("00010101000000000.commit.requested", ""),
    "an instant as a folder": folder("commit"),
    # commits
    "commit of numbers as texts": stats(numWrites="7", numInserts="x", fileSizeInBytes="y"),
    "commit of numbers as lists": stats(numWrites=[1], totalWriteBytes={}, logOffset=[]),
    "commit of endless numbers": stats(numWrites=1e308, numInserts=10**400),
    "commit of numbers below zero": stats(numWrites=-(1 << 70), fileSizeInBytes=-1, numDeletes=-1),
    "commit of texts as numbers": stats(prevCommit=7, partitionPath=7, baseFile=7, logFiles=7),
    "commit of a previous commit that leads out": stats(prevCommit=OUT, baseFile="../victim/a.parquet"),
    "commit of log files outside": stats(logFiles=["../victim/a.parquet"], baseFile="x"),
    "commit of paths too long": stats(path="eu/" + "x" * 300),
    "commit of paths too deep": stats(path="d/" * 3000 + "x.parquet"),
    "commit of a file as a folder": stats(path="eu/.hoodie_partition_metadata/x.parquet"),
    "commit of no statistics": says(partitionToWriteStats=None),
    "commit of a list of partitions": says(partitionToWriteStats=[]),
    "commit of partitions of numbers": says(partitionToWriteStats={"eu": 7}),
    "commit of null statistics": says(partitionToWriteStats={"eu": [None]}),
    "commit of an operation that is a list": says(operationType=[1]),
    "commit of metadata that is no text": extra(schema=7, **{"airflow.token": [], "airflow.run": {}}),
    "commit of a run of 5,000 digits": extra(**{"airflow.run": f"a/b/{DIGITS}/run=x"}),
    "commit of counts of 5,000 digits": extra(
        **{"airflow.token": "token", "airflow.missing": DIGITS, "hoodie.missing": DIGITS}
    ),
    "replaced groups that are lists": says(partitionToReplaceFileIds={"eu": [["x"], {}]}),
    "inflight commit of numbers as texts": inflight_commit(numInserts="x", prevCommit=[]),
    # schemas
    "a schema that doubles": extra(schema=doubling()),
    "a schema of deep JSON": extra(schema=DEEP),
    "a schema of nested arrays": extra(
        schema=schema(json.loads('{"type":"array","items":' * 300 + '"long"' + "}" * 300))
    ),
    "a schema of a number": extra(schema="7"),
    "a schema of no fields": extra(schema='{"type":"record","name":"x"}'),
    "a schema of a huge decimal": extra(
        schema=schema({"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": -(10**9)})
    ),
    "a schema of a huge fixed": extra(schema=schema({"type": "fixed", "name": "f", "size": (1 << 31) - 1})),
    "a schema of itself": extra(
        schema=schema({"type": "record", "name": "r", "fields": [{"name": "r", "type": ["null", "r"]}]})
    ),
    "a schema of the same column twice": extra(schema=schema("string").replace('"x"', '"id"')),
    # properties
    "a delimiter that never ends": regex,
    **{
        f"property {name}={value[:20]!r}": prop(name, value)
        for name, value in (
            ("hoodie.table.version", "-1"),
            ("hoodie.table.version", DIGITS),
            ("hoodie.timeline.layout.version", "x"),
            ("hoodie.table.base.file.format", "../x"),
            ("hoodie.table.name", "../../x"),
            ("hoodie.table.partition.fields", "region,../x"),
            ("hoodie.table.metadata.partitions", "../../../victim"),
            ("hoodie.table.timeline.timezone", "../../x"),
            ("hoodie.table.create.schema", DEEP),
            ("hoodie.archivelog.folder", "/"),
        )
    },
    # files of our own
    "a heartbeat of deep JSON": file(f".heartbeat/{NEW}", DEEP),
    "a heartbeat of numbers without end": file(f".heartbeat/{NEW}", '{"pid": 1e999, "interval_ms": 1e999}'),
    "a heartbeat as a folder": folder(f".hoodie/.heartbeat/{NEW}"),
    "a ticket of the queue that is deep JSON": file(f".aux/waiting/{NEW}", DEEP),
    "a ticket of the queue before all time": file(".aux/waiting/0", "{}"),
    "a ticket of the queue with a name of a path": file(".aux/waiting/..x", "{}"),
    "a token of an instant that leads out": token(instant=OUT),
    "a token of totals that are lists": token(totals=[[]], fingerprint=[]),
    "a token of an operation that is a number": token(operation=7, action=None),
    "a token of a name that is not its own": file(f".aux/airflow-tokens/{NEW}-{'a' * 16}.json", "{}"),
    "a token index of deep JSON": token_root(DEEP),
    "a token index of 128 MiB": token_root('{"facts": {}, "children": {}}', spaces=1 << 27),
    "a token index that is its own child": token_root(
        json.dumps({"facts": {}, "children": dict.fromkeys("0123456789abcdef", "a" * 32)})
    ),
    "a token index whose children lie outside": token_root(
        json.dumps({"facts": {}, "children": dict.fromkeys("0123456789abcdef", f"../../../../{OUT}")})
    ),
    "a token index of facts of other types": token_root(
        json.dumps({"facts": {"aware d/t": {"token": 7}, "token token": {"instant": []}}, "children": {}})
    ),
    "a token index with a number without end": token_root("{}", int("9" * 15)),
    "a schema history of deep JSON": file(f".schema/{NEW}.schemacommit", DEEP),
    "a schema history that is no UTF-8": file(f".schema/{NEW}.schemacommit", b"\xff\xfe"),
    # markers
    "markers of bytes": pending_markers("MARKERS0", b"\xff\xfe\n"),
    "markers of lines without end": pending_markers("MARKERS0", "eu/" * 400_000),
    "markers of a type of its own": pending_markers("MARKERS.type", "../../x"),
    "markers in a folder outside": pending_markers("eu/x.parquet.marker.CREATE", ""),
    # archives
    "an archived instant that leads out": archived(commitTime=OUT),
    "an archived instant of deep JSON": archived(hoodieCommitMetadata=None, actionType=DEEP[:1000]),
    "an archived instant of an unknown action": archived(actionType="x" * 1000, actionState="y"),
    "an archive that is cut": file("archived/.commits_.archive.1_1-0-1", b"#HUDI#" + b"\0" * 8),
    # logs
    "a log that is cut": log(lambda lake: b"#HUDI#"),
    "a log of one endless block": log(lambda lake: b"#HUDI#" + struct.pack(">q", 1 << 62)),
    "a log of a block below zero": log(lambda lake: b"#HUDI#" + struct.pack(">q", -1) + b"\0" * 64),
    "a log of 2**31 headers": log(
        lambda lake: b"#HUDI#" + struct.pack(">qiii", 64, 3, 2, (1 << 31) - 1) + b"\0" * 64
    ),
    "a log of a version of 5,000 digits": log(lambda lake: b"#HUDI#", version=(1 << 63)),
    "a log of an instant that leads out": log(lambda lake: b"#HUDI#", instant="7"),
    # odd folders
    "a partition of no UTF-8": partition(b"\xff\xfe"),
    "a partition of lines and escapes": partition(b"a\nb\x1b[2J"),
    "a partition of a pattern": partition(b"{eu,us}[*]"),
}
