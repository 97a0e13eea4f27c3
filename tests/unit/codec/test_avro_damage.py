"""Damaged log records: a TableError or some rows, never anything else."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hoodie.codec.arrow_avro import decode_records
from hoodie.errors import TableError
from tests.support.properties import examples
from tests.unit.codec.avro_cases import Case, cases, framed, unframed

#: in place of bytes: ends of varints, great lengths, negative lengths, wrong branches, half characters
NUMBERS = [
    b"\xff" * 9 + b"\x01",
    b"\xff" * 10,
    b"\xfe\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
]
NASTY = [*NUMBERS, b"\x01", b"\x03", b"\x80", b"\x00", b"\xc3"]


@st.composite
def _damaged(draw: st.DrawFn, data: bytes) -> bytes:
    torn = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(torn)))
        how = draw(st.sampled_from(["flip", "cut", "nasty", "insert", "drop"]))
        if how == "flip" and at < len(torn):
            torn[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del torn[at:]
        elif how == "nasty":
            piece = draw(st.sampled_from(NASTY))
            torn[at : at + len(piece)] = piece
        elif how == "insert":
            torn[at:at] = draw(st.binary(min_size=1, max_size=3))
        else:
            del torn[at : at + draw(st.integers(1, 4))]
    return bytes(torn)


def _rows_or_table_error(case: Case, data: bytes, count: int, columns: list[str] | None) -> None:
    try:
        rows = decode_records(data, count, case.text, columns)
    except TableError:
        return
    rows.validate(full=True)
    assert rows.num_rows == count


@given(cases(), st.data())
@settings(max_examples=examples(120))
def test_damage_is_a_table_error_or_rows(case: Case, data: st.DataObject) -> None:
    torn = data.draw(_damaged(case.data))
    count = data.draw(st.sampled_from([len(case.rows)] * 4 + [0, len(case.rows) + 1, -1, 2**31 - 1]))
    names = [field["name"] for field in case.schema["fields"]]
    columns = data.draw(st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True))
    _rows_or_table_error(case, torn, count, columns)


@given(cases(), st.data())
@settings(max_examples=examples(120))
def test_damage_inside_whole_records_is_a_table_error_or_rows(case: Case, data: st.DataObject) -> None:
    records = unframed(case.data)
    assume(records)
    which = data.draw(st.integers(0, len(records) - 1))
    records[which] = data.draw(_damaged(records[which]))
    _rows_or_table_error(case, framed(records), len(records), None)


@given(cases(), st.data())
def test_every_truncation_is_a_table_error(case: Case, data: st.DataObject) -> None:
    whole = case.data
    assume(whole)
    with pytest.raises(TableError):
        decode_records(whole[: data.draw(st.integers(0, len(whole) - 1))], len(case.rows), case.text)


@given(cases(), st.data())
def test_bytes_that_follow_are_a_table_error(case: Case, data: st.DataObject) -> None:
    extra = data.draw(st.binary(min_size=1, max_size=9))
    with pytest.raises(TableError):
        decode_records(case.data + extra, len(case.rows), case.text)
    records = unframed(case.data)
    assume(records)
    records[-1] += extra
    choices: list[list[str] | None] = [None, []]
    for columns in choices:
        with pytest.raises(TableError, match="bytes follow its last value"):
            decode_records(framed(records), len(records), case.text, columns)


def _one(avro: Any, record: bytes, others: int = 0, other: bytes = b"") -> pa.Table:
    """A column `c` of the damaged record, behind some that are well."""
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": avro}]})
    return decode_records(framed([other] * others + [record]), others + 1, text)


def _long(number: int) -> bytes:
    """Zigzag, as of a number that is not negative."""
    number, found = 2 * number, b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


ARRAY = {"type": "array", "items": "string"}
TIME, MICROS = {"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}
WIDE = {"type": "fixed", "name": "f", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 0}


@pytest.mark.parametrize(
    ("avro", "well", "record", "why"),
    [
        ("boolean", b"\x01", b"\x02", "neither 0 nor 1"),
        ("boolean", b"\x01", b"", "the record ends"),
        ("int", b"\x02", b"\xfe\xff\xff\xff\x1f", "more than 32 bits"),
        ("long", b"\x02", b"\x80" * 10 + b"\x01", "more than 64 bits"),
        ("long", b"\x02", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("long", b"\x02", b"\x80", "the record ends"),
        ("double", bytes(8), bytes(7), "the record ends"),
        ("float", bytes(4), bytes(3), "the record ends"),
        ("string", b"\x02a", b"\x04a", "the record ends"),
        ("string", b"\x02a", b"\x01a", "longer than its record"),
        ("string", b"\x02a", b"\xff" * 9 + b"\x01", "longer than its record"),
        ("string", b"\x02a", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "longer than its record"),
        ("string", b"\x02a", b"\x02\xc3", "not UTF-8"),
        ("bytes", b"\x02a", b"\xfe\xff\xff\xff\x0f", "longer than its record"),
        (["null", "int"], b"\x00", b"\x04\x02", "no such branch"),
        (["null", "int"], b"\x00", b"\x01\x02", "no such branch"),
        (["int"], b"\x00\x00", b"\x02\x02", "no such branch"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x00", b"\x02", "no such symbol"),
        ({"type": "fixed", "name": "f", "size": 3}, b"abc", b"ab", "the record ends"),
        (DECIMAL, b"\x02\x01", b"\x00", "no or too many bytes"),
        (DECIMAL, b"\x02\x01", b"\x22" + bytes(17), "no or too many bytes"),
        (DECIMAL, b"\x02\x01", b"\x04\x7f\xff", "more than 3 digits"),
        (WIDE, bytes(20), b"\x01" + bytes(19), "more than 128 bits"),
        (WIDE, bytes(20), bytes(4) + b"\x7f" + bytes(15), "more than 38 digits"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x00", b"\x01", "not within a day"),
        (TIME, _long(86_399_999), _long(86_400_000), "not within a day"),
        (MICROS, _long(86_399_999_999), _long(86_400_000_000), "not within a day"),
        (ARRAY, b"\x02\x02a\x00", b"\x04\x02a\x00", "the record ends|longer than its record"),
        (ARRAY, b"\x02\x02a\x00", b"\x02\x02a", "the record ends"),
        (ARRAY, b"\x02\x02a\x00", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "longer than its record"),
        (ARRAY, b"\x02\x02a\x00", b"\xff" * 9 + b"\x01\x00\x00", "longer than its record"),
        (ARRAY, b"\x02\x02a\x00", b"\x01\x40\x02a\x00", "a block is longer"),
        (ARRAY, b"\x02\x02a\x00", b"\x02\x02a\x00\x00", "bytes follow"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("others", [0, 100])
def test_what_is_wrong_and_where(avro: Any, well: bytes, record: bytes, why: str, others: int) -> None:
    with pytest.raises(TableError, match=why) as caught:
        _one(avro, record, others, well)
    if "UTF-8" not in why and "38 digits" not in why:
        assert caught.value.values["record"] == others


def test_a_great_fixed_value_is_not_there() -> None:
    with pytest.raises(TableError, match="the record ends"):
        _one({"type": "fixed", "name": "f", "size": 2**31 - 1}, b"ab")


@pytest.mark.parametrize(
    ("data", "count", "why"),
    [
        (b"", 1, "too few for 1 records"),
        (b"", -1, "too few for -1 records"),
        (b"\0\0\0", 0, "3 bytes follow"),
        (b"\0\0\0\x02\x02", 1, "record 0 has 2 bytes where 1 are left"),
        (b"\xff\xff\xff\xff\x02", 1, "record 0 has 4294967295 bytes"),
        (b"\0\0\0\x01\x02\0\0\0", 1, "3 bytes follow"),
        (b"\0\0\0\x04\x80\x80\x80\0", 2, "ends before record 1"),
        (struct.pack(">i", 2**31 - 1) + bytes(9), 3, "record 0 has 2147483647 bytes"),
    ],
)
def test_frames_that_do_not_fit(data: bytes, count: int, why: str) -> None:
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": "int"}]})
    with pytest.raises(TableError, match=why):
        decode_records(data, count, text)
