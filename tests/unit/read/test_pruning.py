"""A predicate leaves out partitions that it rules out, and never a row that it would have found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.read.table_view import TableView
from hoodie.table.handle import Table

DAYS = ["2024-01-01", "2024-01-02", "it's", ""]
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day,hour",
    "hoodie.datasource.write.precombine.field": "id",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
ROWS = pa.table(
    [
        pa.array([f"{day}/{hour}" for day in DAYS for hour in (7, 8, 10)]),
        pa.array([day for day in DAYS for _ in range(3)]),
        pa.array([7, 8, 10] * len(DAYS), pa.int32()),
        pa.array([None, "x", "y"] * len(DAYS)),
    ],
    names=["id", "day", "hour", "note"],
)
#: the empty day's partition is that of nulls
SHOWN = ROWS.set_column(1, "day", pa.array([day or None for day in ROWS.column("day").to_pylist()]))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("pruning") / "t")
    hoodie.write_table(ROWS, path, options=OPTIONS)
    return path


def found(table: str, where: str) -> set[Any]:
    return set(hoodie.read_table(table, where=where).column("id").to_pylist())


def filtered(where: str) -> set[Any]:
    import duckdb

    connection = duckdb.connect()
    connection.register("rows", SHOWN)
    return {row[0] for row in connection.execute(f"SELECT id FROM rows WHERE {where}").fetchall()}


@pytest.mark.parametrize(
    ("where", "partitions"),
    [
        ("day = '2024-01-01'", 3),
        ("'2024-01-01' = day AND note IS NULL", 3),
        ("DAY = 'it''s'", 3),
        ("day IN ('2024-01-01', '2024-01-02') AND hour > 7", 4),
        ("day BETWEEN '2024-01-01' AND '2024-01-01' AND hour = 10", 1),
        ("(day = '2024-01-02' AND (hour <= 8)) AND note LIKE '%x%'", 2),
        ("day <> '2024-01-01' AND hour != 7", 4),
        ("day < '2024-01-02' AND 8 <= hour", 2),
        ("hour = 7", 4),
        ("day = 'nowhere'", 0),
        ("day = ''", 0),
    ],
)
def test_partitions_that_are_ruled_out_are_not_listed(table: str, where: str, partitions: int) -> None:
    """The empty day is in the partition of nulls, which every term on the day rules out."""
    listed = {item.partition for item in TableView.load(Table.open(table), where=where).slices}
    assert len(listed) == partitions
    assert found(table, where) == filtered(where)


@pytest.mark.parametrize(
    "where",
    [
        "day = '2024-01-01' OR hour = 7",
        "NOT (day = '2024-01-01')",
        "CASE WHEN note = 'x' AND day = '2024-01-01' THEN false ELSE true END",
        "day IS NOT NULL",
        "upper(day) = 'IT''S'",
        "hour + 1 = 8",
        "day = note OR day = '2024-01-01' AND hour = 7",
        "day || '' = '2024-01-01'",
        "(day = '2024-01-01') IS NOT TRUE",
        "note BETWEEN 'x' AND 'y' AND day NOT IN ('2024-01-01')",
        "hour IN (7, 8) = false",
        "hour IN (7, '8')",
    ],
)
def test_what_is_not_understood_rules_nothing_out(table: str, where: str) -> None:
    assert len(TableView.load(Table.open(table), where=where).slices) == ROWS.num_rows
    assert found(table, where) == filtered(where)


def test_other_key_generators_have_other_paths(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "id",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    }
    rows = ROWS.slice(0, 6)
    hoodie.write_table(rows, path, options=options)
    assert len(found(path, "day = '2024-01-02'")) == 3
