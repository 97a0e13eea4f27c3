"""Every merger of the folder against a model in plain Python, on random rows."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.config.key import Config
from hoodie.merge import MERGERS, Merger, merger
from tests.support.arrow import arrow_schema
from tests.support.properties import examples

#: each example has many rows
SOME = settings(max_examples=examples(100, 8))
NAMES = ["event_time", "commit_time", "overwrite_non_defaults", "partial_update"]
SCHEMA = arrow_schema(
    [
        ("key", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("a", pa.string()),
        ("b", pa.float64()),
        ("c", pa.list_(pa.int32())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
Row = dict[str, Any]


def made(name: str, ordering: str | None = "ts") -> Merger:
    return merger(Config.of({"hoodie.datasource.write.payload.class": name}), ordering, SCHEMA)


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def rows_of(seed: int, count: int, keys: int) -> list[Row]:
    rng = random.Random(seed)
    return [
        {
            "key": f"k{rng.randrange(keys)}",
            "part": rng.choice("pq"),
            "ts": rng.randrange(5),
            "a": rng.choice([None, f"a{number}"]),
            "b": rng.choice([None, float(number)]),
            "c": rng.choice([None, [], [number, None]]),
            "_hoodie_is_deleted": rng.choice([None, False, False, True]),
        }
        for number in range(count)
    ]


def fill(first: Row, second: Row) -> Row:
    return {
        name: second[name] if value is None and name != "_hoodie_is_deleted" else value
        for name, value in first.items()
    }


def combined(name: str, rows: list[Row], identity: Any, ordered: bool) -> list[Row]:
    """One survivor a key, in the place of the winning row."""
    groups: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(identity(row), []).append(number)
    result = {}
    for numbers in groups.values():
        newest, *older = sorted(numbers, key=lambda n: (rows[n]["ts"] if ordered else 0, n), reverse=True)
        row = rows[newest]
        if name == "partial_update" and not row["_hoodie_is_deleted"]:
            for number in older:
                row = fill(row, rows[number])
                if rows[number]["_hoodie_is_deleted"]:
                    break
        result[newest] = row
    return [result[number] for number in sorted(result)]


def merged(name: str, stored: Row, incoming: Row, ordered: bool) -> Row | None:
    """The row after the merge; None for a deleted one."""
    older = ordered and stored["ts"] is not None and stored["ts"] > incoming["ts"]
    if name == "event_time" and older:
        return stored
    if incoming["_hoodie_is_deleted"]:
        return None
    if name == "overwrite_non_defaults":
        return fill(incoming, stored)
    if name == "partial_update":
        row = fill(stored, incoming) if older else fill(incoming, stored)
        return row | {"_hoodie_is_deleted": incoming["_hoodie_is_deleted"]}
    return incoming


@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("name", NAMES)
@SOME
@given(seed=st.integers(0, 10**9), count=st.integers(0, 40), keys=st.integers(1, 40))
def test_combine(name: str, ordering: str | None, seed: int, count: int, keys: int) -> None:
    rows = rows_of(seed, count, keys)
    batch, it = table(rows), made(name, ordering)
    by_key = combined(name, rows, lambda row: row["key"], bool(ordering))
    assert it.combine(batch, batch["key"]).to_pylist() == by_key
    by_both = combined(name, rows, lambda row: (row["key"], row["part"]), bool(ordering))
    done = it.combine(batch, [batch["key"], batch["part"].combine_chunks().dictionary_encode()])
    assert done.to_pylist() == by_both
    assert done.schema == SCHEMA


@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("name", NAMES)
@SOME
@given(seed=st.integers(0, 10**9), count=st.integers(0, 30))
def test_merge(name: str, ordering: str | None, seed: int, count: int) -> None:
    incoming, stored = rows_of(seed, count, 5), rows_of(seed + 1, count, 5)
    for number, (old, new) in enumerate(zip(stored, incoming, strict=True)):
        old.update(
            key=new["key"], part=new["part"], _hoodie_is_deleted=None, ts=(old["ts"], None)[number % 7 == 3]
        )
    it = made(name, ordering)
    needs = it.columns(SCHEMA)
    sides = [table(stored), table(incoming)]
    outcome = it.merge(*(side if needs is None else side.select(needs) for side in sides))
    boolean = np.dtype(np.bool_)
    assert (outcome.take.dtype, outcome.delete.dtype) == (boolean, boolean)
    assert not (outcome.delete & ~outcome.take).any()
    taken = (sides[1] if outcome.rows is None else outcome.rows).to_pylist()
    result = [
        None if gone else taken[n] if take else stored[n]
        for n, (take, gone) in enumerate(zip(outcome.take, outcome.delete, strict=True))
    ]
    pairs = zip(stored, incoming, strict=True)
    assert result == [merged(name, old, new, bool(ordering)) for old, new in pairs]
    if outcome.rows is not None:
        assert outcome.rows.schema == SCHEMA


@pytest.mark.parametrize("name", NAMES)
@SOME
@given(seed=st.integers(0, 10**9), count=st.integers(0, 30))
def test_outlives(name: str, seed: int, count: int) -> None:
    """A row of a log outlives a later delete with a smaller ordering value, whatever the merger."""
    rng = random.Random(seed)
    rows = rows_of(seed, count, 5)
    for row in rows[::7]:
        row["ts"] = None
    deletes = [rng.choice([None, *range(5)]) for _ in rows]
    batch, ordering = table(rows), pa.array(deletes, pa.int32())
    expected = [
        row["ts"] is not None and delete is not None and row["ts"] > delete
        for row, delete in zip(rows, deletes, strict=True)
    ]
    it = made(name)
    assert it.outlives(batch, ordering).tolist() == expected
    names = it.combine_columns(SCHEMA)
    assert it.outlives(batch if names is None else batch.select(names), ordering).tolist() == expected
    assert not made(name, None).outlives(batch, ordering).any()


@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("name", NAMES)
@SOME
@given(seed=st.integers(0, 10**9), count=st.integers(0, 30))
def test_fold(name: str, ordering: str | None, seed: int, count: int) -> None:
    """Of two rows in a log it makes what a merge of the later with the earlier would; a delete stays one."""
    it = made(name, ordering)
    fold = it.fold if it.folds else None
    if fold is None:
        return
    earlier, later = rows_of(seed, count, 5), rows_of(seed + 1, count, 5)
    for old, new in zip(earlier, later, strict=True):
        old.update(key=new["key"], part=new["part"], _hoodie_is_deleted=None)
    expected = [
        merged(name, old, new, bool(ordering)) or new for old, new in zip(earlier, later, strict=True)
    ]
    assert fold(table(earlier), table(later)).to_pylist() == expected


@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("name", NAMES)
@SOME
@given(seed=st.integers(0, 10**9), count=st.integers(0, 40), keys=st.integers(1, 40))
def test_combine_looks_at_its_columns_only(
    name: str, ordering: str | None, seed: int, count: int, keys: int
) -> None:
    """The surviving rows are the same when the columns that it does not name are left out."""
    it = made(name, ordering)
    names = it.combine_columns(SCHEMA)
    if names is None:
        return
    batch = table(rows_of(seed, count, keys)).append_column("row", pa.array(range(count), pa.int64()))
    few = batch.select([*names, "row"])
    assert it.combine(few, batch["key"])["row"] == it.combine(batch, batch["key"])["row"]


@pytest.mark.parametrize("name", NAMES)
@SOME
@given(seed=st.integers(0, 10**9), count=st.integers(0, 30))
def test_rows_that_are_ignored_do_not_matter(name: str, seed: int, count: int) -> None:
    it = made(name)
    if not it.ignores_stored:
        return
    outcome = it.merge(table(rows_of(seed + 1, count, 5)), table(rows_of(seed, count, 5)))
    assert outcome.take.all()
    assert outcome.rows is None


@pytest.mark.parametrize("name", NAMES)
def test_every_plugin_is_here_and_travels(name: str) -> None:
    assert {made(each).java_class for each in NAMES} == set(MERGERS.places)
    assert pickle.loads(pickle.dumps(made(name))) == made(name)


@pytest.mark.parametrize("name", NAMES)
def test_many_rows_of_one_key_among_many_keys(name: str) -> None:
    count = 20_000
    keys = np.where(np.arange(count) % 2, 0, np.arange(count))
    batch = pa.table({"key": keys, "ts": np.arange(count)[::-1] // 3, "x": pa.nulls(count, pa.int8())})
    it = merger(Config.of({"hoodie.datasource.write.payload.class": name}), "ts", batch.schema)
    done = it.combine(batch, batch["key"])
    assert done.num_rows == len(set(keys.tolist()))
    assert done["key"].to_pylist()[:3] == [0, 2, 4]
    # greatest ordering value of key 0 is in rows 0 and 1, the later one wins
    assert done["ts"].to_pylist()[0] == (count - 2) // 3


@pytest.mark.parametrize("name", NAMES)
def test_deleted(name: str) -> None:
    rows = rows_of(4, 50, 9)
    it = made(name)
    assert it.deleted(table(rows)).tolist() == [row["_hoodie_is_deleted"] is True for row in rows]
    assert not it.deleted(table(rows).drop_columns(["_hoodie_is_deleted"])).any()
    assert it.deleted(table(rows).combine_chunks().to_batches()[0]).sum() == it.deleted(table(rows)).sum() > 0
