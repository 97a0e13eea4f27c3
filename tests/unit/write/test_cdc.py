"""Change logs of tables that keep change data: what they hold equals the rows before and after each write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, TableMismatch
from hoodie.format.cdc import LOGGING_MODE
from hoodie.format.log_file import LogFileReader
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.table import MetadataTable
from hoodie.table import properties
from hoodie.table.handle import Table
from tests.support.change_logs import (
    CDC,
    CDC_NAME,
    MODE,
    MODES,
    STORAGE,
    change_blocks,
    changes,
    expected,
    ordered,
    rows_by_key,
    stats,
)
from tests.support.faults import Change, Faults, injected
from tests.support.metadata import disagreements
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, small_rows
from tests.unit.write.support import (
    MAX_FILE,
    NULL_FOR_MISSING,
    OPTIONS,
    PLAIN,
    RECORD_SIZE,
    SMALL_FILE,
    listing,
    plain,
    values,
)

pytestmark = pytest.mark.table_version(6)


def write(table: Path, rows: Sequence[Mapping[str, Any]], operation: str = "upsert", **more: Any) -> str:
    """The instant of a write of SMALL_SCHEMA."""
    options = {**OPTIONS, **CDC, **{name.replace("__", "."): value for name, value in more.items()}}
    made = hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(table), operation=operation, options=options)
    return made.instant


def put(table: Path, *rows: tuple[str, int, str | None], gone: Sequence[str] = (), **more: Any) -> Any:
    """Upsert rows of (id, ts, val), and delete `gone`, in a table without partitions."""
    given = plain(*rows, *((key, 100, None) for key in gone))
    if gone:
        flags = pa.array([False] * len(rows) + [True] * len(gone))
        given = given.append_column("_hoodie_is_deleted", flags)
    options = {
        **PLAIN,
        **CDC,
        NULL_FOR_MISSING: True,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return hoodie.write_table(given, str(table), options=options)


def short(table: Path, instant: str) -> list[tuple[str, str | None, str | None]]:
    """Operation, `val` before and after of each change, of a table of `put`."""
    found = changes(table, instant)
    images = [(item["op"], item["before"], item["after"]) for item in found]
    return sorted(((op, old and old["val"], new and new["val"]) for op, old, new in images), key=repr)


@pytest.mark.parametrize("mode", MODES)
def test_the_changes_of_upserts_and_deletes(tmp_path: Path, mode: str) -> None:
    """Updates, late updates, inserts into small files and deletes; a first write logs nothing."""
    table = tmp_path / "t"
    first = write(table, small_rows(range(30), 5), **{MODE: mode.lower()})
    assert changes(table, first) == []
    props = properties.load(STORAGE, str(table))
    assert (props[properties.CDC_ENABLED], props[LOGGING_MODE]) == ("true", mode)
    newer, late = small_rows(range(20, 40), 6), small_rows(range(5), 1)
    for rows, operation in (([*newer, *late], "upsert"), (small_rows(range(25, 45), 9), "delete")):
        before = rows_by_key(table)
        result = hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(table), operation=operation)
        after = rows_by_key(table)
        assert ordered(changes(table, result.instant)) == expected(mode, result.instant, before, after)
    assert disagreements(table) == []


def test_rows_that_are_written_again_as_they_are_were_updated(tmp_path: Path) -> None:
    """As Apache Hudi has it; rows that lose to stored ones were not, and then the log has an empty block."""
    table = tmp_path / "t"
    put(table, ("a", 5, "x"), ("b", 5, "y"))
    assert short(table, put(table, ("a", 5, "x")).instant) == [("u", "x", "x")]
    late = put(table, ("a", 1, "late")).instant
    [stat] = stats(table, late)
    [(_, rows)] = change_blocks(table / next(iter(stat["cdcStats"])))
    assert (rows.num_rows, rows.column_names) == (0, ["op", "ts_ms", "before", "after"])


def test_what_is_left_of_a_file(tmp_path: Path) -> None:
    """Where a delete leaves nothing, readers infer it, of an upsert they would not; so of new rows only."""
    table = tmp_path / "t"
    put(table, ("a", 1, "x"), ("b", 1, "y"))
    assert short(table, put(table, ("c", 2, "z"), gone=["a", "b"]).instant) == [
        ("d", "x", None),
        ("d", "y", None),
        ("i", None, "z"),
    ]
    assert short(table, put(table, gone=["c"]).instant) == [("d", "z", None)]
    only_new = put(table, ("d", 3, "w")).instant
    assert [(stat["numInserts"], stat["cdcStats"]) for stat in stats(table, only_new)] == [(1, None)]
    deleted = hoodie.write_table(plain(("d", 9, None)), str(table), operation="delete").instant
    assert [(stat["numDeletes"], stat["cdcStats"]) for stat in stats(table, deleted)] == [(1, None)]
    assert changes(table, deleted) == []


def test_stored_rows_stay_in_a_file_that_grows_beyond_its_maximum(tmp_path: Path) -> None:
    """In a new file readers would take them for inserts. New rows go to one, and are in no log."""
    table, rows = tmp_path / "t", [(f"k{number:04}", 1, f"{number}") for number in range(400)]
    put(table, *rows)
    text = "long" * 50
    wide = [(key, 2, f"{text}{key}{number}") for number, (key, *_) in enumerate(rows)]
    new = [(f"n{number:04}", 2, f"{text}{number}") for number in range(200)]
    sizes: dict[str, Any] = {MAX_FILE: 3000, SMALL_FILE: 2000, RECORD_SIZE: 1}
    result = put(table, *wide, *new, **sizes)
    written = stats(table, result.instant)
    assert [stat["numUpdateWrites"] for stat in written if stat["cdcStats"]] == [400]
    others = [stat for stat in written if not stat["cdcStats"]]
    assert others
    assert all(stat["numInserts"] == stat["numWrites"] for stat in others)
    logged = [item["op"] for item in changes(table, result.instant)]
    assert logged.count("u") == 400
    assert logged.count("i") + sum(stat["numInserts"] for stat in others) == 200


def test_blocks_are_bounded(tmp_path: Path) -> None:
    table, rows = tmp_path / "t", [(f"k{number:04}", 1, "v" * 50) for number in range(300)]
    put(table, *rows)
    limit = 4000
    bounded: dict[str, Any] = {"hoodie.logfile.data.block.max.size": limit}
    later = [(key, 2, "w" * 50) for key, *_ in rows]
    instant = put(table, *later, **bounded).instant
    [(path, size)] = next(stat["cdcStats"] for stat in stats(table, instant)).items()
    found = change_blocks(table / path)
    assert sum(rows.num_rows for _, rows in found) == 300
    with LogFileReader(STORAGE, str(table / path)) as reader:
        assert max(len(reader.content(block)) for block in reader.blocks()) <= limit
    assert len(found) > 5
    assert (table / path).stat().st_size == size


def test_all_types(tmp_path: Path) -> None:
    """Nested ones, decimals, times and columns without nulls."""
    table = tmp_path / "t"
    options = {**OPTIONS, **CDC}
    before, after = (
        as_table(full_rows(range(9), 1), FULL_SCHEMA),
        as_table(full_rows(range(9), 2), FULL_SCHEMA),
    )
    hoodie.write_table(before, str(table), options=options)
    old = rows_by_key(table, FULL_SCHEMA)
    instant = hoodie.write_table(after, str(table), options=options).instant
    new = rows_by_key(table, FULL_SCHEMA)
    # as texts: no NaN equals another one
    assert repr(ordered(changes(table, instant))) == repr(expected(MODES[2], instant, old, new))


def test_columns_that_a_write_adds(tmp_path: Path) -> None:
    """The row as it was has them, too, and no value in them."""
    table = tmp_path / "t"
    put(table, ("a", 1, "x"), ("b", 1, "y"))
    wider = plain(("a", 2, "z")).append_column("n", pa.array([7], pa.int64()))
    instant = hoodie.write_table(wider, str(table), options={NULL_FOR_MISSING: True}).instant
    [change] = changes(table, instant)
    assert (change["before"]["n"], change["after"]["n"]) == (None, 7)


def test_a_key_that_moves_to_another_partition(tmp_path: Path) -> None:
    table = tmp_path / "t"
    rows = small_rows(range(12), 1)
    write(table, rows, hoodie__index__type="GLOBAL_SIMPLE")
    moved = {
        **rows[0],
        "ts": 10**6,
        "region": next(r["region"] for r in rows if r["region"] != rows[0]["region"]),
    }
    found = changes(table, write(table, [moved], hoodie__index__type="GLOBAL_SIMPLE"))
    assert sorted((item["op"], (item["before"] or item["after"])["region"]) for item in found) == [
        ("d", rows[0]["region"]),
        ("i", moved["region"]),
    ]


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite"])
def test_new_rows(tmp_path: Path, operation: str) -> None:
    """An insert into a small file is logged; new files and replaced ones have no log."""
    table = tmp_path / "t"
    put(table, ("a", 1, "x"))
    made = hoodie.write_table(plain(("a", 1, "y"), ("b", 1, "z")), str(table), operation=operation)
    assert short(table, made.instant) == (
        [("i", None, "y"), ("i", None, "z")] if operation == "insert" else []
    )


def test_a_merge_on_read_table(tmp_path: Path) -> None:
    """Base files that take new rows have change logs; logs that updates are appended to need none, nor does
    a compaction.
    """
    table, mor = tmp_path / "t", {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    put(table, ("a", 1, "x"), ("b", 1, "y"), **mor)
    appended = put(table, ("a", 2, "z")).instant
    assert [stat["logVersion"] for stat in stats(table, appended)] == [1]
    assert changes(table, appended) == []
    hoodie.compact_table(str(table), options={"hoodie.compact.inline.max.delta.commits": 1})
    rewritten = put(table, ("b", 3, "w"), ("c", 3, "v")).instant
    assert short(table, rewritten) == [("i", None, "v"), ("u", "y", "w")]
    assert len(list(table.glob(".*.cdc"))) == 1
    put(table, ("c", 4, "u"))
    assert values(table, "id", "val") == [("a", "z"), ("b", "w"), ("c", "u")]
    assert disagreements(table) == []


def logs(table: Path) -> set[str]:
    """The instants of the change logs in a table without partitions, which its metadata table lists."""
    found = {path.name: path.stat().st_size for path in table.glob(".*.cdc")}
    metadata = MetadataTable.open(Table.open(str(table)))
    assert metadata is not None
    listed = MetadataListing(metadata, str(table)).files("")
    assert {item.name: item.size for item in listed if item.name.endswith(".cdc")} == found
    assert disagreements(table) == []
    return {name.split("_")[1].split(".")[0] for name in found}


def test_rollback_restore_and_clean_delete_change_logs(tmp_path: Path) -> None:
    """A restore makes the metadata table anew, from the files."""
    table = tmp_path / "t"
    keep = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 2}
    options: dict[str, Any] = {"hoodie.clean.automatic": False, "hoodie.metadata.enable": True}
    put(table, ("a", 1, "x"), **options)
    instants = [put(table, ("a", number, "y"), **options).instant for number in range(2, 7)]
    assert logs(table) == set(instants)
    hoodie.rollback_table(str(table), instants[4])
    assert logs(table) == set(instants[:4])
    hoodie.restore_table(str(table), instants[2])
    assert logs(table) == set(instants[:3])
    hoodie.clean_table(str(table), options=keep)
    assert logs(table) == set(instants[1:3])
    assert short(table, instants[2]) == [("u", "y", "y")]


def test_the_logs_of_attempts_that_no_task_reports_go(tmp_path: Path) -> None:
    """A retried task has another token, and its marker names the file."""
    table, name = tmp_path / "t", ""
    put(table, ("a", 1, "x"))

    def stray(change: Change) -> bool:
        nonlocal name
        if change.name == "close_output" and change.path.endswith(".cdc") and not name:
            name = change.path.replace(".cdc", "7.cdc")
            Path(name).write_bytes(Path(next(table.glob("*.parquet"))).read_bytes()[:9])
            marker = Path(f"{table}/.hoodie/.temp/{name.split('_')[-2][:17]}/{Path(name).name}.marker.APPEND")
            marker.touch()
        return False

    with injected(Faults(of=stray)):
        instant = put(table, ("a", 2, "y")).instant
    assert name
    assert not Path(name).exists()
    assert short(table, instant) == [("u", "x", "y")]


def test_the_setting_of_a_table_stays(tmp_path: Path) -> None:
    with_log, without = tmp_path / "a", tmp_path / "b"
    put(with_log, ("a", 1, "x"))
    hoodie.write_table(plain(("a", 1, "x")), str(without), options=PLAIN)
    for table, wrong in (
        (with_log, {CDC_NAME: False}),
        (with_log, {MODE: "op_key_only"}),
        (without, CDC),
    ):
        before = listing(table)
        with pytest.raises(TableMismatch, match=r"options contradict table .*hoodie.table.cdc"):
            hoodie.write_table(plain(("a", 2, "y")), str(table), options=wrong)
        assert listing(table) == before
    hoodie.write_table(plain(("a", 2, "y")), str(with_log), options={**CDC, MODE: "Data_Before_After"})
    properties.update(STORAGE, str(with_log), {LOGGING_MODE: None})  # the default, unsaid
    with pytest.raises(TableMismatch, match="the table has 'DATA_BEFORE_AFTER'"):
        hoodie.write_table(plain(("a", 3, "z")), str(with_log), options={MODE: "DATA_BEFORE"})
    assert short(with_log, put(with_log, ("a", 3, "z")).instant) == [("u", "y", "z")]


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t"
    with pytest.raises(ConfigError, match="expected one of DATA_BEFORE, DATA_BEFORE_AFTER, OP_KEY_ONLY"):
        put(table, ("a", 1, "x"), **{MODE: "all"})
    assert not table.exists()
