"""Arrow <-> Avro: against every schema that Hudi wrote into commits and footers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.errors import InputError, SchemaError
from hoodie.format import meta_fields
from hoodie.format.schema import (
    array_of,
    canonical,
    decimal_size,
    default_full_name,
    from_avro,
    is_list,
    map_of,
    normalized,
    record_full_name,
    to_avro,
    to_avro_text,
    type_text,
)
from hoodie.timeline.commit import CommitMetadata
from tests.support.arrow import arrow_schema

UTC_MICROS = pa.timestamp("us", "UTC")


def _layout(dtype: Any) -> Any:
    """The type without names and nullability of list elements, which differ by writer."""
    if pa.types.is_map(dtype):
        return "map", _layout(dtype.item_type)
    if is_list(dtype):
        return "list", _layout(dtype.value_type)
    if pa.types.is_struct(dtype):
        return "struct", [(field.name, _layout(field.type)) for field in dtype]
    return dtype


def _columns(schema: pa.Schema) -> dict[str, Any]:
    return {field.name: _layout(field.type) for field in schema}


def _commits(golden_tables: Path) -> list[tuple[Path, CommitMetadata]]:
    found = []
    for path in sorted((golden_tables / "0.15.0-v6").glob("*/table/.hoodie/*")):
        if path.suffix in {".commit", ".deltacommit", ".replacecommit"} and path.stat().st_size:
            found.append((path, CommitMetadata.parse(path.read_bytes())))
    return found


def test_every_golden_commit_schema_comes_back(golden_tables: Path) -> None:
    seen = 0
    for path, metadata in _commits(golden_tables):
        text = metadata.extra_metadata.get("schema")
        if text:
            seen += 1
            table = path.parts[-4]
            assert to_avro_text(from_avro(text), table) == text, path
            assert record_full_name(text) == default_full_name(table)
    assert seen > 200


def test_every_golden_file_has_its_commits_schema(golden_tables: Path) -> None:
    files = footers = 0
    for path, metadata in _commits(golden_tables):
        text = metadata.extra_metadata.get("schema")
        if not text:
            continue
        table, base = path.parts[-4], path.parents[1]
        schema = meta_fields.with_meta(from_avro(text))
        for stat in metadata.write_stats:
            file = base / str(stat.path)
            if file.suffix != ".parquet" or not file.exists():
                continue
            files += 1
            footer = pq.read_metadata(file)
            assert _columns(footer.schema.to_arrow_schema()) == _columns(schema), file
            avro = (footer.metadata or {}).get(b"parquet.avro.schema")
            if avro is not None:
                footers += 1
                assert json.loads(avro) == to_avro(schema, table), file
    assert files > 300
    assert footers > 300


def test_nested_names() -> None:
    """format.md 6.2: types inside arrays and maps are called after their column."""
    inner = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.decimal128(5, 1))]))])
    schema = pa.schema(
        [pa.field("as", array_of(inner)), pa.field("m", map_of(array_of(pa.decimal128(9, 2))))]
    )
    avro = to_avro(schema, "nest")
    element = avro["fields"][0]["type"][1]["items"][1]
    assert (element["name"], element["namespace"]) == ("as", "hoodie.nest.nest_record")
    child = element["fields"][1]["type"][1]
    assert (child["name"], child["namespace"]) == ("y", "hoodie.nest.nest_record.as")
    fixed = child["fields"][0]["type"][1]
    assert (fixed["name"], fixed["namespace"], fixed["size"]) == (
        "fixed",
        "hoodie.nest.nest_record.as.y.z",
        3,
    )
    deep = avro["fields"][1]["type"][1]["values"][1]["items"][1]
    assert deep["namespace"] == "hoodie.nest.nest_record.m"
    assert from_avro(avro) == schema


def test_required_fields_are_no_unions() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.string(), nullable=False),
            pa.field("b", array_of(pa.int32(), nullable=False), nullable=False),
            pa.field("c", map_of(pa.int64(), nullable=False)),
        ]
    )
    avro = to_avro(schema, "t")
    assert avro["fields"] == [
        {"name": "a", "type": "string"},
        {"name": "b", "type": {"type": "array", "items": "int"}},
        {"name": "c", "type": ["null", {"type": "map", "values": "long"}], "default": None},
    ]
    assert from_avro(avro).equals(schema)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("trips", "hoodie.trips.trips_record"),
        ("1a-b.c", "hoodie.__a__b__c.__a__b__c_record"),
        ("é", "hoodie.__.___record"),
    ],
)
def test_record_name(table: str, expected: str) -> None:
    assert default_full_name(table) == expected
    avro = to_avro(pa.schema([pa.field("a", pa.int32())]), table)
    assert record_full_name(avro) == expected


def test_record_name_of_another_writer_is_kept() -> None:
    schema = pa.schema([pa.field("a", pa.struct([("b", pa.int32())]))])
    avro = to_avro(schema, "t", full_name="com.acme.Order")
    assert (avro["name"], avro["namespace"]) == ("Order", "com.acme")
    assert avro["fields"][0]["type"][1]["namespace"] == "com.acme.Order"
    assert record_full_name(avro) == "com.acme.Order"
    assert "namespace" not in to_avro(schema, "t", full_name="Order")


def test_decimal_sizes() -> None:
    sizes = {1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 9: 4, 10: 5, 14: 6, 18: 8, 19: 9, 31: 13, 36: 16, 38: 16}
    assert {precision: decimal_size(precision) for precision in sizes} == sizes


@pytest.mark.parametrize(
    ("incoming", "stored"),
    [
        (pa.bool_(), pa.bool_()),
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.uint8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.float64(), pa.float64()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.dictionary(pa.int8(), pa.int16()), pa.int32()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.decimal256(38, 10), pa.decimal128(38, 10)),
        (pa.timestamp("ns", "Europe/Berlin"), UTC_MICROS),
        (pa.timestamp("s", "UTC"), UTC_MICROS),
        (pa.timestamp("ms"), UTC_MICROS),
        (pa.list_(pa.timestamp("ns")), array_of(UTC_MICROS)),
        (pa.large_list(pa.int8()), array_of(pa.int32())),
        (pa.list_(pa.int8(), 3), array_of(pa.int32())),
        (pa.list_view(pa.int8()), array_of(pa.int32())),
        (pa.map_(pa.large_string(), pa.uint8()), map_of(pa.int32())),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int32())])),
    ],
)
def test_incoming_types(incoming: pa.DataType, stored: pa.DataType) -> None:
    schema = canonical(pa.schema([pa.field("c", incoming)], metadata={"k": "v"}))
    assert schema.field("c").type == stored
    assert schema.metadata is None
    assert canonical(schema) == schema
    assert from_avro(to_avro(schema, "t")) == schema


def test_nullability_is_kept() -> None:
    inner = pa.list_(pa.field("item", pa.int8(), nullable=False))
    schema = canonical(pa.schema([pa.field("a", pa.int8(), nullable=False), pa.field("b", inner)]))
    assert not schema.field("a").nullable
    assert schema.field("b").type == array_of(pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [
        (pa.uint64(), r"cast it to int64, or to decimal\(20,0\)"),
        (pa.null(), "only nulls"),
        (pa.time32("s"), "int64 or string"),
        (pa.time64("us"), "int64 or string"),
        (pa.duration("ms"), "int64 or string"),
        (pa.month_day_nano_interval(), "supported type"),
        (pa.dense_union([pa.field("x", pa.int32())]), "supported type"),
        (pa.decimal256(40, 2), "precision <= 38"),
        (pa.decimal128(5, -2), "scale between"),
        (pa.map_(pa.int32(), pa.int32()), "int keys: only string keys"),
        (pa.struct([]), "at least one field"),
        (pa.uuid(), "storage type"),
        (pa.run_end_encoded(pa.int32(), pa.int32()), "supported type"),
    ],
)
def test_unsupported_types(dtype: pa.DataType, remedy: str) -> None:
    for name, nested in (
        ("c", dtype),
        ("c.element", pa.list_(dtype)),
        ("c.value", pa.map_(pa.string(), dtype)),
        ("c.f", pa.struct([("f", dtype)])),
    ):
        with pytest.raises(InputError, match=remedy) as caught:
            canonical(pa.schema([pa.field("ok", pa.int32()), pa.field("c", nested)]))
        assert f"'{name}'" in str(caught.value)


def test_all_problems_at_once() -> None:
    schema = arrow_schema(
        [("a", pa.uint64()), ("b", pa.time32("s")), ("ok", pa.int32()), ("x y", pa.int32())]
    )
    with pytest.raises(InputError) as caught:
        canonical(schema)
    for part in ("'a' has type uint64", "'b' has type time32[s]", "'x y' is no Avro name"):
        assert part in str(caught.value)
    with pytest.raises(InputError, match="no columns"):
        canonical(pa.schema([]))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "appears twice: 'a', 'a'"),
        (["Id", "b", "id"], "differs in case only: 'Id', 'id'"),
    ],
)
def test_duplicate_names(names: list[str], message: str) -> None:
    fields = [pa.field(name, pa.int32()) for name in names]
    with pytest.raises(InputError, match=message):
        canonical(pa.schema(fields))
    with pytest.raises(InputError, match=r"s\."):
        canonical(pa.schema([pa.field("s", pa.struct(fields))]))


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "a.b", "$"])
def test_names_that_avro_refuses(name: str) -> None:
    with pytest.raises(InputError, match="no Avro name"):
        canonical(pa.schema([pa.field(name, pa.int32())]))


def test_names_that_avro_takes() -> None:
    names = ["_a1", "größe", "日付"]
    assert canonical(pa.schema([pa.field(name, pa.int32()) for name in names])).names == names


@pytest.mark.parametrize("name", [*meta_fields.META_COLUMNS, "_hoodie_operation", "_HOODIE_Record_Key"])
def test_reserved_columns(name: str) -> None:
    with pytest.raises(InputError, match=rf"reserved columns {name}.*drop or rename"):
        canonical(arrow_schema([pa.field("a", pa.int32()), pa.field(name, pa.string())]))


def test_delete_marker_is_an_ordinary_column() -> None:
    schema = arrow_schema([pa.field("a", pa.int32()), pa.field("_hoodie_is_deleted", pa.bool_())])
    assert canonical(schema) == schema
    with pytest.raises(InputError, match="_hoodie_is_deleted has type string"):
        canonical(pa.schema([pa.field("_hoodie_is_deleted", pa.string())]))


def test_meta_columns() -> None:
    schema = pa.schema([pa.field("a", pa.int32())])
    full = meta_fields.with_meta(schema)
    assert full.names == [*meta_fields.META_COLUMNS, "a"]
    assert meta_fields.with_meta(full) == full
    assert meta_fields.without_meta(full) == schema
    first = to_avro(full, "t")["fields"][0]
    assert list(first.items()) == [
        ("name", "_hoodie_commit_time"),
        ("type", ["null", "string"]),
        ("doc", ""),
        ("default", None),
    ]


def test_local_timestamps_of_another_writer() -> None:
    schema = arrow_schema([pa.field("a", pa.timestamp("us")), pa.field("b", pa.timestamp("ms", "UTC"))])
    avro = to_avro(schema, "t")
    assert avro["fields"][0]["type"][1] == {"type": "long", "logicalType": "local-timestamp-micros"}
    assert avro["fields"][1]["type"][1] == {"type": "long", "logicalType": "timestamp-millis"}
    assert from_avro(avro) == schema
    assert normalized(schema).field("a").type == pa.timestamp("us")


def test_avro_of_other_writers() -> None:
    """SQL's union order, Java's string property, references to named types, decimals as bytes, enums."""
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}]}
    avro = {
        "type": "record",
        "name": "R",
        "namespace": "n",
        "fields": [
            {"name": "a", "type": [{"type": "string", "avro.java.string": "String"}, "null"], "doc": "d"},
            {"name": "b", "type": money},
            {"name": "c", "type": ["null", point]},
            {"name": "d", "type": "Point"},
            {"name": "e", "type": {"type": "array", "items": "n.Point"}},
            {"name": "f", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "g", "type": {"type": "fixed", "name": "F", "size": 3}},
            {"name": "h", "type": {"type": ["null", "int"]}},
            {"name": "i", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
    struct = pa.struct([pa.field("x", pa.float64(), nullable=False)])
    schema = from_avro(json.dumps(avro))
    types = [pa.string(), pa.decimal128(9, 2), struct, struct, array_of(struct, nullable=False)]
    assert schema.types == [*types, pa.string(), pa.binary(), pa.int32(), pa.string()]
    assert [field.nullable for field in schema] == [True, False, True, *[False] * 4, True, False]


@pytest.mark.parametrize(
    ("avro", "message"),
    [
        ("{", "no JSON"),
        ('"string"', "no record"),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":["int","string"]}]}',
            "'a'.*unions of null",
        ),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"Lost"}]}', "'a'.*'Lost'.*not supported"),
    ],
)
def test_avro_that_no_table_has(avro: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        from_avro(avro)


def test_to_avro_refuses_what_is_not_canonical() -> None:
    with pytest.raises(InputError, match="'t' has type time64"):
        to_avro(pa.schema([pa.field("t", pa.time64("us"))]), "x")


def test_type_text() -> None:
    inner = pa.struct([("a", pa.decimal128(9, 2)), ("b", pa.timestamp("ms"))])
    dtype = map_of(array_of(inner))
    assert type_text(dtype) == "map<string,array<struct<a:decimal(9,2),b:timestamp in ms without zone>>>"
    texts = [type_text(item) for item in (pa.int64(), pa.binary(), pa.date32(), UTC_MICROS, pa.uint64())]
    assert texts == ["long", "binary", "date", "timestamp", "uint64"]
