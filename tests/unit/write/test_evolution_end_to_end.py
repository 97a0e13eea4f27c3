"""Schemas that change between writes, as a user of the table sees them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import HoodieError, SchemaError
from tests.support.arrow import arrow_schema
from tests.support.rows import assert_same_rows
from tests.support.tiers import crossed_but, full_but
from tests.unit.write.support import (
    KEY,
    NULL_FOR_MISSING,
    ORDERING,
    PARTITION,
    PLAIN,
    listing,
    plain,
    values,
)

OLD = arrow_schema(
    [("id", pa.string()), ("ts", pa.int64()), ("n", pa.int32()), ("s", pa.struct([("x", pa.int32())]))]
)


def _rows(schema: pa.Schema, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"ts": 1, **row} for row in rows], schema=schema)


def _with(schema: pa.Schema, **types: pa.DataType) -> pa.Schema:
    """The schema with other types, or more columns."""
    fields = [pa.field(field.name, types.pop(field.name, field.type)) for field in schema]
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in types.items())])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Rows a, b and c of OLD; a and b share a file that later writes change, c's is never rewritten."""
    path = tmp_path / "t"
    rows = _rows(OLD, {"id": "a", "n": 1, "s": {"x": 1}}, {"id": "b", "n": 2, "s": None})
    hoodie.write_table(rows, str(path), options=PLAIN)
    alone = {"hoodie.parquet.small.file.limit": 0}
    hoodie.write_table(_rows(OLD, {"id": "c", "n": 3, "s": {"x": 3}}), str(path), options=alone)
    return path


def test_new_columns_are_null_in_older_rows(table: Path) -> None:
    schema = _with(OLD, tag=pa.string(), at=pa.timestamp("us", "UTC"))
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)
    hoodie.write_table(_rows(schema, {"id": "a", "n": 9, "tag": "new", "at": noon}), str(table))
    expected = _rows(
        schema,
        {"id": "a", "n": 9, "tag": "new", "at": noon},
        {"id": "b", "n": 2},
        {"id": "c", "n": 3, "s": {"x": 3}},
    )
    assert_same_rows(hoodie.read_table(str(table)), expected)
    assert hoodie.read_table(str(table), meta=False).schema.names == ["id", "ts", "n", "s", "tag", "at"]
    found = hoodie.read_table(str(table), where="tag IS NULL", columns=["id"])
    assert sorted(found.column("id").to_pylist()) == ["b", "c"]


def test_new_fields_of_structs(table: Path) -> None:
    schema = _with(OLD, s=pa.struct([("x", pa.int32()), ("y", pa.string())]))
    hoodie.write_table(_rows(schema, {"id": "a", "n": 1, "s": {"x": 5, "y": "new"}}), str(table))
    assert values(table, "id", "s") == [
        ("a", {"x": 5, "y": "new"}),
        ("b", None),
        ("c", {"x": 3, "y": None}),
    ]


WIDER: dict[str, tuple[pa.DataType, Any, list[Any]]] = {
    "long": (pa.int64(), 2**40, [2, 3]),
    "float": (pa.float32(), 0.5, [2.0, 3.0]),
    "double": (pa.float64(), 0.1, [2.0, 3.0]),
    "string": (pa.string(), "text", ["2", "3"]),
}


@pytest.mark.parametrize(
    ("read_only", "wider"),
    crossed_but(
        {"read only-float", "read only-double", "written-long", "written-string"},
        {"read only": True, "written": False},
        WIDER,
    ),
)
def test_widening(table: Path, wider: tuple[pa.DataType, Any, list[Any]], read_only: bool) -> None:
    """On write (a's file is merged with the new type) and on read (c's file keeps the old one)."""
    kind, value, old = wider
    schema = _with(OLD, n=kind)
    hoodie.write_table(_rows(schema, {"id": "a", "n": value}), str(table))
    if not read_only:
        hoodie.write_table(_rows(schema, {"id": "d", "n": value}, {"id": "e", "n": None}), str(table))
    rows = hoodie.read_table(str(table))
    assert rows.schema.field("n").type == kind
    got = dict(zip(rows.column("id").to_pylist(), rows.column("n").to_pylist(), strict=True))
    assert [got["b"], got["c"]] == old
    assert got["a"] == value
    where = hoodie.read_table(str(table), where="id IN ('b', 'c')", columns=["n"])
    assert sorted(where.column("n").to_pylist()) == old


def test_narrower_incoming_columns_are_written_in_the_tables_type(table: Path) -> None:
    narrow = _with(OLD, ts=pa.int32(), n=pa.int16())
    hoodie.write_table(_rows(narrow, {"id": "a", "ts": 2, "n": 7, "s": None}), str(table))
    assert hoodie.read_table(str(table)).schema.field("ts").type == pa.int64()
    assert values(table, "id", "n") == [("a", 7), ("b", 2), ("c", 3)]


def test_order_of_columns_does_not_matter(table: Path) -> None:
    shuffled = pa.schema([OLD.field(name) for name in ("s", "n", "ts", "id")])
    hoodie.write_table(_rows(shuffled, {"id": "a", "n": 7, "s": None}), str(table))
    assert values(table, "id", "n") == [("a", 7), ("b", 2), ("c", 3)]
    assert hoodie.read_table(str(table), meta=False).schema.names == OLD.names


def test_a_missing_column_is_refused(table: Path) -> None:
    before = listing(table)
    lean = pa.schema([OLD.field("id"), OLD.field("ts"), OLD.field("s")])
    with pytest.raises(
        SchemaError, match=rf"column n: table int, missing in the input .*{NULL_FOR_MISSING}=true"
    ):
        hoodie.write_table(_rows(lean, {"id": "a"}), str(table))
    assert listing(table) == before


def test_a_missing_column_is_null_where_the_setting_says_so(table: Path) -> None:
    lean = pa.schema([OLD.field("id"), OLD.field("ts")])
    hoodie.write_table(_rows(lean, {"id": "a"}, {"id": "d"}), str(table), options={NULL_FOR_MISSING: True})
    assert values(table, "id", "n") == [("a", None), ("b", 2), ("c", 3), ("d", None)]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (_with(OLD, n=pa.bool_()), "column n: table int, incoming boolean"),
        (_with(OLD, ts=pa.timestamp("us", "UTC")), "column ts: table long, incoming timestamp"),
        (_with(OLD, s=pa.string()), r"column s: table struct<x:int>, incoming string"),
        (_with(OLD, s=pa.struct([("x", pa.binary())])), r"column s\.x: table int, incoming binary"),
        (_with(OLD, N=pa.int32()), "differs in case only|the table spells it n"),
    ],
)
def test_incompatible_schemas_are_refused_before_anything_is_written(
    table: Path, schema: pa.Schema, message: str
) -> None:
    before = listing(table)
    with pytest.raises(HoodieError, match=message):
        hoodie.write_table(_rows(schema, {"id": "a"}).cast(schema), str(table))
    assert listing(table) == before


def test_all_differences_are_told_at_once(table: Path) -> None:
    schema = arrow_schema([("id", pa.string()), ("ts", pa.string()), ("n", pa.binary())])
    rows = pa.Table.from_pylist([{"id": "a", "ts": "x", "n": b""}], schema=schema)
    with pytest.raises(SchemaError) as caught:
        hoodie.write_table(rows, str(table))
    assert all(f"column {name}:" in str(caught.value) for name in ("n", "s"))


def test_a_narrow_key_column_finds_its_rows(tmp_path: Path) -> None:
    """Keys are texts: 1 of an int column and 1.0 of the table's doubles are one key."""
    wide = arrow_schema(
        [("id", pa.float64()), ("part", pa.float64()), ("ts", pa.int64()), ("v", pa.string())]
    )
    narrow = arrow_schema([("id", pa.int32()), ("part", pa.int32()), ("ts", pa.int64()), ("v", pa.string())])
    row = {"id": 1, "part": 2, "ts": 1, "v": "old"}
    options = {KEY: "id", PARTITION: "part", ORDERING: "ts"}
    hoodie.write_table(pa.Table.from_pylist([row], schema=wide), str(tmp_path / "t"), options=options)
    result = hoodie.write_table(
        pa.Table.from_pylist([{**row, "v": "new"}], schema=narrow), str(tmp_path / "t")
    )
    assert result.num_updates == 1
    assert values(tmp_path / "t", "_hoodie_record_key", "_hoodie_partition_path", "v") == [
        ("1.0", "2.0", "new")
    ]


@pytest.mark.parametrize("kind", full_but({"MERGE_ON_READ"}, ["COPY_ON_WRITE", "MERGE_ON_READ"]))
@pytest.mark.parametrize(
    ("before", "old", "after", "new"),
    [
        (pa.int32(), 9, pa.string(), "10"),
        (pa.int64(), 9, pa.string(), "10"),
        (pa.float64(), 9.5, pa.string(), "10.5"),
        (pa.string(), "9", pa.int64(), 10),
        (pa.int64(), 2**53 + 1, pa.float64(), 2.0**53),
        (pa.int64(), 2**24 + 1, pa.float32(), 2.0**24),
        (pa.int32(), 2**24 + 1, pa.float32(), 2.0**24),
    ],
)
def test_the_ordering_column_may_not_widen_into_another_order(
    tmp_path: Path, kind: str, before: pa.DataType, old: Any, after: pa.DataType, new: Any
) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
    }
    first = pa.table({"id": ["a"], "ts": pa.array([old], before)})
    hoodie.write_table(first, str(path), options=options)
    with pytest.raises(SchemaError, match=r"column ts: table .*, incoming .* orders the versions of a row"):
        hoodie.write_table(pa.table({"id": ["a"], "ts": pa.array([new], after)}), str(path))
    assert hoodie.read_table(str(path), meta=False).equals(first)
    assert len(hoodie.instants(str(path))) == 1


def test_the_ordering_column_may_widen_into_the_same_order(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
    }
    for kind, number in ((pa.int32(), 9), (pa.int64(), 10), (pa.int32(), 8)):
        rows = pa.table({"id": ["a"], "ts": pa.array([number], kind)})
        hoodie.write_table(rows, path, options=options)
    assert hoodie.read_table(path, meta=False).column("ts").to_pylist() == [10]
    assert hoodie.read_table(path, meta=False).schema.field("ts").type == pa.int64()


@pytest.mark.parametrize("column", ["id", "part"])
def test_a_key_column_may_not_widen_into_other_keys(tmp_path: Path, column: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("ts", pa.int64())])
    rows = pa.Table.from_pylist([{"id": 1, "part": 1, "ts": 1}], schema=schema)
    hoodie.write_table(rows, str(tmp_path / "t"), options={KEY: "id", PARTITION: "part", ORDERING: "ts"})
    before = listing(tmp_path)
    wider = rows.cast(_with(schema, **{column: pa.float64()}))
    with pytest.raises(
        SchemaError, match=f"column {column}: table (int|long), incoming double, .* part of the key"
    ):
        hoodie.write_table(wider, str(tmp_path / "t"))
    assert listing(tmp_path) == before
    text = rows.cast(_with(schema, **{column: pa.string()}))
    assert hoodie.write_table(text, str(tmp_path / "t")).num_updates == 1


@pytest.mark.table_version(6)
def test_every_commit_says_what_the_schema_is(table: Path) -> None:
    hoodie.write_table(_rows(_with(OLD, tag=pa.string()), {"id": "a"}), str(table))
    newest = max((table / ".hoodie").glob("*.commit"))
    avro = json.loads(json.loads(newest.read_text())["extraMetadata"]["schema"])
    assert [field["name"] for field in avro["fields"]] == ["id", "ts", "n", "s", "tag"]
    assert avro["name"] == "t_record"


def test_insert_and_bulk_insert_evolve_too(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    hoodie.write_table(plain(("a", 1, "x")), table, options=PLAIN)
    for number, operation in enumerate(("insert", "bulk_insert")):
        schema = arrow_schema(
            [("id", pa.string()), ("ts", pa.int64()), ("val", pa.string()), ("extra", pa.int32())]
        )
        rows = pa.Table.from_pylist([{"id": f"n{number}", "ts": 1, "extra": number}], schema=schema)
        hoodie.write_table(rows, table, operation=operation)
    assert values(tmp_path / "t", "id", "extra") == [("a", None), ("n0", 0), ("n1", 1)]
