"""Avro and ORC files with a column of each kind."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import orc

UTC = dt.timezone.utc


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": optional("long")},
        {"name": "i", "type": "int"},
        {"name": "f", "type": optional("float")},
        {"name": "b", "type": optional("boolean")},
        {"name": "raw", "type": optional("bytes")},
        {"name": "e", "type": optional({"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]})},
        {"name": "day", "type": optional({"type": "int", "logicalType": "date"})},
        {"name": "at", "type": optional({"type": "long", "logicalType": "timestamp-micros"})},
        {
            "name": "price",
            "type": optional({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}),
        },
        {"name": "u", "type": optional({"type": "string", "logicalType": "uuid"})},
        {"name": "l", "type": {"type": "array", "items": optional("string")}},
        {"name": "m", "type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-micros"}}},
        {
            "name": "s",
            "type": optional(
                {"type": "record", "name": "Part", "fields": [{"name": "x", "type": optional("double")}]}
            ),
        },
    ],
}

FULL: dict[str, Any] = {
    "id": "a",
    "n": -(1 << 63),
    "i": 7,
    "f": 1.5,
    "b": True,
    "raw": b"\xff",
    "e": "PAID",
    "day": dt.date(9999, 12, 31),
    "at": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "price": decimal.Decimal("-123456789012345678.25"),
    "u": "00000000-0000-0000-0000-000000000005",
    "l": ["x", None],
    "m": {"k": dt.datetime(1, 1, 1, tzinfo=UTC)},
    "s": {"x": 2.5},
}
NONE: dict[str, Any] = {**dict.fromkeys(FULL), "id": "b", "i": 0, "l": [], "m": {}}


def read_as(record: dict[str, Any]) -> dict[str, Any]:
    """The record as pyarrow gives it."""
    return {**record, "m": [*record["m"].items()]}


def avro_file(path: Path, records: list[Any], schema: Any = None, codec: str = "null", **how: Any) -> str:
    with path.open("wb") as out:
        fastavro.writer(
            out, fastavro.parse_schema(schema or AVRO, named_schemas={}), records, codec=codec, **how
        )
    return str(path)


def orc_table() -> pa.Table:
    return pa.table(
        {
            "id": ["a", "b"],
            "n": pa.array([1 << 62, None]),
            "i": pa.array([7, None], pa.int32()),
            "d": pa.array([1.5, None]),
            "raw": pa.array([b"\xff", None]),
            "day": pa.array([dt.date(2024, 2, 29), None]),
            "at": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 456789), None], pa.timestamp("us", "UTC")),
            "price": pa.array([decimal.Decimal("-12345678901234567.25"), None], pa.decimal128(20, 2)),
            "l": pa.array([["x", None], None], pa.list_(pa.string())),
            "s": pa.array([{"x": 2.5}, None], pa.struct([("x", pa.float64())])),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )


def orc_file(path: Path, rows: pa.Table | None = None) -> str:
    orc.write_table(orc_table() if rows is None else rows, str(path))
    return str(path)
