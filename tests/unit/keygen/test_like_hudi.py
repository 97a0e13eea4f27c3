"""Partition paths and number texts against what Apache Hudi 0.15.0 and Java answered (hudi_0_15_0.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.config.key import Config
from hoodie.errors import InputError
from hoodie.keygen import key_generator
from hoodie.keygen._text import double_text, float_text

ANSWERS = json.loads(Path(__file__).with_name("hudi_0_15_0.json").read_text(encoding="utf-8"))
TYPES: dict[str, Any] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "string": pa.string(),
    "ts": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}
RAW: dict[str, Any] = {"ts": pa.int64(), "date": pa.int32()}


def column(case: dict[str, Any], values: list[str | None]) -> pa.Array[Any]:
    kind = TYPES[case["type"]]
    if case["type"] == "string":
        return pa.array(values, pa.string())
    parse = float if pa.types.is_floating(kind) else int
    raw = pa.array([v if v is None else parse(v) for v in values], RAW.get(case["type"], kind))
    found: pa.Array[Any] = raw.cast(kind)
    return found


def paths(case: dict[str, Any], values: list[str | None]) -> list[str]:
    options = {name.replace("~", "hoodie.keygen.timebased."): text for name, text in case["options"].items()}
    options |= {
        "hoodie.datasource.write.recordkey.field": "v",
        "hoodie.datasource.write.partitionpath.field": "v",
        "hoodie.datasource.write.keygenerator.type": "TIMESTAMP",
    }
    rows = pa.table({"v": column(case, values)})
    found: Any = key_generator(Config.of(options), rows.schema).partition_paths(rows)
    names: list[str] = found.to_pylist()
    return names


@pytest.mark.parametrize("case", ANSWERS["paths"], ids=lambda case: "|".join(case["options"].values())[:60])
def test_timestamp_partition_paths(case: dict[str, Any]) -> None:
    good = [
        (value, path) for value, path in zip(case["values"], case["paths"], strict=True) if path is not None
    ]
    if good:
        # all in one batch, several times over: distinct values are shared among rows
        values = [value for value, _ in good] * 3
        assert paths(case, values) == [path for _, path in good] * 3
    for value, path in zip(case["values"], case["paths"], strict=True):
        if path is None:
            with pytest.raises(InputError, match="partition column 'v'"):
                paths(case, [value])


def test_enough_answers() -> None:
    found = [path for case in ANSWERS["paths"] for path in case["paths"]]
    assert sum(path is not None for path in found) > 1000
    assert sum(path is None for path in found) > 100


@pytest.mark.parametrize(("kind", "convert"), [("doubles", double_text), ("floats", float_text)])
def test_number_texts(kind: str, convert: Any) -> None:
    numbers = [float(text) for text, _ in ANSWERS[kind]]
    expected = [text for _, text in ANSWERS[kind]]
    array = pa.array([*numbers, None, *numbers], pa.float64() if kind == "doubles" else pa.float32())
    made = convert(array).to_pylist()
    assert made == [*expected, None, *expected]
    assert convert(pa.chunked_array([array.slice(0, 3), array.slice(3)])).to_pylist() == made


def test_numbers_that_are_none() -> None:
    array = pa.array([float("nan"), float("inf"), float("-inf"), None])
    assert double_text(array).to_pylist() == ["NaN", "Infinity", "-Infinity", None]
    assert float_text(array.cast(pa.float32())).to_pylist() == ["NaN", "Infinity", "-Infinity", None]
