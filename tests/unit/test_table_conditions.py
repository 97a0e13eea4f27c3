"""`where` as an expression of pyarrow: the rows that Arrow itself finds, and what is not translated."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.table_api.where import where_text

#: the stubs refuse plain values where expressions take them
pc: Any = pyarrow.compute

UTC = dt.timezone.utc
AT = dt.datetime(2024, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
TEXTS = ["", "a", "it's", 'say "x"', "back\\slash", "new\nline", "-- no", "ü"]
#: column -> its type, and values that are stored and compared with
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int64(), [-5, 0, 7, 1 << 53]),
    "f": (pa.float64(), [-1.5, 0.1, 1e300]),
    "g": (pa.float32(), [0.5, 0.25]),
    "t": (pa.string(), TEXTS),
    "b": (pa.bool_(), [True, False]),
    "d": (pa.date32(), [dt.date(1999, 12, 31), dt.date(2024, 1, 1)]),
    "at": (pa.timestamp("us", "UTC"), [AT, AT + dt.timedelta(microseconds=1)]),
    "m": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.01")]),
    "odd \"name` it's": (pa.int32(), [1, 2]),
}


def stored() -> pa.Table:
    pick = random.Random("rows")
    count = 200
    columns: dict[str, pa.Array[Any]] = {"id": pa.array([f"k{number}" for number in range(count)])}
    for name, (kind, values) in COLUMNS.items():
        columns[name] = pa.array([pick.choice([*values, None]) for _ in range(count)], kind)
    return pa.table(columns)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> hoodie.Table:
    made = hoodie.Table(tmp_path_factory.mktemp("conditions") / "t")
    rows = stored()
    plain = [name if name.isidentifier() else "odd" for name in rows.column_names]
    made.insert(rows.rename_columns(plain), keys="id")
    return made


def ids(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.column("id").to_pylist()))


def leaf(pick: random.Random) -> Any:
    name = pick.choice([name for name in COLUMNS if name.isidentifier()])
    kind, values = COLUMNS[name]
    column, value = pc.field(name), pc.scalar(pa.scalar(pick.choice(values), kind))
    form = pick.randrange(8)
    if form == 0:
        return column.isin(pa.array(pick.sample([*values, None], 2), kind))
    if form == 1:
        return column.is_null() if pick.random() < 0.5 else column.is_valid()
    if form == 2:
        return value >= column
    signs = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__")
    return getattr(column, signs[form - 3])(value)


def tree(pick: random.Random, depth: int) -> Any:
    if depth == 0:
        return leaf(pick)
    left = tree(pick, depth - 1)
    form = pick.randrange(3)
    if form == 0:
        return ~left
    right = tree(pick, depth - 1)
    return left & right if form == 1 else left | right


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_rows_are_those_of_arrow(table: hoodie.Table, depth: int) -> None:
    rows = table.read().to_arrow()
    pick = random.Random(depth)
    for _ in range(20):
        condition = tree(pick, depth)
        assert ids(table.read(["id"], condition).to_arrow()) == ids(rows.filter(condition)), condition


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("t").isin(pa.array([], pa.string())),
        ~pc.field("t").isin(pa.array([], pa.string())),
        pc.field("t").isin(["a", None]),
        ~pc.field("n").isin([7]),
        pc.field("n") == pa.scalar(None, pa.int64()),
        pc.field("b"),
        ~pc.field("b"),
        pc.field("at") == pc.scalar(pa.scalar(AT, pa.timestamp("us", "Asia/Tokyo"))),
    ],
    ids=str,
)
def test_nulls_sets_and_zones(table: hoodie.Table, condition: Any) -> None:
    rows = table.read().to_arrow()
    assert ids(table.read(["id"], condition).to_arrow()) == ids(rows.filter(condition))


def test_partitions_are_left_out(tmp_path: Path) -> None:
    table = hoodie.Table(tmp_path / "t")
    rows = pa.table({"id": ["a", "b"], "day": ["x", "y"]})
    table.insert(rows, keys="id", partition_by="day")
    found = table.explain(pc.field("day") == "x")
    assert (found.partitions, found.read_partitions) == (2, 1)


@pytest.mark.parametrize(
    ("condition", "part"),
    [
        (pc.field("n") + 1 == 2, "add_checked"),
        (pc.starts_with(pc.field("t"), "a"), "starts_with"),
        (pc.field("s", "x") == 1, "a field of a struct"),
        (pc.field("f").is_null(nan_is_null=True), "nan_is_null"),
        (pc.field("f") == float("nan"), "the literal nan"),
        (pc.field("t") == pc.scalar(b"x"), "the literal b'x'"),
        (pc.field("at") == AT.replace(tzinfo=None), "without a time zone"),
        (pc.field("n").cast("string") == "1", "cast"),
        (pc.field("at") == pc.scalar(pa.scalar(1, pa.timestamp("ns", "UTC"))), "nanoseconds"),
        (pc.field("a\nliteral: '0") == 1, "a name of several lines"),
        (pc.field("a'\nfield_ref: 'b") == 1, "a name of several lines"),
    ],
    ids=str,
)
def test_what_is_not_translated_is_named(table: hoodie.Table, condition: Any, part: str) -> None:
    with pytest.raises(ConfigError, match="which is not translated into SQL") as caught:
        table.read(where=condition)
    assert part in caught.value.message
    assert "Write the condition as SQL text" in caught.value.message


def test_other_conditions(table: hoodie.Table) -> None:
    with pytest.raises(ConfigError, match="where is a list; give SQL text, or an expression"):
        table.read(where=["n", "=", 1])  # type: ignore[arg-type]


def test_names_and_texts_are_quoted() -> None:
    name = "odd \"name` it's"
    condition = (pc.field(name) == 1) & (pc.field("t") == "it's \\ x")
    assert where_text(condition, "duckdb") == ('(("odd ""name` it\'s" = (1)) AND ("t" = \'it\'\'s \\ x\'))')
    assert where_text(condition, "spark") == ("((`odd \"name`` it's` = (1)) AND (`t` = 'it\\'s \\\\ x'))")
