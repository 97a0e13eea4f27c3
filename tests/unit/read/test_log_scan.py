"""Which blocks of a slice's logs count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.errors import TableError
from hoodie.format.base_file import BaseFileReader
from hoodie.format.log_block import BlockType
from hoodie.read import file_slice
from hoodie.read.file_slice import SliceReader, read_slice
from hoodie.table.log_scan import LogScan, scan_slice
from hoodie.timeline.instant import Action, State
from tests.unit.read.support import STORAGE, LogTable, Row, data, deletes, moment, rollback


def row(key: str, ts: int = 0, a: str | None = None) -> Row:
    return {"key": key, "ts": ts, "a": a, "b": None, "c": None, "_hoodie_is_deleted": None}


def scanned(table: LogTable, as_of: int | None = None, **more: Any) -> LogScan:
    found, snapshot = table.slice(as_of)
    return scan_slice(STORAGE, found, snapshot, **more)


def values(table: LogTable, as_of: int | None = None, payload: str = "event_time") -> dict[str, Any]:
    """Column `a` by key."""
    found, snapshot = table.slice(as_of)
    tables = list(read_slice(STORAGE, found, table.context(snapshot, payload), ["key", "a"]))
    rows = [item for piece in tables for item in piece.to_pylist()]
    assert len({item["key"] for item in rows}) == len(rows)
    return {item["key"]: item["a"] for item in rows}


@pytest.fixture
def table(tmp_path: Path) -> LogTable:
    """A base file with the keys x and y."""
    made = LogTable(tmp_path / "t")
    made.base_file([row("x", 0, "base"), row("y", 0, "base")])
    return made


def test_blocks_of_other_than_completed_instants_do_not_count(table: LogTable) -> None:
    table.instant(2)
    table.instant(3, State.INFLIGHT)
    table.instant(4, State.REQUESTED)
    table.log(data(2, [row("x", 1, "two")]))
    table.log(data(3, [row("x", 1, "three")]), data(4, [row("x", 1, "four")]))
    table.log(data(5, [row("x", 1, "five")]), deletes(5, ["y"]))
    scan = scanned(table)
    assert scan.instants == (moment(2),)
    assert (scan.statistics.files, scan.statistics.blocks) == (3, 5)
    assert scan.statistics.bytes == sum(path.stat().st_size for path in Path(table.path).glob(".*.log.*"))
    assert values(table) == {"x": "two", "y": "base"}


def test_a_block_that_does_not_count_hides_none_behind_it(table: LogTable) -> None:
    """A writer that began earlier and ended later, and a rollback with an instant after the newest commit."""
    table.instant(2)
    table.instant(3, State.INFLIGHT)
    table.log(data(3, [row("x", 1, "three")]))
    table.log(rollback(9, 8))
    table.log(data(2, [row("x", 1, "two")]))
    assert values(table) == {"x": "two", "y": "base"}


def test_blocks_older_than_the_timeline_are_of_archived_commits(table: LogTable) -> None:
    table.log(data(0, [row("x", 1, "archived")]))
    assert values(table) == {"x": "archived", "y": "base"}


def test_as_of_an_instant(table: LogTable) -> None:
    table.instant(2)
    table.instant(3)
    table.log(data(2, [row("x", 1, "two")]))
    table.log(data(3, [row("x", 1, "three")]), deletes(3, ["y"]))
    assert values(table, as_of=1) == {"x": "base", "y": "base"}
    assert values(table, as_of=2) == {"x": "two", "y": "base"}
    assert values(table, as_of=3) == values(table) == {"x": "three"}


def test_blocks_after_an_instant_only(table: LogTable) -> None:
    for number in (2, 3):
        table.instant(number)
        table.log(data(number, [row("x", 1)]))
    assert scanned(table, from_instant=moment(2)).instants == (moment(3),)
    assert scanned(table, from_instant=moment(1)).instants == (moment(2), moment(3))


def test_a_rollback_takes_back_what_is_before_it(table: LogTable) -> None:
    """Both blocks of a retried write go; one of the same instant behind the rollback is a new attempt."""
    table.instant(2)
    table.instant(3)
    table.log(data(3, [row("x", 1, "first")]))
    table.log(data(2, [row("y", 1, "two")]))
    table.log(data(3, [row("x", 1, "again")]), deletes(3, ["y"]))
    table.log(rollback(4, 3))
    assert values(table) == {"x": "base", "y": "two"}
    table.log(data(3, [row("x", 1, "anew")]))
    assert values(table) == {"x": "anew", "y": "two"}
    statistics = scanned(table).statistics
    assert (statistics.rollback_blocks, statistics.corrupt_blocks) == (1, 0)


def test_rolling_back_what_is_not_there_changes_nothing(table: LogTable) -> None:
    table.instant(2)
    table.log(rollback(3, 2), data(2, [row("x", 1, "two")]), rollback(4, 9))
    assert values(table) == {"x": "two", "y": "base"}


@pytest.mark.parametrize("rest", [b"#HUDI#", b"#HUDI#" + b"\0" * 40, b"#HUDI#\0\0\0\0\0\0\1\0" + b"x" * 20])
def test_corrupt_blocks_are_passed_over_and_counted(table: LogTable, rest: bytes) -> None:
    table.instant(2)
    table.log(rest, data(2, [row("x", 1, "two")]), rest)
    table.log(rest)
    assert values(table) == {"x": "two", "y": "base"}
    assert scanned(table).statistics.corrupt_blocks == 3


def test_a_file_that_is_no_log_is_an_error(table: LogTable) -> None:
    table.log(b"something else")
    with pytest.raises(TableError, match="damaged at byte 0"):
        values(table)


def test_logs_are_read_in_the_order_of_their_versions(table: LogTable) -> None:
    table.instant(2)
    table.log(data(2, [row("x", 1, "tenth")]), version=10)
    table.log(data(2, [row("x", 1, "ninth")]), version=9)
    table.log(data(2, [row("x", 1, "b")]), version=11, token="1-0-2")
    table.log(data(2, [row("x", 1, "a")]), version=11, token="1-0-1")
    found, _ = table.slice()
    assert [log.version for log in found.logs] == [9, 10, 11, 11]
    assert values(table) == {"x": "b", "y": "base"}


def test_a_slice_without_a_base_file(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.instant(1)
    table.instant(2)
    table.log(data(1, [row("x", 1, "one"), row("y", 1, "one")]))
    table.log(data(2, [row("x", 2, "two")]), deletes(2, ["y", "z"]))
    assert values(table) == {"x": "two"}


def test_all_rows_deleted(table: LogTable) -> None:
    table.instant(2)
    table.log(deletes(2, ["x", "y"]))
    assert values(table) == {}


def test_logs_whose_blocks_do_not_count_leave_the_base_file_as_it_is(table: LogTable) -> None:
    table.log(data(7, [row("x", 1, "seven")]))
    assert values(table) == {"x": "base", "y": "base"}


# --- log compaction ----------------------------------------------------------------------------------


def test_a_compacted_block_stands_in_for_its_blocks(table: LogTable) -> None:
    """In the place of the newest of them: a block that was not merged stays on top."""
    for number in (2, 3, 4, 5):
        table.instant(number)
    for number in (2, 3, 4):
        table.log(data(number, [row("x", 1, f"of {number}"), row(f"k{number}", 1, "own")]))
    table.log(data(5, [row("x", 1, "of 2, 3"), row("k2", 1, "merged")], compacted=[2, 3]))
    assert scanned(table).instants == (moment(5), moment(4))
    assert values(table) == {"x": "of 4", "y": "base", "k2": "merged", "k4": "own"}
    assert values(table, as_of=4) == {"x": "of 4", "y": "base", "k2": "own", "k3": "own", "k4": "own"}


def test_a_compacted_block_that_was_compacted_again(table: LogTable) -> None:
    for number in range(2, 8):
        table.instant(number)
    table.log(data(2, [row("x", 1, "2")]), data(3, [row("x", 1, "3")]))
    table.log(data(4, [row("x", 1, "2+3")], compacted=[2, 3]))
    table.log(data(5, [row("x", 1, "5")]))
    table.log(data(6, [row("x", 1, "2+3+5")], compacted=[4, 5]), deletes(6, ["y"], compacted=[4, 5]))
    table.log(data(7, [row("z", 1, "7")]))
    assert scanned(table).instants == (moment(6), moment(7))
    assert values(table) == {"x": "2+3+5", "z": "7"}


def test_a_compacted_block_that_failed_does_not_count(table: LogTable) -> None:
    table.instant(2)
    table.instant(3, State.INFLIGHT, Action.LOGCOMPACTION)
    table.log(data(2, [row("x", 1, "two")]))
    table.log(data(3, [row("x", 1, "merged")], compacted=[2]))
    assert values(table) == {"x": "two", "y": "base"}


def test_a_compacted_block_whose_blocks_are_gone_keeps_its_own_place(table: LogTable) -> None:
    for number in (2, 3, 4):
        table.instant(number)
    table.log(data(4, [row("x", 1, "merged")], compacted=[2]), data(3, [row("x", 1, "three")]))
    assert values(table) == {"x": "three", "y": "base"}


# --- statistics, columns -----------------------------------------------------------------------------


def test_what_a_reader_counts(table: LogTable) -> None:
    table.instant(2)
    table.log(data(2, [row("x", 1), row("n", 1), row("m", 1)]), deletes(2, ["y", "o"]))
    found, snapshot = table.slice()
    with SliceReader(STORAGE, found, table.context(snapshot)) as reader:
        rows = sum(piece.num_rows for piece in reader.tables())
    assert (rows, reader.updates, reader.deletes, reader.inserts) == (3, 1, 1, 2)
    assert reader.scan.statistics.records == 3


@pytest.mark.parametrize("kind", [BlockType.AVRO_DATA, BlockType.PARQUET_DATA])
def test_columns_come_in_the_order_asked_for(table: LogTable, kind: BlockType) -> None:
    table.instant(2)
    table.log(data(2, [row("x", 1, "two"), row("z", 1, "two")], kind))
    found, snapshot = table.slice()
    for names in (["a", "_hoodie_commit_time"], ["b"], ["_hoodie_record_key"], ["c", "key"]):
        tables = list(read_slice(STORAGE, found, table.context(snapshot), names))
        assert {tuple(piece.column_names) for piece in tables} == {tuple(names)}
        assert sum(piece.num_rows for piece in tables) == 3


def test_a_null_ordering_value_in_a_log_is_an_error(table: LogTable) -> None:
    table.instant(2)
    table.log(data(2, [{**row("x"), "ts": None}, row("x")]))
    with pytest.raises(TableError, match="log records can't be merged: ordering column 'ts' is null"):
        values(table)


def test_a_key_that_the_base_file_has_twice_is_merged_twice(tmp_path: Path) -> None:
    """As compaction does it; Hudi's snapshot query merges the first of them only."""
    table = LogTable(tmp_path / "t")
    table.base_file([row("x", 0, "first"), row("y", 0), row("x", 5, "second"), row("z", 0), row("z", 1)])
    table.instant(2)
    table.log(data(2, [row("x", 3, "new")]), deletes(2, ["z"]))
    found, snapshot = table.slice()
    for ordered in (True, False):
        tables = read_slice(STORAGE, found, table.context(snapshot), ordered=ordered)
        rows = [(item["key"], item["a"]) for piece in tables for item in piece.to_pylist()]
        expected = [("x", "new"), ("y", None), ("x", "second")]
        assert rows == expected if ordered else sorted(rows, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("payload", ["event_time", "commit_time", "partial_update"])
@pytest.mark.parametrize("older_from", [0, 3, 4, 9, 10], ids="older from {}".format)
def test_logs_that_hold_every_key_of_a_base_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: str, older_from: int
) -> None:
    """Ten rows in batches of four; from `older_from` on the log's rows are older than the stored ones."""
    monkeypatch.setattr(BaseFileReader.batches, "__defaults__", (None, 4))
    table = LogTable(tmp_path / "t")
    keys = [f"k{number}" for number in range(10)]
    table.base_file([row(key, 5, "base") for key in keys])
    table.instant(2)
    rows = [row(key, 9 if number < older_from else 1, "log") for number, key in enumerate(keys)]
    table.log(data(2, rows[::-1]), deletes(2, ["k1"]))
    found, snapshot = table.slice()
    with SliceReader(STORAGE, found, table.context(snapshot, payload), ["key", "a"]) as reader:
        got = [item for piece in reader.tables() for item in piece.to_pylist()]
    newer = 10 if payload == "commit_time" else older_from
    expected = {key: "log" if number < newer else "base" for number, key in enumerate(keys) if key != "k1"}
    assert [(item["key"], item["a"]) for item in got] == list(expected.items())
    assert (reader.deletes, reader.inserts) == (1, 0)


@pytest.mark.parametrize(("few", "many"), [(4, 3), (3, 4), (4, 10), (5, 2)], ids=str)
def test_batches_of_more_columns_have_another_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, many: int
) -> None:
    """Logs hold every key, and from the fifth row on older rows: then more columns are read, in batches that
    begin elsewhere."""
    batches = BaseFileReader.batches

    def cut(self: BaseFileReader, columns: Any = None, rows: int = few) -> Any:
        return batches(self, columns, few if columns is not None and len(columns) < 3 else many)

    monkeypatch.setattr(BaseFileReader, "batches", cut)
    table = LogTable(tmp_path / "t")
    keys = [f"k{number}" for number in range(10)]
    table.base_file([row(key, 5, "base") for key in keys])
    table.instant(2)
    table.log(data(2, [row(key, 9 if number < 5 else 1, "log") for number, key in enumerate(keys)]))
    found, snapshot = table.slice()
    tables = read_slice(STORAGE, found, table.context(snapshot), ["a", "b", "key"])
    got = [(item["key"], item["a"]) for piece in tables for item in piece.to_pylist()]
    assert got == [(key, "log" if number < 5 else "base") for number, key in enumerate(keys)]


@pytest.mark.parametrize("kept", [0, 1 << 20], ids="{} bytes".format)
def test_keys_of_a_base_file_are_kept_or_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(file_slice, "_KEPT_KEYS", kept)
    monkeypatch.setattr(file_slice, "_LOOK_UP_ROWS", 3)
    monkeypatch.setattr(BaseFileReader.batches, "__defaults__", (None, 4))
    table = LogTable(tmp_path / "t")
    table.base_file([row(f"k{number}", 0, f"base {number}") for number in range(10)])
    table.instant(2)
    table.log(data(2, [row("k3", 1, "log 3"), row("k8", 1, "log 8")]), deletes(2, ["k4"]))
    found, snapshot = table.slice()
    kinds = {3: "log", 8: "log"}
    expected = [(f"k{n}", f"{kinds.get(n, 'base')} {n}") for n in range(10) if n != 4]
    for names in (["_hoodie_record_key", "a"], ["a", "_hoodie_record_key"], ["_hoodie_record_key"], ["a"]):
        tables = list(read_slice(STORAGE, found, table.context(snapshot), names))
        rows = [item for piece in tables for item in piece.to_pylist()]
        wanted = [{"_hoodie_record_key": key, "a": a} for key, a in expected]
        assert rows == [{name: item[name] for name in names} for item in wanted]


def test_a_column_that_no_file_has_is_null_in_every_row(table: LogTable) -> None:
    table.instant(2)
    table.log(data(2, [row("x", 1), row("z", 1)]))
    found, snapshot = table.slice()
    context = table.context(snapshot, "commit_time")
    context = replace(context, schema=context.schema.append(pa.field("new", pa.int32())))
    for ordered in (True, False):
        tables = list(read_slice(STORAGE, found, context, ["new"], ordered=ordered))
        assert pa.concat_tables(tables).column("new").to_pylist() == [None] * 3
