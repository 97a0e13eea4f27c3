"""What is read of Spark's plans: no value of a query passes for a part of them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from hoodie.read.bounds import UNKNOWN, Bounds, may_be_true
from hoodie.read.spark_sql import Needed, Stand, needed
from tests.support.arrow import arrow_schema

SCHEMA = arrow_schema(
    [
        ("day", pa.string()),
        ("n", pa.int64()),
        ("d", pa.date32()),
        ("m", pa.timestamp("us", tz="UTC")),
        ("s", pa.struct([pa.field("x", pa.int32())])),
    ]
)
T, U = Stand("hoodie_1f_0", SCHEMA), Stand("hoodie_1f_1", SCHEMA)


def plan(*scans: tuple[str, str | None]) -> str:
    """Of scans with the columns that they read and their filters."""
    parts = ["== Physical Plan ==\n* Project (2)\n+- Scan parquet  (1)\n\n"]
    for number, (read, pushed) in enumerate(scans, 1):
        filters = "" if pushed is None else f"PushedFilters: [{pushed}]\n"
        head = (
            f"\n({number}) Scan parquet \nOutput [1]: [{T.mark}_0#1]\nBatched: true\nLocation: X [file:/t]\n"
        )
        parts.append(f"{head}{filters}ReadSchema: struct<{read}>\n")
    return "".join(parts)


def of(*scans: tuple[str, str | None]) -> Needed:
    return needed(plan(*scans), {"t": T, "u": U})["t"]


def possible(found: Needed, **values: object) -> bool:
    """May a row with these values be needed?"""
    where = found.where()
    if where is None:
        return True
    known: dict[tuple[str, ...], Bounds] = {(name,): Bounds.of(value) for name, value in values.items()}
    return may_be_true(where.bound(SCHEMA), lambda path: known.get(path, UNKNOWN))


def test_columns_are_those_that_scans_read() -> None:
    found = needed(
        plan(("hoodie_1f_0_1:bigint,hoodie_1f_0_4:struct<x:int>", None), ("hoodie_1f_1_0:string", None)),
        {"t": T, "u": U},
    )
    assert (found["t"].columns, found["u"].columns) == ({"n", "s"}, {"day"})
    assert found["t"].where() is None


@pytest.mark.parametrize(
    ("pushed", "needs", "not_needed"),
    [
        ("IsNotNull({0}), EqualTo({0},a)", {"day": "a"}, {"day": "b"}),
        ("EqualTo({1},7)", {"n": 7}, {"n": 8}),
        ("GreaterThanOrEqual({2},2024-01-02)", {"d": dt.date(2024, 1, 2)}, {"d": dt.date(2024, 1, 1)}),
        ("In({0}, [a,b c])", {"day": "b c"}, {"day": "c"}),
        ("Or(EqualTo({0},a),And(EqualTo({1},1),LessThan({1},3)))", {"n": 1}, {"day": "b", "n": 2}),
        ("Not(EqualTo({0},a))", {"day": "b"}, {"day": "a"}),
        ("StringStartsWith({0},2024-)", {"day": "2024-01"}, {"day": "2023-01"}),
        ("IsNull({1})", {"n": None}, {"n": 1}),
        ("EqualNullSafe({1},3), EqualTo({0},)", {"n": 3, "day": ""}, {"day": " "}),
        # ends that are uncertain are left out, and what follows them is not
        ("EqualTo({0},x, y), EqualTo({1},1)", {"day": "q", "n": 1}, {"n": 2}),
        ("EqualTo({0},x), EqualTo(day,b), EqualTo({1},1)", {"day": "b", "n": 1}, {"n": 2}),
        ("Or(EqualTo({0},)),EqualTo({1},2)), EqualTo({1},1)", {"day": "q", "n": 1}, {"n": 2}),
    ],
)
def test_filters_bound_what_scans_need(
    pushed: str, needs: dict[str, object], not_needed: dict[str, object]
) -> None:
    marks = [f"{T.mark}_{number}" for number in range(len(SCHEMA))]
    found = of((f"{marks[0]}:string", pushed.format(*marks)))
    assert possible(found, **needs)
    assert not possible(found, **not_needed)


@pytest.mark.parametrize(
    "pushed",
    [
        "EqualTo({0},null)",
        "EqualTo({0},a(b)",
        "In({0}, [a,b],c])",
        "EqualTo({3},2024-01-01 00:00:00.0)",
        "EqualTo({4}.x,1)",
        "EqualTo(`{4}`.`x`,1)",
        "LessThan({2},0099-01-01)",
        "SomethingNew({0},a)",
        "StringStartsWith({0},a%)",
        "EqualTo({1},x)",
        "Or(EqualTo({0},a),SomethingNew({1},1))",
        "",
    ],
)
def test_what_is_not_certain_rules_nothing_out(pushed: str) -> None:
    marks = [f"{T.mark}_{number}" for number in range(len(SCHEMA))]
    found = of((f"{marks[0]}:string", pushed.format(*marks)))
    assert possible(found, day="zz", n=-5, d=dt.date(1990, 1, 1))


def test_a_table_that_is_scanned_twice_needs_the_rows_of_both() -> None:
    day = f"{T.mark}_0"
    both = of((f"{day}:string", f"EqualTo({day},a)"), (f"{day}:string", f"EqualTo({day},b)"))
    assert [possible(both, day=value) for value in "abc"] == [True, True, False]
    assert possible(of((f"{day}:string", f"EqualTo({day},a)"), (f"{day}:string", None)), day="c")
    assert possible(of((f"{day}:string", f"EqualTo({day},a)"), ("", None)), day="c")


def test_a_value_with_lines_of_a_plan_hides_nothing() -> None:
    day, n = f"{T.mark}_0", f"{T.mark}_1"
    value = "a\n(7) Scan parquet \nPushedFilters: []\nReadSchema: struct<>\n(8) Project"
    found = of((f"{day}:string,{n}:bigint", f"EqualTo({day},{value})"))
    assert found.columns == {"day", "n"}
    assert possible(found, day="c")


def test_a_plan_of_another_form_needs_everything() -> None:
    found = needed("Error occurred during query planning: \n", {"t": T})["t"]
    assert found.columns == set(SCHEMA.names)
    assert found.where() is None
