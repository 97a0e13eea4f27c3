"""Partition columns have the value of their rows' path, whatever files hold; queries and predicates agree."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import TableError
from hoodie.read.partition_values import PathColumns
from hoodie.read.spark import value_expressions
from hoodie.table.properties import TableProperties
from tests.support.arrow import arrow_schema
from tests.support.moved import UNVERIFIED, store_elsewhere
from tests.support.tiers import full_but

FROM_PATH = {"hoodie.datasource.read.extract.partition.values.from.path": "true"}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "id",
}
QUERIES: list[dict[str, Any]] = [
    {},
    {"query": "read_optimized"},
    {"begin": "earliest"},
    {"as_of": "2999-01-01"},
]
MOMENT = datetime(2024, 1, 1, 5, tzinfo=timezone.utc)
AS_TEXT = {
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}


def table(tmp_path: Path, values: Any, **options: str) -> str:
    rows = pa.table({"id": [f"k{number}" for number in range(len(values))], "p": values})
    hoodie.write_table(rows, str(tmp_path / "t"), options={**OPTIONS, **options})
    return str(tmp_path / "t")


def answer(path: str, options: Any = (), **more: Any) -> list[tuple[str, Any]]:
    rows = hoodie.read_table(path, columns=["id", "p"], options={**UNVERIFIED, **dict(options)}, **more)
    return sorted(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))


@pytest.mark.parametrize("style", full_but({"hive"}, ["hive", "plain"]))
@pytest.mark.parametrize(
    ("kind", "values", "other", "one"),
    [
        (pa.string(), ["eu", "us", None], "moved", "'eu'"),
        (pa.int32(), [1, -2, None], 7, "1"),
        (pa.int64(), [2**40, 0, None], 7, str(2**40)),
        (pa.date32(), [date(2024, 1, 1), date(2024, 1, 2), None], date(2024, 2, 1), "DATE '2024-01-01'"),
        (pa.bool_(), [True, False, None], True, "true"),
        (pa.decimal128(12, 8), [Decimal("1E-8"), Decimal("-2.5"), None], Decimal(7), "0.00000001"),
        (
            pa.timestamp("us", tz="UTC"),
            [MOMENT, MOMENT.replace(microsecond=1), None],
            MOMENT.replace(year=2025),
            "TIMESTAMP '2024-01-01 05:00:00'",
        ),
    ],
)
def test_rows_and_predicates_say_what_the_path_says(
    tmp_path: Path, kind: pa.DataType, values: list[Any], other: Any, one: str, style: str
) -> None:
    options = {"hoodie.datasource.write.hive_style_partitioning": str(style == "hive").lower()}
    path = table(tmp_path, pa.array(values, kind), **options)
    store_elsewhere(path, "p", other)
    rows = [("k0", values[0]), ("k1", values[1]), ("k2", None)]
    for query in QUERIES if kind == pa.string() or style == "plain" else QUERIES[:1]:
        assert answer(path, **query) == rows
        assert answer(path, where="true", **query) == rows
        assert answer(path, where=f"p = {one}", **query) == rows[:1]
        assert answer(path, where=f"id <> 'k1' AND (p = {one} OR id = 'k1')", **query) == rows[:1]
        assert answer(path, where="p IS NULL", **query) == rows[2:]
    if kind == pa.string():
        assert answer(path, where="p = 'moved'") == answer(path, where="p LIKE 'm%'") == []
    assert hoodie.read_table(path, columns=["p"], options=UNVERIFIED).num_rows == 3
    assert hoodie.read_table(path, options=UNVERIFIED).schema.field("p") == pa.field("p", kind)


@pytest.mark.parametrize(
    "values",
    [pa.array([MOMENT], pa.timestamp("us", tz="UTC")), pa.array([1.5]), pa.array([None], pa.float32())],
)
def test_values_that_a_path_may_hold_otherwise_come_from_the_file(tmp_path: Path, values: Any) -> None:
    path = table(tmp_path, values, **AS_TEXT)
    told = [None] if values[0].is_valid is False else values.to_pylist()
    assert [value for _, value in answer(path)] == told
    if pa.types.is_timestamp(values.type):
        with pytest.raises(TableError, match="does not show the value of p, which is timestamp"):
            answer(path, options=FROM_PATH)
    else:
        assert [value for _, value in answer(path, options=FROM_PATH)] == told


def test_an_update_stores_the_value_of_its_row(tmp_path: Path) -> None:
    """What is rewritten keeps what its file holds: the path's value is for queries."""
    path = table(tmp_path, pa.array(["eu", "eu"]))
    store_elsewhere(path, "p", "moved")
    hoodie.write_table(pa.table({"id": ["k0"], "p": ["eu"]}), path)
    newest = max(Path(path).glob("eu/*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    assert pq.read_table(newest, partitioning=None).column("p").to_pylist() == ["eu", "moved"]
    assert answer(path) == [("k0", "eu"), ("k1", "eu")]


def told(**more: str) -> PathColumns:
    texts = {
        "hoodie.table.name": "t",
        "hoodie.table.partition.fields": "p,n",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        **more,
    }
    return PathColumns.of(TableProperties(texts), arrow_schema([("p", pa.string()), ("n", pa.int32())]))


@pytest.mark.parametrize(
    ("partition", "values"),
    [
        ("eu/1", {"p": "eu", "n": 1}),
        ("p=eu/n=1", {}),
        ("__HIVE_DEFAULT_PARTITION__/1", {"p": None, "n": 1}),
        ("eu/x", {"p": "eu"}),
        ("eu/3000000000", {"p": "eu"}),
        ("a/b/1", {}),
        ("eu", {}),
    ],
)
def test_a_path_that_is_unclear_tells_nothing(partition: str, values: dict[str, Any]) -> None:
    assert told().values(partition) == values


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.decimal128(10, 2), "1.50", Decimal("1.5")),
        (pa.decimal128(10, 2), "1E+2", Decimal(100)),
        (pa.decimal128(10, 2), "1.505", None),
        (pa.decimal128(10, 2), "123456789.00", None),
        (pa.decimal128(10, 2), "NaN", None),
        (pa.decimal128(10, 2), "1E+999999999", None),
        (pa.timestamp("us", tz="UTC"), "-1", datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc)),
        (pa.timestamp("us", tz="UTC"), "9223372036854775807", None),
        (pa.timestamp("us", tz="UTC"), "2024-01-01 05:00:00.0", None),
        (pa.timestamp("ms", tz="UTC"), "1704085200000", None),
        (pa.timestamp("us"), "1704085200000000", None),
        (pa.float64(), "1.5", None),
    ],
)
def test_a_text_that_is_no_value_of_the_type_tells_nothing(kind: pa.DataType, text: str, value: Any) -> None:
    texts = {
        "hoodie.table.name": "t",
        "hoodie.table.partition.fields": "p",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    }
    columns = PathColumns.of(TableProperties(texts), pa.schema([pa.field("p", kind)]))
    assert columns.values(text) == ({} if value is None else {"p": value})


def test_other_key_generators_tell_nothing_unless_asked() -> None:
    custom = {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator"}
    assert told(**custom).values("eu/1") == {}
    dropped = {**custom, "hoodie.datasource.write.drop.partition.columns": "true"}
    assert told(**dropped).values("eu/1") == {"p": "eu", "n": 1}
    with pytest.raises(TableError, match="'eu/x' does not show the value of n, which is int32"):
        told(**dropped).values("eu/x")


def test_names_of_partitions_are_no_sql() -> None:
    names = ["it's/1", "${env:HOME}/2", "x') OR ('/3", "eu/not a number"]
    for text in value_expressions(told(), names, {"p": "string", "n": "int"}).values():
        assert not any(part in text for part in ("it's", "${", "OR", "not a number"))
