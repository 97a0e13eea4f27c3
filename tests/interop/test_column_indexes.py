"""Secondary indexes and indexes of expressions that we make and keep: Apache Hudi 1.2.0 reads and writes on.

Its queries with data skipping give the rows that they give without, as far as they do with indexes that it
made itself: it takes an index of an expression for other conditions on the column, too.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.metadata.index_definitions import index_definitions
from hoodie.table.handle import Table
from tests.golden.test_later_expression_indexes import check_indexes
from tests.golden.test_later_index_writes import check_secondary
from tests.support.hudi_client import HudiServer
from tests.support.later_tables import writable

pytestmark = [pytest.mark.interop, pytest.mark.full]

COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "num": pa.int64(),
    "name": pa.string(),
    "day": pa.date32(),
    "born": pa.date32(),
    "code": pa.string(),
    "word": pa.string(),
    "big": pa.string(),
}
SCHEMA = pa.schema(COLUMNS)
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "t",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
#: name, column, type, expression
INDEXES = [
    ("sub", "name", "column_stats", "expr='substring',pos='1',len='2'"),
    ("yr", "day", "column_stats", "year"),
    ("mo", "born", "column_stats", "month"),
    ("lo", "code", "bloom_filters", "lower"),
    ("own", "word", "bloom_filters", None),
    ("up", "big", "column_stats", "upper"),
]
SECONDARY = ("num", "num", "secondary_index", None)
CONDITIONS = """
substring(name, 1, 2) = 'xY'
substring(name, 1, 2) = 'Ab'
substring(name, 1, 2) = 'Üb'
substring(name, 1, 2) = 'zz'
substring(name, 1, 2) IN ('xY', 'zz')
substring(name, 1, 2) > 'B'
substring(name, 1, 2) < 'B'
substring(name, 1, 2) >= 'xY'
substring(name, 1, 2) IS NULL
substring(name, 1, 2) IS NOT NULL
substring(name, 2, 2) = 'b3'
year(day) = 2021
year(day) = 1900
year(day) IN (2021, 2022)
year(day) > 2022
year(day) <= 2020
year(day) IS NULL
year(day) IS NOT NULL
month(born) = 3
month(born) = 13
month(born) IN (1, 12)
month(born) < 3
month(born) IS NULL
lower(code) = 'c3'
lower(code) = 'zz'
lower(code) IN ('c3', 'c5')
word = 'w7'
word IN ('w7', 'w8')
word = 'nothing'
upper(big) = 'B2'
upper(big) = 'B99'
upper(big) IN ('B2', 'Ä3')
upper(big) > 'B3'
upper(big) IS NULL
num = 30
num IN (30, 40, 70)
num = 7
num > 200
part = 'p1' AND year(day) = 2021
part = 'p2' AND num = 50
ts < 10 AND substring(name, 1, 2) = 'Ab'
ts > 30 OR year(day) = 2020
id = 'k005'
""".strip().splitlines()


@pytest.fixture(autouse=True)
def _writable() -> Iterator[None]:
    with writable():
        yield


def rows(start: int, stop: int, turn: int = 0) -> pa.Table:
    found: list[dict[str, Any]] = [
        {
            "id": f"k{number:03d}",
            "part": f"p{number % 3}",
            "ts": 100 * turn + number,
            "num": 10 * (number % 30),
            "name": None if number % 11 == 0 else ("Ab", "xY", "Üb")[(number + turn) % 3] + f"{number % 7}",
            "day": None if number % 13 == 0 else dt.date(2020, 1, 1) + dt.timedelta(days=40 * number),
            "born": None if number % 9 == 0 else dt.date(1960, 1, 1) + dt.timedelta(days=31 * number),
            "code": f"C{number % 9}",
            "word": f"w{number % 12 + turn}",
            "big": None if number % 10 == 0 else f"{'bä'[number % 2]}{number % 5}",
        }
        for number in range(start, stop)
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def answer(hudi: HudiServer, path: Path, where: str, skipping: bool) -> list[str]:
    options = {
        "hoodie.metadata.enable": str(skipping).lower(),
        "hoodie.enable.data.skipping": str(skipping).lower(),
    }
    return keys(hudi.read(path, columns=["id"], where=where, options=options))


def keys(found: pa.Table) -> list[str]:
    return sorted(map(str, found["id"].to_pylist()))


def check(hudi: HudiServer, path: Path) -> None:
    check_indexes(str(path))
    for where in CONDITIONS:
        found = answer(hudi, path, where, skipping=True)
        assert found == answer(hudi, path, where, skipping=False), where
        mine = hoodie.read_table(str(path), where=where, options={"hoodie.read.record.index": "true"})
        assert keys(mine) == found, where


def defined(path: Path) -> dict[str, Any]:
    """The definitions of the indexes of columns that readers may use."""
    table = Table.open(str(path))
    there = table.properties.metadata_partitions
    return {
        name: found
        for name, found in index_definitions(table).items()
        if name in there and name.startswith(("expr_index_", "secondary_index_"))
    }


@pytest.mark.parametrize(
    ("kind", "version"), [("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 9), ("COPY_ON_WRITE", 8)]
)
def test_queries_and_turns(hudi_12: HudiServer, tmp_path: Path, kind: str, version: int) -> None:
    path = tmp_path / "t"
    options = {
        **OPTIONS,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
    }
    hoodie.write_table(rows(0, 40), str(path), options=options)
    hoodie.write_table(rows(40, 70), str(path), options=options)
    asked = [*INDEXES, SECONDARY] if kind == "COPY_ON_WRITE" else INDEXES
    for name, column, using, expression in asked:
        done = hoodie.index_table(
            str(path), "create", name, column=column, using=using, expression=expression, options=options
        )
        assert done.status == "created"
    made = defined(path)
    assert len(made) == len(asked)
    check(hudi_12, path)
    hoodie.write_table(rows(20, 50, 1), str(path), options=options)
    hoodie.write_table(rows(0, 6).select(["id", "part"]), str(path), operation="delete", options=options)
    hudi_12.write(path, rows(45, 75, 2), options)
    assert defined(path) == made
    check(hudi_12, path)
    if kind == "MERGE_ON_READ":
        hoodie.compact_table(str(path), options={**options, "hoodie.compact.inline.max.delta.commits": "1"})
    hoodie.write_table(rows(60, 80, 3), str(path), options=options)
    hoodie.clean_table(str(path), options={**options, "hoodie.cleaner.commits.retained": "1"})
    hudi_12.write(path, rows(10, 30, 4), options)
    assert defined(path) == made
    check(hudi_12, path)
    if kind == "COPY_ON_WRITE":
        check_secondary(str(path))


#: (index, conditions of which Apache Hudi takes it for others)
OTHERS = [
    (
        ("low", "name", "column_stats", "lower"),
        ["upper(name) = 'AB3'", "name = 'Ab3'", "lower(name) = 'ab3'"],
    ),
    (("yr", "day", "column_stats", "year"), ["month(day) = 3", "year(day) = 2021"]),
]


@pytest.mark.parametrize(("index", "conditions"), OTHERS)
def test_other_conditions_lose_rows_as_with_its_own_indexes(
    hudi_12: HudiServer, tmp_path: Path, index: tuple[str, str, str, str], conditions: list[str]
) -> None:
    ours, its = tmp_path / "ours", tmp_path / "its"
    hoodie.write_table(rows(0, 40), str(ours), options={**OPTIONS, "hoodie.write.table.version": "9"})
    shutil.copytree(ours, its)
    name, column, using, expression = index
    done = hoodie.index_table(str(ours), "create", name, column=column, using=using, expression=expression)
    assert any("for other conditions on" in warning for warning in done.warnings)
    settings = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
    }
    for key, value in settings.items():
        hudi_12.sql(f"set {key}={value}")
    try:
        hudi_12.sql(f"create table its_{name} using hudi location '{its}'")
        hudi_12.sql(f"create index {name} on its_{name} using {using}({column}) options(expr='{expression}')")
        hudi_12.sql(f"drop table its_{name}")
    finally:
        for key in settings:
            hudi_12.sql(f"reset {key}")
    assert defined(its) == defined(ours)
    lost = 0
    for where in conditions:
        found = answer(hudi_12, ours, where, skipping=True)
        assert found == answer(hudi_12, its, where, skipping=True), where
        lost += len(answer(hudi_12, ours, where, skipping=False)) - len(found)
        assert keys(hoodie.read_table(str(ours), where=where)) == answer(hudi_12, ours, where, skipping=False)
    assert lost > 0
