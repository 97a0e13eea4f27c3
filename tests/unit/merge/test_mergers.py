"""Ordering values of every type, delete markers, and the choice of a merger."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hoodie.config.key import Config
from hoodie.errors import ConfigError, InputError
from hoodie.merge import Merger, Outcome, merger
from tests.support.arrow import arrow_schema

PAYLOAD = "hoodie.datasource.write.payload.class"
MODE = "hoodie.record.merge.mode"
NAN, INF = float("nan"), float("inf")
SCHEMA = arrow_schema([("k", pa.int64()), ("ts", pa.int64()), ("op", pa.string())])


def made(schema: pa.Schema, ordering: str | None = "ts", **more: str) -> Merger:
    return merger(Config.of(more), ordering, schema)


@pytest.mark.parametrize(
    "rising",
    [
        pa.array([-128, 0, 127], pa.int8()),
        pa.array([-(2**63), -1, 0, 2**63 - 1]),
        pa.array([0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()),
        pa.array([-INF, -1.5, -0.0, 0.0, 5e-324, INF, NAN]),
        pa.array([-INF, -1.5, -0.0, 0.0, 1e-45, INF, NAN], pa.float32()),
        pa.array(["", "A", "a", "aa", "é", "\uffee", "\U0001f600"]),  # by UTF-8 bytes, not UTF-16
        pa.array(["a", "b"], pa.large_string()),
        pa.DictionaryArray.from_arrays([1, 0], ["b", "a"]),
        pa.array([dt.date(1969, 1, 1), dt.date(2024, 1, 1)]),
        pa.array([dt.date(1969, 1, 1), dt.date(2024, 1, 1)], pa.date64()),
        pa.array([-1, 0, 1], pa.timestamp("us", "UTC")),
        pa.array([-1, 0, 1], pa.timestamp("ns")),
        pa.array([Decimal("-1.10"), Decimal("0.00"), Decimal("1.01")]),
        pa.array([Decimal(-(10**60)), Decimal(0), Decimal(10**60)], pa.decimal256(65, 0)),
        pa.array([False, True]),
    ],
    ids=lambda values: str(values.type),
)
def test_order_of_every_type(rising: pa.Array[Any]) -> None:
    count = len(rising)
    for first in range(count):
        for second in range(count):
            pair = pa.table({"k": [1, 1], "ts": rising.take(pa.array([first, second])), "n": [0, 1]})
            it = made(pair.schema)
            winner = it.combine(pair, pair["k"])["n"].to_pylist()
            assert winner == [0 if first > second else 1], (first, second)
            outcome = it.merge(pair.slice(0, 1), pair.slice(1))
            assert outcome.take.tolist() == [first <= second], (first, second)


def test_stored_null_is_older_than_anything() -> None:
    stored = pa.table({"ts": pa.array([None, None, 5])})
    incoming = pa.table({"ts": [-(2**63), 1, 4]})
    assert made(SCHEMA).merge(stored, incoming).take.tolist() == [True, True, False]
    text = pa.schema([("ts", pa.string())])
    outcome = made(text).merge(pa.table({"ts": [None, "b"]}, text), pa.table({"ts": ["", "a"]}, text))
    assert outcome.take.tolist() == [True, False]


def test_stored_type_was_narrower() -> None:
    outcome = made(SCHEMA).merge(pa.table({"ts": pa.array([2, 9], pa.int32())}), pa.table({"ts": [3, 8]}))
    assert outcome.take.tolist() == [True, False]


def test_nested_ordering_column() -> None:
    rows = pa.table({"k": [1, 1, 2], "m": [{"v": 2}, {"v": 1}, {"v": 0}], "n": [0, 1, 2]})
    it = made(rows.schema, "m.v")
    assert it.columns(rows.schema) == ("m",)
    assert it.combine(rows, rows["k"])["n"].to_pylist() == [0, 2]


@pytest.mark.parametrize("name", ["event_time", "commit_time", "overwrite_non_defaults", "partial_update"])
def test_null_ordering_value(name: str) -> None:
    rows = pa.table({"k": [1, 2], "ts": pa.array([7, None]), "op": ["x", "y"]})
    with pytest.raises(InputError, match=r"ordering column 'ts' is null in 1 row.*k=2, ts=None") as caught:
        made(SCHEMA, **{PAYLOAD: name}).combine(rows, rows["k"])
    assert caught.value.values["column"] == "ts"
    if name in ("event_time", "partial_update"):
        with pytest.raises(InputError, match="ordering column 'ts' is null"):
            made(SCHEMA, **{PAYLOAD: name}).merge(rows, rows)


def test_ordering_column_that_does_not_fit() -> None:
    with pytest.raises(InputError, match="'when' is not in the input; its columns are k, ts, op"):
        made(SCHEMA, "when")
    with pytest.raises(InputError, match=r"'m\.when' is not in the input"):
        made(arrow_schema([("m", pa.struct([("v", pa.int8())]))]), "m.when")
    with pytest.raises(ConfigError, match="has no order"):
        made(pa.schema([("ts", pa.list_(pa.int8()))]))
    with pytest.raises(InputError, match="has to be boolean, not string"):
        made(arrow_schema([("ts", pa.int8()), ("_hoodie_is_deleted", pa.string())]))


def test_delete_marker() -> None:
    more = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    it = made(SCHEMA, **more)
    rows = pa.table({"k": [1, 2, 3], "ts": [1, 1, 1], "op": ["D", None, "d"]})
    assert it.deleted(rows).tolist() == [True, False, False]
    stored = pa.table({"k": [1, 2, 3], "ts": [1, 2, 0], "op": ["I", "I", "I"]})
    outcome = it.merge(stored, rows.set_column(2, "op", pa.array(["D", "D", "U"])))
    assert (outcome.take.tolist(), outcome.delete.tolist()) == ([True, False, True], [True, False, False])
    assert it.columns(SCHEMA) == ("ts", "op")
    flagged = rows.append_column("_hoodie_is_deleted", pa.array([True, True, True]))
    assert it.deleted(flagged).tolist() == [True, False, False]  # the marker takes its place
    assert not it.deleted(rows.drop_columns(["op"])).any()
    with pytest.raises(ConfigError, match="go together"):
        made(SCHEMA, **{"hoodie.payload.delete.field": "op"})
    with pytest.raises(ConfigError, match="a delete marker is text"):
        made(SCHEMA.set(2, pa.field("op", pa.float64())), **more)


@pytest.mark.parametrize(
    ("options", "ordering", "java"),
    [
        ({}, "ts", "DefaultHoodieRecordPayload"),
        ({}, None, "OverwriteWithLatestAvroPayload"),
        ({MODE: "commit_time_ordering"}, "ts", "OverwriteWithLatestAvroPayload"),
        ({MODE: "EVENT_TIME_ORDERING"}, "ts", "DefaultHoodieRecordPayload"),
        ({MODE: "CUSTOM", PAYLOAD: "partial_update"}, "ts", "PartialUpdateAvroPayload"),
        (
            {PAYLOAD: "org.apache.hudi.common.model.PartialUpdateAvroPayload"},
            "ts",
            "PartialUpdateAvroPayload",
        ),
        (
            {"hoodie.compaction.payload.class": "OverwriteWithLatestAvroPayload"},
            "ts",
            "OverwriteWithLatestAvroPayload",
        ),
        ({MODE: "EVENT_TIME_ORDERING", PAYLOAD: "event_time"}, "ts", "DefaultHoodieRecordPayload"),
        ({PAYLOAD: "event_time"}, None, "DefaultHoodieRecordPayload"),
    ],
)
def test_choice(options: dict[str, str], ordering: str | None, java: str) -> None:
    assert made(SCHEMA, ordering, **options).java_class == f"org.apache.hudi.common.model.{java}"


@pytest.mark.parametrize(
    ("options", "ordering", "message"),
    [
        ({PAYLOAD: "com.example.Mine"}, "ts", "is no payload known here; use one of org"),
        ({MODE: "CUSTOM"}, "ts", "needs hoodie.datasource.write.payload.class"),
        ({MODE: "EVENT_TIME_ORDERING"}, None, "needs hoodie.datasource.write.precombine.field"),
        ({MODE: "EVENT_TIME_ORDERING", PAYLOAD: "commit_time"}, "ts", "contradicts"),
        ({MODE: "COMMIT_TIME_ORDERING", PAYLOAD: f"{__name__}:Mine"}, "ts", "contradicts"),
        ({PAYLOAD: "no.such.module:Mine"}, "ts", "can't be imported"),
        ({PAYLOAD: "hoodie.errors:NoSuchName"}, "ts", "can't be imported"),
        ({PAYLOAD: "types:SimpleNamespace"}, "ts", "is no payload: derive it from hoodie.merge.Merger"),
        ({PAYLOAD: f"{__name__}:Unfinished"}, "ts", "is no payload: it lacks columns, combine; see hoodie"),
        ({PAYLOAD: f"{__name__}:Nameless"}, "ts", "its java_class, which the table persists, is empty"),
    ],
)
def test_settings_that_do_not_fit(options: dict[str, str], ordering: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(SCHEMA, ordering, **options)


class Unfinished(Merger):
    java_class = "org.example.Unfinished"

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        raise NotImplementedError

    def deleted(self, rows: Any) -> Any:
        raise NotImplementedError


class FirstWins(Merger):
    """A user's own merger: what is stored stays."""

    java_class = "org.apache.hudi.common.model.FirstValueAvroPayload"

    def __init__(self, *, config: Config, ordering_field: str | None, schema: pa.Schema) -> None:
        self.given: Any = (ordering_field, schema.names)

    def columns(self, schema: pa.Schema) -> tuple[str, ...]:
        return ()

    def combine(self, rows: pa.Table, keys: Any) -> pa.Table:
        return rows

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        none = np.zeros(incoming.num_rows, np.bool_)
        return Outcome(none, none)

    def deleted(self, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
        return np.zeros(rows.num_rows, np.bool_)


class Nameless(FirstWins):
    java_class = ""


def test_own_merger() -> None:
    it = made(SCHEMA, **{PAYLOAD: f"{__name__}:FirstWins", MODE: "CUSTOM"})
    assert isinstance(it, FirstWins)
    assert it.given == ("ts", SCHEMA.names)
    assert it.java_class.endswith("FirstValueAvroPayload")
    assert (it.folds, it.keeps_newer, it.ignores_stored, it.delete_ordering) == (False, True, False, ())


def test_partial_update_in_words() -> None:
    schema = arrow_schema(
        [("k", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.int64())]
    )
    it = made(schema, **{PAYLOAD: "partial_update"})
    batch = pa.table({"k": [1, 1], "ts": [2, 1], "name": [None, "old"], "price": [20, 10]}, schema)
    assert it.combine(batch, batch["k"]).to_pylist() == [{"k": 1, "ts": 2, "name": "old", "price": 20}]
    stored = pa.table({"k": [1], "ts": [3], "name": ["kept"], "price": pa.array([None], pa.int64())}, schema)
    rows = it.merge(stored, batch.slice(1)).rows
    assert rows is not None
    assert rows.to_pylist() == [{"k": 1, "ts": 3, "name": "kept", "price": 10}]


def test_meta_columns_come_from_the_incoming_row() -> None:
    schema = arrow_schema([("_hoodie_file_name", pa.string()), ("k", pa.int64()), ("ts", pa.int64())])
    stored = pa.table({"_hoodie_file_name": ["old"], "k": [1], "ts": [9]}, schema)
    incoming = pa.table({"_hoodie_file_name": pa.nulls(1, pa.string()), "k": [1], "ts": [1]}, schema)
    for name in ("partial_update", "overwrite_non_defaults"):
        rows = made(schema, **{PAYLOAD: name}).merge(stored, incoming).rows
        assert rows is not None
        assert rows["_hoodie_file_name"].to_pylist() == [None]
