"""MERGE INTO whose rows the stored ones complete in the write: logs, statistics, counts and rows are those of
the same statement with a condition, which joins source and target first.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import CommitConflict, HoodieError
from hoodie.format.log_block import RECORD_POSITIONS
from hoodie.format.log_data import is_partial, read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import with_meta
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from tests.support.at_once import OPTIMISTIC
from tests.support.metadata import stored_values
from tests.support.partial_updates import (
    EVENT,
    INDEXED,
    SCHEMA,
    last_commit,
    logs,
    options_of,
    partial_blocks,
    rows_of,
)

ON = "MERGE INTO t USING s ON t.id = s.id AND t.day = s.day "
SET = "UPDATE SET b = s.b, ts = s.ts"
KEPT = {"hoodie.clean.automatic": "false"}
COMPLETED = "t: the rows that are found, as they are written"
#: of meta columns, those that differ from write to write
LATER = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")


def row(pick: random.Random, number: int, ts: int) -> dict[str, Any]:
    return {
        "id": f"k{number:03}",
        "day": f"d{number % 3}",
        "ts": ts,
        "a": pick.choice([None, *range(9)]),
        "b": pick.choice([None, "b0", "b1", "b2"]),
        "c": pick.choice([None, 0.5, float(number)]),
        "d": pick.choice([None, {"n": number, "s": None}]),
    }


def written(path: Path, pick: random.Random, version: int = 9, **more: str) -> str:
    """Three partitions. Of their keys some have whole rows, changed columns or deletes in logs."""
    options = {**options_of(version, EVENT, INDEXED), "hoodie.parquet.block.size": "4096", **more}
    table = str(path / "t")
    hoodie.write_table(rows_of([row(pick, number, 10) for number in range(60)]), table, options=options)
    hoodie.write_table(rows_of([row(pick, number, 20) for number in range(12)]), table, options=KEPT)
    merged(table, ON + f"WHEN MATCHED THEN {SET}", [row(pick, number, 30) for number in range(9, 18)])
    hoodie.sql("DELETE FROM t WHERE id IN ('k003', 'k015', 'k030')", tables={"t": table}, options=KEPT)
    return table


def merged(
    path: str, text: str, rows: list[dict[str, Any]] | pa.Table, **options: str
) -> tuple[Any, list[str]]:
    """The result, and how the target is read."""
    said: list[str] = []
    source = rows if isinstance(rows, pa.Table) else rows_of(rows)
    result = hoodie.sql(
        text,
        tables={"t": path, "s": source},
        options={**KEPT, **options},
        progress=lambda stage, line: said.append(line) if stage == "read" else None,
    )
    return result, said


def logged(path: str) -> list[Any]:
    """The rows and positions of the newest commit's blocks, in their order, by partition."""
    schema, instant = with_meta(SCHEMA), last_commit(path).time
    blocks = []
    for log in sorted(logs(path), key=lambda log: (log.parent.name, log.name)):
        with LogFileReader(LocalStorage(), str(log)) as reader:
            for block in reader.blocks():
                if block.instant != instant:
                    continue
                rows = read_data_block(block, reader.content(block), schema, partial=True)
                kept = [name for name in rows.column_names if name not in LATER]
                positions = block.headers.get(RECORD_POSITIONS)
                blocks.append((log.parent.name, is_partial(block), positions, rows.select(kept).to_pylist()))
    return blocks


def statistics(path: str) -> list[Any]:
    """What the column statistics have of log files, by partition and column."""
    metadata = MetadataTable.open(Table.open(path))
    assert metadata is not None
    return sorted(
        (item["columnName"], str(item["minValue"]), str(item["maxValue"]), item["nullCount"])
        for item in stored_values(metadata, Partition.COLUMN_STATS).values()
        if item["fileName"].startswith(".") and item["columnName"] not in LATER
    )


def both(path: str, copy: str, rows: list[dict[str, Any]] | pa.Table, **options: str) -> Any:
    """The result for the table, after its copy was merged by a join."""
    other, said = merged(copy, ON + f"WHEN MATCHED AND true THEN {SET}", rows, **options)
    assert COMPLETED not in said
    result, said = merged(path, ON + f"WHEN MATCHED THEN {SET}", rows, **options)
    assert said == [COMPLETED]
    assert (result.num_updates, result.num_inserts, result.num_dropped, result.num_files) == (
        other.num_updates,
        other.num_inserts,
        other.num_dropped,
        other.num_files,
    )
    assert logged(path) == logged(copy)
    assert statistics(path) == statistics(copy)
    assert everything(path) == everything(copy)
    return result


def everything(path: str) -> list[dict[str, Any]]:
    return sorted(hoodie.read_table(path, meta=False).to_pylist(), key=lambda item: str(item["id"]))


@pytest.mark.parametrize("version", [8, 9])
def test_logs_and_statistics_are_those_of_a_join(tmp_path: Path, version: int) -> None:
    """Of new keys, deleted ones, late rows, several rows of a key, and of keys that logs have."""
    pick, seen = random.Random(version), 0
    path = written(tmp_path, pick, version)
    copy = str(tmp_path / "copy")
    shutil.copytree(path, copy)
    for number in range(4):
        numbers = [pick.randrange(75) for _ in range(30)]
        rows = [row(pick, key, 15 + 10 * number + place) for place, key in enumerate(numbers)]
        strange = [{**rows[0], "day": "d9"}, {**rows[1], "day": "d0" if rows[1]["day"] == "d1" else "d1"}]
        seen += both(path, copy, [*rows, *strange]).num_updates
    assert seen > 40
    assert not (Path(path) / "d9").exists()


def test_no_row_is_found(tmp_path: Path) -> None:
    """An empty commit, as of a join."""
    pick = random.Random(1)
    path = written(tmp_path, pick)
    shutil.copytree(path, tmp_path / "copy")
    rows = [row(pick, number, 99) for number in (3, 15, 30, 70, 71)]
    result = both(path, str(tmp_path / "copy"), rows)
    assert (result.num_updates, result.num_files) == (0, 0)
    result = both(path, str(tmp_path / "copy"), [row(pick, 71, 99)])
    assert (result.num_updates, result.num_files) == (0, 0)


def test_rows_beyond_the_memory(tmp_path: Path) -> None:
    """A slice is read for half of the rows, and again, until they fit; the budget is a few rows."""
    pick = random.Random(2)
    wide = [{**row(pick, number, 10), "day": "d0", "c": 0.0, "b": "b" * 3000} for number in range(300)]
    path, copy = str(tmp_path / "t"), str(tmp_path / "copy")
    hoodie.write_table(rows_of(wide), path, options=options_of(9, EVENT, INDEXED))
    shutil.copytree(path, copy)
    text = "WHEN MATCHED {} THEN UPDATE SET a = s.a, ts = s.ts"
    rows = [{**item, "ts": 20, "a": 5, "b": None} for item in wide[::2]]
    small = {"hoodie.memory.merge.max.size": str(128 << 10)}
    merged(copy, ON + text.format("AND true"), rows)
    _, said = merged(path, ON + text.format(""), rows, **small)
    assert said == [COMPLETED]
    assert everything(path) == everything(copy)
    assert sum(item["a"] == 5 and item["b"] == "b" * 3000 for item in everything(path)) >= 150
    assert statistics(path) == statistics(copy)


@pytest.mark.parametrize("bad", [{"id": None}, {"ts": None}, {"id": ""}])
def test_bad_rows_without_a_stored_one_are_left_out(tmp_path: Path, bad: dict[str, Any]) -> None:
    """The rows are looked for by a join then."""
    pick = random.Random(3)
    path = written(tmp_path, pick)
    rows = [{**row(pick, 40, 99), "b": "new"}, {**row(pick, 99, 99), **bad}]
    result, said = merged(path, ON + f"WHEN MATCHED THEN {SET}", rows)
    assert said == [COMPLETED, "t: joined after all, for rows that can't be looked for"]
    assert result.num_updates == 1
    assert [item["b"] for item in everything(path) if item["id"] == "k040"] == ["new"]


def test_a_row_without_ordering_value_is_an_error_where_it_is_found(tmp_path: Path) -> None:
    pick = random.Random(4)
    path = written(tmp_path, pick)
    errors, rows = [], [{**row(pick, 40, 99), "ts": None}]
    for condition in ("", "AND true"):
        with pytest.raises(HoodieError) as raised:
            merged(path, ON + f"WHEN MATCHED {condition} THEN {SET}", rows)
        errors.append(raised.value.message)
    assert errors[0] == errors[1]


#: statements and tables whose rows are not completed: the clauses, settings of the table
JOINED: dict[str, tuple[str, dict[str, str]]] = {
    "condition": (f"WHEN MATCHED AND s.a > 0 THEN {SET}", {}),
    "inserts": (f"WHEN MATCHED THEN {SET} WHEN NOT MATCHED THEN INSERT *", {}),
    "deletes": (f"WHEN MATCHED AND s.a = 1 THEN DELETE WHEN MATCHED THEN {SET}", {}),
    "ordering column is not set": ("WHEN MATCHED THEN UPDATE SET b = s.b", {}),
    "ordering column of another value": ("WHEN MATCHED THEN UPDATE SET b = s.b, ts = s.a", {}),
    "computed": ("WHEN MATCHED THEN UPDATE SET b = upper(s.b), ts = s.ts", {}),
    "of the target": ("WHEN MATCHED THEN UPDATE SET b = t.b, ts = s.ts", {}),
    "nested": ("WHEN MATCHED THEN UPDATE SET d = s.d, ts = s.ts", {}),
    "copy-on-write": (f"WHEN MATCHED THEN {SET}", {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}),
    "version 6": (f"WHEN MATCHED THEN {SET}", {"hoodie.write.table.version": "6"}),
}


@pytest.mark.parametrize("kind", JOINED)
def test_other_statements_are_joined(tmp_path: Path, kind: str) -> None:
    pick, (clauses, more) = random.Random(kind), JOINED[kind]
    table, options = str(tmp_path / "t"), {**options_of(9, EVENT), **more}
    hoodie.write_table(rows_of([row(pick, number, 10) for number in range(6)]), table, options=options)
    result, said = merged(table, ON + clauses, [{**row(pick, 1, 20), "a": 15, "b": "x"}])
    assert COMPLETED not in said
    assert result.num_updates == 1


def test_rows_are_found_by_values_not_by_paths(tmp_path: Path) -> None:
    """An empty text and null have one partition path, and null equals nothing."""
    pick = random.Random(5)
    options = options_of(9, EVENT)
    first = [{**row(pick, 0, 10), "day": None}, {**row(pick, 1, 10), "day": "x"}]
    path = str(tmp_path / "t")
    hoodie.write_table(rows_of(first), path, options=options)
    rows = [{**row(pick, 0, 20), "day": "", "b": "new"}, {**row(pick, 1, 20), "day": "x", "b": "new"}]
    result, said = merged(path, ON + f"WHEN MATCHED THEN {SET}", rows)
    assert (result.num_updates, said) == (1, [COMPLETED])
    assert [item["b"] == "new" for item in everything(path)] == [False, True]


def test_a_commit_in_between_is_an_error_of_the_statement(tmp_path: Path) -> None:
    """The stored rows that complete others may be changed by it."""
    pick = random.Random(6)
    path, done = written(tmp_path, pick), list[Any]()

    def other(stage: str, _: str) -> None:
        if stage == "commit" and not done:
            done.append(merged(path, ON + f"WHEN MATCHED THEN {SET}", [row(pick, 41, 50)], **OPTIMISTIC))

    with pytest.raises(CommitConflict):
        hoodie.sql(
            ON + f"WHEN MATCHED THEN {SET}",
            tables={"t": path, "s": rows_of([row(pick, 41, 60)])},
            options={**KEPT, **OPTIMISTIC},
            progress=other,
        )
    assert len(done) == 1
    assert partial_blocks(path)


def test_a_dry_run_says_what_a_join_says(tmp_path: Path) -> None:
    pick = random.Random(7)
    path = written(tmp_path, pick)
    found = []
    for condition in ("", "AND true"):
        rows = [row(random.Random(8), number, 50) for number in (3, 41, 70)]
        result = hoodie.sql(
            ON + f"WHEN MATCHED {condition} THEN {SET}",
            tables={"t": path, "s": rows_of(rows)},
            options=KEPT,
            dry_run=True,
        )
        found.append((result.num_updates, result.num_inserts, result.num_dropped))
    assert found == [(1, 0, 0), (1, 0, 0)]
