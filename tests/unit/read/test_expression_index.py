"""Predicates on the results of an expression that an index has, and statistics of partitions."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hoodie.metadata.index_definitions import IndexDefinition
from hoodie.metadata.partitions.column_stats import ColumnStats
from hoodie.metadata.partitions.secondary_index import prefix_of
from hoodie.read import duckdb_predicate
from hoodie.read.bounds import EMPTY, UNKNOWN, Bounds, may_be_true
from hoodie.read.candidate_keys import values_of
from hoodie.read.column_bounds import bounds_of_results, partition_bounds
from hoodie.read.expression_index import RESULT, Indexed, Unusable, indexed

FIELDS: dict[str, Any] = {
    "name": pa.string(),
    "day": pa.date32(),
    "moment": pa.timestamp("us", "UTC"),
    "num": pa.int64(),
}
SCHEMA = pa.schema(list(FIELDS.items()))


def found(where: str, function: str, column: str = "name", **more: Any) -> Indexed:
    given = {"kind": "column_stats", "version": "V2", "options": {}, **more}
    definition = IndexDefinition(name="expr_index_x", function=function, source_fields=(column,), **given)
    with duckdb_predicate.connection() as connection:
        node = duckdb_predicate.parsed(connection, where).bound(SCHEMA)
    return indexed(node, definition)


def may(item: Indexed, low: Any, high: Any = None, nulls: bool = False) -> bool:
    bounds = Bounds(low, low if high is None else high, nulls=nulls)
    return may_be_true(item.node, lambda path: bounds if path == RESULT else UNKNOWN)


SUB = {"options": {"pos": "2", "len": "3", "expr": "substring"}}


@pytest.mark.parametrize(
    ("where", "function", "column", "more", "ends", "expected"),
    [
        ("name = 'b'", "identity", "name", {}, ("a", "c"), True),
        ("name = 'b'", "identity", "name", {}, ("c", "d"), False),
        ("name IS NULL", "identity", "name", {}, ("c", "d"), False),
        ("num > 4", "identity", "num", {}, (1, 4), False),
        ("substring(name, 2, 3) < 'b'", "substring", "name", SUB, ("c", "d"), False),
        ("substring(name, 2, 3) LIKE 'ca%'", "substring", "name", SUB, ("c", "d"), True),
        ("year(day) = 2020", "year", "day", {}, (2021, 2023), False),
        ("month(day) IN (3, 4) AND num = 1", "month", "day", {}, (5, 12), False),
        ("month(day) IN (3, 4) OR num = 1", "month", "day", {}, (5, 12), True),
        ("day(day) BETWEEN 3 AND 5", "day", "day", {}, (4, 12), True),
        ("lower(name) = 'abc'", "lower", "name", {}, ("abd", "x"), False),
        ("lower(name) = 'abc'", "lower", "name", {}, ("abc", "abc"), True),
        ("NOT (lower(name) = 'abc')", "lower", "name", {}, ("abc", "abc"), True),
        ("upper(name) IN ('ABC', 'Z')", "upper", "name", {}, ("B", "Y"), False),
    ],
)
def test_a_condition_on_the_expression_is_one_on_its_results(
    where: str, function: str, column: str, more: dict[str, Any], ends: tuple[Any, Any], expected: bool
) -> None:
    assert may(found(where, function, column, **more), *ends) is expected


def cases(letters: str, change: Any) -> set[str]:
    """Texts of the letters that an engine that maps letter by letter changes to the ASCII text `letters`."""
    return {"".join(text) for text in itertools.product(*(change[letter] for letter in letters))}


@pytest.mark.parametrize("text", ["kid", "mini", "abc"])
def test_what_any_engine_makes_lower_is_among_the_texts(text: str) -> None:
    """DuckDB makes an i of the Turkish great one, Java two letters, and another one of I in Turkish."""
    values = values_of(found(f"lower(name) = '{text}'", "lower").node, RESULT)
    assert values is not None
    before = {letter: {letter, letter.upper()} for letter in text}
    if "i" in before:
        before["i"].add("\u0130")
    if "k" in before:
        before["k"].add("\u212a")
    turkish = str.maketrans({"I": "\u0131", "\u0130": "i"})
    with duckdb_predicate.connection() as connection:
        for name in cases(text, before):
            lower = connection.execute("SELECT lower(?)", [name]).fetchone()
            assert lower == (text,)
            assert {name.lower(), name.translate(turkish).lower()} <= values


@pytest.mark.parametrize("text", ["SIR", "ICE"])
def test_what_any_engine_makes_upper_is_among_the_texts(text: str) -> None:
    values = values_of(found(f"upper(name) = '{text}'", "upper").node, RESULT)
    assert values is not None
    before = {letter: {letter, letter.lower()} for letter in text}
    before["I"].add("\u0131")
    if "S" in before:
        before["S"].add("\u017f")
    for name in cases(text, before):
        assert {name.upper(), name.replace("i", "\u0130").upper()} <= values


@pytest.mark.parametrize(
    ("where", "function", "column", "more", "reason"),
    [
        ("lower(name) > 'a'", "lower", "name", {}, "must equal ASCII texts"),
        ("lower(name) = 'ä'", "lower", "name", {}, "must equal ASCII texts"),
        ("lower(name) IN ('a', 'iiiiii')", "lower", "name", {}, "must equal ASCII texts"),
        ("lower(name) = 'a'", "upper", "name", {}, r"no condition on upper\(name\)"),
        ("lower(name) = 'a'", "lower", "day", {}, r"no condition on lower\(day\)"),
        ("year(moment) = 2020", "year", "moment", {}, r"no condition on year\(moment\)"),
        ("year(name) = 2020", "year", "name", {}, r"no condition on year\(name\)"),
        ("substring(name, 1, 3) = 'a'", "substring", "name", SUB, r"no condition on substring\(name\)"),
        ("name = 'a'", "substring", "name", {"options": {"pos": "x", "len": "1"}}, "lack whole numbers"),
        ("num = 1", "from_unixtime", "num", {}, "depend on the session"),
        ("num = 1", "date_format", "num", {}, "depend on the session"),
        ("num = 1", "trim", "num", {}, "its function 'trim' is not known here"),
        ("num = 1", "identity", "num", {"kind": "bloom_filters"}, "its filters are of int64"),
        ("num = 1", "identity", "num", {"kind": "vector"}, "its type 'vector' is not known here"),
        ("num = 1", "identity", "num", {"version": "V9"}, "its version 'V9' is not known here"),
    ],
)
def test_what_is_not_known_to_be_the_same_is_not_used(
    where: str, function: str, column: str, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unusable, match=reason):
        found(where, function, column, **more)


def test_one_that_is_of_several_columns_is_not_used() -> None:
    definition = IndexDefinition(
        name="x", kind="column_stats", function="concat", source_fields=("name", "day")
    )
    with duckdb_predicate.connection() as connection:
        node = duckdb_predicate.parsed(connection, "num = 1").bound(SCHEMA)
    with pytest.raises(Unusable, match="it is of 2 columns"):
        indexed(node, definition)


@pytest.mark.parametrize(
    ("value", "prefix"),
    [("a", "a$"), ("", "$"), ("a$b", "a\\$b$"), ("\\", "\\\\$"), ("\0", "\\\0$")],
)
def test_values_are_escaped(value: str, prefix: str) -> None:
    assert prefix_of(value) == prefix


DAY, LATE = 18_263, 1_600_000_000_000_000
TENTHS = (b"\x05", b"\x09", "BytesWrapper")


@pytest.mark.parametrize(
    ("stats", "kind", "never_null", "expected"),
    [
        ((1, 5, "IntWrapper"), pa.int64(), False, Bounds(1, 5)),
        ((1, 5, "StringWrapper"), pa.int64(), False, UNKNOWN),
        ((None, None, ""), pa.int64(), False, UNKNOWN),
        ((1.0, 5.0, "DoubleWrapper"), pa.float64(), False, UNKNOWN),
        (
            (DAY, DAY, "IntWrapper"),
            pa.date32(),
            False,
            Bounds(DAY, DAY),
        ),
        ((LATE, LATE, "LongWrapper"), pa.timestamp("us"), False, Bounds(LATE, LATE)),
        ((LATE // 1000, LATE, "LongWrapper"), pa.timestamp("us"), False, UNKNOWN),
        (
            (b"\x05", b"\x09", "BytesWrapper", 1),
            pa.decimal128(9, 1),
            False,
            Bounds(Decimal("0.5"), Decimal("0.9")),
        ),
        ((b"\x05", b"\x09", "BytesWrapper"), pa.decimal128(9, 1), False, UNKNOWN),
        (("a", "b", "StringWrapper"), pa.string(), False, UNKNOWN),
        (("a", "b", "StringWrapper"), pa.string(), True, Bounds("a", "b")),
    ],
)
def test_bounds_of_a_partition(
    stats: tuple[Any, ...], kind: pa.DataType, never_null: bool, expected: Bounds
) -> None:
    low, high, name, *scale = stats
    item = ColumnStats(low, high, name, 1000, 0, 5000, tight=True, scale=scale[0] if scale else None)
    assert partition_bounds([item], kind, never_null) == expected


def test_a_partition_has_bounds_only_where_each_of_its_files_has() -> None:
    """A file without the least value of a long text has -1 nulls."""
    text = ColumnStats("a", "b", "StringWrapper", 1000, -1, 5000)
    assert partition_bounds([text], pa.string(), True) == UNKNOWN
    short = ColumnStats("a", "b", "StringWrapper", 10, 0, 500)
    assert partition_bounds([short], pa.string(), False) == Bounds("a", "b")
    numbers = [ColumnStats(1, 2, "IntWrapper", 10, 0), ColumnStats(4, 9, "LongWrapper", 10, 3)]
    assert partition_bounds(numbers, pa.int64(), False) == Bounds(1, 9)
    assert partition_bounds([*numbers, replaced()], pa.int64(), False) == UNKNOWN


def replaced() -> ColumnStats:
    return ColumnStats(None, None, "", 10, 10)


def test_a_file_whose_results_are_all_null_has_nulls() -> None:
    """Apache Hudi counts values without nulls in an index of an expression."""
    stats = ColumnStats(low=None, high=None, kind="", values=0, nulls=4)
    assert bounds_of_results(stats, pa.string()) == Bounds(nulls=True)
    assert bounds_of_results(ColumnStats(None, None, "", values=0, nulls=0), pa.string()) == EMPTY
