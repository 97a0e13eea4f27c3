"""What a predicate's tree says of rows of which only bounds are known: never less than DuckDB answers."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.read import duckdb_predicate
from hoodie.read.bounds import NOTHING, UNKNOWN, Bounds, Lookup, comparable, outcomes
from hoodie.read.predicate import ANY, FALSE, NULL, TRUE
from hoodie.read.pruning import possible_row_groups
from tests.support.predicates import SCHEMA, predicate, rows
from tests.support.properties import examples

ANSWERS = {True: TRUE, False: FALSE, None: NULL}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb_predicate.connection() as made:
        yield made


def bounds(values: list[Any]) -> Bounds:
    """Those of values, as statistics have them: without NaN."""
    there = [value for value in values if value is not None]
    plain = [comparable(value) for value in there if value == value]
    nan = len(plain) < len(there)
    low, high = (min(plain), max(plain)) if plain else (None, None)
    return Bounds(low, high, nulls=None in values, values=bool(there), nan=nan) if there else NOTHING


def lookup(table: pa.Table, known: set[str]) -> Lookup:
    columns = {name: bounds(table.column(name).to_pylist()) for name in known}
    return lambda path: columns.get(path[0], UNKNOWN)


@settings(max_examples=examples(100), deadline=None)
@given(pick=st.randoms(use_true_random=False))
def test_bounds_allow_every_answer_that_duckdb_gives(
    connection: duckdb.DuckDBPyConnection, pick: random.Random
) -> None:
    table, where = rows(pick, 6), predicate(pick)
    connection.register("snapshot", table)
    try:
        told = connection.sql(f"SELECT ({where}) AS answer FROM snapshot").fetchall()
    except duckdb.Error:
        return  # no answer at all
    answers = [ANSWERS[answer] for (answer,) in told]
    tree = duckdb_predicate.parsed(connection, where).bound(SCHEMA)
    known = {name for name in SCHEMA.names if pick.random() < 0.8}
    start = 0
    while start < table.num_rows:
        count = pick.choice([1, 1, 2, 3])
        part = table.slice(start, count)
        possible = outcomes(tree, lookup(part, known))
        for answer in answers[start : start + count]:
            assert possible & answer, (where, part.to_pylist())
        start += count


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("t = 'a'", TRUE),
        ("t <> 'a' OR i = 8", FALSE),
        ("NOT (t = 'b' AND i = 7)", TRUE),
        ("t IN ('b', 'c')", FALSE),
        ("t NOT IN ('b', NULL)", NULL),
        ("t LIKE 'a%' AND NOT t LIKE '_b%'", TRUE),
        ("starts_with(t, 'a')", TRUE),
        ("d BETWEEN '2024-02-01' AND '2024-02-29'", TRUE),
        ("year(d) = 2024 AND month(d) = 2 AND extract(day FROM d) = 29", TRUE),
        ("date_trunc('month', d) = DATE '2024-02-01' AND date_trunc('week', d) = '2024-02-26'", TRUE),
        ("CAST(d AS VARCHAR) LIKE '2024-02-%' AND CAST(i AS VARCHAR) = '7'", TRUE),
        ("m < TIMESTAMP '2024-02-29 10:30:00.000001' AND CAST(m AS DATE) = '2024-02-29'", TRUE),
        ("m = '2024-02-29 10:30:00' AND date_trunc('day', m) = '2024-02-29'", TRUE),
        ("CAST(u AS DATE) > d", FALSE),
        ("year(u::date) = 2024 AND left(u, 4) = '2024' AND substring(u, 6, 2) = '01'", TRUE),
        ("CAST(left(u, 4) AS INT) = 2024", TRUE),
        ("f AND f = true AND f IS TRUE AND f IS NOT FALSE AND NOT (f IS DISTINCT FROM true)", TRUE),
        ("NOT f OR f IS NULL", FALSE),
        ("c = 1.5 AND c < 2 AND c IN (1.5, 7) AND c <> 1.505", TRUE),
        ("x < 8 AND x > 0.1 AND y = 0.5", TRUE),
        ("n IS NULL AND n = 1 IS NULL AND (n = 1) IS NOT TRUE", TRUE),
        ("n = 1 OR n <> 1", NULL),
        ("n IS NOT DISTINCT FROM NULL AND i = NULL IS NULL", TRUE),
        ("upper(t) = 'A' AND lower(t) = 'a'", TRUE),
        ("'b' > t AND 8 >= i", TRUE),
        # nothing is known of these
        ("i + 1 = 8", ANY.answers),
        ("t COLLATE NOCASE = 'A'", ANY.answers),
        ("t ILIKE 'A'", ANY.answers),
        ("d = '2024-2-29'", ANY.answers),
        ("d = '2024-02-29 00:00:00'", ANY.answers),
        ("i = '07'", ANY.answers),
        ("y = 0.1", ANY.answers),
        ("i = 7e0", ANY.answers),
        ("nope = 1 OR snapshot.t = 'b'", ANY.answers),
    ],
)
def test_one_row_has_one_answer(connection: duckdb.DuckDBPyConnection, where: str, found: int) -> None:
    values = {"t": "a", "u": "2024-01-01", "i": 7, "n": None, "f": True, "x": 7.0, "y": 0.5, "c": "1.50"}
    row = pa.table({**{name: [value] for name, value in values.items()}, "d": ["2024-02-29"]})
    row = row.append_column("m", pa.array(["2024-02-29 10:30:00Z"])).select(SCHEMA.names).cast(SCHEMA)
    tree = duckdb_predicate.parsed(connection, where).bound(SCHEMA)
    assert outcomes(tree, lookup(row, set(SCHEMA.names))) == found


@pytest.mark.parametrize(
    ("where", "low", "high", "possible"),
    [
        ("t LIKE 'ab%'", "aa", "ac", TRUE | FALSE),
        ("t LIKE 'ab%'", "aba", "abz", TRUE),
        ("t LIKE 'ab%'", "ac", "b", FALSE),
        ("t LIKE 'ab%'", "", "aa", FALSE),
        ("t LIKE 'ab_%'", "ab", "abz", TRUE | FALSE),
        ("left(t, 1) = 'a'", "a", "az", TRUE),
        ("t IN ('a', 'm', 'z')", "b", "l", FALSE),
        ("t IN ('a', 'm', 'z')", "b", "n", TRUE | FALSE),
        ("t <> 'a'", "b", "c", TRUE),
        ("x > 7", -1.5, 7.0, TRUE | FALSE),
        ("x <= 7", -1.5, 7.0, TRUE | FALSE),
        ("year(d) = 2024", 0, 400, FALSE),
        ("month(d) = 2", 0, 10, TRUE | FALSE),
        ("d >= '1970-01-11'", 10, 20, TRUE),
    ],
)
def test_ranges(
    connection: duckdb.DuckDBPyConnection, where: str, low: Any, high: Any, possible: int
) -> None:
    """NaN is greater than all numbers, and in no bounds."""
    nan = isinstance(low, float)
    tree = duckdb_predicate.parsed(connection, where).bound(SCHEMA)
    assert outcomes(tree, lambda _: Bounds(low, high, nulls=False, nan=nan)) == possible
    if nan:
        assert outcomes(tree, lambda _: Bounds(low, math.inf, nulls=False)) == TRUE | FALSE


def test_the_cost_of_a_tree_is_bounded(connection: duckdb.DuckDBPyConnection) -> None:
    """A list is one comparison, whichever way it is written; what is deep or long prunes nothing."""
    known = lookup(pa.table({"i": pa.array([7], pa.int32())}), {"i"})
    for where in (
        f"i IN ({', '.join(map(str, range(100, 5_100)))})",
        " OR ".join(f"i = {number}" for number in range(100, 2_500)),
    ):
        assert outcomes(duckdb_predicate.parsed(connection, where).bound(SCHEMA), known) == FALSE
    terms = [f"(i > {number} OR t = 'a')" for number in range(2_000)]
    deep = "(t = 'a' AND (i = 9 OR " * 150 + "i = 8" + "))" * 150
    for where in (deep, " AND ".join(terms)):
        tree = duckdb_predicate.parsed(connection, where).bound(SCHEMA)
        assert outcomes(tree, known) & TRUE


def test_row_groups_by_their_statistics(connection: duckdb.DuckDBPyConnection) -> None:
    """Each row group with a row of the answer is kept, and of the many that have none few are."""
    kept = wanted = groups = 0
    for seed in range(60):
        pick = random.Random(seed)
        table, where = rows(pick, 12), predicate(pick, 2)
        table = table.append_column(
            "s", pa.StructArray.from_arrays([table.column("i").combine_chunks()], ["i"])
        )
        where = where.replace("i ", "s.i ")
        connection.register("snapshot", table)
        try:
            told = connection.sql(f"SELECT ({where}) AS answer FROM snapshot").fetchall()
        except duckdb.Error:
            continue
        file = pa.BufferOutputStream()
        pq.write_table(table, file, row_group_size=2)
        footer = pq.read_metadata(pa.BufferReader(file.getvalue()))
        tree = duckdb_predicate.parsed(connection, where).bound(table.schema)
        found = possible_row_groups(tree, footer, {})
        needed = {number // 2 for number, (answer,) in enumerate(told) if answer}
        assert needed <= set(found), where
        kept, wanted, groups = kept + len(found), wanted + len(needed), groups + footer.num_row_groups
    assert wanted < kept < wanted + (groups - wanted) / 2


def test_statistics_of_other_columns_say_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    """Of another type, in a list, without statistics, or missing."""
    stored = pa.table({"i": pa.array([1, 2], pa.int64()), "l": [[1], [2]], "t": ["a", "b"], "x": [1.0, 2.0]})
    file = pa.BufferOutputStream()
    pq.write_table(stored, file, write_statistics=["i", "l"])
    footer = pq.read_metadata(pa.BufferReader(file.getvalue()))
    schema = pa.schema([*SCHEMA, pa.field("l", pa.list_(pa.int64()))])
    for where in ("i = 7", "l = [7]", "t = 'c'", "d IS NULL", "u = 'x'"):
        tree = duckdb_predicate.parsed(connection, where).bound(schema)
        assert possible_row_groups(tree, footer, {}) == [0]
    tree = duckdb_predicate.parsed(connection, "i = 7").bound(stored.schema)
    assert possible_row_groups(tree, footer, {}) == []
    assert possible_row_groups(tree, footer, {("i",): Bounds.of(7)}) == [0]


def test_a_footer_whose_bounds_are_nan_excludes_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    """parquet-java before 1.10 wrote them where the first value is NaN."""
    file = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1.25, 5.0]}), file, use_dictionary=False, compression="none")
    nan = struct.pack("<d", math.nan)
    data = file.getvalue().to_pybytes()
    values, footer = data[: len(data) // 4], data[len(data) // 4 :]
    assert struct.pack("<d", 1.25) in footer
    for value in (1.25, 5.0):
        footer = footer.replace(struct.pack("<d", value), nan)
    metadata = pq.read_metadata(pa.BufferReader(values + footer))
    statistics = metadata.row_group(0).column(0).statistics
    assert statistics is not None
    assert math.isnan(float(statistics.min or 0))
    for where in ("x = 5", "x < 2", "x > 2"):
        tree = duckdb_predicate.parsed(connection, where).bound(pa.schema([("x", pa.float64())]))
        assert possible_row_groups(tree, metadata, {}) == [0]
