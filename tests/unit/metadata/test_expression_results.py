"""Results of expressions that indexes have: as Spark computes them, or bounds of what it may compute."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from hoodie.config.key import Config
from hoodie.format.bloom import BloomFilter
from hoodie.format.settings import BloomType
from hoodie.metadata.index_definitions import IndexDefinition
from hoodie.metadata.partitions.column_ranges import ColumnRange, Unbounded
from hoodie.metadata.partitions.expression_index import (
    range_of_results,
    result_filter,
    result_range,
    result_type,
    results,
    unknown,
)


def definition(function: str, kind: str = "column_stats", **options: str) -> IndexDefinition:
    return IndexDefinition(
        name="expr_index_x",
        kind=kind,
        function=function,
        source_fields=("name",),
        version="V2",
        options={"expr": function, **options},
    )


#: (function, options, values, what Spark 3.5 has)
SPARK: list[tuple[str, dict[str, str], list[Any], list[Any]]] = [
    ("identity", {}, ["b", None, "ä"], ["b", None, "ä"]),
    ("substring", {"pos": "1", "len": "3"}, ["abcdef", "äöü€", "x", "", None], ["abc", "äöü", "x", "", None]),
    ("substring", {"pos": "0", "len": "2"}, ["abc"], ["ab"]),
    ("substring", {"pos": "2", "len": "0"}, ["abc"], [""]),
    ("substring", {"pos": "2", "len": "-1"}, ["abc"], [""]),
    ("substring", {"pos": "-2", "len": "1"}, ["abc", "x"], ["b", ""]),
    ("substring", {"pos": "-2", "len": "5"}, ["abc", "x"], ["bc", "x"]),
    ("substring", {"pos": "-5", "len": "3"}, ["abc"], ["a"]),
    ("substring", {"pos": "-5", "len": "2"}, ["abc"], [""]),
    ("lower", {}, ["AbI", None, ""], ["abi", None, ""]),
    ("upper", {}, ["aBi", None, ""], ["ABI", None, ""]),
    ("trim", {}, ["  a b ", "\ta"], ["a b", "\ta"]),
    ("ltrim", {"trimString": "xy"}, ["yxaxy"], ["axy"]),
    ("rtrim", {"trimString": "xy"}, ["yxaxy"], ["yxa"]),
    ("length", {}, ["äöü", "", None, "\U0001f600"], [3, 0, None, 1]),
    (
        "year",
        {},
        [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(9999, 12, 31), None],
        [1, 1582, 9999, None],
    ),
    ("month", {}, [dt.date(1969, 12, 31)], [12]),
    ("day", {}, [dt.date(2024, 2, 29)], [29]),
]


@pytest.mark.parametrize(("function", "options", "values", "wanted"), SPARK)
def test_results(function: str, options: dict[str, str], values: list[Any], wanted: list[Any]) -> None:
    given = pa.array(values)
    found = results(definition(function, **options), given)
    assert found.values.to_pylist() == wanted
    assert found.uppermost is None
    assert found.values.type == result_type(definition(function, **options), given.type)


@pytest.mark.parametrize(
    ("function", "values", "low", "high"),
    [
        ("lower", ["bcd", "ABÄ"], "ab", "bcd"),
        ("lower", ["bcd", "Ä"], "", "\U0010ffff" * 4),
        ("lower", ["bcd", "xIä"], "bcd", "y"),
        ("upper", ["bcd", "BCE\u0131"], "BCD", "BCF"),
        ("upper", ["bcd", "xiä", None], "BCD", "Y"),
    ],
)
def test_letters_that_are_not_ascii_are_bounded(
    function: str, values: list[str | None], low: str, high: str
) -> None:
    """By the text before the first one of which engines and languages may make something else."""
    found = result_range("name", results(definition(function), pa.array(values, pa.string())))
    assert (found.low, found.high) == (low, high)
    assert (found.values, found.nulls) == (len(values), values.count(None))


def test_a_filter_has_all_results_or_is_none() -> None:
    config = Config.of({})
    by_case = definition("lower", "bloom_filters", numentries="100", fpp="0.01", filtertype="SIMPLE")
    parts = [pa.array(["A", None, ""]), pa.array(["b"])]
    found = result_filter(by_case, config, (results(by_case, part) for part in parts))
    assert found is not None
    assert found.type is BloomType.SIMPLE
    stored = BloomFilter.from_string(found.to_string(), "SIMPLE")
    assert stored.size.m == 959
    assert stored.might_contain(pa.array(["a", "b", "A", "zz"])).tolist() == [True, True, False, False]
    assert result_filter(by_case, config, [results(by_case, pa.array(["ä"]))]) is None
    years = definition("year", "bloom_filters")
    days = pa.array([dt.date(2024, 1, 1), None])
    of_years = result_filter(years, config, [results(years, days)])
    assert of_years is not None
    stored = BloomFilter.from_string(of_years.to_string(), of_years.type.value)
    assert stored.might_contain(pa.array(["2024", "2025"])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (definition("from_unixtime"), "the results of its function 'from_unixtime' are not known here"),
        (definition("substring"), "its options"),
        (definition("substring", pos="1", len="a"), "its options"),
        (definition("lower", "bloom_filters", fpp="2"), "its options"),
        (definition("lower", "bloom_filters", filtertype="CUCKOO"), "its options"),
        (definition("lower", "vector"), "its type 'vector' is not known here"),
        (definition("lower"), ""),
    ],
)
def test_what_is_known(given: IndexDefinition, why: str) -> None:
    assert unknown(given).startswith(why)
    assert bool(why) == bool(unknown(given))


@pytest.mark.parametrize(
    ("function", "kind", "known"),
    [
        ("lower", pa.int64(), False),
        ("year", pa.timestamp("us", "UTC"), False),
        ("year", pa.date32(), True),
        ("identity", pa.decimal128(38, 10), True),
        ("identity", pa.binary(), False),
        ("identity", pa.list_(pa.int64()), False),
    ],
)
def test_columns_of_which_results_are_known(function: str, kind: pa.DataType, known: bool) -> None:
    assert (result_type(definition(function), kind) is not None) == known


def test_ranges_of_log_files_bound_results() -> None:
    """Those of functions that are not monotone are all that the function has."""
    days = ColumnRange("name", "DateWrapper", 0, 400, 1, 9)
    assert (
        range_of_results(definition("year"), days).low,
        range_of_results(definition("year"), days).high,
    ) == (
        1970,
        1971,
    )
    month = range_of_results(definition("month"), days)
    assert (month.kind, month.low, month.high, month.nulls, month.values) == ("IntWrapper", 1, 12, 1, 9)
    texts = ColumnRange("name", "StringWrapper", "a", "b", 0, 2)
    assert range_of_results(definition("identity"), texts) == texts
    assert range_of_results(definition("lower"), texts).low == ""
    nothing = ColumnRange("name", nulls=3, values=3)
    assert range_of_results(definition("lower"), nothing) == nothing
    with pytest.raises(Unbounded, match="values of StringWrapper"):
        range_of_results(definition("year"), texts)
