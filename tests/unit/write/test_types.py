"""Every column type, nulls everywhere, through several commits."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, as_table, full_rows
from tests.unit.write.support import (
    BLOCK_SIZE,
    BUDGET,
    KEY,
    OPTIONS,
    ORDERING,
    PLAIN,
    Pair,
    data_files,
    values,
)

#: zone-less timestamps are stored as instants with the same wall clock in UTC
STORED_SCHEMA = pa.schema(
    [
        pa.field("c_ntz", pa.timestamp("us", "UTC")) if field.name == "c_ntz" else field
        for field in FULL_SCHEMA
    ]
)


def _stored(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as the table has them."""
    clock = [row["c_ntz"] for row in rows]
    return [
        {**row, "c_ntz": value and value.replace(tzinfo=dt.timezone.utc)}
        for row, value in zip(rows, clock, strict=True)
    ]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, marks=pytest.mark.full),
        {BUDGET: 1 << 16, BLOCK_SIZE: 4096},
        pytest.param(
            {"hoodie.datasource.write.payload.class": "partial_update"},
            marks=[pytest.mark.full, pytest.mark.table_version(6)],
        ),
    ],
)
def test_all_types_through_commits(tmp_path: Path, more: dict[str, Any]) -> None:
    mode = "partial_update" if len(more) == 1 else "event_time"
    table = Pair(tmp_path / "t", {**OPTIONS, **more}, STORED_SCHEMA, mode=mode)
    rng = random.Random(5)
    batches = [
        full_rows(range(300), 1),
        full_rows(rng.sample(range(400), 200), 2),
        full_rows(range(100, 130), 3, deleted=True) + full_rows(range(390, 450), 3),
    ]
    for rows in batches:
        hoodie.write_table(as_table(rows, FULL_SCHEMA), str(table.path), options=table.options)
        table.model.upsert(_stored(rows))
        table.check()
    assert hoodie.read_table(str(table.path), meta=False).schema.types == [
        field.type for field in _named(STORED_SCHEMA)
    ]


def _named(schema: pa.Schema) -> pa.Schema:
    """With the element names that Hudi's readers expect."""
    from hoodie.format.schema import canonical

    return canonical(schema)


def test_all_types_answer_a_predicate(tmp_path: Path) -> None:
    rows = full_rows(range(200), 1)
    hoodie.write_table(as_table(rows, FULL_SCHEMA), str(tmp_path / "t"), options=OPTIONS)
    found = hoodie.read_table(str(tmp_path / "t"), where="id < 'k00100' AND region = 'us'")
    expected = [row for row in _stored(rows) if row["id"] < "k00100" and row["region"] == "us"]
    assert_same_rows(found, as_table(expected, STORED_SCHEMA))
    assert found.schema == hoodie.read_table(str(tmp_path / "t")).schema


def test_files_are_what_hudis_readers_take(tmp_path: Path) -> None:
    hoodie.write_table(as_table(full_rows(range(50), 1), FULL_SCHEMA), str(tmp_path / "t"), options=OPTIONS)
    for file in data_files(tmp_path / "t"):
        parquet = pq.ParquetFile(file)
        columns = {
            parquet.schema.column(i).path: parquet.schema.column(i) for i in range(len(parquet.schema))
        }
        for path, column in columns.items():
            if column.logical_type.type == "TIMESTAMP":
                assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(column.logical_type), path
            if column.logical_type.type == "DECIMAL":
                assert column.physical_type == "FIXED_LEN_BYTE_ARRAY", path
        assert "c_arr.list.element" in columns, "three-level lists"
        assert "c_map.key_value.key" in columns
        assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"
        assert b"ARROW:schema" not in (parquet.metadata.metadata or {})


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        pytest.param(pa.int32(), 1, 2, marks=pytest.mark.full),
        (pa.int64(), -(2**62), 2**62),
        pytest.param(pa.float32(), -1.5, 1.5, marks=pytest.mark.full),
        (pa.float64(), 1e300, float("nan")),
        (pa.decimal128(38, 10), Decimal("9.1"), Decimal("10.1")),
        pytest.param(pa.date32(), dt.date(1969, 1, 1), dt.date(1970, 1, 1), marks=pytest.mark.full),
        (pa.timestamp("us", "UTC"), dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1)),
        (pa.timestamp("ns"), dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1)),
        pytest.param(pa.string(), "Z", "a", marks=pytest.mark.full),
        (pa.string(), "z", "é"),
        (pa.bool_(), False, True),
    ],
)
def test_ordering_by_every_type(tmp_path: Path, kind: pa.DataType, old: Any, new: Any) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", kind), ("val", pa.string())])

    def rows(*pairs: tuple[Any, str]) -> pa.Table:
        ts = pa.array([pair[0] for pair in pairs]).cast(kind)
        columns = [pa.array(["a"] * len(pairs)), ts, pa.array([pair[1] for pair in pairs])]
        return pa.Table.from_arrays(columns, schema=schema)

    hoodie.write_table(rows((new, "new"), (old, "old")), str(tmp_path / "t"), options=PLAIN)
    assert values(tmp_path / "t", "val") == ["new"]
    hoodie.write_table(rows((old, "late")), str(tmp_path / "t"))
    assert values(tmp_path / "t", "val") == ["new"]
    hoodie.write_table(rows((new, "tie")), str(tmp_path / "t"))
    assert values(tmp_path / "t", "val") == ["tie"]


def test_incoming_layouts_that_only_arrow_knows(tmp_path: Path) -> None:
    """Dictionaries, large and view layouts, chunks and slices are the same rows."""
    plain_columns: dict[str, Any] = {
        "id": pa.array([f"k{number}" for number in range(20)]),
        "ts": pa.array(range(20), pa.int64()),
        "tag": pa.array([None if number % 3 == 0 else f"t{number % 4}" for number in range(20)]),
        "raw": pa.array([None if number % 5 == 0 else bytes([number]) for number in range(20)]),
        "flag": pa.array([number % 2 == 0 for number in range(20)]),
        "items": pa.array([None if number % 4 == 0 else [number, None] for number in range(20)]),
    }
    expected = pa.table(plain_columns)
    odd = pa.table(
        {
            **plain_columns,
            "id": plain_columns["id"].cast(pa.large_string()),
            "tag": plain_columns["tag"].dictionary_encode(),
            "raw": plain_columns["raw"].cast(pa.large_binary()),
            "items": plain_columns["items"].cast(pa.large_list(pa.int64())),
        }
    )
    hoodie.write_table(odd.slice(1), str(tmp_path / "t"), options=PLAIN)
    pieces = pa.concat_tables([odd.slice(number, 1) for number in range(20)])
    hoodie.write_table(pieces, str(tmp_path / "t"))
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), expected)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (pa.array([1, 2], pa.int32()), ["1", "2"]),
        (pa.array([1.5, 1e10]), ["1.5", "1.0E10"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1)]), ["2024-02-29", "0001-01-01"]),
        (pa.array([Decimal("1.50"), Decimal("-0.01")]), ["1.50", "-0.01"]),
        (pa.array(["日本", "a b"]), ["日本", "a b"]),
        (pa.array([dt.datetime(2024, 1, 1)]).cast(pa.timestamp("us")), ["1704067200000000"]),
    ],
)
def test_key_columns_of_every_type(tmp_path: Path, keys: pa.Array[Any], expected: list[str]) -> None:
    def rows(value: str) -> pa.Table:
        return pa.table({"id": keys, "ts": pa.array([1] * len(keys)), "val": pa.array([value] * len(keys))})

    hoodie.write_table(rows("old"), str(tmp_path / "t"), options={KEY: "id", ORDERING: "ts"})
    result = hoodie.write_table(rows("new"), str(tmp_path / "t"))
    assert (result.num_updates, result.num_inserts) == (len(keys), 0)
    assert values(tmp_path / "t", "_hoodie_record_key") == sorted(expected)
    assert set(values(tmp_path / "t", "val")) == {"new"}
