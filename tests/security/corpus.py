"""Malicious tables: each case changes a healthy table as somebody could who may write files into it.

The table lies in `lake/table`; `lake/victim` and `lake/other`, another table, are what must not be touched.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoodie.codec.avro import schema_json, write_record
from hoodie.timeline.active import Timeline
from hoodie.timeline.layouts.one import ONE
from tests.security.bombs import BOMBS

OUT = "../../../victim"
#: later than all instants of the tables
NEW = "20990101000000000"
#: a file of the tests, beside the table
ABOUT = "about"


@dataclass(frozen=True)
class Lake:
    """A copied lake and short ways to forge files of its table."""

    path: Path

    @property
    def table(self) -> Path:
        return self.path / "table"

    @property
    def meta(self) -> Path:
        return self.table / ".hoodie"

    @property
    def victim(self) -> Path:
        return self.path / "victim"

    @property
    def about(self) -> list[str]:
        """Kind and commits of the healthy table."""
        return (self.path / ABOUT).read_text().split()

    @property
    def kind(self) -> str:
        return self.about[0]

    @property
    def first(self) -> str:
        return self.about[1]

    @property
    def last(self) -> str:
        return self.about[-1]

    def commits(self) -> list[str]:
        return [str(instant.time) for instant in Timeline.load(str(self.table)).commits()]

    def newest(self) -> Path:
        """The file of the newest commit."""
        instant = Timeline.load(str(self.table)).commits()[-1]
        return self.meta / ONE.name(instant)

    def write(self, name: str, data: bytes | str = b"") -> None:
        path = self.meta / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())

    def avro(self, name: str, model: str, record: Mapping[str, Any]) -> None:
        self.write(name, write_record(model, record))

    def commit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """The newest commit's metadata, changed."""
        path = self.newest()
        content = json.loads(path.read_bytes())
        change(content)
        path.write_text(json.dumps(content))

    def pending(self) -> None:
        """A write that was begun and not completed."""
        self.write(f"{NEW}.commit.requested")
        self.write(f"{NEW}.inflight", "{}")

    def property(self, name: str, value: str) -> None:
        path = self.meta / "hoodie.properties"
        lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}=")]
        path.write_text("\n".join([*lines, f"{name}={value}"]) + "\n")

    def base_file(self) -> Path:
        """The newest version of the one file group of `eu`."""
        return max(self.table.glob("eu/*.parquet"), key=lambda path: path.stem.rpartition("_")[2])

    def linked(self, place: Path, target: Path) -> None:
        """A link at `place`; what was there has moved to `target`, if that is not there."""
        if place.exists() and not target.exists():
            shutil.move(place, target)
        elif place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        place.symlink_to(target)


Case = Callable[[Lake], None]


def rollback(target: str, *requests: Mapping[str, Any], inflight: bool = False, at: str = NEW) -> Case:
    def forge(lake: Lake) -> None:
        record = {
            "instantToRollback": {"commitTime": target, "action": "commit"},
            "RollbackRequests": [
                {
                    "partitionPath": "",
                    "fileId": "",
                    "latestBaseInstant": "",
                    "filesToBeDeleted": [],
                    "logBlocksToBeDeleted": {},
                    **request,
                }
                for request in requests
            ],
            "version": 1,
        }
        lake.avro(f"{at}.rollback.requested", "HoodieRollbackPlan", record)
        if inflight:
            lake.write(f"{at}.rollback.inflight")

    return forge


def clean(
    files: Mapping[str, list[str]],
    partitions: list[str] | None = None,
    inflight: bool = False,
    at: str = NEW,
) -> Case:
    def forge(lake: Lake) -> None:
        record = {
            "earliestInstantToRetain": None,
            "lastCompletedCommitTimestamp": lake.commits()[-1],
            "policy": "KEEP_LATEST_COMMITS",
            "filesToBeDeletedPerPartition": {},
            "version": 2,
            "filePathsToBeDeletedPerPartition": {
                partition: [{"filePath": name, "isBootstrapBaseFile": False} for name in names]
                for partition, names in files.items()
            },
            "partitionsToBeDeleted": partitions or [],
            "extraMetadata": {},
        }
        lake.avro(f"{at}.clean.requested", "HoodieCleanerPlan", record)
        if inflight:
            lake.avro(f"{at}.clean.inflight", "HoodieCleanerPlan", record)

    return forge


def compaction(at: str = NEW, **operation: Any) -> Case:
    def forge(lake: Lake) -> None:
        record = {
            "baseInstantTime": lake.commits()[0],
            "deltaFilePaths": [],
            "dataFilePath": None,
            "fileId": "f-0",
            "partitionPath": "eu",
            "metrics": {},
            "bootstrapFilePath": None,
            **operation,
        }
        plan = {"operations": [record], "extraMetadata": {}, "version": 2}
        lake.avro(f"{at}.compaction.requested", "HoodieCompactionPlan", plan)

    return forge


def clustering(
    outputs: int = 1,
    strategy: Mapping[str, Any] | None = None,
    at: str = f"{NEW}.replacecommit",
    **slice_: Any,
) -> Case:
    def forge(lake: Lake) -> None:
        item = {
            "dataFilePath": "x.parquet",
            "deltaFilePaths": [],
            "fileId": "f-0",
            "partitionPath": "eu",
            "bootstrapFilePath": "",
            "version": 1,
            **slice_,
        }
        group = {
            "slices": [item],
            "metrics": {},
            "numOutputFileGroups": outputs,
            "extraMetadata": {},
            "version": 1,
        }
        plan = {"inputGroups": [group], "strategy": strategy, "extraMetadata": {}, "version": 1}
        record = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": {}, "version": 1}
        lake.avro(f"{at}.requested", "HoodieRequestedReplaceMetadata", record)

    return forge


def restore(target: str, at: str = NEW) -> Case:
    def forge(lake: Lake) -> None:
        first = lake.commits()[0]
        record = {
            "instantsToRollback": [{"commitTime": target, "action": "commit"}],
            "version": 2,
            "savepointToRestoreTimestamp": first,
        }
        lake.avro(f"{at}.restore.requested", "HoodieRestorePlan", record)
        lake.write(f"{at}.restore.inflight")

    return forge


def savepoint(partition: str, name: str) -> Case:
    def forge(lake: Lake) -> None:
        first = lake.commits()[0]
        entry = {"partitionPath": partition, "savepointDataFile": [name]}
        record = {
            "savepointedBy": "x",
            "savepointedAt": 1,
            "comments": "",
            "partitionMetadata": {partition: entry},
            "version": 1,
        }
        lake.avro(f"{first}.savepoint", "HoodieSavepointMetadata", record)

    return forge


def marker_lines(instant: str, *lines: str) -> Case:
    def forge(lake: Lake) -> None:
        time = lake.commits()[-1] if instant == "completed" else NEW
        if instant == "pending":
            lake.pending()
            lake.write(f"{NEW}.deltacommit.requested")
        lake.write(f".temp/{time}/MARKERS.type", "TIMELINE_SERVER_BASED")
        lake.write(f".temp/{time}/MARKERS0", "".join(f"{line}\n" for line in lines))

    return forge


def markers_of_other_bytes(lake: Lake) -> None:
    marker_lines("pending", "eu/a.parquet.marker.CREATE")(lake)
    lake.write(f".temp/{NEW}/MARKERS1", b"\xff\xfe")


def in_commit(change: Callable[[dict[str, Any]], None]) -> Case:
    return lambda lake: lake.commit(change)


def _move_partition(content: dict[str, Any], to: str) -> None:
    stats = content["partitionToWriteStats"]
    stats[to] = stats.pop(next(iter(stats)))


def each_stat(content: dict[str, Any], **values: Any) -> None:
    for group in content["partitionToWriteStats"].values():
        for stat in group:
            stat.update(values)


def inflight_commit(**values: Any) -> Case:
    def forge(lake: Lake) -> None:
        name = lake.newest().name.removesuffix(".commit").removesuffix(".deltacommit")
        content = json.loads(lake.newest().read_bytes())
        each_stat(content, **values)
        action = "" if lake.newest().name.endswith(".commit") else ".deltacommit"
        kind = "commit" if not action else "deltacommit"
        lake.write(f"{NEW}.{kind}.requested")
        lake.write(f"{NEW}{action}.inflight", json.dumps(content).replace(name, NEW))

    return forge


def replaced(partition: str, file_id: str) -> Case:
    def forge(lake: Lake) -> None:
        content = {
            "partitionToWriteStats": {},
            "compacted": False,
            "extraMetadata": {},
            "operationType": "INSERT_OVERWRITE",
            "partitionToReplaceFileIds": {partition: [file_id]},
        }
        last = lake.commits()[-1]
        lake.write(f"{last[:-3]}999.replacecommit", json.dumps(content))

    return forge


def prop(name: str, value: str) -> Case:
    return lambda lake: lake.property(name, value)


def link(place: str, target: str) -> Case:
    def forge(lake: Lake) -> None:
        lake.linked(lake.table / place, lake.path / target)

    return forge


def linked_base_file(lake: Lake) -> None:
    lake.linked(lake.base_file(), lake.path / "moved.parquet")


def fifo(place: str) -> Case:
    def forge(lake: Lake) -> None:
        path = lake.newest() if place == "commit" else lake.table / place
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)

    return forge


def device(lake: Lake) -> None:
    path = lake.newest()
    path.unlink()
    path.symlink_to("/dev/zero")


def loops(lake: Lake) -> None:
    for name in "abc":
        (lake.table / name).symlink_to("..")


def avro_bomb(name: str, model: str, items: int) -> Case:
    """A container that declares records without bytes."""

    def forge(lake: Lake) -> None:
        lake.write(f"{NEW}.{name}", container(model, {"type": "record", "name": model, "fields": []}, items))

    return forge


@functools.cache
def gibibyte() -> bytes:
    """A GiB of zeros, deflated: about a MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(1024)) + packer.flush()


def deflate_bomb(name: str, model: str) -> Case:
    def forge(lake: Lake) -> None:
        lake.write(f"{NEW}.{name}", container(model, schema_json(model), 1, gibibyte(), b"deflate"))

    return forge


def container(model: str, schema: Any, items: int, block: bytes = b"", codec: bytes = b"null") -> bytes:
    """An Avro container of one block that declares `items` records."""
    text = json.dumps(schema).encode()
    meta = long(2) + _text(b"avro.schema") + _text(text) + _text(b"avro.codec") + _text(codec) + long(0)
    sync = bytes(16)
    return b"Obj\x01" + meta + sync + long(items) + long(len(block)) + block + sync


def long(value: int) -> bytes:
    zigzag, out = (value << 1) ^ (value >> 63), bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def _text(data: bytes) -> bytes:
    return long(len(data)) + data


def huge(name: str) -> Case:
    def forge(lake: Lake) -> None:
        path = lake.newest() if name == "commit" else lake.meta / name
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(1 << 40)

    return forge


def instant_named(name: str, data: str = "{}") -> Case:
    return lambda lake: lake.write(name, data)


CASES: dict[str, Case] = {
    "rollback of an instant that leads out": rollback(OUT),
    "begun rollback of an instant that leads out": rollback(OUT, inflight=True),
    "rollback of an instant with a blank": rollback("2026 1"),
    "rollback request outside": rollback(
        NEW, {"partitionPath": "../victim", "filesToBeDeleted": ["a.parquet"]}
    ),
    "rollback request in .hoodie": rollback(
        NEW, {"partitionPath": ".hoodie", "filesToBeDeleted": ["hoodie.properties"]}
    ),
    "rollback request of a whole path": rollback(
        NEW, {"partitionPath": "eu", "filesToBeDeleted": ["/victim/../.."]}
    ),
    "rollback of log blocks outside": rollback(
        NEW,
        {
            "partitionPath": "../victim",
            "fileId": "f-0",
            "latestBaseInstant": "1",
            "logBlocksToBeDeleted": {"../victim/a.parquet": 1},
        },
    ),
    "rollback of log blocks of a file id that leads out": rollback(
        NEW,
        {
            "partitionPath": "eu",
            "fileId": "x/../../../victim/f",
            "latestBaseInstant": "1",
            "logBlocksToBeDeleted": {"a": 1},
        },
    ),
    "rollback of log blocks of an instant that leads out": rollback(
        NEW,
        {
            "partitionPath": "eu",
            "fileId": "f-0",
            "latestBaseInstant": "/../../victim/f",
            "logBlocksToBeDeleted": {"a": 1},
        },
    ),
    "clean of files outside": clean({"../victim": ["a.parquet"]}),
    "begun clean of files outside": clean({"../victim": ["a.parquet"]}, inflight=True),
    "clean of files outside by an inner way": clean({"eu/../../victim": ["a.parquet"]}),
    "clean of an absolute partition": clean({"/etc": ["hostname"]}),
    "clean of files in .hoodie": clean({".hoodie": ["hoodie.properties"]}),
    "clean of files in .hoodie by an inner way": clean({"./.hoodie": ["hoodie.properties"]}),
    "clean of a file called ..": clean({"eu": [".."]}),
    "clean of partitions outside": clean({}, ["../victim"]),
    "clean of the table's folder": clean({}, ["."]),
    "clean of .hoodie as a partition": clean({}, [".hoodie"]),
    "compaction outside": compaction(partitionPath="../victim", dataFilePath="a.parquet"),
    "compaction of an absolute partition": compaction(partitionPath="/tmp", dataFilePath="a.parquet"),
    "compaction in .hoodie": compaction(partitionPath=".hoodie", dataFilePath="hoodie.properties"),
    "compaction of a file id that leads out": compaction(fileId="../../victim/f"),
    "compaction of an instant that leads out": compaction(baseInstantTime=OUT),
    "compaction of logs outside": compaction(deltaFilePaths=["../victim/.f_1.log.1_0-0-0"]),
    "clustering outside": clustering(partitionPath="../other/eu"),
    "clustering of an absolute partition": clustering(partitionPath="/tmp"),
    "clustering of a file id that leads out": clustering(fileId="../../victim/f"),
    "restore of an instant that leads out": restore(OUT),
    "savepoint outside": savepoint("../victim", "a.parquet"),
    "markers of a pending write outside": marker_lines("pending", "../victim/a.parquet.marker.CREATE"),
    "absolute markers of a pending write": marker_lines("pending", "/etc/hostname.marker.CREATE"),
    "markers of a pending write in .hoodie": marker_lines(
        "pending", ".hoodie/hoodie.properties.marker.CREATE"
    ),
    "markers of a pending write by an inner way": marker_lines(
        "pending", "eu/../../victim/a.parquet.marker.MERGE"
    ),
    "markers of a completed write outside": marker_lines("completed", "../victim/a.parquet.marker.CREATE"),
    "appended markers outside": marker_lines("pending", "../victim/.f_1.log.1_0-0-0.marker.APPEND"),
    "commit of a partition outside": in_commit(lambda content: _move_partition(content, "../other/eu")),
    "commit of an absolute partition": in_commit(lambda content: _move_partition(content, "/tmp")),
    "commit of .hoodie as a partition": in_commit(lambda content: _move_partition(content, ".hoodie")),
    "commit of paths outside": in_commit(lambda content: each_stat(content, path="../victim/a.parquet")),
    "commit of absolute paths": in_commit(lambda content: each_stat(content, path="/etc/hostname")),
    "commit of a file id that leads out": in_commit(lambda c: each_stat(c, fileId="../../victim/f")),
    "commit of change logs outside": in_commit(
        lambda content: each_stat(content, cdcStats={"../victim/a.parquet": 1})
    ),
    "inflight commit of change logs outside": inflight_commit(cdcStats={"../victim/a.parquet": 1}),
    "inflight commit of paths outside": inflight_commit(path="../victim/a.parquet"),
    "commit of a partition that is no text": in_commit(lambda content: each_stat(content, path=7)),
    "replaced groups outside": replaced("../other/eu", "f-0"),
    "archive outside": prop("hoodie.archivelog.folder", "../../victim"),
    "archive in another folder by an inner way": prop("hoodie.archivelog.folder", "a/../../../victim"),
    "absolute archive": prop("hoodie.archivelog.folder", "/tmp/archive"),
    "a payload of Python code": prop("hoodie.compaction.payload.class", "victim_module:Payload"),
    "a key generator of Python code": prop("hoodie.table.keygenerator.class", "victim_module:Payload"),
    "a version that is no number": prop("hoodie.table.version", "\u00b2"),
    "a version of 5,000 digits": prop("hoodie.table.version", "6" * 5000),
    "a name with NUL": prop("hoodie.table.name", "a\\u0000b"),
    "a linked partition": link("eu", "moved"),
    "a partition that links to another table's": link("eu", "other/eu"),
    "a linked base file": linked_base_file,
    "a linked marker folder": link(f".hoodie/.temp/{NEW}", "victim"),
    "a linked .temp": link(".hoodie/.temp", "victim"),
    "a linked archive": link(".hoodie/archived", "victim"),
    "a linked metadata table": link(".hoodie/metadata", "victim"),
    "linked properties": link(".hoodie/hoodie.properties", "moved"),
    "a linked .hoodie": link(".hoodie", "moved"),
    "a pipe as a commit": fifo("commit"),
    "a pipe as properties": fifo(".hoodie/hoodie.properties"),
    "a pipe as a base file": fifo("eu/f-0_0-0-0_20200101000000000.parquet"),
    "a pipe as markers": fifo(f".hoodie/.temp/{NEW}/MARKERS0"),
    "a device as a commit": device,
    "links to the folder above": loops,
    "a clean plan of 2**40 records": avro_bomb("clean.requested", "HoodieCleanerPlan", 1 << 40),
    "a rollback plan of 2**40 records": avro_bomb("rollback.requested", "HoodieRollbackPlan", 1 << 40),
    "a compaction plan of 2**40 records": avro_bomb("compaction.requested", "HoodieCompactionPlan", 1 << 40),
    "a clean plan of a GiB": deflate_bomb("clean.requested", "HoodieCleanerPlan"),
    "a rollback plan of a GiB": deflate_bomb("rollback.requested", "HoodieRollbackPlan"),
    "a commit of 2**40 bytes": huge("commit"),
    "properties of 2**40 bytes": huge("hoodie.properties"),
    "an instant of 5,000 digits": instant_named("9" * 200 + ".commit"),
    "an instant of other digits": instant_named("\u0662\u0660\u0662\u0666.commit"),
    "a commit of deep JSON": instant_named(f"{NEW}.commit", "[" * 100_000),
    "a commit of NaN": instant_named(f"{NEW}.commit", '{"partitionToWriteStats": NaN}'),
}
CASES |= BOMBS
#: found by test_fuzz
CASES |= {
    "a commit with half of a pair": in_commit(lambda content: each_stat(content, extra="\ud800")),
    "a commit whose rows are a text": in_commit(lambda content: each_stat(content, numWrites="many")),
    "a commit of more rows than 64 bits count": in_commit(lambda c: each_stat(c, numInserts=1 << 80)),
    "markers that are no UTF-8": markers_of_other_bytes,
    "a schema commit that is no UTF-8": lambda lake: lake.write(
        f".schema/{lake.commits()[-1]}.schemacommit", b"\xff"
    ),
    "a schema commit of an endless id": lambda lake: lake.write(
        f".schema/{lake.commits()[-1]}.schemacommit",
        '{"schemas":[{"max_column_id":1e999,"version_id":0,"type":"record","fields":[]}]}',
    ),
    "a heartbeat of an endless process": lambda lake: lake.write(f".heartbeat/{NEW}", '{"pid": 1e999}'),
}
