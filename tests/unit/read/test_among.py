"""Rows that have some of many values: those that a filter of all rows leaves, of any table."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.format.base_file import BaseFileReader
from hoodie.read import among as module
from hoodie.read.among import Among, SliceRows
from hoodie.read.table_view import TableView
from hoodie.table.handle import Table, TableRef

PATHS = "hoodie.datasource.read.extract.partition.values.from.path"
KINDS: dict[str, dict[str, str]] = {
    "base files": {"hoodie.datasource.write.partitionpath.field": "day"},
    "logs": {
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    },
    "one folder": {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
    "paths have values": {
        "hoodie.datasource.write.partitionpath.field": "day",
        PATHS: "true",
    },
    "version 9": {
        "hoodie.datasource.write.partitionpath.field": "day,number",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": "9",
    },
}
NAMES = ["id", "day", "number", "date", "note"]


def rows_of(numbers: list[int], note: str) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([f"k{number:03}" for number in numbers]),
            "day": pa.array([f"2024-01-0{number % 3 + 1}" for number in numbers]),
            "number": pa.array([number % 5 for number in numbers], pa.int32()),
            "date": pa.array(
                [None if number % 4 == 0 else dt.date(2024, 1, 1 + number % 7) for number in numbers]
            ),
            "note": pa.array([f"{note} {number}" * 20 for number in numbers]),
        }
    )


def written(path: str, kind: str) -> None:
    """Base files of several row groups, the younger ones with logs where the table has them."""
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.parquet.block.size": "4096",
        "hoodie.parquet.small.file.limit": "0",
        **KINDS[kind],
    }
    options.pop(PATHS, None)
    hoodie.write_table(rows_of(list(range(120)), "first"), path, options=options)
    hoodie.write_table(rows_of(list(range(200, 290)), "more"), path, operation="insert", options=options)
    hoodie.write_table(rows_of([3, 9, 33, 500], "later"), path, options=options)
    hoodie.write_table(rows_of([6, 201], "gone"), path, operation="delete", options=options)


def among_rows(path: str, among: Among, names: list[str]) -> list[tuple[Any, ...]]:
    config = Config.of({PATHS: "true"} if path.endswith("paths") else {})
    table = Table(TableRef.of(path, config))
    view = TableView.load(table, None, config, among)
    reader = SliceRows(view.context, view.path_columns)
    found = [
        row
        for item in view.slices
        for rows in reader.tables(table.storage, item, names, among)
        for row in rows.to_pylist()
    ]
    return sorted((tuple(row.values()) for row in found), key=repr)


def stored(path: str, among: Among, names: list[str], *, apart: bool) -> list[tuple[Any, ...]]:
    """The rows that are wanted; `apart`: those that have wanted values in each column, not all of one row."""
    rows = hoodie.read_table(path, meta=False)
    wanted = [column.to_pylist() for column in among.values.values()]
    given = [rows.column(name).to_pylist() for name in among.values]
    if apart:
        mask = [
            all(value in there for value, there in zip(row, wanted, strict=True))
            for row in zip(*given, strict=True)
        ]
    else:
        pairs = {*zip(*wanted, strict=True)}
        mask = [row in pairs for row in zip(*given, strict=True)]
    found = rows.filter(pa.array(mask, pa.bool_())).select(names).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def values_of(pick: random.Random, count: int) -> dict[str, pa.Array[Any]]:
    """Of rows that are there, mostly, and of others."""
    numbers = [pick.choice([3, 6, 9, 33, pick.randrange(520)]) for _ in range(count)]
    others = [pick.choice([number, pick.randrange(520)]) for number in numbers]
    return {
        "id": pa.array([f"k{number:03}" for number in numbers], pa.string()),
        "day": pa.array([f"2024-01-0{number % 3 + 1}" for number in others], pa.string()),
        "number": pa.array([number % 5 for number in others], pa.int32()),
        "date": pa.array([dt.date(2024, 1, 1 + number % 7) for number in numbers], pa.date32()),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_a_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path, pick = str(tmp_path / kind.split()[0]), random.Random(kind)
    written(path, kind)
    seen = 0
    for _ in range(24):
        monkeypatch.setattr(module, "_FEW", pick.choice([3, 10_000]))
        monkeypatch.setattr(module, "_APART", pick.choice([0, 2, 1_000]))
        monkeypatch.setattr(module, "_ASKED_APART", pick.choice([2, 50]))
        values = values_of(pick, pick.choice([0, 2, 60, 200]))
        columns = ["id", *pick.sample(["day", "number", "date"], pick.randint(0, 3))]
        among = Among.of(pa.table({name: values[name] for name in columns}))
        names = pick.sample(NAMES, pick.randint(1, 5))
        found = among_rows(path, among, names)
        least = stored(path, among, names, apart=False)
        assert not Counter(least) - Counter(found), (columns, names)
        assert not Counter(found) - Counter(stored(path, among, names, apart=True)), (columns, names)
        seen += len(least)
    assert seen > 100


def test_rows_of_one_partition_are_looked_for_in_it_alone(tmp_path: Path) -> None:
    """Keys of other partitions neither let its files be read nor its rows be kept."""
    path = str(tmp_path / "t")
    written(path, "base files")
    keys, days = ["k000", "k001", "k002", "k005"], ["2024-01-01", "2024-01-02", "2024-01-02", "2024-01-03"]
    among = Among.of(pa.table({"id": keys, "day": days}))
    assert among_rows(path, among, ["id"]) == [("k000",), ("k001",), ("k005",)]
    low, high = (
        Among.of(pa.table({"id": ["k000", "zz"], "day": days[1:3]})),
        pa.table({"id": ["zz"], "day": days[3:]}),
    )
    assert among_rows(path, low, ["id"]) == []
    view = TableView.load(Table(TableRef.of(path, Config())), None, Config(), Among.of(high))
    assert not [item for item in view.slices if item.partition == "2024-01-01"]


def test_no_more_than_the_values_is_read_of_row_groups_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    written(path, "base files")
    read: list[list[str]] = []
    batches = BaseFileReader.batches

    def noted(self: BaseFileReader, columns: Any = None, *more: Any) -> Any:
        for batch in batches(self, columns, *more):
            read.append([*batch.schema.names])
            yield batch

    monkeypatch.setattr(BaseFileReader, "batches", noted)
    assert among_rows(path, Among.of(pa.table({"id": ["k100x", "k011x"]})), NAMES) == []
    assert read
    assert {name for names in read for name in names} == {"id"}
    assert len(among_rows(path, Among.of(pa.table({"id": ["k100", "k011"]})), NAMES)) == 2
