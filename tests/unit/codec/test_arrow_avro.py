"""Rows to log records and back, for all rows at once; fastavro, record by record, is the oracle."""

from __future__ import annotations

import json
import struct
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.codec import arrow_avro, avro_decode
from hoodie.codec.arrow_avro import decode_records, decode_values, encode_records, encode_values
from hoodie.errors import InputError, SchemaError, TableError
from hoodie.format.meta_fields import with_meta
from hoodie.format.schema import from_avro, to_avro_text
from tests.support.properties import examples
from tests.unit.codec.avro_cases import (
    Case,
    cases,
    decimal_bytes,
    decode_one_by_one,
    encode_one_by_one,
    framed,
    raw_rows,
    unframed,
)


def encoded(rows: pa.Table | pa.RecordBatch, text: str) -> bytes:
    return b"".join(map(bytes, encode_records(rows, text)))


@given(cases())
@settings(max_examples=examples(60))
def test_records_of_fastavro_come_back_as_rows(case: Case) -> None:
    rows = decode_records(case.data, len(case.rows), case.text)
    rows.validate(full=True)
    assert rows.schema == from_avro(case.text)
    assert raw_rows(case.schema, rows) == case.rows


@given(cases())
@settings(max_examples=examples(60))
def test_rows_become_the_very_bytes_of_fastavro(case: Case) -> None:
    rows = decode_records(case.data, len(case.rows), case.text)
    assert encoded(rows, case.text) == case.data
    assert decode_one_by_one(case.schema, encoded(rows, case.text)) == case.rows


# --- layouts -------------------------------------------------------------------------------------------


@st.composite
def _layout(draw: st.DrawFn, column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """The same values as slices of longer arrays, in several chunks, as dictionaries, with 64-bit offsets."""
    array = column.combine_chunks()
    form = draw(st.sampled_from(["plain", "dictionary", "large", "view", "narrow"]))
    textual = pa.types.is_string(array.type) or pa.types.is_binary(array.type)
    if form == "dictionary" and not pa.types.is_nested(array.type):
        array = array.dictionary_encode(draw(st.sampled_from(["mask", "encode"])))
    elif form == "large" and textual:
        array = array.cast(pa.large_string() if pa.types.is_string(array.type) else pa.large_binary())
    elif form == "view" and textual:
        array = array.cast(pa.string_view() if pa.types.is_string(array.type) else pa.binary_view())
    elif form == "narrow" and array.type == pa.int64() and not array.null_count and len(array):
        values: list[Any] = array.to_pylist()
        least, most = min(values), max(values)
        if least >= -128 and most < 128:
            array = array.cast(pa.int8())
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    array = pa.concat_arrays([array[:before], array, array[:after]]).slice(
        min(before, len(array)), len(array)
    )
    cuts = sorted(draw(st.lists(st.integers(0, len(array)), max_size=3)))
    bounds = [0, *cuts, len(array)]
    return pa.chunked_array([array[a:b] for a, b in pairwise(bounds)], array.type)


@given(cases(), st.data())
@settings(max_examples=examples(60))
def test_the_layout_of_rows_does_not_matter(case: Case, data: st.DataObject) -> None:
    rows = decode_records(case.data, len(case.rows), case.text)
    columns = [data.draw(_layout(column)) for column in rows.columns]
    order = data.draw(st.permutations(range(len(columns))))
    disguised = pa.table(
        {"extra": pa.nulls(rows.num_rows)} | {rows.column_names[i]: columns[i] for i in order}
    )
    assert encoded(disguised, case.text) == case.data


# --- parts and projections -----------------------------------------------------------------------------


@given(cases(max_rows=60), st.integers(1, 9), st.sampled_from([1, 40, 400]))
@settings(max_examples=examples(100))
def test_parts_of_the_rows_do_not_show(case: Case, rows: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_avro, "ROWS", rows)
        patch.setattr(arrow_avro, "BYTES", size)
        patch.setattr(arrow_avro, "SEGMENT", size)
        patch.setattr(avro_decode, "_FEW", 2)
        table = decode_records(case.data, len(case.rows), case.text)
        assert raw_rows(case.schema, table) == case.rows
        pieces = encode_records(table, case.text)
    assert b"".join(map(bytes, pieces)) == case.data
    assert len(pieces) >= len(case.rows) / rows


#: a column that only skipping can deal with, and its values
INNER = {"type": "record", "name": "U", "fields": [{"name": "x", "type": ["null", "double"]}]}
LISTS = [{"type": "array", "items": "string"}, {"type": "map", "values": "bytes"}]
UNION = ["null", "int", "string", INNER, *LISTS, "boolean", "double"]
UNION_VALUES = [None, 5, "text", {"x": None}, {"x": 1.5}, [], ["a", "b"], {"k": b"v"}, True, 2.5]


@given(st.lists(st.sampled_from(UNION_VALUES), max_size=40), st.booleans())
def test_unions_of_several_types_are_structs_of_them(values: list[Any], nested: bool) -> None:
    union: Any = UNION
    if nested:
        union = {"type": "record", "name": "V", "fields": [{"name": "u", "type": UNION}]}
    schema = {"type": "record", "name": "row", "fields": [{"name": "u", "type": union}]}
    records = encode_one_by_one(schema, [{"u": {"u": value} if nested else value} for value in values])
    found = decode_values(pa.array(records, pa.binary()), json.dumps(schema))
    found.validate(full=True)
    names = ["int", "string", "U", "array", "map", "boolean", "double"]
    column: Any = found.column("u").combine_chunks()
    column = column.field("u") if nested else column
    assert [field.name for field in column.type] == names
    expected = []
    for value in values:
        branch = {int: "int", str: "string", list: "array", bool: "boolean", float: "double"}.get(type(value))
        if isinstance(value, dict):
            branch = "U" if "x" in value else "map"
        there = list(value.items()) if branch == "map" else value
        of_all: dict[str | None, Any] = dict.fromkeys(names)
        expected.append(None if value is None else {**of_all, branch: there})
    assert column.to_pylist() == expected
    assert encode_values(found, json.dumps(schema)).to_pylist() == records
    with pytest.raises(SchemaError, match="only unions of null and one type"):
        decode_records(framed(records), len(records), json.dumps(schema))


def test_a_value_of_a_union_is_of_one_of_its_types() -> None:
    schema = _schema(u=["int", "string"])
    both = pa.array([{"int": 1, "string": "a"}])
    with pytest.raises(InputError, match="column u has a value in several types of its union"):
        encode_values(pa.table({"u": both}), schema)
    with pytest.raises(InputError, match="column u is null"):
        encode_values(pa.table({"u": pa.array([{"int": None}], pa.struct([("int", pa.int32())]))}), schema)
    some = pa.table({"u": pa.array([None, {"string": "a"}, {"int": 3}])})
    found = encode_values(some, _schema(u=["null", "int", "string"]))
    assert found.to_pylist() == [b"\x00", b"\x04\x02a", b"\x02\x06"]


def test_a_union_has_a_branch_of_each_record() -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "u", "type": ["null", "int", "string"]}]}
    with pytest.raises(TableError, match="no such branch"):
        decode_values(pa.array([b"\x06"]), json.dumps(schema))
    twice = [{"type": "record", "name": "a.U", "fields": []}, {"type": "record", "name": "b.U", "fields": []}]
    with pytest.raises(SchemaError, match="not supported"):
        decode_values(pa.array([b"\x00"]), json.dumps({**schema, "fields": [{"name": "u", "type": twice}]}))


@given(cases(), st.data())
def test_columns_are_picked_and_ordered(case: Case, data: st.DataObject) -> None:
    fields, others = case.schema["fields"], {"name": "u", "type": UNION}
    place = data.draw(st.integers(0, len(fields)))
    null = {"name": "n", "type": data.draw(st.sampled_from(["null", ["null"]]))}
    schema = case.schema | {"fields": [*fields[:place], others, null, *fields[place:]]}
    values = data.draw(
        st.lists(st.sampled_from(UNION_VALUES), min_size=len(case.rows), max_size=len(case.rows))
    )
    rows = [row | {"u": value, "n": None} for row, value in zip(case.rows, values, strict=True)]
    records = framed(encode_one_by_one(schema, rows))
    columns = data.draw(
        st.lists(st.sampled_from([field["name"] for field in fields]), unique=True, min_size=1)
    )
    table = decode_records(records, len(rows), json.dumps(schema), columns)
    assert table.column_names == columns
    every = decode_records(case.data, len(case.rows), case.text)
    assert table.equals(every.select(columns)) or raw_rows(schema, table) == raw_rows(
        schema, every.select(columns)
    )
    assert decode_records(pa.py_buffer(records), len(rows), json.dumps(schema), []).num_columns == 0


def test_a_column_that_the_records_lack() -> None:
    with pytest.raises(SchemaError, match="no columns b, c; they have a"):
        decode_records(b"", 0, _schema(a="int"), ["a", "b", "c"])


@pytest.mark.parametrize("avro", [UNION, "null", ["null"], {"type": "array", "items": "null"}])
def test_types_that_no_column_has_are_refused(avro: Any) -> None:
    with pytest.raises(SchemaError, match="'c"):
        decode_records(b"", 0, _schema(c=avro))


# --- single values -------------------------------------------------------------------------------------


def _schema(**types: Any) -> str:
    fields = [{"name": name, "type": avro} for name, avro in types.items()]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


def test_no_rows() -> None:
    text = _schema(a=["null", "string"], b={"type": "array", "items": ["null", "int"]})
    table = decode_records(b"", 0, text)
    assert table.schema == from_avro(text)
    assert table.num_rows == 0
    assert encode_records(table, text) == []
    batch = pa.RecordBatch.from_pylist([{"a": "x", "b": [1, None]}, {"a": None, "b": []}], from_avro(text))
    assert decode_records(encoded(batch, text), 2, text).to_pylist() == batch.to_pylist()


def test_a_record_without_fields() -> None:
    assert decode_records(bytes(12), 3, _schema()).num_columns == 0


@pytest.mark.parametrize(("avro", "form"), [("float", "<I"), ("double", "<Q")])
def test_every_bit_of_a_float_is_kept(avro: str, form: str) -> None:
    size = struct.calcsize(form)
    signs = 1 << (8 * size - 1)
    exponents = {"float": 0x7F800000, "double": 0x7FF0000000000000}[avro]
    words = [0, signs, exponents, signs | exponents, exponents | 1, signs | exponents | 5, signs - 1, 1]
    records = framed(struct.pack(form, word) for word in words)
    table = decode_records(records, len(words), _schema(c=avro))
    assert encoded(table, _schema(c=avro)) == records


def test_blocks_with_their_size_in_bytes() -> None:
    """Java's blocking writer: a negative count, then the block's bytes; several blocks in one value."""
    text = _schema(a={"type": "array", "items": "string"}, m={"type": "map", "values": "int"},
                   d={"type": "array", "items": "double"})  # fmt: skip
    strings = b"\x03\x0c\x02a\x06\xe6\x97\xa5" + b"\x02\x02c" + b"\x01\x02\x00" + b"\x00"
    entries = b"\x01\x06\x02k\x02" + b"\x04\x02l\x03\x00\x05" + b"\x00"
    doubles = b"\x02" + struct.pack("<d", 1.5) + b"\x03\x20" + struct.pack("<dd", -0.0, 2.5) + b"\x00"
    record = strings + entries + doubles
    for count in (1, 50):
        table = decode_records(framed([record] * count), count, text)
        row = {"a": ["a", "日", "c", ""], "m": [("k", 1), ("l", -2), ("", -3)], "d": [1.5, -0.0, 2.5]}
        assert table.to_pylist() == [row] * count


def test_numbers_with_more_bytes_than_they_need() -> None:
    records = framed([b"\x82\x00\x82\x80\x00", b"\x02\x02", b"\x80\x00", b"\x82" + b"\x80" * 8 + b"\x00\x02"])
    table = decode_records(records, 4, _schema(c=["null", "long"]))
    assert table.column("c").to_pylist() == [1, 1, None, 1]


def test_values_without_bytes() -> None:
    """They are fine alone; an array of them could claim to have any number in no bytes, so it is refused."""
    nothing = {"type": "fixed", "name": "f", "size": 0}
    for avro, values in ((nothing, [b"", b""]), (["null", nothing], [None, b""])):
        case = Case(json.loads(_schema(c=avro)), [{"c": value} for value in values])
        table = decode_records(case.data, 2, case.text)
        assert table.column("c").to_pylist() == values
        assert encoded(table, case.text) == case.data
    for item in (nothing, {"type": "record", "name": "r", "fields": [{"name": "x", "type": nothing}]}):
        with pytest.raises(SchemaError, match="no bytes"):
            decode_records(b"", 0, _schema(c={"type": "array", "items": item}))


def test_texts_of_any_length() -> None:
    lengths = [0, 1, 63, 64, 8191, 8192, 1 << 20, 5]
    texts = [None if n == 1 else ("日" * n)[: n // 3] + "x" * (n % 3) for n in lengths]
    rows = [{"c": text, "d": b"\xff" * n} for text, n in zip(texts, lengths, strict=True)]
    schema = json.loads(_schema(c=["null", "string"], d="bytes"))
    case = Case(schema, rows)
    table = decode_records(case.data, len(rows), case.text)
    assert table.to_pylist() == rows
    assert encoded(table, case.text) == case.data


@pytest.mark.full
def test_long_and_short_lists_together() -> None:
    counts = [0, 5000, 1, 3, 0, 40_000, *[2] * 60]
    rows = [
        {
            "s": [f"é{i}" for i in range(n)],
            "i": list(range(n)),
            "m": {str(i): [i] * (i % 3) for i in range(n)},
        }
        for n in counts
    ]
    array = {"type": "array", "items": "int"}
    schema = json.loads(
        _schema(s={"type": "array", "items": ["null", "string"]}, i=array, m={"type": "map", "values": array})
    )
    case = Case(schema, rows)
    table = decode_records(case.data, len(rows), case.text)
    table.validate(full=True)
    assert raw_rows(schema, table) == rows
    assert encoded(table, case.text) == case.data
    assert decode_records(case.data, len(rows), case.text, ["m"]).equals(table.select(["m"]))


def test_dictionaries_of_meta_columns() -> None:
    """Dictionary columns whose chunks differ in their dictionaries, null there or in the index."""
    schema = with_meta(pa.schema([pa.field("x", pa.int64())]))
    text = to_avro_text(schema, "t")
    words = [pa.array(["a", None, "b"]), pa.array(["c", "b" * 70])]
    indices = [pa.array([0, 1, 2, None, 0], pa.int8()), pa.array([1, 1, 0, None, 0], pa.int8())]
    column = pa.chunked_array(
        [pa.DictionaryArray.from_arrays(i, w) for i, w in zip(indices, words, strict=True)]
    )
    rows = pa.table([column] * 5 + [pa.array(range(10))], names=schema.names)
    expected = ["a", None, "b", None, "a", "b" * 70, "b" * 70, "c", None, "c"]
    assert decode_records(encoded(rows, text), 10, text).column(0).to_pylist() == expected


def test_a_dictionary_of_long_texts_is_cut_by_what_it_stands_for() -> None:
    text = _schema(c="string")
    rows = pa.table({"c": pa.array(["x" * 1_000_000] * 40).dictionary_encode()})
    pieces = encode_records(rows, text)
    assert max(map(len, pieces)) <= arrow_avro.BYTES + 100
    assert sum(map(len, pieces)) == 40 * (4 + 3 + 1_000_000)


#: two's complement needs one more byte from here on
BOUNDS = [
    sign * 2 ** (8 * size - 1) + more for size in range(1, 16) for sign in (-1, 1) for more in (-1, 0, 1)
]


@pytest.mark.parametrize("size", [None, 16, 20])
def test_decimals_where_their_bytes_become_more(size: int | None) -> None:
    """... and nulls among those that are wider than 128 bits."""
    kind: dict[str, Any] = {"type": "bytes"} if size is None else {"type": "fixed", "name": "f", "size": size}
    text = _schema(c=["null", {**kind, "logicalType": "decimal", "precision": 38, "scale": 2}])
    numbers = [None, *(number for pair in zip(BOUNDS, [None] * len(BOUNDS), strict=True) for number in pair)]
    values = [None if number is None else Decimal(number).scaleb(-2, Context(prec=40)) for number in numbers]
    rows = pa.table({"c": pa.array(values, pa.decimal128(38, 2))})
    raw = [{"c": None if number is None else decimal_bytes(number, size)} for number in numbers]
    expected = framed(encode_one_by_one(json.loads(text), raw))
    assert encoded(rows, text) == expected
    assert decode_records(expected, len(raw), text).column("c").to_pylist() == values


# --- refusals ------------------------------------------------------------------------------------------

FIXED = {"type": "fixed", "name": "f", "size": 2}
SMALL = {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 5, "scale": 0}
MICROS, MILLIS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("micros", "millis"))
ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
RECORD = {"type": "record", "name": "n", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("avro", "values", "error", "why"),
    [
        ("int", pa.array([1, None]), InputError, "column c is null in some rows"),
        (["int"], pa.array([1, None]), InputError, "column c is null in some rows"),
        ("int", pa.array([2**31]), InputError, "does not fit"),
        ("string", pa.array([1]), SchemaError, "has type int64 where the schema has string; cast"),
        ("string", pa.array([b"a"]), SchemaError, "has type binary"),
        ("bytes", pa.array(["a"]), SchemaError, "has type string"),
        ("float", pa.array([1.5]), SchemaError, "has type double"),
        (["null", "long"], pa.array([1.5]), SchemaError, "has type double"),
        (MICROS, pa.array([0], pa.timestamp("us")), SchemaError, "cast"),
        (MILLIS, pa.array([1], pa.timestamp("us", "UTC")), InputError, "does not fit"),
        (FIXED, pa.array([b"ab", b"abc"]), InputError, "3 bytes where the schema's fixed type has 2"),
        (["null", FIXED], pa.array([None, b""]), InputError, "0 bytes"),
        (SMALL, pa.array([Decimal(128)], pa.decimal128(5, 0)), InputError, "more than the 1 bytes"),
        (SMALL, pa.array([Decimal("1.5")]), InputError, "does not fit"),
        (["null", ENUM], pa.array(["A", None, "C"]), InputError, "'C' is none of the symbols A, B"),
        (RECORD, pa.array([{"y": 1}]), SchemaError, "has no field x"),
        (RECORD, pa.array([{"x": None}], pa.struct([("x", pa.int32())])), InputError, "column c.x is null"),
        (RECORD, pa.array([1]), SchemaError, "a record"),
        ({"type": "array", "items": "int"}, pa.array([[1, None]]), InputError, "column c.element is null"),
        ({"type": "array", "items": "int"}, pa.array([1]), SchemaError, "an array"),
        ({"type": "map", "values": "int"}, pa.array([[1]]), SchemaError, "a map"),
        ("null", pa.array([1]), InputError, "type is null"),
        (["int", "string"], pa.array([1]), SchemaError, "unions of null and one type"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_schema_is_refused(avro: Any, values: Any, error: type, why: str) -> None:
    with pytest.raises(error, match=why):
        encode_records(pa.table({"c": values}), _schema(c=avro))


def test_missing_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="lack columns b, c"):
        encode_records(pa.table({"a": [1]}), _schema(a="long", b="int", c="int"))


@pytest.mark.parametrize("avro", ["null", ["null"], ["null", "int"], ["string", "null"], ["null", RECORD]])
def test_columns_without_values(avro: Any) -> None:
    text = _schema(c=avro, d="int")
    expected = encode_one_by_one(json.loads(text), [{"c": None, "d": 1}] * 3)
    rows = pa.table({"c": pa.nulls(3), "d": pa.array([1, 1, 1], pa.int8())})
    assert encoded(rows, text) == framed(expected)


# --- where records begin -------------------------------------------------------------------------------


def _places(data: bytes, count: int) -> list[tuple[int, int]]:
    found = arrow_avro.segments(np.frombuffer(data, np.uint8), count)
    return [place for starts, ends in found for place in zip(starts.tolist(), ends.tolist(), strict=True)]


@given(st.data(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60))
def test_records_are_found_whatever_they_hold(data: st.DataObject, seed: int) -> None:
    """Also records that look as if other records began in them."""
    rng = np.random.default_rng(seed)
    count, most = data.draw(st.integers(0, 4000)), data.draw(st.sampled_from([0, 1, 3, 20, 70, 1000]))
    lengths = rng.integers(0, most + 1, count)
    if count and data.draw(st.booleans()):
        lengths[rng.integers(0, count, 3)] = 70_000
    unit = b"".join(struct.pack(">i", int(n)) + bytes(int(n)) for n in rng.integers(1, 40, 3000))
    small = bytes(rng.integers(0, 3, 80_000).tolist())
    body = data.draw(st.sampled_from([bytes(80_000), rng.bytes(80_000), small, unit]))
    starts = rng.integers(0, len(body) // 10, count)
    records = [
        body[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_avro, "SEGMENT", data.draw(st.sampled_from([100, 50_000, 1 << 24])))
        places = _places(framed(records), len(records))
    stream = framed(records)
    assert [stream[start:end] for start, end in places] == records == unframed(stream)
