"""Arrow rows as JSON: every type, nulls, slices, and texts that need escapes."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from hoodie.codec.arrow_json import json_objects
from hoodie.errors import InputError

DAY, MOMENT = dt.date(1960, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
#: type, values, and what JSON has for them
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (pa.string(), ['a"\\\n\x01é', "", None], ['a"\\\n\x01é', "", None]),
    (pa.bool_(), [True, False, None], [True, False, None]),
    (pa.int64(), [2**62, -3, None], [2**62, -3, None]),
    (pa.float32(), [0.1, 2.0, None], [0.1, 2.0, None]),
    (pa.float64(), [float("nan"), float("-inf"), 1e300], ["NaN", "-Infinity", 1e300]),
    (pa.date32(), [DAY, None, dt.date(1970, 1, 2)], [-3653, None, 1]),
    (pa.timestamp("us", "UTC"), [MOMENT, None, None], [1704067200000000, None, None]),
    (pa.decimal128(10, 2), [decimal.Decimal("1.50"), decimal.Decimal("-0.01"), None], [1.5, -0.01, None]),
    (pa.binary(), [b"\xff\x00a", b"", None], ["/wBh", "", None]),
    (pa.list_(pa.string()), [["x", None], [], None], [["x", None], [], None]),
    (pa.map_(pa.string(), pa.int32()), [[("k", 1), ("j", None)], [], None], [{"k": 1, "j": None}, {}, None]),
    (
        pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.list_(pa.date32()))]),
        [{"a": 1, "b": [DAY]}, {"a": None, "b": None}, None],
        [{"a": 1, "b": [-3653]}, {"a": None, "b": None}, None],
    ),
]


def test_values_of_every_type() -> None:
    for kind, values, expected in CASES:
        rows = pa.table({"c": pa.array(values, kind)})
        texts = [str(text) for text in json_objects(rows).to_pylist()]
        assert [json.loads(text) for text in texts] == [{"c": value} for value in expected], kind
        for start in (1, 2, 3):
            assert json_objects(rows.slice(start)).to_pylist() == texts[start:], kind


def test_columns_are_in_their_order_and_whole_numbers_of_floats_have_a_point() -> None:
    rows = pa.table({"b": [1.0], 'a"': pa.nulls(1, pa.string()), "c": [1]})
    assert json_objects(rows).to_pylist() == ['{"b": 1.0, "a\\"": null, "c": 1}']
    assert json_objects(pa.table({"b": pa.array([], pa.string())})).to_pylist() == []


def test_bytes_of_every_length() -> None:
    values = [bytes(range(length)) for length in range(40)]
    texts = json_objects(pa.table({"c": values})).to_pylist()
    assert [json.loads(str(text))["c"] for text in texts] == [
        base64.b64encode(value).decode() for value in values
    ]


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="duration"):
        json_objects(pa.table({"c": pa.array([1], pa.duration("s"))}))
