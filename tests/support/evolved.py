"""Tables of Apache Hudi with columns that schema-on-read renamed, dropped, reordered and widened.

`python -m tests.support.evolved FOLDER` makes the two that tests/data/schema_on_read.tar.gz holds.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.support.arrow import arrow_schema
from tests.support.hudi_client import THREE_LEVEL_LISTS, HudiServer

ENABLED = {"hoodie.schema.on.read.enable": "true"}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.index.bloom.num_entries": "2000",
    "hoodie.compact.inline": "false",
    **ENABLED,
}
#: of Hudi's answers: its metadata table has nothing to do with columns
PLAIN = {**ENABLED, "hoodie.metadata.enable": "false"}

_DAY = datetime.date(2026, 1, 1)


def first_rows(start: int, stop: int, ts: int) -> pa.Table:
    """Rows of the table's first columns."""
    fields: dict[str, pa.DataType] = {
        "id": pa.string(),
        "ts": pa.int64(),
        "region": pa.string(),
        "val": pa.int32(),
        "name": pa.string(),
        "note": pa.string(),
        "weight": pa.float32(),
        "info": pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.float32())]),
        "tags": pa.list_(pa.struct([("k", pa.string()), ("v", pa.int32())])),
        "props": pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("y", pa.string())])),
        "price": pa.decimal128(8, 2),
        "day": pa.date32(),
        "count": pa.int32(),
    }
    rows: list[dict[str, Any]] = [
        {
            "id": f"k{i:03d}",
            "ts": ts,
            "region": f"p{i % 3}",
            "val": None if i % 7 == 0 else i,
            "name": f"name {i}",
            "note": f"note {i}",
            "weight": i / 4,
            "info": None if i % 5 == 0 else {"a": i, "b": f"b{i}", "c": i / 4},
            "tags": [{"k": f"t{n}", "v": n} for n in range(i % 3)],
            "props": [(f"m{i}", {"x": i, "y": f"y{i}"})],
            "price": Decimal(i) / 4,
            "day": _DAY + datetime.timedelta(days=i),
            "count": i,
        }
        for i in range(start, stop)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(list(fields.items())))


#: by rounds: what changes, before rows are written in the new columns
CHANGES = (
    (
        "rename column name to title",
        "alter column val type bigint",
        "rename column info.a to aa",
        "drop column note",
        "add columns (note int)",
        "drop column info.b",
    ),
    (
        "alter column title after ts",
        "alter column weight type double",
        "alter column price type decimal(12,2)",
        "alter column day type string",
        "alter column count type string",
        "add columns (info.b int)",
        "rename column tags.element.k to kk",
        "alter column tags.element.v type bigint",
        "rename column props.value.x to xx",
        "alter column info.c type double",
        "rename column info to details",
    ),
)


#: of SQL that changes columns; Hudi's vectorized reader fails on nested columns that were renamed
_SESSION = {
    **ENABLED,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.enable": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",
}


@contextlib.contextmanager
def evolving(server: HudiServer) -> Iterator[None]:
    """SQL changes columns by schema-on-read; the setting leaks into whatever follows in the session."""
    for name, value in _SESSION.items():
        server.sql(f"set {name}={value}")
    try:
        with server.hadoop(THREE_LEVEL_LISTS):
            yield
    finally:
        for name in _SESSION:
            server.sql(f"reset {name}")


def create(server: HudiServer, path: Path, table_type: str, rows: pa.Table) -> dict[str, str]:
    """A table of these rows, known to SQL by its folder's name; its write options."""
    options = {**OPTIONS, "hoodie.table.name": path.name, "hoodie.datasource.write.table.type": table_type}
    server.write(path, rows, options, operation="insert", mode="overwrite")
    adopt(server, path)
    return options


def adopt(server: HudiServer, path: Path) -> None:
    """Let SQL know a table by its folder's name."""
    server.sql(f"create table {path.name} using hudi location '{path}'")


def alter(server: HudiServer, path: Path, *changes: str) -> None:
    for change in changes:
        server.sql(f"alter table {path.name} {change}")


def changed(rows: pa.Table, ids: Sequence[str], ts: int, values: Mapping[str, Any]) -> pa.Table:
    """The rows with these ids, newer and with other values, without meta columns."""
    rows = rows.filter(pc.is_in(rows.column("id"), pa.array(ids)))
    rows = rows.select([name for name in rows.column_names if not name.startswith("_hoodie_")])
    for name, value in {**values, "ts": ts}.items():
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        rows = rows.set_column(place, field, pa.array([value] * rows.num_rows, field.type))
    return rows


def ask(server: HudiServer, path: Path, question: str) -> pa.Table:
    """Hudi's answer to `snapshot`, `ro`, `asof_<instant>` or `inc_<begin>`."""
    kind, _, time = question.partition("_")
    options = {
        "snapshot": {},
        "ro": {"hoodie.datasource.query.type": "read_optimized"},
        "asof": {"as.of.instant": time},
        "inc": {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": time,
        },
    }[kind]
    return server.read(path, options={**PLAIN, **options})


def commits(path: Path) -> list[str]:
    """Instants of completed commits, oldest first."""
    names = [item.name for item in (path / ".hoodie").iterdir()]
    return sorted(name.split(".")[0] for name in names if name[0] != "." and name.endswith("commit"))


def rename(path: Path, column: str, name: str) -> str:
    """As `alter table … rename column` leaves the table, without Hudi; its instant, after all others."""
    last = commits(path)[-1]
    (newest,) = (item for item in (path / ".hoodie").glob(f"{last}.*commit"))
    extra = json.loads(newest.read_text())["extraMetadata"]
    times = (item.name.partition(".")[0] for item in (path / ".hoodie").iterdir())
    instant = str(int(max(time for time in times if time.isdigit())) + 1)
    for key in ("schema", "latest_schema"):
        value = json.loads(extra[key])
        for field in value["fields"]:
            field["name"] = name if field["name"] == column else field["name"]
        if key == "latest_schema":
            value["version_id"] = int(instant)
        extra[key] = json.dumps(value, separators=(",", ":"))
    history = path / ".hoodie/.schema"
    known = (history / f"{last}.schemacommit").read_text().removeprefix('{"schemas":[')
    action = newest.name.split(".")[1]
    for suffix in (".requested", ".inflight"):
        (history / f"{instant}.schemacommit{suffix}").touch()
    (history / f"{instant}.schemacommit").write_text(f'{{"schemas":[{extra["latest_schema"]},{known}')
    (path / f".hoodie/{instant}.{action}.requested").touch()
    inflight = ".inflight" if action == "commit" else f".{action}.inflight"
    (path / f".hoodie/{instant}{inflight}").touch()
    commit = {"partitionToWriteStats": {}, "extraMetadata": extra, "operationType": "ALTER_SCHEMA"}
    (path / f".hoodie/{instant}.{action}").write_text(json.dumps(commit))
    return instant


def make(server: HudiServer, path: Path, table_type: str) -> dict[str, str]:
    """A table that has files of three schemas at least; its write options. Within `evolving`."""
    options = create(server, path, table_type, first_rows(0, 30, 1))
    for ts, changes, ids in (
        (2, CHANGES[0], ("k001", "k004", "k007")),
        (3, CHANGES[1], ("k001", "k002", "k005")),
    ):
        alter(server, path, *changes)
        rows = changed(ask(server, path, "snapshot"), ids, ts, {"title": f"round {ts}", "note": ts})
        server.write(path, rows, options)
    return options


def main(folder: str) -> None:
    """Writes `<table>` and `<table>_answers` of both table types into the folder."""
    out = Path(folder)
    with HudiServer("0.15.0") as server, evolving(server):
        for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
            path = out / ("evolved_" + "".join(word[0] for word in table_type.lower().split("_")))
            make(server, path, table_type)
            found = commits(path)
            first, second, last = found[0], found[len(CHANGES[0]) + 1], found[-1]
            answers = out / f"{path.name}_answers"
            answers.mkdir()
            asked = ["snapshot", "ro", f"asof_{second}", f"asof_{found[-4]}", f"asof_{last}"]
            for question in [*asked, "inc_000", f"inc_{first}", f"inc_{second}"]:
                pq.write_table(ask(server, path, question), answers / f"{question}.parquet")
            for side_file in path.rglob("*.crc"):
                side_file.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
