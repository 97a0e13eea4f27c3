"""Records of the partition `record_index`, as Apache Hudi 0.15.0 makes them."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.codec.arrays import whole
from hoodie.format.hfile_records import cells_of, decode_rows
from hoodie.metadata.partitions.record_index import (
    RECORD,
    SCHEMA,
    Place,
    file_group_count,
    file_ids,
    of_deleted,
    of_places,
)
from hoodie.metadata.record_schema import record_schema, whole_records

UUID = "5b0e8f4c-aa11-4f7a-b0fe-0123456789ab"


def texts(*values: str) -> pa.Array[pa.StringScalar]:
    return pa.array(values, pa.string())


def record_of(file_id: str) -> dict[str, object]:
    (row,) = of_places([(texts("k"), Place("p", file_id, 7))]).rows.to_pylist()
    return dict(row[RECORD])


@pytest.mark.parametrize(
    ("file_id", "high", "low", "index"),
    [
        (f"{UUID}-0", 0x5B0E8F4CAA114F7A, 0xB0FE0123456789AB - (1 << 64), 0),
        (f"{UUID}-12", 0x5B0E8F4CAA114F7A, 0xB0FE0123456789AB - (1 << 64), 12),
        (UUID, 0x5B0E8F4CAA114F7A, 0xB0FE0123456789AB - (1 << 64), -1),
        ("00000003-aa11-4f7a-b0fe-0123456789ab-0", 0x00000003AA114F7A, 0xB0FE0123456789AB - (1 << 64), 0),
    ],
)
def test_a_uuid_is_two_numbers(file_id: str, high: int, low: int, index: int) -> None:
    assert record_of(file_id) == {
        "partitionName": "p",
        "fileIdHighBits": high,
        "fileIdLowBits": low,
        "fileIndex": index,
        "fileId": "",
        "instantTime": 7,
        "fileIdEncoding": 0,
    }


@pytest.mark.parametrize(
    "file_id", ["x", f"{UUID}-", f"{UUID}-01", f"{UUID.upper()}-0", f"{UUID}-9999999999"]
)
def test_another_id_is_a_text(file_id: str) -> None:
    found = record_of(file_id)
    assert (found["fileId"], found["fileIdEncoding"]) == (file_id, 1)
    assert {found[name] for name in ("fileIdHighBits", "fileIdLowBits", "fileIndex")} == {-1}


@given(st.uuids(), st.one_of(st.none(), st.integers(0, 10**9 - 1)))
def test_ids_are_read_as_they_were(id_: uuid.UUID, number: int | None) -> None:
    file_id = str(id_) if number is None else f"{id_}-{number}"
    rows = of_places([(texts("k"), Place("", file_id, 0))]).rows
    assert file_ids(whole(rows.column(RECORD))).to_pylist() == [file_id]


def test_records_have_the_types_that_are_read() -> None:
    rows = of_places([(texts("a", "ü"), Place("p", f"{UUID}-0", 7)), (texts("b"), Place("", "x", 8))]).rows
    back = decode_rows(
        [cells_of(whole_records(rows, record_schema()), record_schema())], record_schema(), SCHEMA.names
    )
    assert back.schema == rows.schema == SCHEMA
    assert sorted(back.to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)


def test_the_last_place_of_a_key_counts() -> None:
    found = of_places([(texts("a", "b"), Place("p", "x", 1)), (texts("c", "a", "c"), Place("q", "y", 2))])
    assert {row["key"]: row[RECORD]["partitionName"] for row in found.rows.to_pylist()} == {
        "a": "q",
        "b": "p",
        "c": "q",
    }
    assert found.rows.num_rows == 3


def test_nothing() -> None:
    assert of_places([]).rows.schema == SCHEMA
    assert of_places([(texts(), Place("p", "x", 1))]).rows.num_rows == 0


def test_deleted_keys() -> None:
    found = of_deleted(texts("b", "a", "b"))
    assert found.rows.num_rows == 0
    assert found.deletes is not None
    assert found.deletes.to_pylist() == ["b", "a"]


@pytest.mark.parametrize(
    ("records", "least", "most", "growth", "size", "groups"),
    [
        (0, 10, 10_000, 2.0, 1 << 30, 10),
        (10**9, 10, 10_000, 2.0, 1 << 30, 89),
        (10**9, 10, 40, 2.0, 1 << 30, 40),
        (1000, 1, 100, 1.0, 4800, 10),
        (1001, 1, 100, 1.5, 4800, 15),
        (10**12, 7, 7, 2.0, 1 << 30, 7),
        (5, 1, 10, 1.0, 10**9, 1),
    ],
)
def test_the_number_of_file_groups(
    records: int, least: int, most: int, growth: float, size: int, groups: int
) -> None:
    assert file_group_count(records, least, most, growth, size) == groups
