"""Merge-on-read: rows older than what is stored change nothing, for every reader; and pending compactions."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.format.base_file import BaseFileReader
from hoodie.table.skeleton import open_base
from hoodie.write.files import late_records
from tests.support.readers import read_hudi_rs
from tests.support.tables import small_rows
from tests.support.tiers import crossed_but
from tests.unit.write.merge_on_read import (
    MOR,
    NO_PACKING,
    PLAIN_MOR,
    MorPair,
    drop,
    log_paths,
    parsed,
    put,
    stats,
)
from tests.unit.write.support import data_files, plain, values

BLOCK_FORMAT = "hoodie__logfile__data__block__format"


def seen(table: Path) -> list[tuple[Any, ...]]:
    """(id, ts) as our reader and hudi-rs see them."""
    rows = read_hudi_rs(table).select(["id", "ts"]).to_pylist()
    theirs = sorted((tuple(row.values()) for row in rows), key=repr)
    ours = values(table, "id", "ts")
    assert ours == theirs
    return ours


def counts(result: Any) -> tuple[int, int, int]:
    return result.num_updates, result.num_deletes, result.num_files


def test_older_than_the_base_row(tmp_path: Path) -> None:
    """No log is written for nothing; a tie goes to the incoming row."""
    path = tmp_path / "t"
    put(path, ("a", 5, "x"), ("b", 5, "y"), ("c", 5, "z"))
    assert counts(put(path, ("a", 4, "late"))) == (0, 0, 0)
    assert counts(drop(path, ("a", 4), ("b", 1))) == (0, 0, 0)
    assert log_paths(path) == []
    assert counts(put(path, ("a", 4, "late"), ("b", 5, "tie"))) == (1, 0, 1)
    assert counts(drop(path, ("a", 4), ("c", 5))) == (0, 1, 1)
    assert seen(path) == [("a", 5), ("b", 5)]
    assert values(path, "val") == ["tie", "x"]


def test_a_delete_older_than_a_logged_update(tmp_path: Path) -> None:
    path = tmp_path / "t"
    put(path, ("a", 1, "x"), ("b", 1, "y"), ("c", 1, "z"))
    put(path, ("a", 5, "x5"), ("b", 5, "y5"), ("c", 5, "z5"))
    assert counts(drop(path, ("a", 4), ("b", 5), ("c", 6))) == (0, 2, 1)
    assert seen(path) == [("a", 5)]


def test_an_update_older_than_a_logged_delete(tmp_path: Path) -> None:
    """The row stays deleted, whichever of the two came first; Apache Hudi 0.15.0 would bring it back."""
    path = tmp_path / "t"
    put(path, ("a", 2, "x"), ("b", 2, "y"), ("c", 2, "z"))
    drop(path, ("a", 5), ("b", 5), ("c", 5))
    assert counts(put(path, ("a", 1, "before all"), ("b", 4, "late"), ("c", 5, "tie"))) == (1, 0, 1)
    assert seen(path) == [("c", 5)]
    put(path, ("b", 6, "again"))
    assert counts(put(path, ("b", 4, "late"))) == (0, 0, 0)
    assert counts(drop(path, ("b", 5))) == (0, 0, 0)
    assert seen(path) == [("b", 6), ("c", 5)]


def test_late_among_other_rows_of_a_batch(tmp_path: Path) -> None:
    """Of the rows of a key in one batch the newest is judged."""
    path = tmp_path / "t"
    put(path, ("a", 5, "x"), ("b", 5, "y"))
    rows = plain(("a", 4, "p"), ("a", 6, "q"), ("b", 3, "r"), ("b", 4, "s"), ("new", 1, "t"))
    result = hoodie.write_table(rows, str(path), options=PLAIN_MOR)
    assert (result.num_updates, result.num_inserts) == (1, 1)
    assert seen(path) == [("a", 6), ("b", 5), ("new", 1)]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ordering values of base files are read, each time that they are."""
    found: list[int] = []
    whole = BaseFileReader.batches

    def counted(self: BaseFileReader, columns: Any = None, *given: Any) -> Any:
        for batch in whole(self, columns, *given):
            if list(columns or ()) == ["ts"]:
                found.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(BaseFileReader, "batches", counted)
    return found


def test_a_base_file_without_a_newer_row_is_not_read(tmp_path: Path, compared: list[int]) -> None:
    """Of its row groups those are that have one: statistics show it."""
    path = tmp_path / "t"
    options = {**PLAIN_MOR, "hoodie.parquet.block.size": "4096"}
    first = plain(*((f"k{number:04d}", number // 400, "first") for number in range(1200)))
    hoodie.write_table(first, str(path), options=options)
    (file,) = data_files(path)
    groups = pq.ParquetFile(file).metadata.num_row_groups
    assert groups > 3
    assert counts(put(path, ("k0001", 2, "b"), ("k0500", 2, "b"), ("k1100", 3, "b"))) == (3, 0, 1)
    assert compared == []
    assert counts(put(path, ("k0002", 1, "b"), ("k0501", 2, "b"), ("k1101", 1, "late"))) == (2, 0, 1)
    assert 0 < sum(compared) < 800
    assert [row for row in seen(path) if row[0] in ("k0001", "k0002", "k0501", "k1100", "k1101")] == [
        ("k0001", 2),
        ("k0002", 1),
        ("k0501", 2),
        ("k1100", 3),
        ("k1101", 2),
    ]


def test_a_process_that_holds_keys_looks_at_a_base_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def counted(storage: Any, base: Any, schema: Any) -> Any:
        opened.append(base.name)
        return open_base(storage, base, schema)

    monkeypatch.setattr(late_records, "open_base", counted)
    options = {**PLAIN_MOR, "hoodie.index.type": "INMEMORY"}
    path = tmp_path / "t"

    def upsert(*rows: Any) -> tuple[int, int, int]:
        return counts(hoodie.write_table(plain(*rows), str(path), options=options))

    upsert(("a", 5, "x"), ("b", 5, "y"))
    assert upsert(("a", 6, "p")) == (1, 0, 1)
    assert upsert(("b", 6, "q")) == (1, 0, 1)
    assert len(opened) == 1
    assert upsert(("a", 4, "late"), ("b", 7, "r")) == (1, 0, 1)
    assert upsert(("b", 5, "late")) == (1, 0, 1), "of logged rows the readers take the newest"
    assert len(opened) == 3
    assert seen(path) == [("a", 6), ("b", 7)]
    assert values(path, "val") == ["p", "r"]


#: three ascending values of an ordering column
ORDERINGS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "int": (pa.int32(), (-5, 1, 7)),
    "double": (pa.float64(), (-1.5, 0.0, 1e300)),
    "string": (pa.string(), ("10", "9", "z")),
    "date": (pa.date32(), tuple(dt.date(year, 1, 1) for year in (1969, 1970, 2024))),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        tuple(dt.datetime(year, 1, 1, tzinfo=dt.timezone.utc) for year in (1969, 2024, 2025)),
    ),
    "decimal": (pa.decimal128(12, 2), tuple(map(decimal.Decimal, ("-1.50", "0.25", "12.00")))),
}


@pytest.mark.parametrize(
    ("kind", "form"),
    crossed_but(
        {"int-avro", "double-parquet", "string-avro", "date-parquet", "timestamp-avro", "decimal-parquet"},
        {kind: kind for kind in ORDERINGS},
        {"avro": "avro", "parquet": "parquet"},
    ),
)
def test_ordering_columns_of_every_type(tmp_path: Path, kind: str, form: str) -> None:
    dtype, (low, middle, high) = ORDERINGS[kind]
    schema = pa.schema([("id", pa.string()), ("ts", dtype), ("val", pa.string())])
    path = tmp_path / "t"
    options = {**PLAIN_MOR, BLOCK_FORMAT.replace("__", "."): form}

    def write(*rows: tuple[str, Any, str | None], deleted: bool = False) -> None:
        table = plain(*rows, schema=schema)
        table = table.append_column("_hoodie_is_deleted", pa.array([deleted] * len(rows)))
        hoodie.write_table(table, str(path), options=options)

    write(*((key, middle, "base") for key in "abcdefg"))
    write(("a", low, "late"), ("b", high, "new"), ("c", high, "new"))
    write(("d", low, None), ("e", high, None), ("c", middle, None), deleted=True)
    write(("e", middle, "late"), ("f", middle, "tie"))
    write(("g", high, None), deleted=True)
    write(("g", high, "tie"))
    expected = [("a", "base"), ("b", "new"), ("c", "new"), ("d", "base"), ("f", "tie"), ("g", "tie")]
    assert values(path, "id", "val") == expected
    assert read_hudi_rs(path).num_rows == len(expected)


def test_an_ordering_column_that_older_files_lack(tmp_path: Path) -> None:
    """Their rows are older than any."""
    path = tmp_path / "t"
    bare = pa.table({"id": ["a", "b", "c"], "val": ["x", "y", "z"]})
    without = {**PLAIN_MOR, "hoodie.datasource.write.precombine.field": ""}
    hoodie.write_table(bare, str(path), options=without)
    props = path / ".hoodie/hoodie.properties"
    props.write_text(props.read_text() + "hoodie.table.precombine.field=ts\n")
    columns = {"id": ["a", "b"], "val": ["x2", None], "ts": [-5, -5], "_hoodie_is_deleted": [False, True]}
    hoodie.write_table(pa.table(columns), str(path), options={"hoodie.parquet.small.file.limit": 0})
    assert values(path, "id", "val") == [("a", "x2"), ("c", "z")]


# --- pending compactions ---------------------------------------------------------------------------------


def schedule(path: Path) -> str:
    options = {"hoodie.compact.inline.max.delta.commits": 1}
    return str(hoodie.compact_table(str(path), mode="schedule", options=options).scheduled)


def execute(path: Path) -> None:
    assert hoodie.compact_table(str(path), mode="execute").compacted


@pytest.mark.table_version(6)
def test_logs_go_to_the_slice_that_a_pending_compaction_began(tmp_path: Path) -> None:
    path = tmp_path / "t"
    put(path, ("a", 1, "x"), ("b", 1, "y"))
    put(path, ("a", 2, "x2"))
    compaction = schedule(path)
    result = put(path, ("a", 3, "x3"))
    log = log_paths(path)[-1]
    assert (parsed(log).instant, parsed(log).version) == (compaction, 1)
    (stat,) = stats(path, result.instant)
    assert (stat["prevCommit"], stat["baseFile"], stat["logFiles"]) == (compaction, "", [log.name])
    assert values(path, "id", "ts") == [("a", 3), ("b", 1)]
    put(path, ("b", 4, "y4"))
    assert parsed(log_paths(path)[-1]).version == 2
    execute(path)
    assert seen(path) == [("a", 3), ("b", 4)]
    (stat,) = stats(path, put(path, ("b", 5, "y5")).instant)
    (base,) = data_files(path)
    assert (stat["prevCommit"], stat["baseFile"], stat["logVersion"]) == (compaction, base.name, 3)
    assert seen(path) == [("a", 3), ("b", 5)]


def test_a_late_delete_across_a_pending_compaction(tmp_path: Path) -> None:
    """The update it is older than will be a base row: there Apache Hudi 0.15.0 lets any delete win."""
    path = tmp_path / "t"
    put(path, ("a", 1, "x"), ("b", 1, "y"))
    put(path, ("a", 5, "x5"))
    schedule(path)
    assert drop(path, ("a", 4)).num_deletes == 0
    execute(path)
    assert seen(path) == [("a", 5), ("b", 1)]


def test_a_key_that_a_pending_compaction_takes_away_comes_back_in_a_new_file(tmp_path: Path) -> None:
    """In a log alone no index would find it, and it would come back twice."""
    path = tmp_path / "t"
    put(path, ("a", 1, "x"), ("b", 1, "y"), ("c", 1, "z"))
    drop(path, ("a", 2), ("b", 2))
    schedule(path)
    result = put(path, ("a", 3, "x3"), ("b", 1, "late"), ("c", 3, "z3"))
    assert (result.num_inserts, result.num_updates) == (1, 1)
    assert values(path, "id", "ts") == [("a", 3), ("c", 3)]
    put(path, ("a", 4, "x4"))  # while the key is in two base files
    drop(path, ("c", 4))
    assert values(path, "id", "ts") == [("a", 4)]
    execute(path)
    assert seen(path) == [("a", 4)]
    put(path, ("a", 5, "x5"), ("b", 5, "y5"), ("c", 5, "z5"))
    assert seen(path) == [("a", 5), ("b", 5), ("c", 5)]
    drop(path, ("a", 6))
    assert seen(path) == [("b", 5), ("c", 5)]


def test_a_key_deleted_and_written_again_before_the_plan_stays_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    put(path, ("a", 1, "x"), ("b", 1, "y"))
    drop(path, ("a", 2))
    put(path, ("a", 3, "x3"))
    schedule(path)
    assert put(path, ("a", 4, "x4")).num_updates == 1
    execute(path)
    assert len(data_files(path)) == 1
    assert seen(path) == [("a", 4), ("b", 1)]


@pytest.mark.full
@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_writes_before_beside_and_after_compactions(tmp_path: Path, form: str) -> None:
    pair = MorPair(tmp_path / "t", {**MOR, **NO_PACKING, BLOCK_FORMAT.replace("__", "."): form})
    pair.hudi_rs = False  # readers.HUDI_RS_GAPS["pending compaction"]
    pair.write(small_rows(range(60), 1), "bulk_insert")
    version = 2
    for _ in range(2):
        for planned in (False, True):
            if planned:
                schedule(pair.path)
            for start in range(3):
                rows = small_rows(range(start, 60 + 10 * version, 7), version)
                pair.write(rows + small_rows(range(start + 3, 50, 11), version + 1, deleted=True))
                version += 1
        execute(pair.path)
        pair.check("compacted")


def test_nothing_is_packed_into_a_group_that_is_being_compacted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {**PLAIN_MOR, "hoodie.parquet.small.file.limit": 10**8}
    put(path, ("a", 1, "x"))
    put(path, ("a", 2, "x2"))
    schedule(path)
    hoodie.write_table(plain(("b", 1, "y")), str(path), options=options)
    assert len(data_files(path)) == 2
    execute(path)
    assert seen(path) == [("a", 2), ("b", 1)]
