"""Slices of random logs against a model in plain Python: one record at a time, as Apache Hudi does it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hoodie.format.log_block import BlockType
from hoodie.read.file_slice import SliceReader, read_slice
from hoodie.timeline.instant import State
from tests.contract.test_merge import fill, merged
from tests.support.properties import examples
from tests.support.tiers import full_but
from tests.unit.read.support import LARGE, SCHEMA, STORAGE, LogTable, Row, data, deletes, rollback

PAYLOADS = ["event_time", "commit_time", "overwrite_non_defaults", "partial_update"]
#: more than a few rows are spilled
TINY = 1000
KINDS = [BlockType.AVRO_DATA, BlockType.PARQUET_DATA]


class Log:
    """What the blocks of a log make of each key: a row, or None for a delete."""

    def __init__(self, payload: str) -> None:
        self.payload = payload
        self.records: dict[str, Row | None] = {}

    def data(self, row: Row) -> None:
        old = self.records.get(row["key"])
        if old is not None:
            row = self.combined(old, row)
        self.records[row["key"]] = row

    def combined(self, old: Row, new: Row) -> Row:
        """preCombine: the greater ordering value, of equal ones the new row."""
        newer, older = (old, new) if old["ts"] > new["ts"] else (new, old)
        if self.payload != "partial_update":
            return newer
        if new["_hoodie_is_deleted"]:
            return new
        return fill(newer, older) | {"_hoodie_is_deleted": new["_hoodie_is_deleted"]}

    def delete(self, key: str, ordering: int | None) -> None:
        old = self.records.get(key)
        if old is not None and ordering is not None and old["ts"] > ordering:
            return
        self.records[key] = None

    def merged(self, stored: list[Row]) -> list[Row]:
        """With the rows of a base file, and then those that only the log has."""
        out = []
        left = dict(self.records)
        for row in stored:
            left.pop(row["key"], None)
            if row["key"] not in self.records:
                out.append(row)
                continue
            record = self.records[row["key"]]
            result = None if record is None else merged(self.payload, row, record, True)
            if result is not None:
                out.append(result)
        return out + [row for row in left.values() if row is not None and not row["_hoodie_is_deleted"]]


def row_of(rng: random.Random, number: int, keys: int, flags: bool) -> Row:
    return {
        "key": f"k{rng.randrange(keys)}",
        "ts": rng.randrange(6),
        "a": rng.choice([None, f"a{number}"]),
        "b": rng.choice([None, float(number)]),
        "c": rng.choice([None, [], [number, None]]),
        "_hoodie_is_deleted": rng.choice([None, False, flags]),
    }


def write_log(table: LogTable, rng: random.Random, payload: str, keys: int) -> Log:
    """Deltacommits that succeed, fail, or fail and are rolled back, each with blocks in one or two files."""
    log, number = Log(payload), 10
    failed: list[int] = []
    for _ in range(rng.randrange(1, 9)):
        number += 10
        fate = rng.choice(["completed", "completed", "completed", "inflight", "gone", "rolled back"])
        blocks: list[Any] = []
        for _ in range(rng.randrange(1, 4)):
            if rng.random() < 0.6:
                rows = [row_of(rng, number, keys, True) for _ in range(rng.randrange(6))]
                blocks.append(data(number, rows, rng.choice(KINDS)))
                records: list[Any] = rows
            else:
                chosen = [f"k{rng.randrange(keys)}" for _ in range(rng.randrange(5))]
                ordering = (
                    [rng.choice([None, rng.randrange(6)]) for _ in chosen] if rng.random() < 0.7 else None
                )
                blocks.append(deletes(number, chosen, ordering))
                records = list(zip(chosen, ordering or [None] * len(chosen), strict=True))
            if fate == "completed":
                for record in records:
                    log.delete(*record) if isinstance(record, tuple) else log.data(record)
        if rng.random() < 0.2:
            blocks.insert(rng.randrange(len(blocks) + 1), b"#HUDI#" + bytes(rng.randrange(30)))
        cut = rng.randrange(len(blocks) + 1)
        for piece in (blocks[:cut], blocks[cut:]):
            if piece:
                table.log(*piece)
        if fate in ("completed", "inflight"):
            table.instant(number, State.COMPLETED if fate == "completed" else State.INFLIGHT)
        elif fate == "rolled back":
            failed.append(number)
        if failed and rng.random() < 0.7:
            number += 1
            table.log(rollback(number, failed.pop()))
    return log


def rows_of(tables: Any) -> list[Row]:
    names = SCHEMA.names
    found = [row for rows in tables for row in rows.select(names).to_pylist()]
    return sorted(found, key=repr)


@pytest.mark.parametrize("payload", full_but({"partial_update"}, PAYLOADS))
@given(seed=st.integers(0, 10**9), keys=st.integers(1, 12), based=st.booleans())
# a partial update forgets the greater ordering value that was before a row that deletes
@example(seed=30415, keys=9, based=True)
@settings(max_examples=examples(40))
def test_a_slice_is_what_the_model_says(payload: str, seed: int, keys: int, based: bool) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        table = LogTable(Path(folder) / "t")
        stored: list[Row] = []
        if based:
            stored = [
                row_of(rng, 1, keys, False) | {"key": f"k{number}"}
                for number in rng.sample(range(keys), rng.randrange(keys + 1))
            ]
            for row in stored:
                row["ts"] = rng.choice([None, row["ts"]])
            table.base_file(stored)
        else:
            table.instant(1)
        log = write_log(table, rng, payload, keys)
        found, snapshot = table.slice()
        expected = sorted(log.merged(stored), key=repr)
        for budget in (LARGE, TINY):
            context = table.context(snapshot, payload, budget)
            for ordered in (True, False):
                assert rows_of(read_slice(STORAGE, found, context, ordered=ordered)) == expected
            few = read_slice(STORAGE, found, context, ["a", "key"])
            assert sorted(
                (row["key"], row["a"]) for rows in few for row in rows.to_pylist() if row["a"]
            ) == sorted((row["key"], row["a"]) for row in expected if row["a"])


@pytest.mark.parametrize("payload", full_but({"partial_update"}, PAYLOADS))
def test_spilling_changes_nothing(tmp_path: Path, payload: str) -> None:
    """Thousands of keys, updated, deleted, written again: the same rows and counts in many small parts."""
    rng = random.Random(7)
    table = LogTable(tmp_path / "t")
    rows = [row_of(rng, number, 1, False) | {"key": f"k{number}"} for number in range(1500)]
    table.base_file(rows)
    for number in range(20, 26):
        changed = [row_of(rng, number, 2000, False) for _ in range(500)]
        gone = [f"k{rng.randrange(2000)}" for _ in range(100)]
        table.log(data(number, changed), deletes(number, gone, [rng.choice([None, 3]) for _ in gone]))
        table.instant(number)
    found, snapshot = table.slice()
    results = []
    for budget in (LARGE, 1 << 15):
        context = table.context(snapshot, payload, budget)
        for ordered in (True, False):
            with SliceReader(STORAGE, found, context, ordered=ordered) as reader:
                got = rows_of(reader.tables())
            counts = (reader.updates, reader.deletes, reader.inserts, reader.scan.statistics.records)
            results.append((got, *counts))
    assert all(result == results[0] for result in results)
    assert results[0][4] == 6 * 500


def test_every_type_spills(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.instant(1)
    rows = [
        {"key": f"k{n}", "ts": n % 3, "a": "x" * n, "b": n / 2, "c": [n, None], "_hoodie_is_deleted": None}
        for n in range(500)
    ]
    table.log(data(2, rows, BlockType.PARQUET_DATA), data(2, rows[:50]), deletes(2, ["k7"]))
    table.instant(2)
    found, snapshot = table.slice()
    expected = sorted((row for row in rows if row["key"] != "k7"), key=repr)
    for budget in (LARGE, TINY):
        tables = list(read_slice(STORAGE, found, table.context(snapshot, "event_time", budget)))
        assert rows_of(tables) == expected
        assert pa.concat_tables(tables).schema.names == table.context(snapshot).schema.names
