"""The table object on tables of Apache Hudi: rows, states and changes as Hudi answered, and what it says."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.table_api.results import QueryResult
from tests.support.rows import assert_same_rows

NAMES = ("cow_types", "cow_hive_urlenc", "mor_logs", "mor_compacted")


def moment(instant: str) -> dt.datetime:
    """That of an instant of 17 digits in the zone of this process, which wrote it."""
    zone = ZoneInfo(os.environ.get("TZ", "UTC"))
    return dt.datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(
        microsecond=int(instant[14:]) * 1000, tzinfo=zone
    )


def asked(table: hoodie.Table, file: str) -> QueryResult:
    """The query that Hudi answered with this file; points in time as datetimes where they can be."""
    kind, *times = file.split("_")
    points: list[Any] = [moment(time) if len(time) == 17 else time for time in times]
    if kind == "asof":
        return table.read(as_of=points[0], meta=True)
    if kind == "inc":
        return table.changes(points[0], points[-1], meta=True)
    return table.read(query="read_optimized" if kind == "ro" else None, meta=True)


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_apache_hudi(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    table = hoodie.Table(folder / "table")
    files = sorted(path.stem for path in (folder / "expected").glob("*.parquet"))
    last = {file.partition("_")[0]: file for file in files if not file.startswith("cdc")}
    assert len(last) >= 3
    for file in last.values():
        expected = pq.read_table(folder / "expected" / f"{file}.parquet")
        ignore = {"region"} if name == "cow_hive_urlenc" and file.startswith("inc") else set()
        got = asked(table, file).to_arrow()
        assert_same_rows(got, expected, meta=True, ignore=ignore, what=f"{name} {file}")


def test_what_a_table_of_apache_hudi_is(golden_tables: Path) -> None:
    table = hoodie.Table(golden_tables / "0.15.0-v6" / "mor_logs" / "table")
    assert (table.version, table.exists()) == (6, True)
    assert "MERGE_ON_READ, table version 6" in repr(table)
    assert table.schema.names == table.read().to_arrow().column_names
    entries = table.history()
    assert {entry.action for entry in entries} == {"deltacommit"}
    assert all(entry.state == "completed" and entry.operation for entry in entries)
    stored = {path.name for path in Path(table.path).rglob("*.parquet")}
    named = {item.name for group in table.files() for item in group.slices if item.name}
    assert named == stored
