"""Rows of databases' cursors and of callers, spooled: types, NULLs, batches."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import InputError
from hoodie.source import query
from hoodie.source.query import spool_query
from hoodie.source.spool import digest, rows_of, spool

OPTIONS = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    yield connection
    connection.close()


def nothing() -> None:
    """A task that goes on."""


def spooled(
    connection: Any, sql: str, folder: Path, parameters: Any = None, go_on: Any = nothing
) -> pa.Table:
    path = str(folder / "rows.parquet")
    count = spool_query(connection, sql, parameters, path, str(folder / "t"), OPTIONS, go_on)
    found = pq.read_table(path)
    assert found.num_rows == count
    return found


def test_a_column_has_one_type_whatever_its_first_batches_have(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE o (id, late, mixed, blob)")
    many = [
        (n, None if n < 3000 else f"x{n}", n if n < 3000 else n / 2, bytes([n % 256])) for n in range(4000)
    ]
    database.executemany("INSERT INTO o VALUES (?, ?, ?, ?)", many)
    asked: list[int] = []
    found = spooled(database, "SELECT * FROM o ORDER BY id", tmp_path, go_on=lambda: asked.append(1))
    assert found.schema.types == [pa.int64(), pa.string(), pa.float64(), pa.binary()]
    assert [tuple(row.values()) for row in found.to_pylist()] == many
    assert len(asked) > 3


def test_a_batch_has_bounded_bytes(
    database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_FIRST", 4)
    monkeypatch.setattr(query, "_BYTES", 100_000)
    database.execute("CREATE TABLE o (id, text)")
    database.executemany("INSERT INTO o VALUES (?, ?)", [(n, "x" * 20_000) for n in range(40)])
    spooled(database, "SELECT * FROM o", tmp_path)
    groups = pq.ParquetFile(tmp_path / "rows.parquet").metadata
    assert [groups.row_group(at).num_rows for at in range(4)] == [4, 4, 4, 4]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 1 AS a UNION ALL SELECT 'x'", "column 'a' of the query has values of no one type"),
        (
            "SELECT id, CASE WHEN id < 1001 THEN id ELSE 'x' END AS a FROM o",
            "'a' of the query is int64 in one row and",
        ),
        ("SELECT 1 AS a, 2 AS a", "two columns 'a'; name one of them otherwise, by AS"),
        ("SELECT id FROM o WHERE id < 0", "column 'id' of the query has no value"),
        ("SELECT NULL AS a FROM o", "column 'a' of the query has no value"),
        ("DELETE FROM o", "sql returns no rows; give one query"),
    ],
)
def test_what_has_no_type_is_refused(
    database: sqlite3.Connection, tmp_path: Path, sql: str, said: str
) -> None:
    database.execute("CREATE TABLE o (id)")
    database.executemany("INSERT INTO o VALUES (?)", [(n,) for n in range(1, 2001)])
    with pytest.raises(InputError, match=said):
        spooled(database, sql, tmp_path)


def test_types_are_those_of_the_table(database: sqlite3.Connection, tmp_path: Path) -> None:
    kinds: dict[str, pa.DataType] = {
        "id": pa.string(),
        "n": pa.int32(),
        "price": pa.decimal128(10, 2),
        "at": pa.timestamp("us", "UTC"),
    }
    hoodie.write_table(pa.schema(kinds).empty_table(), str(tmp_path / "t"), options=OPTIONS)
    found = spooled(database, "SELECT 'a' AS id, 7 AS n, 3 AS price, NULL AS at WHERE 1 = ?", tmp_path, (1,))
    assert found.schema.types == list(kinds.values())
    assert found.to_pylist() == [{"id": "a", "n": 7, "price": Decimal("3.00"), "at": None}]
    empty = spooled(database, "SELECT 'a' AS id, 1 AS n WHERE 1 = 0", tmp_path)
    assert (empty.num_rows, empty.schema.types) == (0, [pa.string(), pa.int32()])
    with pytest.raises(InputError, match=r"column 'n' of the source has a value that int32 does not hold"):
        spooled(database, "SELECT 'a' AS id, 3000000000 AS n", tmp_path)


class Cursor:
    """Of a driver whose values and types are these."""

    def __init__(self, described: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> None:
        self.description, self._rows = described, rows

    def execute(self, sql: str) -> None:
        """Nothing to do."""

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        out, self._rows = self._rows[:size], self._rows[size:]
        return out

    def close(self) -> None:
        """Nothing to do."""


class Connection:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = lambda: cursor


def test_values_of_drivers(tmp_path: Path) -> None:
    """Decimals of any scale, times of several zones, drivers' bytes, JSON, numbers beyond 64 bits."""
    east = timezone(timedelta(hours=2))
    moments = [datetime(2026, 1, 1, 2, tzinfo=east), datetime(2026, 1, 1, tzinfo=timezone.utc)]
    rows = [
        (Decimal("1.5"), moments[0], memoryview(b"x"), {"a": 1}, 1 << 70),
        (Decimal("12.375"), moments[1], None, None, -3),
    ]
    described = [(name, None) for name in ("price", "at", "raw", "json", "big")]
    found = spooled(Connection(Cursor(described, rows)), "SELECT", tmp_path)
    assert found.schema.types == [
        pa.decimal128(38, 18),
        pa.timestamp("us", "UTC"),
        pa.binary(),
        pa.string(),
        pa.decimal128(38, 0),
    ]
    assert found["price"].to_pylist() == [Decimal("1.5"), Decimal("12.375")]
    assert found["at"].to_pylist() == [datetime(2026, 1, 1, tzinfo=timezone.utc)] * 2
    assert found["json"].to_pylist() == ['{"a": 1}', None]


def test_postgres_says_types_and_has_its_cursor_on_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver in name, as psycopg2 describes columns: with numbers of PostgreSQL's types."""
    monkeypatch.setitem(sys.modules, "psycopg2", ModuleType("psycopg2"))
    described: list[tuple[Any, ...]] = [
        ("id", 23), ("price", 1700, None, None, 10, 2), ("any", 1700, None, None, None, None), ("doc", 3802),
        ("at", 1184), ("tags", 1009), ("raw", 17),
    ]  # fmt: skip
    rows = [
        (1, Decimal("2.5"), None, "text", None, ["x"], memoryview(b"y")),
        (2, None, None, [1], None, None, None),
    ]

    class Postgres:
        __module__ = "psycopg2.extensions"
        autocommit = True

        def cursor(self, name: str) -> Cursor:
            assert name.startswith("hoodie_")
            assert not self.autocommit
            return Cursor(described, self.rows)

        def __init__(self, rows: list[tuple[Any, ...]]) -> None:
            self.rows = rows

    found = spooled(Postgres(rows), "SELECT", tmp_path)
    kinds = [pa.int32(), pa.decimal128(10, 2), pa.decimal128(38, 18), pa.string()]
    kinds += [pa.timestamp("us", "UTC"), pa.list_(pa.string()), pa.binary()]
    assert found.schema.types == kinds
    assert found["doc"].to_pylist() == ['"text"', "[1]"]
    assert found["raw"].to_pylist() == [b"y", None]
    assert spooled(Postgres([]), "SELECT", tmp_path).schema.types == kinds


def test_types_that_a_cursor_names_count_without_rows(tmp_path: Path) -> None:
    described = [("id", str), ("n", int), ("at", datetime)]
    found = spooled(Connection(Cursor(described, [])), "SELECT", tmp_path)
    assert found.schema.types == [pa.string(), pa.int64(), pa.timestamp("us")]


class ArrowCursor(Cursor):
    """As ADBC has it."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__([], [])
        self.fetch_record_batch = rows.to_reader


def test_a_database_that_answers_in_arrow(tmp_path: Path) -> None:
    """Has types of its own; a column of nulls takes the table's."""
    columns = {
        "id": ["a", "b"],
        "n": pa.nulls(2),
        "price": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
    }
    kinds: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int32()}
    hoodie.write_table(pa.schema(kinds).empty_table(), str(tmp_path / "t"), options=OPTIONS)
    found = spooled(Connection(ArrowCursor(pa.table(columns))), "SELECT", tmp_path)
    assert found.schema.types == [pa.string(), pa.int32(), pa.decimal128(9, 2)]
    assert found["price"].to_pylist() == [Decimal("1.25"), None]
    twice = pa.table([["a"], ["b"]], names=["a", "a"])
    with pytest.raises(InputError, match="two columns 'a'"):
        spooled(Connection(ArrowCursor(twice)), "SELECT", tmp_path)


def test_the_same_rows_have_the_same_digest() -> None:
    rows = [{"id": "a", "n": 1}, {"id": "b", "n": None}]
    table = rows_of(rows)
    assert table is not None
    assert digest(table) == digest(pa.concat_tables([table.slice(0, 1), table.slice(1)]))
    other = rows_of([{"id": "a", "n": 1}, {"id": "b", "n": 2}])
    assert other is not None
    assert digest(table) != digest(other)
    assert rows_of("text") is None


def test_nanoseconds_are_stored_as_spark_reads_them(tmp_path: Path) -> None:
    """And a value that microseconds do not hold is refused."""
    path = str(tmp_path / "rows.parquet")
    for nanos, good in ((5_000, True), (5_001, False)):
        rows = pa.table({"at": pa.array([nanos], pa.timestamp("ns"))})
        if good:
            spool(rows, path, str(tmp_path / "t"), OPTIONS)
            assert pq.read_schema(path).types == [pa.timestamp("us")]
        else:
            with pytest.raises(InputError, match="column 'at' of the source has a value"):
                spool(rows, path, str(tmp_path / "t"), OPTIONS)
