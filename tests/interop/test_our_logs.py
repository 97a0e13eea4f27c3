"""Merge-on-read tables of ours, judged by Apache Hudi 0.15.0 and 1.2.0 and hudi-rs, and written in turns."""

from __future__ import annotations

import datetime as dt
import decimal
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.support.faults import Faults, InjectedFault, injected
from tests.support.hudi_client import HudiServer
from tests.support.oracle import Mode, Model
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, small_rows, without
from tests.support.tiers import full_but

pytestmark = pytest.mark.interop

KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
KEYGEN = "hoodie.datasource.write.keygenerator.class"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
TYPE = "hoodie.datasource.write.table.type"
BLOCKS = "hoodie.logfile.data.block.format"
SIMPLE = {KEY: "id", PARTITION: "region", ORDERING: "ts", TYPE: "MERGE_ON_READ"}
STORED_FULL = pa.schema(
    [pa.field("c_ntz", pa.timestamp("us", tz="UTC")) if f.name == "c_ntz" else f for f in FULL_SCHEMA]
)
#: hudi-rs fails on a timestamp in a map of structs of a log block (readers.HUDI_RS_GAPS)
FLAT_FULL = without(FULL_SCHEMA, "c_map_struct")


@dataclass(frozen=True)
class Case:
    """One table: how it is declared, and its rows."""

    name: str
    options: dict[str, Any]
    partition: tuple[str, ...] = ("region",)
    mode: Mode = Mode.EVENT_TIME
    full: bool = False
    hudi: dict[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return FLAT_FULL if self.full else SMALL_SCHEMA

    @property
    def stored(self) -> pa.Schema:
        return without(STORED_FULL, "c_map_struct") if self.full else SMALL_SCHEMA

    def rows(self, ids: Any, version: int, **more: Any) -> list[dict[str, Any]]:
        if self.full:
            return full_rows(ids, version, null_elements=False, **more)
        return small_rows(ids, version, **more)


CASES = [
    Case("avro", SIMPLE),
    Case("parquet", {**SIMPLE, BLOCKS: "parquet"}),
    Case("nonpartitioned", {KEY: "id", ORDERING: "ts", TYPE: "MERGE_ON_READ"}, partition=()),
    Case("hive", {**SIMPLE, HIVE_STYLE: True, "hoodie.index.type": "BLOOM"}),
    Case("no_ordering", {KEY: "id", PARTITION: "region", TYPE: "MERGE_ON_READ"}, mode=Mode.COMMIT_TIME),
    Case("types", SIMPLE, full=True),
    Case("types_parquet", {**SIMPLE, BLOCKS: "parquet"}, full=True),
]
IN_TURNS = ("avro", "nonpartitioned", "types_parquet")
#: all logs, no packing; several log files and blocks in one write
SMALL_LOGS = {
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.logfile.max.size": 6000,
    "hoodie.logfile.data.block.max.size": 4000,
}


class Table:
    """A table of ours and its model."""

    def __init__(self, path: Path, case: Case) -> None:
        self.path = path
        self.case = case
        ordering = "ts" if ORDERING in case.options else None
        self.model = Model(("id",), case.partition, ordering, case.mode)

    def put(self, rows: list[dict[str, Any]], operation: str = "upsert", **options: Any) -> Any:
        table = as_table(rows, self.case.schema)
        given = {**self.case.options, **SMALL_LOGS, **options}
        result = hoodie.write_table(table, str(self.path), operation=operation, options=given)
        getattr(self.model, operation)(rows)
        return result

    def fail(self, rows: list[dict[str, Any]]) -> str:
        """A write that dies before it publishes; its instant."""
        probe, undisturbed = self.path.with_name("probe"), Faults()
        shutil.copytree(self.path, probe)
        model, path = self.model, self.path
        self.model = Model(("id",), self.case.partition, None)
        try:
            self.path = probe
            with injected(undisturbed):
                self.put(rows)
            self.path = path
            numbers = enumerate(undisturbed.log, 1)
            publishing = next(n for n, change in numbers if change.path.endswith(".deltacommit"))
            with pytest.raises(InjectedFault), injected(Faults(at=publishing)):
                self.put(rows)
        finally:
            self.path, self.model = path, model
            shutil.rmtree(probe)
        return max(path.name for path in self.path.glob(".hoodie/*.deltacommit.inflight")).split(".")[0]

    @property
    def expected(self) -> pa.Table:
        return self.model.table(self.case.schema).cast(self.case.stored)

    def check(
        self,
        what: str,
        *servers: HudiServer,
        hudi_rs: bool = True,
        metadata: Sequence[bool | None] = (None,),
    ) -> None:
        """Everybody sees the model's rows; Apache Hudi with its metadata table switched as in `metadata`."""
        assert_same_rows(hoodie.read_table(str(self.path)), self.expected, what=f"{what}, ours")
        if hudi_rs:
            assert_same_rows(read_hudi_rs(self.path), self.expected, what=f"{what}, hudi-rs")
        for server in servers:
            for switch in metadata:
                rows = server.read(self.path, metadata=switch)
                assert_same_rows(rows, self.expected, what=f"{what}, Hudi {server.version}")


def build(path: Path, case: Case) -> Table:
    """Several log versions, late updates, deletes and late deletes, a failed write that is rolled back."""
    table = Table(path, case)
    table.put(case.rows(range(60), 2), "bulk_insert")
    table.put(case.rows(range(40, 90), 3))
    table.put(case.rows(range(10), 4) + case.rows(range(95, 100), 4, deleted=True))
    table.put(case.rows(range(20, 30), 5, deleted=True) + case.rows(range(100, 120), 5))
    failed = table.fail(case.rows(range(15, 50), 9) + case.rows(range(50, 60), 9, deleted=True))
    if case.mode is Mode.EVENT_TIME:
        table.put(case.rows(range(5), 1) + case.rows(range(40, 44), 1, deleted=True))
    result = table.put(case.rows(range(30, 36), 6) + case.rows(range(36, 40), 6, deleted=True))
    assert failed in result.rolled_back or case.mode is Mode.EVENT_TIME
    table.put(case.rows(range(22, 25), 7))
    return table


@pytest.mark.parametrize("case", full_but((), CASES, lambda case: case.name), ids=lambda case: case.name)
def test_every_reader_agrees(tmp_path: Path, case: Case, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    table = build(tmp_path / case.name, case)
    table.check("written", hudi_015, hudi_12, metadata=(True, False))
    base_rows = hudi_015.read_optimized(table.path)
    assert_same_rows(hoodie.read_table(str(table.path), query="read_optimized"), base_rows, meta=True)


@pytest.mark.full
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in IN_TURNS], ids=lambda case: case.name
)
def test_written_and_compacted_in_turns(
    tmp_path: Path, case: Case, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """We write, Apache Hudi 0.15.0 upserts, deletes and compacts on top, and we upsert on top of that."""
    table = build(tmp_path / case.name, case)
    theirs = case.rows(range(50, 70), 10) + case.rows(range(8), 10, deleted=True)
    theirs += case.rows(range(200, 215), 10)
    write_by_hudi(hudi_015, table, theirs)
    table.check("after Apache Hudi", hudi_015, hudi_12, hudi_rs=False)
    table.put(case.rows(range(60, 80), 11) + case.rows(range(205, 210), 11, deleted=True))
    table.check("after us", hudi_015, hudi_12)
    compact_by_hudi(hudi_015, table)
    table.check("compacted", hudi_015, hudi_12)
    result = table.put(case.rows(range(75, 90), 12) + case.rows(range(3), 12))
    assert result.num_updates == 15
    table.check("after us on the compacted table", hudi_015, hudi_12)
    write_by_hudi(hudi_015, table, case.rows(range(80, 100), 13))
    table.check("after Apache Hudi again", hudi_015, hudi_12)


def write_by_hudi(server: HudiServer, table: Table, rows: list[dict[str, Any]]) -> None:
    case = table.case
    columns = [f.name for f in case.schema]
    data = as_table(rows, case.schema).cast(case.stored).select(columns)
    generator = "SimpleKeyGenerator" if case.partition else "NonpartitionedKeyGenerator"
    options = {
        "hoodie.table.name": table.path.name,
        KEY: "id",
        PARTITION: ",".join(case.partition),
        ORDERING: "ts",
        TYPE: "MERGE_ON_READ",
        KEYGEN: f"org.apache.hudi.keygen.{generator}",
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        BLOCKS: str(case.options.get(BLOCKS, "avro")),
        "hoodie.compact.inline": "false",
    }
    server.write(table.path, data, options)
    table.model.upsert(rows)


def compact_by_hudi(server: HudiServer, table: Table) -> None:
    name = f"compacted_{table.path.name}"
    server.sql(f"drop table if exists {name}")
    server.sql(f"create table {name} using hudi location '{table.path}'")
    options = "hoodie.compact.inline.max.delta.commits=1"
    for op in ("schedule", "run"):
        server.call("run_compaction", op=op, table=name, options=options)
    assert list(table.path.glob(".hoodie/*.commit")), "Apache Hudi compacted"


@pytest.mark.full
def test_a_pending_compaction_of_ours_with_logs_above(
    tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    table = build(tmp_path / "t", CASES[0])
    options = {"hoodie.compact.inline.max.delta.commits": 1}
    assert hoodie.compact_table(str(table.path), mode="schedule", options=options).scheduled
    case = table.case
    table.put(case.rows(range(20, 26), 8) + case.rows(range(50, 55), 8, deleted=True))
    table.put(case.rows(range(54, 58), 9) + case.rows(range(20, 22), 1, deleted=True))
    table.check("pending", hudi_015, hudi_12, hudi_rs=False)
    compact_by_hudi(hudi_015, table)
    table.check("compacted", hudi_015, hudi_12)
    table.put(case.rows(range(50, 60), 10))
    table.check("after us", hudi_015, hudi_12)


@pytest.mark.full
def test_blocks_taken_back_among_those_of_others(
    tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """A failed write on a storage that appends: the command block that we write is obeyed by all."""
    case = CASES[2]
    table = Table(tmp_path / "t", case)
    table.put(case.rows(range(40), 1))
    table.put(case.rows(range(10), 2))
    failed = table.fail(case.rows(range(5, 20), 9) + case.rows(range(30, 40), 9, deleted=True))
    (marker,) = list((table.path / f".hoodie/.temp/{failed}").glob(".*.log.2_*"))
    log = table.path / marker.name.removesuffix(".marker.APPEND")
    older = next(table.path.glob(".*.log.1_*"))
    older.write_bytes(older.read_bytes() + log.read_bytes())
    log.unlink()
    marker.rename(marker.with_name(f"{older.name}.marker.APPEND"))
    result = table.put(case.rows(range(8, 12), 3))
    assert result.rolled_back == [failed]
    assert len(list(table.path.glob(".*.log.*_1-0-1"))) == 1
    table.check("rolled back", hudi_015, hudi_12)
    table.put(case.rows(range(30, 34), 4))
    table.check("written on", hudi_015, hudi_12)


@pytest.mark.full
def test_a_failed_write_of_ours_is_rolled_back_by_apache_hudi(
    tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """By our markers. Its command blocks get an instant after the new commit's, which hides that commit's
    blocks behind them from Apache Hudi 0.15.0 itself, until there is another commit.
    """
    case = CASES[2]
    table = Table(tmp_path / "t", case)
    table.put(case.rows(range(40), 1))
    table.put(case.rows(range(10), 2))
    failed = table.fail(case.rows(range(5, 20), 9) + case.rows(range(30, 50), 9, deleted=True))
    write_by_hudi(hudi_015, table, case.rows(range(8, 12), 3) + case.rows(range(60, 64), 3))
    assert not list(table.path.glob(f".hoodie/{failed}*"))
    assert list(table.path.glob(".hoodie/*.rollback"))
    table.check("rolled back", hudi_12, hudi_rs=False)
    table.put(case.rows(range(30, 34), 4))
    table.check("written on", hudi_015, hudi_12)


#: three ascending values of an ordering column
ORDERINGS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "int": (pa.int32(), (-5, 1, 7)),
    "double": (pa.float64(), (-1.5, 0.5, 1e300)),
    "string": (pa.string(), ("10", "9", "z")),
    "date": (pa.date32(), tuple(dt.date(year, 1, 2) for year in (1969, 1970, 2024))),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        tuple(dt.datetime(year, 1, 1, tzinfo=dt.timezone.utc) for year in (1969, 2024, 2025)),
    ),
    "decimal": (pa.decimal128(12, 2), tuple(map(decimal.Decimal, ("1.50", "2.25", "12.00")))),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", ORDERINGS)
def test_late_rows_by_ordering_columns_of_every_type(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """Late updates and deletes, against base rows, logged rows and logged deletes: nobody sees them."""
    dtype, (low, middle, high) = ORDERINGS[kind]
    schema = pa.schema(
        [("id", pa.string()), ("ts", dtype), ("val", pa.string()), ("_hoodie_is_deleted", pa.bool_())]
    )
    path = tmp_path / kind
    options = {KEY: "id", ORDERING: "ts", TYPE: "MERGE_ON_READ", **SMALL_LOGS}

    def write(rows: Sequence[tuple[str, Any, str | None]], deleted: bool = False) -> None:
        listed = [dict(zip(schema.names, (*row, deleted), strict=True)) for row in rows]
        hoodie.write_table(pa.Table.from_pylist(listed, schema=schema), str(path), options=options)

    write([(key, middle, "base") for key in "abcdefg"])
    write([("a", low, "late"), ("b", high, "new"), ("c", high, "new")])
    write([("d", low, None), ("e", high, None), ("c", middle, None)], deleted=True)
    write([("e", middle, "late"), ("f", middle, "tie")])
    write([("g", high, None)], deleted=True)
    write([("g", high, "tie")])
    values = {"a": "base", "b": "new", "c": "new", "d": "base", "f": "tie", "g": "tie"}
    expected = pa.table({"id": list(values), "val": list(values.values())})
    seen = {
        "ours": hoodie.read_table(str(path)),
        "hudi-rs": read_hudi_rs(path),
        "Hudi 0.15.0": hudi_015.read(path),
        "Hudi 1.2.0": hudi_12.read(path),
    }
    for who, rows in seen.items():
        assert_same_rows(rows.select(["id", "val"]), expected, what=f"{kind}, {who}")
