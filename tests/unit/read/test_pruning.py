"""A predicate leaves out partitions that it rules out, and never a row that it would have found."""

from __future__ import annotations

import datetime as dt
import functools
import io
import random
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, cast

import duckdb
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hoodie
from hoodie.read import duckdb_predicate
from hoodie.read.table_view import TableView
from hoodie.storage import Storage
from hoodie.table.handle import Table
from tests.support.predicates import SCHEMA, predicate, rows
from tests.support.requests import counted
from tests.support.storages import Delegating, wrapped
from tests.support.tiers import full_but

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


def opened(path: str, where: str) -> TableView:
    """What a query without Spark looks at."""
    with duckdb_predicate.connection() as connection:
        return TableView.load(Table.open(path), where=duckdb_predicate.parsed(connection, where))


def found(table: str, where: str) -> set[Any]:
    return set(hoodie.read_table(table, where=where).column("id").to_pylist())


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("SET TimeZone = 'UTC'")  # as queries have it
    return made


def filtered(where: str, rows: pa.Table = SHOWN) -> set[Any]:
    connection().register("rows", rows)
    return {row[0] for row in connection().execute(f"SELECT id FROM rows WHERE {where}").fetchall()}


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
        ("day = '2024-01-01' OR hour = 7", 6),
        ("NOT (day = '2024-01-01')", 6),
        ("day IS NULL", 3),
        ("day IS NOT NULL", 9),
        ("upper(day) = 'IT''S'", 3),
        ("day = note OR day = '2024-01-01' AND hour = 7", 9),
        ("(day = '2024-01-01') IS NOT TRUE", 9),
        ("note BETWEEN 'x' AND 'y' AND day NOT IN ('2024-01-01')", 6),
        ("day LIKE '2024-%' AND NOT day LIKE '%-02'", 3),
    ],
)
def test_partitions_that_are_ruled_out_are_not_listed(table: str, where: str, partitions: int) -> None:
    """The empty day is in the partition of nulls, which every term on the day rules out."""
    listed = {item.partition for item in opened(table, where).slices}
    assert len(listed) == partitions
    assert found(table, where) == filtered(where)


@pytest.mark.parametrize(
    ("where", "partitions"),
    [
        ("_hoodie_partition_path LIKE 'day=2024-01-01/%' AND hour < 8", 1),
        ("_hoodie_commit_time > '2999' OR _hoodie_commit_time IS NULL AND day = 'it''s'", 3),
        ("_hoodie_commit_time > '2999'", 0),
    ],
)
def test_columns_of_hudi_are_bounded_too(table: str, where: str, partitions: int) -> None:
    assert len(opened(table, where).slices) == partitions
    assert found(table, where) == filtered(where, hoodie.read_table(table))


@pytest.mark.parametrize(
    "where",
    [
        "CASE WHEN note = 'x' AND day = '2024-01-01' THEN false ELSE true END",
        "hour + 1 = 8",
        "day || '' = '2024-01-01'",
        "day ILIKE '2024-01-01' OR day COLLATE NOCASE = 'IT''S'",
        "hour IN (7, 8) = false",
        "hour IN (7, '8')",
        "note = 'x' OR day = '2024-01-01'",
    ],
)
def test_what_is_not_understood_rules_nothing_out(table: str, where: str) -> None:
    assert len(opened(table, where).slices) == ROWS.num_rows
    assert found(table, where) == filtered(where)


@pytest.mark.parametrize(
    ("where", "lists"),
    [
        ("true", 1 + 4 + 12),
        ("day = '2024-01-01'", 1 + 1 + 3),
        ("day = '2024-01-01' AND hour = 7", 1 + 1 + 1),
        ("hour = 7", 1 + 4 + 4),
        ("day IS NULL OR hour > 8 AND day LIKE '2024-01-0%'", 1 + 3 + 5),
        ("_hoodie_partition_path = 'day=2024-01-02/hour=10'", 1 + 1 + 1),
    ],
)
def test_folders_that_are_ruled_out_are_not_opened(table: str, where: str, lists: int) -> None:
    """The table's folder, those of days, and those of hours in them."""
    with counted(table) as requests:
        opened(table, where)
    asked = {path for name, path, _ in requests.calls if name == "list" and ".hoodie" not in path}
    assert len(asked) == lists


@pytest.mark.parametrize("hive", full_but({"true"}, ["false", "true"]))
@pytest.mark.parametrize("fields", ["p", "p,q", "q,p"])
def test_values_with_slashes_are_in_folders_of_others(tmp_path: Path, fields: str, hive: str) -> None:
    path = str(tmp_path / "t")
    values = ["a", "b", "b/c", "b/c/d", "b0", "c", "d/a", None]
    there = pa.table({"id": list("12345678"), "p": values, "q": [1, 2] * 4})
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "id",
        "hoodie.datasource.write.partitionpath.field": fields,
        "hoodie.datasource.write.hive_style_partitioning": hive,
    }
    if fields != "p,q":  # a partition in a partition is refused
        there = there.filter(pa.compute.invert(pa.compute.is_in(there["p"], pa.array(["b", "b/c"]))))
    if fields != "p":
        options["hoodie.datasource.write.keygenerator.class"] = "org.apache.hudi.keygen.ComplexKeyGenerator"
    hoodie.write_table(there, path, options=options)
    everything = hoodie.read_table(path)
    for where in (
        *(
            "p = 'a'",
            "p = 'b/c/d'",
            "p > 'b/' AND p < 'b/d'",
            "p LIKE 'b/%' AND q = 2",
            "p >= 'b0' OR p IS NULL",
        ),
        f"_hoodie_partition_path = '{everything['_hoodie_partition_path'][2]}'",
    ):
        assert found(path, where) == filtered(where, everything), where


MOMENTS = ["2023-12-31T23:59:59.999999Z", "2024-01-01T00:00:00Z", "2024-01-02T10:30:00.000001Z", None]
TYPED_PARTS = "t,u,d,f,i"


@pytest.fixture(scope="module", params=full_but({"MERGE_ON_READ"}, ["COPY_ON_WRITE", "MERGE_ON_READ"]))
def typed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve partitions by columns of several types; of merge-on-read two thirds of the slices have logs."""
    path = str(tmp_path_factory.mktemp("typed") / "t")
    options = {
        **OPTIONS,
        "hoodie.datasource.write.partitionpath.field": TYPED_PARTS,
        "hoodie.datasource.write.table.type": request.param,
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    }
    days = [dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 2, 29), None]
    parts: dict[str, list[Any]] = {
        "t": ["it's", "a/b", "", "%", "a_c", None, "\u00fc", "abc", "b", "x=y", "2024-01-01", "7"],
        "u": [None if day is None else day.isoformat() for day in days] * 3,
        "d": days * 3,
        "f": [True, False, None] * 4,
        "i": [0, 7, 20, -7] * 3,
    }
    given = {field.name: pa.array(parts[field.name], field.type) for field in SCHEMA if field.name in parts}
    rest = rows(random.Random(1), 12)
    full = pa.table(
        {"id": [str(number) for number in range(12)]}
        | {name: given.get(name, rest.column(name)) for name in SCHEMA.names}
    )
    hoodie.write_table(full, path, options=options)
    other = rows(random.Random(2), 12)
    for name in ("n", "m", "c", "x", "y"):
        full = full.set_column(full.schema.get_field_index(name), name, other.column(name))
    hoodie.write_table(full.slice(0, 8), path)
    return path


@pytest.fixture(scope="module")
def typed_rows(typed: str) -> pa.Table:
    rows: pa.Table = hoodie.read_table(typed)
    assert rows.num_rows == 12
    return rows


@pytest.mark.parametrize(
    ("where", "partitions"),
    [
        ("d = '2024-01-01'", 3),
        ("d >= DATE '2024-01-01' AND d < TIMESTAMP '2024-02-29 12:00:00'", 6),
        ("year(d) = 2024", 6),
        ("date_trunc('month', d) = '2024-02-01'", 3),
        ("extract(month FROM d) IN (1, 12)", 6),
        ("CAST(u AS DATE) = '2024-02-29'", 3),
        ("substring(u, 1, 7) = '2023-12' OR left(u, 7) = '2024-01'", 6),
        ("u LIKE '2024-0%' AND u NOT LIKE '%-29'", 3),
        ("CAST(d AS VARCHAR) LIKE '2024-%'", 6),
        ("f", 4),
        ("NOT f", 4),
        ("f IS NOT TRUE", 8),
        ("f IS NULL AND d IS NULL", 1),
        ("i IN (7, -7) OR d = '2023-12-31'", 9),
        ("NOT (i = 7 OR i > 10)", 6),
        ("NOT (i = 7 AND x > 0)", 12),
        ("t = 'a/b' OR t = '%' OR t IS NULL", 4),
        ("t LIKE 'a%'", 3),
        ("lower(t) = '\u00fc'", 1),
        ("t = u OR t = '7'", 1),
        ("x > 0 AND n IS NULL", 12),
        ("x > 0 AND (n IS NULL OR d = '2024-01-01') AND f", 4),
        (" OR ".join(f"(i = {number} AND x > 1)" for number in range(1, 20)), 3),
    ],
)
def test_each_kind_of_predicate_lists_fewer_partitions(
    typed: str, typed_rows: pa.Table, where: str, partitions: int
) -> None:
    """Whether or not the slices have logs."""
    listed = {item.partition for item in opened(typed, where).slices}
    assert len(listed) == partitions
    assert found(typed, where) == filtered(where, typed_rows)


@settings(max_examples=10, deadline=None)
@given(pick=st.randoms(use_true_random=False))
def test_the_answer_is_that_of_all_rows(typed: str, typed_rows: pa.Table, pick: random.Random) -> None:
    where = predicate(pick, 2)
    try:
        wanted = filtered(where, typed_rows)
    except duckdb.Error:
        return  # no answer at all
    assert found(typed, where) == wanted, where


@pytest.mark.parametrize(
    ("kind", "values", "where", "partitions"),
    [
        (pa.decimal128(10, 2), ["-1.50", "0.05", "1.50", None], "p > 0.1 OR p IS NULL", 2),
        (pa.decimal128(10, 2), ["-1.50", "0.05", "1.50", None], "p IN (1.5, 0.050, 2)", 2),
        (pa.decimal128(10, 2), ["-1.50", "0.05", "1.50", None], "p < 0.005 AND NOT p = 7", 1),
        (pa.timestamp("us", tz="UTC"), MOMENTS, "p < '2024-01-02'", 2),
        (pa.timestamp("us", tz="UTC"), MOMENTS, "p = TIMESTAMP '2024-01-02 10:30:00.000001'", 1),
        (pa.timestamp("us", tz="UTC"), MOMENTS, "date_trunc('year', p) = DATE '2024-01-01'", 2),
        (pa.timestamp("us", tz="UTC"), MOMENTS, "CAST(p AS DATE) BETWEEN '2023-12-31' AND '2024-01-01'", 2),
    ],
)
def test_decimals_and_points_in_time(
    tmp_path: Path, kind: pa.DataType, values: list[Any], where: str, partitions: int
) -> None:
    path = str(tmp_path / "t")
    there = pa.table({"id": list("abcd"), "p": pa.array(values).cast(kind)})
    options = {**OPTIONS, "hoodie.datasource.write.partitionpath.field": "p"}
    hoodie.write_table(there, path, options=options)
    assert len(opened(path, where).slices) == partitions
    assert found(path, where) == filtered(where, there)


def test_logs_have_rows_that_their_base_file_rules_out(tmp_path: Path) -> None:
    """A later commit's rows are in the log of a base file that is older; a file without logs goes."""
    path = str(tmp_path / "t")
    options = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    written = hoodie.write_table(ROWS.slice(0, 6), path, options=options)
    changed = pa.table(
        {**{name: ROWS.column(name).slice(0, 2) for name in ROWS.schema.names}, "note": ["new"] * 2}
    )
    hoodie.write_table(changed, path)
    where = f"_hoodie_commit_time > '{written.instant}'"
    assert len(opened(path, where).slices) == 2
    assert found(path, where) == found(path, "note = 'new'") == {"2024-01-01/7", "2024-01-01/8"}
    assert len(opened(path, f"{where} AND hour = 7").slices) == 1
    assert len(opened(path, f"_hoodie_commit_time <= '{written.instant}'").slices) == 6


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


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("text", [None, "SELECT id FROM t WHERE n >= 5500 AND day = 'x'"])
def test_row_groups_are_ruled_out_on_any_storage(tmp_path: Path, kind: str, text: str | None) -> None:
    """Slices whose rows Python reads; one of merge-on-read has logs, and is read as a whole."""
    path = str(tmp_path / "t")
    rows = pa.table(
        {
            "id": [f"{number:05d}" for number in range(12000)],
            "day": ["x"] * 6000 + ["y"] * 6000,
            "n": [*range(6000)] * 2,
            "note": [random.Random(number).randbytes(32).hex() for number in range(12000)],
        }
    )
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.parquet.block.size": 65536,
        "hoodie.index.bloom.num_entries": 100,
        "hoodie.bloom.index.filter.dynamic.max.entries": 100,
    }
    hoodie.write_table(rows, path, operation="bulk_insert", options=options)
    if kind == "MERGE_ON_READ":
        hoodie.write_table(rows.slice(6000, 1).set_column(2, "n", [[5999]]), path)
    file = next((tmp_path / "t" / "x").glob("*.parquet"))
    assert pq.ParquetFile(file).metadata.num_row_groups > 4
    seen: Counter[str] = Counter()
    with wrapped(lambda storage: Remote(storage, seen)):
        if text is None:
            answer = hoodie.read_table(path, columns=["id", "note"], where="n >= 5500")
            assert answer.num_rows == 1000 + (kind == "MERGE_ON_READ")
        else:
            assert hoodie.sql(text, tables={"t": path}).num_rows == 500
    assert seen["x"] < file.stat().st_size / 2
    assert (seen["y"] == 0) == (text is not None)
    if text is None and kind == "MERGE_ON_READ":
        assert seen["y"] > file.stat().st_size / 2


class Remote(Delegating):
    """Not local: DuckDB and Arrow open no file themselves. Counts the bytes that are read, by partition."""

    def __init__(self, inner: Storage, seen: Counter[str]) -> None:
        super().__init__(inner)
        self.local, self._seen = False, seen

    def open_input(self, path: str) -> BinaryIO:
        return cast("BinaryIO", Counted(super().open_input(path), Path(path).parent.name, self._seen))


class Counted(io.RawIOBase):
    def __init__(self, inner: BinaryIO, place: str, seen: Counter[str]) -> None:
        self._inner, self._place, self._seen = inner, place, seen

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def read(self, size: int = -1) -> bytes:
        found = self._inner.read(size)
        self._seen[self._place] += len(found)
        return found

    def close(self) -> None:
        self._inner.close()
        super().close()
