"""What Spark's plan of a DataFrame computes of the rows of files: trees as Spark 3.5.9 and 4.2.0 write them.
`tests/spark/computed.py` compares the values with Spark's.
"""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pyarrow as pa
import pytest

from hoodie.engine.expressions import Computation
from hoodie.engine.frame_plan import Path, computation
from hoodie.errors import JobError

EXPRESSIONS, PLANS = (
    "org.apache.spark.sql.catalyst.expressions.",
    "org.apache.spark.sql.catalyst.plans.logical.",
)
TYPES: dict[str, pa.DataType] = {
    "i": pa.int32(),
    "d": pa.float64(),
    "s": pa.string(),
    "t": pa.timestamp("us", "UTC"),
}
SPARK = {"i": "integer", "d": "double", "s": "string", "t": "timestamp"}
Nodes = list[dict[str, Any]]


def node(kind: str, /, *children: Nodes, **fields: Any) -> Nodes:
    top = {"class": EXPRESSIONS + kind, "num-children": len(children), **fields}
    return [top, *(below for child in children for below in child)]


def column(name: str, number: int | None = None) -> Nodes:
    place = list(TYPES).index(name) if number is None else number
    return node("AttributeReference", name=name, dataType=SPARK.get(name), metadata={}, exprId={"id": place})


def literal(value: str | None, kind: str) -> Nodes:
    return node("Literal", value=value, dataType=kind)


def alias(name: str, child: Nodes, number: int) -> Nodes:
    return node("Alias", child, name=name, exprId={"id": number})


SCAN: Nodes = [
    {
        "class": "org.apache.spark.sql.execution.datasources.LogicalRelation",
        "num-children": 0,
        "relation": None,
        "output": [column(name) for name in TYPES],
    }
]


def project(columns: list[Nodes], below: Nodes = SCAN) -> Nodes:
    return [{"class": PLANS + "Project", "num-children": 1, "projectList": columns}, *below]


def where(condition: Nodes, below: Nodes = SCAN) -> Nodes:
    return [{"class": PLANS + "Filter", "num-children": 1, "condition": condition}, *below]


def found(plan: Nodes, schema: dict[str, pa.DataType], mode: str = "ANSI") -> Computation | None:
    def modes(path: Path) -> str:
        return mode

    return computation(json.dumps(plan), TYPES, pa.schema(list(schema.items())), modes)


def value(expression: Nodes, kind: pa.DataType, rows: pa.RecordBatch, mode: str = "ANSI") -> list[Any] | None:
    made = found(project([alias("v", expression, 9)]), {"v": kind}, mode)
    if made is None:
        return None
    again: Computation = pickle.loads(pickle.dumps(made))
    return [item for batch in again.rows(iter([rows])) for item in batch.column("v").to_pylist()]


NAN = math.nan
ROWS = pa.RecordBatch.from_pydict(
    {
        "i": pa.array([1, -2, None, 2**31 - 1], pa.int32()),
        "d": [0.5, NAN, None, -0.0],
        "s": ["a", "b", None, ""],
        "t": pa.array([-1, 0, None, 1], TYPES["t"]),
    }
)


def test_filters_and_columns_one_above_the_other() -> None:
    """An alias is put in its place; a column that is not asked for isn't read."""
    doubled = alias("e", node("Multiply", column("d"), literal("2.0", "double")), 7)
    plan = project(
        [alias("x", column("e", 7), 8), column("s")],
        where(
            node("IsNotNull", column("i")),
            project(
                [column("i"), column("s"), doubled],
                where(node("LessThan", column("d"), literal("1.0", "double"))),
            ),
        ),
    )
    made = found(plan, {"x": pa.float64(), "s": pa.string()})
    assert made is not None
    assert made.inputs() == {"i", "d", "s"}
    (batch,) = made.rows(iter([ROWS]))
    assert batch.to_pylist() == [{"x": 1.0, "s": "a"}, {"x": -0.0, "s": ""}]
    only = made.only(["s"])
    assert only.schema.names == ["s"]
    assert [batch.num_rows for batch in only.rows(iter([ROWS.slice(1, 2), ROWS]))] == [2]


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("GreaterThan", "0.25", [True, True, None, False]),
        ("LessThan", "0.25", [False, False, None, True]),
        ("GreaterThanOrEqual", "NaN", [False, True, None, False]),
        ("LessThanOrEqual", "NaN", [True, True, None, True]),
        ("EqualTo", "NaN", [False, True, None, False]),
        ("EqualTo", "0.0", [False, False, None, True]),
        ("EqualNullSafe", "NaN", [False, True, False, False]),
    ],
)
def test_not_a_number_is_the_greatest(name: str, number: str, expected: list[Any]) -> None:
    assert value(node(name, column("d"), literal(number, "double")), pa.bool_(), ROWS) == expected


def test_nulls() -> None:
    positive = node("GreaterThan", column("i"), literal("0", "integer"))
    members = node("In", column("s"), literal("a", "string"), literal(None, "string"))
    text = literal("x", "string")
    assert value(members, pa.bool_(), ROWS) == [True, None, None, None]
    assert value(node("Or", positive, members), pa.bool_(), ROWS) == [True, None, None, True]
    assert value(node("And", positive, members), pa.bool_(), ROWS) == [True, False, None, None]
    assert value(node("Concat", column("s"), text), pa.string(), ROWS) == ["ax", "bx", None, "x"]
    assert value(node("CaseWhen", positive, text), pa.string(), ROWS) == ["x", None, None, "x"]
    assert value(node("If", positive, text, column("s")), pa.string(), ROWS) == ["x", "b", None, "x"]


def test_whole_numbers_that_do_not_fit() -> None:
    more = node("Add", column("i"), literal("1", "integer"))
    assert value(more, pa.int32(), ROWS, "LEGACY") == [2, -1, None, -(2**31)]
    assert value(more, pa.int32(), ROWS, "TRY") is None
    with pytest.raises(JobError, match="overflow"):
        value(more, pa.int32(), ROWS)
    condition = node("EqualTo", more, literal("2", "integer"))
    assert found(where(condition), TYPES) is None, "Spark may not come to the row that fails"
    assert found(where(condition), TYPES, "LEGACY") is not None


def test_dates_are_those_of_utc() -> None:
    def date(zone: str) -> Nodes:
        return node("Cast", column("t"), dataType="date", timeZoneId=zone)

    days = value(date("UTC"), pa.date32(), ROWS)
    assert days is not None
    assert [day and day.isoformat() for day in days] == ["1969-12-31", "1970-01-01", None, "1970-01-01"]
    assert value(date("Asia/Kathmandu"), pa.date32(), ROWS) is None


@pytest.mark.parametrize(
    "expression",
    [
        node("Rand", literal("5", "long")),
        node("CurrentTimestamp"),
        node("PythonUDF", column("s")),
        node("Upper", column("s")),
        node("Cast", column("s"), dataType="integer", timeZoneId="UTC"),
        node("EqualTo", node("Concat", column("s")), literal("a", "string")),
        node("EqualTo", column("s", 77), literal("a", "string")),
        node("In", column("d"), literal("0.0", "double")),
        node("Literal", value="2024-01-01 00:00:00.0", dataType="timestamp"),
    ],
)
def test_what_is_left_to_spark(expression: Nodes) -> None:
    for kind in (pa.string(), pa.int32(), pa.bool_(), TYPES["t"]):
        assert value(expression, kind, ROWS) is None


@pytest.mark.parametrize("plan", ["Sample", "Join", "Distinct", "Window", "Generate", "GlobalLimit"])
def test_plans_that_are_left_to_spark(plan: str) -> None:
    assert found([{"class": PLANS + plan, "num-children": 1}, *SCAN], TYPES) is None
    assert found([{"class": PLANS + "SubqueryAlias", "num-children": 1}, *SCAN], TYPES) is not None


def test_large_plans_are_left_to_spark() -> None:
    """Each column is put in its place twice in the one above."""
    plan = SCAN
    number = 1
    for level in range(12):
        above = alias("d", node("Add", column("d", number), column("d", number)), 10 + level)
        plan, number = project([above], plan), 10 + level
        made = found(plan, {"d": pa.float64()})
        assert (made is not None) == (level < 6)


def test_another_type_or_name_is_left_to_spark() -> None:
    plan = project([alias("v", column("i"), 9)])
    assert found(plan, {"v": pa.int32()}) is not None
    assert found(plan, {"v": pa.int64()}) is None
    assert found(plan, {"w": pa.int32()}) is None
