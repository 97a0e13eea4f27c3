"""Logs of tables of versions 8 and 9 against a model in plain Python: one record at a time, as Apache Hudi
1.2.0 merges them."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.format.log_block import IS_PARTIAL, BlockType, HeaderKey
from hoodie.format.log_data import encode_data_block
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.format.schema import to_avro_text
from hoodie.format.settings import Codec
from hoodie.merge.by_mode import ByMode
from hoodie.merge.in_order import Deletes, merge_in_order
from hoodie.merge.ordering import tuple_ranks
from hoodie.read.file_slice import read_slice
from hoodie.table.merge_rule import MergeMode, PartialUpdateMode
from tests.support.properties import examples
from tests.support.tiers import full_but
from tests.unit.read.support import (
    GROUP,
    LARGE,
    SCHEMA,
    STORAGE,
    LogTable,
    Row,
    data,
    deletes,
    moment,
    stored_rows,
)

EVENT, COMMIT, _ = MergeMode
IGNORE, FILL = PartialUpdateMode
MARKER = "D"
UNAVAILABLE = "__debezium_unavailable_value"
#: more than a few rows are spilled
TINY = 1000


@dataclass(frozen=True)
class Record:
    """A row, None for a delete without one, and the columns that it has, None for all."""

    row: Row | None
    ordering: tuple[Any, ...]
    delete: bool
    columns: frozenset[str] | None = None

    @property
    def always(self) -> bool:
        return self.delete and all(value is None for value in self.ordering)


@dataclass
class Model:
    merger: ByMode
    records: dict[str, Record] = field(default_factory=dict)

    def data(self, row: Row, columns: frozenset[str] | None = None) -> None:
        new = Record(row, self.ordering(row), self.deleted(row), columns)
        old = self.records.get(row["key"])
        self.records[row["key"]] = new if old is None else self.met(old, new)

    def delete(self, key: str, ordering: int | None) -> None:
        values = (ordering,) if len(self.merger.ordering_fields) == 1 else (None,)
        old, new = self.records.get(key), Record(None, values, True)
        smaller = old is not None and values != (None,) and _less(values, old.ordering)
        if old is None or self.merger.mode is COMMIT or not (old.always or smaller):
            self.records[key] = new

    def ordering(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.merger.ordering_fields)

    def deleted(self, row: Row) -> bool:
        by_marker = self.merger.delete_field is not None and row[self.merger.delete_field] == MARKER
        return bool(row["_hoodie_is_deleted"]) or by_marker

    def met(self, old: Record, new: Record) -> Record:
        newer = self.merger.mode is COMMIT or old.always or new.always
        newer = newer or not _less(new.ordering, old.ordering)
        winner, loser = (new, old) if newer else (old, new)
        if old.delete or new.delete:
            return winner
        assert winner.row is not None
        assert loser.row is not None
        row, columns = dict(winner.row), winner.columns
        if old.columns is not None or new.columns is not None:
            if columns is not None:
                row = {**loser.row, **{name: row[name] for name in columns}}
                columns = None if loser.columns is None else columns | loser.columns
        else:
            fills = {None: (), IGNORE: (None,), FILL: (UNAVAILABLE,)}[self.merger.partial]
            row = {name: loser.row[name] if value in fills else value for name, value in row.items()}
        return replace(winner, row=row, columns=columns)

    def merged(self, stored: list[Row]) -> list[Row]:
        out, left = [], dict(self.records)
        for row in stored:
            record = left.pop(row["key"], None)
            old = Record(row, self.ordering(row), False)
            out.append(old if record is None else self.met(old, record))
        found = [*out, *left.values()]
        return [record.row for record in found if not record.delete and record.row is not None]


def _less(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """With null below all values."""
    return [(value is not None, value or 0) for value in one] < [
        (value is not None, value or 0) for value in other
    ]


def partial_data(number: int, rows: list[Row], columns: frozenset[str]) -> list[Any]:
    """A block with these columns only."""
    table = stored_rows(rows, moment(number), GROUP)
    table = table.select([*META_COLUMNS, *(name for name in SCHEMA.names if name in columns)])
    text = to_avro_text(table.schema, "hoodie.t.t_record")
    headers: dict[int, str] = {
        HeaderKey.INSTANT_TIME: moment(number),
        HeaderKey.SCHEMA: text,
        IS_PARTIAL: "true",
    }
    return [BlockType.AVRO_DATA, headers, encode_data_block(table, text, BlockType.AVRO_DATA, Codec.ZSTD)]


def row_of(rng: random.Random, number: int, keys: int) -> Row:
    return {
        "key": f"k{rng.randrange(keys)}",
        "ts": rng.choice([None, *range(5)]),
        "a": rng.choice([None, f"a{number}", MARKER, UNAVAILABLE]),
        "b": rng.choice([None, float(number % 3)]),
        "c": rng.choice([None, [], [number, None]]),
        "_hoodie_is_deleted": rng.choice([None, False, False, True]),
    }


def write_log(table: LogTable, rng: random.Random, model: Model, keys: int, partial: bool) -> None:
    number = 10
    for _ in range(rng.randrange(1, 9)):
        number += 10
        blocks: list[Any] = []
        for _ in range(rng.randrange(1, 4)):
            choice = rng.random()
            if choice < 0.3:
                chosen = [f"k{rng.randrange(keys)}" for _ in range(rng.randrange(1, 4))]
                ordering = [rng.choice([None, *range(5)]) for _ in chosen]
                blocks.append(deletes(number, chosen, ordering))
                for key, value in zip(chosen, ordering, strict=True):
                    model.delete(key, value)
                continue
            rows = [row_of(rng, number, keys) for _ in range(rng.randrange(6))]
            columns = None
            if partial and choice < 0.7:
                some = [name for name in SCHEMA.names if name in ("key", "ts") or rng.random() < 0.5]
                columns = frozenset({*some, *model.merger.ordering_fields})
                empty = dict.fromkeys(SCHEMA.names)
                rows = [{**empty, **{name: row[name] for name in columns}} for row in rows]
                blocks.append(partial_data(number, rows, columns))
            else:
                blocks.append(data(number, rows, rng.choice([BlockType.AVRO_DATA, BlockType.PARQUET_DATA])))
            for row in rows:
                model.data(row, columns)
        table.log(*blocks)
        table.instant(number)


def read(
    table: LogTable, made: ByMode, budget: int, columns: list[str] | None = None, ordered: bool = True
) -> list[Row]:
    found, snapshot = table.slice()
    context = replace(table.context(snapshot, budget=budget), merger=made, ordering=None)
    names = SCHEMA.names if columns is None else columns
    tables = read_slice(STORAGE, found, context, columns, ordered=ordered)
    return [row for rows in tables for row in rows.select(names).to_pylist()]


MERGERS = {
    "commit time": ByMode(COMMIT),
    "event time": ByMode(EVENT, ("ts",)),
    "event time, no field": ByMode(EVENT),
    "several fields": ByMode(EVENT, ("ts", "b")),
    "marker": ByMode(EVENT, ("ts",), delete_field="a", delete_marker=MARKER),
    "ignore defaults": ByMode(EVENT, ("ts",), IGNORE),
    "ignore defaults by commit": ByMode(COMMIT, (), IGNORE),
    "fill unavailable": ByMode(EVENT, ("ts",), FILL),
    "fill unavailable by commit": ByMode(COMMIT, (), FILL),
}


@pytest.mark.parametrize("name", full_but({"marker", "ignore defaults"}, MERGERS))
@given(seed=st.integers(0, 10**9), keys=st.integers(1, 12), based=st.booleans(), partial=st.booleans())
@settings(max_examples=examples(8))
def test_a_slice_is_what_the_model_says(name: str, seed: int, keys: int, based: bool, partial: bool) -> None:
    rng, made = random.Random(seed), MERGERS[name]
    model = Model(made)
    with tempfile.TemporaryDirectory() as folder:
        table = LogTable(Path(folder) / "t")
        stored: list[Row] = []
        if based:
            stored = [
                {**row_of(rng, 1, 1), "key": f"k{number}", "_hoodie_is_deleted": None}
                for number in range(rng.randrange(keys + 2))
            ]
            table.base_file(stored)
        else:
            table.instant(1)
        write_log(table, rng, model, keys, partial)
        expected = sorted(model.merged(stored), key=repr)
        for budget, ordered in ((LARGE, True), (LARGE, False), (TINY, True)):
            assert sorted(read(table, made, budget, ordered=ordered), key=repr) == expected
        some = sorted(read(table, made, LARGE, ["key", "b"]), key=repr)
        assert some == sorted(({"key": row["key"], "b": row["b"]} for row in expected), key=repr)


@pytest.mark.parametrize("name", MERGERS)
@given(seed=st.integers(0, 10**9), keys=st.integers(1, 8))
@settings(max_examples=examples(40))
def test_a_batch_is_one_row_a_key(name: str, seed: int, keys: int) -> None:
    """What a batch makes of stored rows is what the model says of its rows one after the other."""
    rng, made = random.Random(seed), MERGERS[name]
    rows = [row_of(rng, number, keys) for number in range(rng.randrange(1, 20))]
    rows = [{**row, "ts": row["ts"] or 0, "b": row["b"] or 0.0} for row in rows]
    model = Model(made)
    for row in rows:
        model.data(row)
    table = pa.Table.from_pylist(rows, SCHEMA)
    one = made.combine(table, table.column("key"))
    assert len(set(one.column("key").to_pylist())) == one.num_rows
    deleted = made.deleted(one).tolist()
    found = {row["key"]: (row, gone) for row, gone in zip(one.to_pylist(), deleted, strict=True)}
    assert found.keys() == model.records.keys()
    for key, record in model.records.items():
        assert found[key][1] == record.delete
        assert found[key][0] == record.row or record.delete


def test_a_late_partial_row_fills_what_the_winner_lacks_and_so_beats_the_base_file(tmp_path: Path) -> None:
    """As Apache Hudi does: logs merge first."""
    table = LogTable(tmp_path / "t")
    base = {"key": "k", "ts": 4, "a": "base", "b": 1.0, "c": [1], "_hoodie_is_deleted": None}
    table.base_file([base])
    empty = dict.fromkeys(SCHEMA.names)
    first = partial_data(20, [{**empty, "key": "k", "ts": 6, "b": 6.0}], frozenset({"key", "ts", "b"}))
    late = partial_data(30, [{**empty, "key": "k", "ts": 3, "a": "late"}], frozenset({"key", "ts", "a"}))
    for number, block in ((20, first), (30, late)):
        table.log(block)
        table.instant(number)
    assert read(table, MERGERS["event time"], LARGE) == [{**base, "ts": 6, "a": "late", "b": 6.0}]


def test_a_delete_with_an_ordering_value_may_lose(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    row = {"key": "k", "ts": 4, "a": "x", "b": None, "c": None, "_hoodie_is_deleted": False}
    table.base_file([{**row, "key": f"k{number}"} for number in range(4)])
    table.log(
        deletes(20, ["k0", "k1", "k2"], [3, 5, None]),
        data(20, [{**row, "key": "k1", "a": "late"}, {**row, "key": "k2", "a": "again"}]),
        data(20, [{**row, "key": "k3", "ts": 3, "_hoodie_is_deleted": True}]),
    )
    table.instant(20)
    found = {(each["key"], each["a"]) for each in read(table, MERGERS["event time"], LARGE)}
    assert found == {("k0", "x"), ("k2", "again"), ("k3", "x")}


def test_deletes_with_several_ordering_values_compare_as_tuples() -> None:
    made, none = MERGERS["several fields"], pa.array([], pa.string())
    rows = pa.table({"_hoodie_record_key": ["a", "b"], "ts": [2, 2], "b": [1.0, 1.0]})
    kind = pa.struct([("0", pa.int64()), ("1", pa.float64())])
    values = [{"0": 2, "1": 0.5}, {"0": 2, "1": 2.0}, {"0": 2, "1": None}, {"0": 3, "1": 0.0}, None]
    gone = Deletes(pa.array(list("abcde")), np.ones(5, np.int64), pa.array(values, kind))
    merged, always = merge_in_order(made, rows, np.zeros(2, np.int64), gone)
    assert always.to_pylist() == ["e"]
    left = zip(merged.column("_hoodie_record_key").to_pylist(), made.deleted(merged), strict=True)
    assert dict(left) == {"a": False, "b": True, "c": True, "d": True}
    keys = merged.column("_hoodie_record_key")
    stored = pa.table({"_hoodie_record_key": keys, "ts": [2] * 4, "b": [9.0, 2.0, 0.0, 9.0]})
    outcome = made.merge(stored, merged)
    assert outcome.take.tolist() == [False, True, False, True]
    assert outcome.delete.tolist() == [False, True, False, True]
    alone, _ = merge_in_order(made, rows.slice(0, 0), np.zeros(0, np.int64), gone)
    assert alone.num_rows == 4
    assert made.deleted(alone).all()
    some, always = merge_in_order(
        made, rows, np.zeros(2, np.int64), Deletes(none, np.zeros(0, np.int64), pa.nulls(0, kind))
    )
    assert not len(always)
    assert some.column("ts").to_pylist() == [2, 2]


def test_no_value_of_an_int_column_is_zero() -> None:
    """Apache Hudi takes the int 0 for no value."""
    ranks = tuple_ranks([pa.array([None, 0, -1, 1], pa.int32())])
    assert ranks[0] == ranks[1]
    assert ranks[2] < ranks[0] < ranks[3]
    ranks = tuple_ranks([pa.array([None, 0, -1, 1]), pa.array(["b", "a", None, "a"])])
    assert ranks.argsort().tolist() == [0, 2, 1, 3]
