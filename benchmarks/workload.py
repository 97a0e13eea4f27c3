"""Deterministic input data: a base table and the rows of one upsert, as Parquet files.

Twelve columns, about 139 bytes a row in Avro.  Row `i` of the base has the key `hex(splitmix64(i))` and lies
in day `i * days // rows`; the same workload gives the same files on every machine.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = (
    "key", "ts", "day", "quantity", "account", "price",
    "score", "category", "note", "event_time", "active", "amount",
)  # fmt: skip
KEY, ORDERING, PARTITION, AMOUNT = "key", "ts", "day", "amount"

#: of the options of an operation: the first day it reads, and the predicate of the rows that it reads
SINCE, WHERE = "bench.since", "bench.where"
#: an SQL statement a line, in which {table} is the path of the table
STATEMENTS = "bench.statements"

#: the column account has numbers below
ACCOUNTS = 1 << 40

#: what `merge` sets, and the statement, with the names of the table and of the rows
MERGED = ("ts", "price", "note")
MERGE = (
    "MERGE INTO {table} t USING {rows} s ON t.key = s.key AND t.day = s.day WHEN MATCHED THEN UPDATE SET "
    + ", ".join(f"t.{name} = s.{name}" for name in MERGED)
)

BASE_FILES = 20
UPSERT_FILES = 4
FIRST_DAY = dt.date(2024, 1, 1)
VERSION = 1
"""Part of the cache key: raise it when the generated values change."""

Ints = npt.NDArray[np.int64]


def _buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(values).data)


@dataclass(frozen=True)
class Workload:
    """A base table of `rows` rows in `days` equal partitions, and one upsert into it.

    `updates` rows are spread evenly over the partitions `[update_days)`, `late` new keys over `[late_days)`,
    and `new` rows go to one partition that does not exist yet.  `rows` must be a multiple of `days`.  Each
    file of the base has the rows of consecutive days, or, `mixed`, of all.
    """

    rows: int
    days: int
    updates: int
    update_days: tuple[int, int]
    new: int
    late: int
    late_days: tuple[int, int]
    seed: int = 7
    upsert_files: int = UPSERT_FILES
    mixed: bool = False

    @property
    def upsert_rows(self) -> int:
        return self.updates + self.new + self.late

    @property
    def first_updated_day(self) -> str:
        return (FIRST_DAY + dt.timedelta(days=self.update_days[0])).isoformat()

    @property
    def base_label(self) -> str:
        """Names the base table: equal for workloads that differ in the upsert alone."""
        kind = "-mixed" if self.mixed else ""
        return f"{self.rows}x{self.days}{kind}-{_digest(self.rows, self.days, self.seed)}"

    @property
    def upsert_label(self) -> str:
        return f"{self.base_label}-{self.upsert_rows}-{_digest(asdict(self))}"


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps([VERSION, *values]).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Inputs:
    """Folders of Parquet files: `base` is loaded first, `upsert` is written on top of it."""

    workload: Workload
    base: Path
    upsert: Path


def materialise(workload: Workload, cache: Path) -> Inputs:
    """The workload's files under `cache`, written now unless an earlier run finished them."""
    base, upsert = cache / workload.base_label, cache / workload.upsert_label
    _write(base, _base_batches(workload))
    _write(upsert, _upsert_batches(workload))
    return Inputs(workload, base, upsert)


def _write(folder: Path, tables: Iterator[pa.Table]) -> None:
    """Batches into numbered files; the folder has its name only when it is complete."""
    if folder.exists():
        return
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number, table in enumerate(tables):
        pq.write_table(table, unfinished / f"part-{number:03d}.parquet", compression="snappy")
    unfinished.rename(folder)


def _base_batches(workload: Workload) -> Iterator[pa.Table]:
    bounds = np.linspace(0, workload.rows, BASE_FILES + 1).astype(np.int64)
    order = np.arange(workload.rows, dtype=np.int64)
    if workload.mixed:
        np.random.default_rng([workload.seed, 2]).shuffle(order)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        ids = order[start:stop]
        rng = np.random.default_rng([workload.seed, 0, number])
        yield rows_of(ids, ids * workload.days // workload.rows, ordering=1_000_000, rng=rng)


def _upsert_batches(workload: Workload) -> Iterator[pa.Table]:
    rng = np.random.default_rng([workload.seed, 1])
    a_day = workload.rows // workload.days
    update_day, turn = _spread(workload.updates, workload.update_days)
    updates = update_day * a_day + rng.permutation(a_day)[turn]
    late_day, _ = _spread(workload.late, workload.late_days)
    created = workload.rows + np.arange(workload.new + workload.late, dtype=np.int64)
    ids = np.concatenate([updates, created])
    day = np.concatenate([update_day, np.full(workload.new, workload.days, dtype=np.int64), late_day])
    order = rng.permutation(len(ids))
    for part in np.array_split(order, workload.upsert_files):
        yield rows_of(ids[part], day[part], ordering=2_000_000, rng=rng)


def _spread(count: int, days: tuple[int, int]) -> tuple[Ints, Ints]:
    """Row j goes to the j-th day in turn; the second array counts the rows that day already has."""
    j = np.arange(count, dtype=np.int64)
    width = max(1, days[1] - days[0])
    return days[0] + j % width, j // width


def rows_of(ids: Ints, day: Ints, *, ordering: int, rng: np.random.Generator) -> pa.Table:
    n = len(ids)
    days = pa.array([(FIRST_DAY + dt.timedelta(days=int(d))).isoformat() for d in np.unique(day)])
    categories = pa.array([f"category-{c:02d}" for c in range(40)])
    event = np.int64(1_704_067_200_000_000) + day * 86_400_000_000 + rng.integers(0, 86_400_000_000, n)
    columns = {
        "key": _hex_keys(ids),
        "ts": pa.array(ordering + rng.integers(0, 1_000_000, n)),
        "day": days.take(np.unique(day, return_inverse=True)[1]),
        "quantity": pa.array(rng.integers(0, 10_000, n).astype(np.int32)),
        "account": pa.array(rng.integers(0, ACCOUNTS, n)),
        "price": pa.array(np.round(rng.gamma(2.0, 40.0, n), 2)),
        "score": pa.array(rng.random(n), mask=rng.random(n) < 0.05),
        "category": categories.take(rng.integers(0, 40, n)),
        "note": _notes(n, rng),
        "event_time": pa.array(event, type=pa.timestamp("us", tz="UTC")),
        "active": pa.array(rng.random(n) < 0.7),
        "amount": _decimals(rng.integers(-10_000_000, 1_000_000_000, n)),
    }
    return pa.table(columns).select(list(COLUMNS))


def account_of(workload: Workload) -> int:
    """That of a row of the base table."""
    found: int = next(_base_batches(workload)).column("account")[7].as_py()
    return found


def key_of(number: int) -> str:
    """The key of a row of the base table."""
    return str(_hex_keys(np.array([number], np.int64))[0])


def _hex_keys(ids: Ints) -> pa.StringArray:
    """splitmix64 of the ids as 16 hex digits: keys without any order that file ranges could use."""
    x = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    digits = np.frombuffer(b"".join(b"%02x" % b for b in range(256)), dtype=np.uint8).reshape(256, 2)
    text = digits[x.astype(">u8").view(np.uint8)]
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(len(ids), _buffer(offsets), _buffer(text))


def _notes(n: int, rng: np.random.Generator) -> pa.StringArray:
    """Strings of 24 to 43 random letters, one in twenty null."""
    offsets = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(rng.integers(24, 44, n), out=offsets[1:])
    letters = rng.integers(97, 123, int(offsets[-1]), dtype=np.uint8)
    valid = np.packbits(rng.random(n) >= 0.05, bitorder="little")
    return pa.StringArray.from_buffers(n, _buffer(offsets), _buffer(letters), _buffer(valid))


def _decimals(unscaled: Ints) -> pa.Array[Any]:
    """decimal(12, 2) from cents: little-endian 128-bit integers, sign in the upper half."""
    halves = np.stack([unscaled, unscaled >> 63], axis=1)
    return pa.Decimal128Array.from_buffers(pa.decimal128(12, 2), len(unscaled), [None, _buffer(halves)])
