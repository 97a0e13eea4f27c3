"""Malicious tables of versions 8 and 9: each case changes a table that Apache Hudi wrote, as somebody could
who may write files into it. The lakes are as those of `corpus`.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.codec.avro import schema_json, write_record
from hoodie.format.log_block import IS_PARTIAL, MAGIC, VERSION, BlockType, HeaderKey
from hoodie.format.log_delete_rows import WRAPPERS
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Instant
from hoodie.timeline.layouts.two import TWO
from tests.security.bombs import nested_footer, parquet, repeated
from tests.security.corpus import (
    ABOUT,
    NEW,
    OUT,
    Case,
    Lake,
    clean,
    clustering,
    compaction,
    container,
    gibibyte,
    long,
    restore,
    rollback,
)
from tests.security.corpus_files import DEEP, DIGITS, doubling
from tests.unit.services.clean_support import written

#: kinds of lakes, with the table of each
SOURCES = {
    "archived": "1.2.0-v9/mor_archived",
    "indexed": "1.2.0-v9/mdt_full_mor",
    "partial": "more/sql_partial_updates2",
    "ordered": "more/multi_ordering_mor",
    "defined": "more/secondary_index_cow",
}
TIMELINE = "timeline"
#: header of a log block with the positions of its rows in the base file: base64 of a roaring bitmap
_POSITIONS = 6


def make_later_lake(path: Path, kind: str, source: Path) -> Path:
    lake = Lake(path)
    lake.victim.mkdir(parents=True)
    for name in ("a.parquet", "module.py", ".f_1.log.1_0-0-0"):
        (lake.victim / name).write_text("precious")
    written(path / "other", 1)
    shutil.copytree(source, lake.table)
    (path / ABOUT).write_text(" ".join([kind, *lake.commits()]))
    return path


# the timeline


def instants(lake: Lake) -> list[Instant]:
    return Timeline.load(str(lake.table)).commits()


def newest_file(lake: Lake) -> Path:
    return lake.meta / TIMELINE / TWO.name(instants(lake)[-1])


def completed(form: str, which: int = -1) -> Case:
    """The file of a commit has another name: `{t}` is the request, `{c}` the completion, `{a}` the action."""

    def forge(lake: Lake) -> None:
        instant = instants(lake)[which]
        name = form.format(t=instant.time, c=instant.completion, a=instant.action.value)
        folder = lake.meta / TIMELINE
        (folder / TWO.name(instant)).rename(folder / name)

    return forge


def twice(lake: Lake) -> None:
    """A commit that is completed at two times."""
    instant = instants(lake)[-1]
    path = newest_file(lake)
    shutil.copy(path, path.with_name(f"{instant.time}_{NEW}.{instant.action.value}"))


def at_one_moment(lake: Lake) -> None:
    found = instants(lake)[-2:]
    latest = max(str(item.completion) for item in found)
    for item in found:
        path = lake.meta / TIMELINE / TWO.name(item)
        path.rename(path.with_name(f"{item.time}_{latest}.{item.action.value}"))


def content(make: Callable[[bytes], bytes]) -> Case:
    """The file of the newest commit, made of itself."""

    def forge(lake: Lake) -> None:
        path = newest_file(lake)
        path.write_bytes(make(path.read_bytes()))

    return forge


def commit(change: Callable[[dict[str, Any]], object]) -> Case:
    """The newest commit's metadata, changed, as Avro."""

    def forge(lake: Lake) -> None:
        instant, path = instants(lake)[-1], newest_file(lake)
        value = dict(TWO.commit_value(instant.action, path.read_bytes()))
        change(value)
        path.write_bytes(write_record("HoodieCommitMetadata", value))

    return forge


def stats(**values: Any) -> Case:
    def change(value: dict[str, Any]) -> None:
        for group in value["partitionToWriteStats"].values():
            for stat in group:
                stat.update(values)

    return commit(change)


def moved(to: str) -> Case:
    def change(value: dict[str, Any]) -> None:
        groups = value["partitionToWriteStats"]
        groups[to] = groups.pop(next(iter(groups)))

    return commit(change)


def replaced(partition: str, file_id: str) -> Case:
    def forge(lake: Lake) -> None:
        record = {
            "partitionToWriteStats": {},
            "compacted": False,
            "extraMetadata": {},
            "version": None,
            "operationType": "INSERT_OVERWRITE",
            "partitionToReplaceFileIds": {partition: [file_id]},
        }
        data = write_record("HoodieReplaceCommitMetadata", record)
        lake.write(f"{TIMELINE}/{NEW}_{NEW[:-1]}1.replacecommit", data)

    return forge


def file(name: str, data: bytes | str | Callable[[], bytes] = b"") -> Case:
    """A function makes the content of a large one when it is wanted."""
    return lambda lake: lake.write(name, data() if callable(data) else data)


def pipe(name: str) -> Case:
    def forge(lake: Lake) -> None:
        path = newest_file(lake) if name == "commit" else lake.meta / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)

    return forge


def huge(name: str) -> Case:
    def forge(lake: Lake) -> None:
        path = newest_file(lake) if name == "commit" else lake.meta / name
        with path.open("r+b" if path.exists() else "wb") as opened:
            opened.truncate(1 << 40)

    return forge


def linked(name: str) -> Case:
    return lambda lake: lake.linked(lake.meta / name, lake.path / "moved")


def bomb(model: str) -> bytes:
    return container(model, schema_json(model), 1, gibibyte(), b"deflate")


def endless(model: str) -> bytes:
    return container(model, {"type": "record", "name": model, "fields": []}, 1 << 40)


# the archive

HISTORY = f"{TIMELINE}/history"


def history(lake: Lake) -> Path:
    return lake.meta / HISTORY


def manifests(data: bytes | str) -> Case:
    """Each manifest."""

    def forge(lake: Lake) -> None:
        for path in sorted(history(lake).glob("manifest_*")):
            path.write_bytes(data if isinstance(data, bytes) else data.encode())

    return forge


def huge_manifests(lake: Lake) -> None:
    for path in sorted(history(lake).glob("manifest_*")):
        huge(f"{HISTORY}/{path.name}")(lake)


def naming(*names: str, length: int = 5) -> Case:
    return manifests(json.dumps({"files": [{"fileName": name, "fileLen": length} for name in names]}))


def archive_file(make: Callable[[pa.Table], bytes]) -> Case:
    """The oldest file of the archive, whose length the manifests have."""

    def forge(lake: Lake) -> None:
        path = sorted(history(lake).glob("*.parquet"))[0]
        before = path.stat().st_size
        data = make(pq.read_table(path))
        path.write_bytes(data)
        for manifest in history(lake).glob("manifest_*"):
            value = json.loads(manifest.read_text())
            for item in value["files"]:
                if item["fileName"] == path.name:
                    item["fileLen"] = len(data)
            manifest.write_text(json.dumps(value))
        assert before

    return forge


def column(name: str, *values: Any, kind: pa.DataType | None = None) -> Case:
    """A column of the archive file has these values instead."""

    def make(table: pa.Table) -> bytes:
        given = [value() if callable(value) else value for value in values]
        array = pa.array([*given, *[given[-1]] * table.num_rows][: table.num_rows], kind)
        return parquet(table.set_column(table.column_names.index(name), name, array))

    return archive_file(make)


def of_many(name: str, text: Any, rows: int) -> Case:
    """The first row so many times, one of its columns with another value, which the file has once."""

    def make(table: pa.Table) -> bytes:
        values = {item: table[item][0].as_py() for item in table.column_names} | {name: text}
        columns: list[Any] = [
            pa.nulls(rows, table.schema.field(item).type) if value is None else repeated(value, rows)
            for item, value in values.items()
        ]
        return parquet(pa.table(columns, names=list(values)))

    return archive_file(make)


# logs


def log_block(kind: BlockType, headers: Mapping[int, str], data: bytes) -> Case:
    """A block at the end of the newest log file, of the instant that wrote the file, with any headers."""

    def forge(lake: Lake) -> None:
        log = newest_log(lake)
        instant = log.name.split("_")[1].partition(".")[0]
        block = raw_block(kind, {HeaderKey.INSTANT_TIME: instant, **headers}, data)
        with log.open("ab") as opened:
            opened.write(block)

    return forge


def raw_block(kind: BlockType, headers: Mapping[int, str], data: bytes) -> bytes:
    head = struct.pack(">i", len(headers))
    for key, text in headers.items():
        head += struct.pack(">ii", key, len(text.encode())) + text.encode()
    size = 8 + len(head) + 8 + len(data) + 4 + 8
    start = MAGIC + struct.pack(">qii", size, VERSION, kind) + head + struct.pack(">q", len(data))
    return start + data + struct.pack(">iq", 0, size + len(MAGIC))


def newest_log(lake: Lake) -> Path:
    shown = {str(item.time) for item in instants(lake)}
    logs = [path for path in lake.table.glob("*/.*.log.*") if not path.name.endswith(".crc")]
    return max(
        (path for path in logs if path.name.split("_")[1].partition(".")[0] in shown),
        key=lambda path: path.name.split("_")[1],
    )


def header(key: int, text: str) -> Case:
    """Every block of the newest log file has a header more."""

    def forge(lake: Lake) -> None:
        log = newest_log(lake)
        data = log.read_bytes()
        out = b""
        while data:
            (size,) = struct.unpack_from(">q", data, 6)
            block, data = data[: size + 14], data[size + 14 :]
            (count,) = struct.unpack_from(">i", block, 22)
            more = struct.pack(">ii", key, len(text)) + text.encode()
            tail = struct.pack(">q", size + len(more) + len(MAGIC))
            head = MAGIC + struct.pack(">q", size + len(more)) + block[14:22] + struct.pack(">i", count + 1)
            out += head + more + block[26:-8] + tail
        log.write_bytes(out)

    return forge


SCHEMA = json.dumps(
    {"type": "record", "name": "x", "fields": [{"name": "nowhere", "type": ["null", "string"]}]}
)
#: a record of one column that is null
NO_ROW = struct.pack(">i", 1) + b"\0"
_BRANCHES = {name: number for number, name in enumerate([*WRAPPERS, "ArrayWrapper"], 1)}


def deletes(data: bytes) -> Case:
    return log_block(BlockType.DELETE, {}, data)


def delete_of(*values: bytes) -> Case:
    """A delete of a key in each of these orders, each in the wrapper that `wrapped` gives."""
    some = b"\x02"
    rows = [some + long(6) + b"k00001" + some + long(2) + b"eu" + value for value in values]
    body = long(len(rows)) + b"".join(rows) + b"\0"
    return deletes(struct.pack(">ii", 3, len(body)) + body)


def wrapped(kind: str, data: bytes) -> bytes:
    return long(_BRANCHES[kind]) + data


def several(*values: bytes) -> bytes:
    return wrapped("ArrayWrapper", long(len(values)) + b"".join(values) + long(0) if values else long(0))


def _rows(count: int, data: bytes = b"") -> bytes:
    return struct.pack(">ii", 3, count) + data


def damaged_everywhere(kind: str) -> Case:
    """One byte of each file of the metadata table, in another place of each."""

    def forge(lake: Lake) -> None:
        place = 7
        for path in sorted((lake.meta / "metadata").rglob("*")):
            if path.is_file() and (path.name.endswith(".hfile") or ".log." in path.name):
                data = bytearray(path.read_bytes())
                if not data:
                    continue
                place = place * 31 % 1_000_003
                if kind == "cut":
                    del data[place % len(data) :]
                elif kind == "zeros":
                    data[place % len(data) :][:64] = bytes(64)
                else:
                    data[place % len(data)] ^= 1 << place % 8
                path.write_bytes(bytes(data))

    return forge


_ROARING = base64.b64encode(struct.pack("<iiI", 0x7FFFFFFF, 0, 0x3B303A) + b"\xff" * 64).decode()

OF_TIMELINE: dict[str, Case] = {
    "a completion before the request": completed("{t}_20200101000000000.{a}"),
    "a completion of five digits": completed("{t}_99999.{a}"),
    "a completion of 23 digits": completed(f"{{t}}_{'9' * 23}.{{a}}"),
    "a completion of 5,000 digits": completed("{t}_" + "9" * 200 + ".{a}"),
    "a completion at the end of time": completed("{t}_99991231235959999.{a}"),
    "a completion of no month": completed("{t}_20269999000000000.{a}"),
    "a completion of digits that are none": completed("{t}_²0260101000000000.{a}"),
    "a commit without a completion": completed("{t}.{a}"),
    "two completions of one commit": twice,
    "completions at one moment": at_one_moment,
    "a commit of another action": completed("{t}_{c}.clean"),
    "a commit that is cut": content(lambda data: data[:-9]),
    "a commit of half its bytes": content(lambda data: data[: len(data) // 2]),
    "an empty commit": content(lambda data: b""),
    "a commit of zeros": content(lambda data: bytes(len(data))),
    "a commit of JSON": content(lambda data: b"{}"),
    "a commit of deep JSON": content(lambda data: DEEP.encode()),
    "a commit of 2**40 records": content(lambda data: endless("HoodieCommitMetadata")),
    "a commit of a GiB of zeros": content(lambda data: bomb("HoodieCommitMetadata")),
    "a commit of another model": content(
        lambda data: container("x", {"type": "record", "name": "x", "fields": []}, 1)
    ),
    "a commit of a schema that doubles": content(lambda data: container("x", json.loads(doubling()), 1)),
    "a commit of 2**40 bytes": huge("commit"),
    "a pipe as a commit": pipe("commit"),
    "a commit of files outside": stats(path="../victim/a.parquet"),
    "a commit of a file of a whole path": stats(path="/etc/hostname"),
    "a commit of file ids that lead out": stats(fileId="../../victim/f"),
    "a commit of a partition outside": moved("../victim"),
    "a commit of a partition .hoodie": moved(".hoodie"),
    "a commit of sizes of 2**62": stats(fileSizeInBytes=1 << 62, totalWriteBytes=1 << 62),
    "a commit of numbers below zero": stats(numWrites=-(1 << 62), fileSizeInBytes=-1),
    "a commit of an instant that leads out": stats(prevCommit=OUT, baseFile="../victim/a.parquet"),
    "a commit of deep JSON as its schema": commit(lambda value: value["extraMetadata"].update(schema=DEEP)),
    "a commit of a run of 5,000 digits": commit(
        lambda value: value["extraMetadata"].update({"airflow.run": f"a/b/{DIGITS}/run=x"})
    ),
    "replaced groups outside": replaced("../victim", "f-0"),
    "replaced ids that lead out": replaced("eu", "../../victim/f"),
    "instants of versions up to 6 beside": file(f"{NEW}.commit", "{}"),
    "a folder in place of the timeline": linked(TIMELINE),
    # plans
    "a clean outside": clean({"../victim": ["a.parquet"]}, at=f"{TIMELINE}/{NEW}"),
    "a compaction outside": compaction(
        at=f"{TIMELINE}/{NEW}", partitionPath="../victim", dataFilePath="a.parquet"
    ),
    "a compaction of logs outside": compaction(
        at=f"{TIMELINE}/{NEW}", deltaFilePaths=["../victim/.f_1.log.1_0-0-0"]
    ),
    "a rollback outside": rollback(
        NEW, {"partitionPath": "../victim", "filesToBeDeleted": ["a.parquet"]}, at=f"{TIMELINE}/{NEW}"
    ),
    "a restore of an instant that leads out": restore(OUT, at=f"{TIMELINE}/{NEW}"),
    "a clustering outside": clustering(
        at=f"{TIMELINE}/{NEW}.clustering", partitionPath="../victim", dataFilePath="a.parquet"
    ),
    "a clustering of a bootstrap outside": clustering(
        at=f"{TIMELINE}/{NEW}.clustering", bootstrapFilePath="file:/etc/hostname"
    ),
    **{
        f"{name} of {what}": file(f"{TIMELINE}/{NEW}.{name}", data)
        for name, model in (
            ("clustering.requested", "HoodieRequestedReplaceMetadata"),
            ("compaction.requested", "HoodieCompactionPlan"),
            ("logcompaction.requested", "HoodieCompactionPlan"),
            ("clean.requested", "HoodieCleanerPlan"),
            ("rollback.requested", "HoodieRollbackPlan"),
            ("indexing.requested", "HoodieIndexPlan"),
        )
        for what, data in (
            ("no Avro", b"{}"),
            ("2**40 records", partial(endless, model)),
        )
    },
    "clustering.requested of a GiB of zeros": file(
        f"{TIMELINE}/{NEW}.clustering.requested", partial(bomb, "HoodieRequestedReplaceMetadata")
    ),
    # the archive
    "a version of 5,000 digits": file(f"{HISTORY}/_version_", "9" * 5000),
    "a version that is no number": file(f"{HISTORY}/_version_", "../../../victim/a"),
    "a version of 2**40 bytes": huge(f"{HISTORY}/_version_"),
    "a version that is a pipe": pipe(f"{HISTORY}/_version_"),
    "manifests of no JSON": manifests("x"),
    "manifests of deep JSON": manifests(DEEP),
    "manifests of a list": manifests("[]"),
    "manifests of numbers": manifests('{"files": [7]}'),
    "manifests of lists as names": manifests('{"files": [{"fileName": [], "fileLen": 1}]}'),
    "manifests of numbers as names": manifests('{"files": [{"fileName": 7, "fileLen": 1}]}'),
    "manifests of no UTF-8": manifests(b"\xff\xfe"),
    "manifests that lead out": naming("../../../../victim/a.parquet", length=8),
    "manifests of a whole path": naming("/etc/hostname"),
    "manifests of a file that is missing": naming("1_2_0.parquet"),
    "manifests of wrong lengths": naming("20261121003354541_20261121003356218_0.parquet"),
    "manifests of lengths that are texts": manifests(
        '{"files": [{"fileName": "1_2_0.parquet", "fileLen": "1"}]}'
    ),
    "manifests of 2**40 bytes": huge_manifests,
    "archived instants that lead out": column("instantTime", OUT),
    "archived instants of numbers": column("instantTime", 7, kind=pa.int64()),
    "archived instants of lists": column("instantTime", ["x"]),
    "archived instants of no action": column("action", "x" * 1000),
    "archived completions that lead out": column("completionTime", OUT),
    "archived completions of nothing": column("completionTime", None, kind=pa.string()),
    "archived completions before all time": column("completionTime", "00000000000000000"),
    "archived contents of nothing": column("metadata", None, kind=pa.binary()),
    "archived contents that are no Avro": column("metadata", b"x"),
    "archived contents that are texts": column("metadata", "x"),
    "archived contents of a GiB": column("metadata", partial(bomb, "HoodieCommitMetadata")),
    "archived plans of 2**40 records": column("plan", endless("HoodieCleanerPlan")),
    "an archive file of other columns": archive_file(lambda table: parquet(pa.table({"x": [1]}))),
    "an archive file without rows": archive_file(lambda table: parquet(table.slice(0, 0))),
    "an archive file of 2**22 rows": of_many("action", "commit", 1 << 22),
    "an archive file of a page of zeros": column("metadata", lambda: b"\0" * (160 << 20)),
    "an archive file of one text of a MiB in 4,096 rows": of_many("action", "x" * (1 << 20), 1 << 12),
    "an archive file of one content of 8 MiB in 64 rows": of_many("metadata", b"x" * (8 << 20), 64),
    "an archive file of columns in 200,000 structs": archive_file(lambda table: nested_footer(200_000)),
    "an archive file that is cut": archive_file(lambda table: parquet(table)[:-20]),
    "an archive that links elsewhere": linked(HISTORY),
    # indexes of 1.x
    "index definitions of no JSON": file(".index_defs/index.json", "x"),
    "index definitions of deep JSON": file(".index_defs/index.json", DEEP),
    "index definitions that lead out": file(
        ".index_defs/index.json",
        json.dumps({"indexDefinitions": {OUT: {"indexName": OUT, "sourceFields": [OUT], "version": "V2"}}}),
    ),
    "index definitions of 2**40 bytes": huge(".index_defs/index.json"),
    "a place of index definitions that leads out": lambda lake: lake.property(
        "hoodie.table.index.defs.path", "../victim/a.parquet"
    ),
    "metadata partitions that lead out": lambda lake: lake.property(
        "hoodie.table.metadata.partitions", "files,../../../victim"
    ),
    **{
        f"a metadata table of which every file is {how}": damaged_everywhere(how)
        for how in ("cut", "flipped", "zeros")
    },
}

OF_LOGS: dict[str, Case] = {
    "positions beyond the file": header(_POSITIONS, _ROARING),
    "positions of no base64": header(_POSITIONS, "\u00ff" * 9),
    "positions of 64 KiB": header(_POSITIONS, "A" * (1 << 16)),
    "positions of an instant that leads out": header(8, OUT),
    "a partial block of unknown columns": log_block(
        BlockType.AVRO_DATA,
        {HeaderKey.SCHEMA: SCHEMA, IS_PARTIAL: "true"},
        _rows(1, struct.pack(">i", 1) + b"\0"),
    ),
    "a partial block of no schema": log_block(BlockType.AVRO_DATA, {IS_PARTIAL: "true"}, _rows(1)),
    "a partial block of deep JSON": log_block(
        BlockType.AVRO_DATA, {HeaderKey.SCHEMA: DEEP, IS_PARTIAL: "true"}, _rows(1)
    ),
    "a partial block of a schema that doubles": log_block(
        BlockType.AVRO_DATA, {HeaderKey.SCHEMA: doubling(), IS_PARTIAL: "true"}, _rows(1)
    ),
    "a partial block of 2**31 rows": log_block(
        BlockType.AVRO_DATA, {HeaderKey.SCHEMA: SCHEMA, IS_PARTIAL: "true"}, _rows((1 << 31) - 1)
    ),
    "a block without keys": log_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: SCHEMA}, _rows(1, NO_ROW)),
    "a partial block of Parquet": log_block(
        BlockType.PARQUET_DATA,
        {HeaderKey.SCHEMA: SCHEMA, IS_PARTIAL: "true"},
        parquet(pa.table({"nowhere": repeated("x", 1 << 14)})),
    ),
    "a block that is partial in another word": header(IS_PARTIAL, "TRUE"),
    "deletes of no list": deletes(struct.pack(">ii", 3, 0)),
    "deletes of 2**31 bytes": deletes(struct.pack(">ii", 3, (1 << 31) - 1)),
    "deletes of another version": deletes(struct.pack(">ii", 99, 4) + b"abcd"),
    "deletes of 2**40 keys": deletes(struct.pack(">ii", 3, 8) + b"\x80" * 7 + b"\x01"),
    "a delete of an ordering value that is a text": delete_of(wrapped("StringWrapper", long(1) + b"x")),
    "a delete of an ordering value that is a truth": delete_of(wrapped("BooleanWrapper", b"\1")),
    "a delete of an ordering value that is no number": delete_of(
        wrapped("DoubleWrapper", struct.pack("<d", float("nan")))
    ),
    "a delete of an ordering value that is infinite": delete_of(
        wrapped("DoubleWrapper", struct.pack("<d", float("inf")))
    ),
    "a delete of an ordering value of a decimal of 1,000 bytes": delete_of(
        wrapped("DecimalWrapper", long(1000) + b"\x7f" * 1000)
    ),
    "a delete of an ordering value of 2**40 bytes": delete_of(wrapped("BytesWrapper", long(1 << 40))),
    "a delete of an ordering value of no kind": delete_of(long(99)),
    "a delete of an ordering value of a kind below zero": delete_of(long(-9)),
    "deletes of ordering values of every kind": delete_of(
        wrapped("StringWrapper", long(1) + b"x"),
        wrapped("LongWrapper", long(1 << 62)),
        wrapped("IntWrapper", long(7)),
        wrapped("BytesWrapper", long(2) + b"\xff\xfe"),
        long(0),
    ),
    "a delete of no ordering values": delete_of(several()),
    "a delete of one of several ordering values": delete_of(several(wrapped("IntWrapper", long(7)))),
    "a delete of ordering values too many": delete_of(several(*[wrapped("IntWrapper", long(7))] * 5000)),
    "a delete of ordering values of other kinds": delete_of(
        several(wrapped("StringWrapper", long(1) + b"x"), wrapped("BooleanWrapper", b"\1"))
    ),
    "a delete of ordering values of ordering values": delete_of(several(several(several()))),
    "a delete of 2**40 ordering values": delete_of(wrapped("ArrayWrapper", long(1 << 40))),
    "a delete of ordering values without end": delete_of(wrapped("ArrayWrapper", long(-3) + long(1 << 40))),
    "a block of an unknown header": header(77, "x"),
}
