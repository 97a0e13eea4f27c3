"""Avro schemas and records for hypothesis, and fastavro as the oracle of the batch codec.

Records are in "raw" form: what fastavro takes and gives when the schema has no logical types, so that values
beyond Python's dates and decimals are covered, too. `raw_rows` brings Arrow columns to that form.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

Avro = Any
MAX_LONG = 2**63 - 1


@dataclass(frozen=True)
class Case:
    """A record schema and raw records of it."""

    schema: dict[str, Avro]
    rows: list[dict[str, Any]]

    @property
    def text(self) -> str:
        return json.dumps(self.schema)

    @property
    def data(self) -> bytes:
        return framed(encode_one_by_one(self.schema, self.rows))


def framed(records: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(record)) + record for record in records)


def unframed(data: bytes) -> list[bytes]:
    records, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        records.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    assert at == len(data)
    return records


def encode_one_by_one(schema: Avro, rows: list[dict[str, Any]]) -> list[bytes]:
    parsed, records = fastavro.parse_schema(without_logical_types(schema)), []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        records.append(out.getvalue())
    return records


def decode_one_by_one(schema: Avro, data: bytes) -> list[Any]:
    parsed = fastavro.parse_schema(without_logical_types(schema))
    return [fastavro.schemaless_reader(io.BytesIO(record), parsed, None) for record in unframed(data)]


def without_logical_types(avro: Avro) -> Avro:
    if isinstance(avro, list):
        return [without_logical_types(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    return {
        key: without_logical_types(value) if key in ("type", "items", "values", "fields") else value
        for key, value in avro.items()
        if key not in ("logicalType", "precision", "scale")
    }


# --- Arrow -> raw --------------------------------------------------------------------------------------


def raw_rows(schema: Avro, rows: pa.Table) -> list[dict[str, Any]]:
    columns = {
        field["name"]: raw_values(field["type"], rows.column(field["name"]).combine_chunks())
        for field in schema["fields"]
        if field["name"] in rows.column_names
    }
    return [{name: values[i] for name, values in columns.items()} for i in range(rows.num_rows)]


def raw_values(avro: Avro, array: Any) -> list[Any]:
    if isinstance(avro, list):
        (inner,) = [branch for branch in avro if branch != "null"]
        values = raw_values(inner, array)
        return [
            value if valid else None
            for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)
        ]
    if isinstance(avro, dict) and isinstance(avro["type"], dict | list):
        return raw_values(avro["type"], array)
    kind = avro["type"] if isinstance(avro, dict) else avro
    if kind == "record":
        parts = {
            field["name"]: raw_values(field["type"], array.field(field["name"])) for field in avro["fields"]
        }
        return [{name: values[i] for name, values in parts.items()} for i in range(len(array))]
    if kind == "array":
        return [raw_values(avro["items"], item.values) if item.is_valid else None for item in array]
    if kind == "map":
        return [_raw_map(avro, item) if item.is_valid else None for item in array]
    if pa.types.is_decimal(array.type):
        return [
            None if value is None else _raw_decimal(avro, value, array.type.scale)
            for value in array.to_pylist()
        ]
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if kind == "int" else pa.int64())
    plain: list[Any] = array.to_pylist()
    return plain


def _raw_map(avro: Avro, item: Any) -> dict[str, Any]:
    entries = item.values
    return dict(zip(entries.field(0).to_pylist(), raw_values(avro["values"], entries.field(1)), strict=True))


def _raw_decimal(avro: Avro, value: Any, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, context=_EXACT))
    return decimal_bytes(unscaled, avro.get("size"))


def decimal_bytes(unscaled: int, size: int | None = None) -> bytes:
    if size is None:
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _exact() -> Any:
    import decimal

    return decimal.Context(prec=60)


_EXACT = _exact()

# --- strategies ----------------------------------------------------------------------------------------

texts = st.text(max_size=12) | st.sampled_from(
    ["", "ä", "日本語", "\U0001f600" * 3, "x" * 63, "x" * 64, "y" * 300]
)
binaries = st.binary(max_size=12) | st.sampled_from([b"", b"\xff" * 70, b"\0" * 9000])
ints = st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)
longs = (
    st.integers(-(2**63), MAX_LONG)
    | st.integers(-70, 70)
    | st.sampled_from([-(2**63), MAX_LONG, 2**55, 2**62])
)
floats = st.floats(width=32, allow_nan=False) | st.just(-0.0)
doubles = st.floats(allow_nan=False) | st.just(-0.0)

Typed = tuple[Avro, st.SearchStrategy[Any]]

SIMPLE: list[Typed] = [
    ("boolean", st.booleans()),
    ("int", ints),
    ("long", longs),
    ("float", floats),
    ("double", doubles),
    ("string", texts),
    ({"type": "string", "avro.java.string": "String"}, texts),
    ("bytes", binaries),
    ({"type": "int", "logicalType": "date"}, ints),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
    ({"type": "long", "logicalType": "time-micros"}, st.integers(0, 86_399_999_999)),
    *(
        ({"type": "long", "logicalType": f"{local}timestamp-{unit}"}, longs)
        for local in ("", "local-")
        for unit in ("millis", "micros")
    ),
]


class _Names:
    """Named types of one schema must differ in name."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> str:
        self._count += 1
        return f"T{self._count}"


@st.composite
def _named(draw: st.DrawFn, names: _Names) -> Typed:
    kind = draw(st.sampled_from(["fixed", "enum", "decimal fixed", "decimal bytes"]))
    if kind == "fixed":
        size = draw(st.integers(1, 20))
        return {"type": "fixed", "name": names.next(), "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "enum":
        symbols = ["A", "BB", "C_3", *(f"S{i}" for i in range(draw(st.sampled_from([0, 70]))))]
        return {"type": "enum", "name": names.next(), "symbols": symbols}, st.sampled_from(symbols)
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    most = 10**precision - 1
    numbers = (
        st.integers(-most, most)
        | st.integers(max(-most, -300), min(most, 300))
        | st.sampled_from([most, -most])
    )
    if kind == "decimal bytes":
        return {"type": "bytes", **logical}, numbers.map(decimal_bytes)
    size = len(decimal_bytes(most)) + draw(st.sampled_from([0, 0, 1, 9]))
    return {"type": "fixed", "name": names.next(), "size": size, **logical}, numbers.map(
        lambda number: decimal_bytes(number, size)
    )


@st.composite
def _typed(draw: st.DrawFn, names: _Names, depth: int) -> Typed:
    kinds = ["simple", "simple", "named"] + (["array", "map", "record"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "simple":
        return draw(st.sampled_from(SIMPLE))
    if kind == "named":
        return draw(_named(names))
    if kind == "record":
        fields = [(f"f{i}", draw(_optional(names, depth - 1))) for i in range(draw(st.integers(1, 3)))]
        avro = {
            "type": "record",
            "name": names.next(),
            "fields": [{"name": name, "type": part} for name, (part, _) in fields],
        }
        return avro, st.fixed_dictionaries({name: values for name, (_, values) in fields})
    inner, values = draw(_optional(names, depth - 1))
    most = draw(st.sampled_from([1, 3, 8]))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=most)
    return {"type": "map", "values": inner}, st.dictionaries(texts, values, max_size=most)


@st.composite
def _optional(draw: st.DrawFn, names: _Names, depth: int) -> Typed:
    avro, values = draw(_typed(names, depth))
    form = draw(st.sampled_from(["required", "null first", "null first", "null last", "alone"]))
    if form == "required":
        return avro, values
    if form == "alone":
        return [avro], values
    nulls = draw(st.sampled_from(["some", "none", "all"]))
    values = {"some": st.none() | values, "none": values, "all": st.none()}[nulls]
    return (["null", avro] if form == "null first" else [avro, "null"]), values


@st.composite
def cases(draw: st.DrawFn, depth: int = 2, max_rows: int = 30) -> Case:
    names = _Names()
    fields = [(f"c{i}", draw(_optional(names, depth))) for i in range(draw(st.integers(1, 6)))]
    schema = {
        "type": "record",
        "name": "row",
        "namespace": "hoodie.t",
        "fields": [{"name": name, "type": avro} for name, (avro, _) in fields],
    }
    row = st.fixed_dictionaries({name: values for name, (_, values) in fields})
    few = draw(st.lists(row, max_size=4))
    count = draw(st.sampled_from([len(few), max_rows])) if few else 0
    return Case(schema, [few[i % len(few)] for i in range(count)])
