"""Content of DELETE blocks, held against what fastavro makes of Hudi's schema."""

from __future__ import annotations

import datetime as dt
import io
import struct
import tracemalloc
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.codec.avro import NAMESPACE, schema_json
from hoodie.errors import InputError, TableError
from hoodie.format import log_delete_rows
from hoodie.format.log_data import DeleteRecords, encode_delete_block, read_delete_block
from tests.support.tiers import full_but

SCHEMA = fastavro.parse_schema(dict(schema_json("HoodieDeleteRecordList")), named_schemas={})
COMMIT_TIME = ("IntWrapper", 0)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROS, MILLIS = dt.timedelta(microseconds=7), dt.timedelta(milliseconds=7)

#: type of the ordering column, its values, wrapper, what is stored
TYPES: list[tuple[pa.DataType, list[Any], str, list[Any]]] = [
    (pa.bool_(), [True, False], "BooleanWrapper", [True, False]),
    (pa.int32(), [1, -(2**31)], "IntWrapper", [1, -(2**31)]),
    (pa.int64(), [0, 2**63 - 1], "LongWrapper", [0, 2**63 - 1]),
    (pa.int64(), [63, -64], "LongWrapper", [63, -64]),
    (pa.int64(), [64, -(2**63)], "LongWrapper", [64, -(2**63)]),
    (pa.float32(), [0.5, -1e30], "FloatWrapper", [0.5, float(np.float32(-1e30))]),
    (pa.float64(), [0.1, float("-inf")], "DoubleWrapper", [0.1, float("-inf")]),
    (pa.string(), ["", "\u00e4" * 100], "StringWrapper", ["", "\u00e4" * 100]),
    (pa.binary(), [b"", b"\x00\xff" * 40], "BytesWrapper", [b"", b"\x00\xff" * 40]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 1, 1)], "DateWrapper", [0, -365]),
    (pa.timestamp("us", "UTC"), [EPOCH, EPOCH - MICROS], "LongWrapper", [0, -7]),
    (pa.timestamp("ms", "UTC"), [EPOCH, EPOCH + MILLIS], "LongWrapper", [0, 7]),
    (pa.decimal128(20, 5), [Decimal("123456789012345.12345"), Decimal("-0.00001")], "DecimalWrapper",
     [Decimal("123456789012345.12345"), Decimal("-0.00001")]),
]  # fmt: skip


def by_the_book(
    keys: list[str], partitions: Sequence[str | None], ordering: Sequence[tuple[str, Any] | None]
) -> bytes:
    """Content of a DELETE block, by fastavro."""
    records = [
        {
            "recordKey": key,
            "partitionPath": partition,
            "orderingVal": value and (f"{NAMESPACE}.{value[0]}", {"value": value[1]}),
        }
        for key, partition, value in zip(keys, partitions, ordering, strict=True)
    ]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"deleteRecordList": records})
    return struct.pack(">ii", 3, len(out.getvalue())) + out.getvalue()


def of(keys: list[str], partitions: list[str], ordering: Any = None) -> DeleteRecords:
    return DeleteRecords(pa.array(keys, pa.string()), pa.array(partitions, pa.string()), ordering)


def test_the_bytes_of_apache_hudi() -> None:
    """format.md 8.5"""
    one = bytes.fromhex("00000003 0000000e 02 02 08 6b303032 02 04 7030 04 00 00")
    assert encode_delete_block(of(["k002"], ["p0"])) == one
    assert encode_delete_block(of([], [])) == bytes.fromhex("00000003 00000001 00")
    read = read_delete_block(one)
    assert (read.keys.to_pylist(), read.partitions.to_pylist(), read.ordering) == (["k002"], ["p0"], None)
    assert len(read_delete_block(bytes.fromhex("00000003 00000001 00"))) == 0


def test_a_partition_may_be_null() -> None:
    """By the schema; none is written."""
    keys, partitions = ["k1", "k2", "k3", "k4"], ["p", None, "", None]
    read = read_delete_block(by_the_book(keys, partitions, [("LongWrapper", 7)] * 4), pa.int64())
    assert (read.keys.to_pylist(), read.partitions.to_pylist()) == (keys, partitions)
    assert read.ordering is not None
    assert read.ordering.to_pylist() == [7] * 4


@pytest.mark.parametrize(("dtype", "values", "wrapper", "stored"), TYPES, ids=lambda item: str(item)[:40])
def test_ordering_values_stand_in_their_wrapper(
    dtype: pa.DataType, values: list[Any], wrapper: str, stored: list[Any]
) -> None:
    keys, partitions = ["k1", "none", "k2"], ["", "p=1", "p/q"]
    ordering: Any = pa.array([values[0], None, values[1]], dtype)
    content = encode_delete_block(of(keys, partitions, ordering))
    assert content == by_the_book(keys, partitions, [(wrapper, stored[0]), COMMIT_TIME, (wrapper, stored[1])])
    read = read_delete_block(content, dtype)
    assert (read.keys.to_pylist(), read.partitions.to_pylist()) == (keys, partitions)
    assert read.ordering is not None
    assert read.ordering.type == dtype
    assert read.ordering.to_pylist() == ordering.to_pylist()


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("0", "00"),
        ("0.000000000000127", "7f"),
        ("0.000000000000128", "0080"),
        ("-0.000000000000128", "80"),
        ("-0.000000000000129", "ff7f"),
        ("-0.000000000000001", "ff"),
        ("1", "038d7ea4c68000"),
        ("999999999999999.999999999999999", "0c9f2c9cd04674edea3fffffff"),
    ],
)
def test_decimals_are_as_short_as_javas_big_integers(value: str, stored: str) -> None:
    ordering: Any = pa.array([Decimal(value)], pa.decimal128(30, 15))
    content = encode_delete_block(of(["k"], ["p"], ordering))
    data = bytes.fromhex(stored)
    assert content.endswith(bytes([2 * 9, 2 * len(data)]) + data + b"\x00")
    read = read_delete_block(content, pa.decimal128(30, 15))
    assert read.ordering is not None
    assert read.ordering.to_pylist() == [Decimal(value)]


def test_columns_of_a_table_are_taken_as_they_are() -> None:
    """Chunks, slices and dictionaries."""
    keys = pa.chunked_array([["a", "b"], ["c"]])
    partitions = pa.array(["x", "p", "p", "q"]).dictionary_encode()[1:]
    ordering = pa.chunked_array([pa.array([9, 1, 2], pa.int64())[1:], pa.array([3], pa.int64())])
    content = encode_delete_block(DeleteRecords(keys, partitions, ordering))  # type: ignore[arg-type]
    wrapped = [("LongWrapper", number) for number in (1, 2, 3)]
    assert content == by_the_book(["a", "b", "c"], ["p", "p", "q"], wrapped)


RECORDS = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"])) | st.text("\x02\x06", max_size=300),
        st.text(st.characters(exclude_categories=["Cs"])) | st.text("\x02", max_size=5),
        st.none() | st.integers(-(2**63), 2**63 - 1),
    )
)


@pytest.mark.parametrize("window", [1, 8, 300, log_delete_rows._WINDOW])
@given(rows=RECORDS)
def test_any_records_are_read_back_and_are_what_fastavro_writes(
    window: int, rows: list[tuple[str, str, int | None]]
) -> None:
    """Whatever bytes they have: the byte 2 begins a record, and may stand anywhere in one."""
    keys, partitions = [row[0] for row in rows], [row[1] for row in rows]
    numbers = [row[2] for row in rows]
    content = encode_delete_block(of(keys, partitions, pa.array(numbers, pa.int64())))
    assert content == by_the_book(
        keys, partitions, [COMMIT_TIME if number is None else ("LongWrapper", number) for number in numbers]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_delete_rows, "_WINDOW", window)
        read = read_delete_block(content)
    assert (read.keys.to_pylist(), read.partitions.to_pylist()) == (keys, partitions)
    assert (read.ordering.to_pylist() if read.ordering is not None else [None] * len(rows)) == numbers


def test_many_records_and_long_ones() -> None:
    keys = [f"{number}-" + "\x02" * (number % 7) for number in range(40_000)]
    keys[20_000] = "\x02" * 3_000_000
    partitions = ["p=\u00e4"] * len(keys)
    ordering: Any = pa.array(range(len(keys)), pa.int64())
    read = read_delete_block(encode_delete_block(of(keys, partitions, ordering)))
    assert read.keys.to_pylist() == keys
    assert read.partitions.to_pylist() == partitions
    assert read.ordering is not None
    assert read.ordering.to_pylist() == list(range(len(keys)))


def test_a_long_list_with_a_damaged_length_is_refused_at_little_cost() -> None:
    """The length of one key claims all that follows; only this record is followed so far."""
    content = encode_delete_block(of(["\x02" * 10] * 100_000, ["\x02"] * 100_000))
    place = content.index(b"\x02\x14")
    damaged = content[:place] + b"\x02\xfe\xff\xff\x0f" + content[place + 5 :]
    tracemalloc.start()
    try:
        with pytest.raises(TableError, match="torn"):
            read_delete_block(damaged)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_the_list_may_come_in_blocks_with_and_without_their_size() -> None:
    """As Avro allows; Apache Hudi writes one block."""
    one = bytes.fromhex("02 02 6b 02 02 70 04 00")  # k, p, none
    body = b"\x04" + one * 2 + b"\x01" + bytes([2 * len(one)]) + one + b"\x02" + one + b"\x00"
    assert read_delete_block(struct.pack(">ii", 3, len(body)) + body).keys.to_pylist() == ["k"] * 4


@pytest.mark.parametrize("start", full_but({8}, range(8, 11)))
def test_what_is_read_of_damaged_records_is_what_fastavro_reads(start: int) -> None:
    """Each third byte with several values. We refuse more than it does: null keys, numbers too long."""
    wrapped = [None, ("LongWrapper", -300), ("StringWrapper", "x"), ("DecimalWrapper", Decimal("1.5")),
               ("DoubleWrapper", 0.5), ("BooleanWrapper", True), COMMIT_TIME]  # fmt: skip
    content = by_the_book(list("abcdefg"), ["p"] * 7, wrapped)
    agreed = 0
    for place in range(start, len(content), 3):
        for byte in (0, 1, 2, 3, 4, 6, 0x7F, 0x80, 0xFF, content[place] ^ 1, content[place] ^ 0x80):
            damaged = content[:place] + bytes([byte]) + content[place + 1 :]
            try:
                read = read_delete_block(damaged)
            except TableError:
                continue
            records: Any = fastavro.schemaless_reader(io.BytesIO(damaged[8:]), SCHEMA, None)
            assert read.keys.to_pylist() == [record["recordKey"] for record in records["deleteRecordList"]]
            assert read.partitions.to_pylist() == [
                record["partitionPath"] for record in records["deleteRecordList"]
            ]
            agreed += 1
    assert agreed > 40


def test_a_null_ordering_value_is_no_ordering_value() -> None:
    """Apache Hudi 1.x may write the union's null."""
    assert read_delete_block(by_the_book(["k"], ["p"], [None])).ordering is None


def test_int_0_is_no_ordering_value_and_long_0_is_one() -> None:
    content = by_the_book(["a", "b"], ["", ""], [("IntWrapper", 0), ("LongWrapper", 0)])
    ordering = read_delete_block(content).ordering
    assert ordering is not None
    assert ordering.to_pylist() == [None, 0]


@pytest.mark.parametrize(
    ("wrapped", "dtype", "expected"),
    [
        # the column was widened since
        (("IntWrapper", 7), pa.int64(), 7),
        (("IntWrapper", 7), pa.string(), "7"),
        (("FloatWrapper", 0.10000000149011612), pa.float64(), 0.1),
        # other writers' forms of the same value
        (("TimestampMicrosWrapper", 7), pa.timestamp("us", "UTC"), EPOCH + MICROS),
        (("IntWrapper", 365), pa.date32(), dt.date(1971, 1, 1)),
        (("DecimalWrapper", Decimal("1.5")), pa.decimal128(5, 2), Decimal("1.50")),
        # never a value of this column: for Hudi another class, so the delete wins
        (("StringWrapper", "7"), pa.int64(), None),
        (("LongWrapper", 2**40), pa.int32(), None),
        (("DecimalWrapper", Decimal("0.001")), pa.decimal128(5, 2), None),
    ],
)
def test_ordering_values_become_the_columns_type(
    wrapped: tuple[str, Any], dtype: pa.DataType, expected: Any
) -> None:
    read = read_delete_block(by_the_book(["k"], ["p"], [wrapped]), dtype)
    assert (read.ordering.to_pylist() if read.ordering is not None else [None]) == [expected]


@pytest.mark.parametrize(
    ("wrapped", "dtype", "values"),
    [
        ([("IntWrapper", 7), ("LongWrapper", 8)], pa.int64(), [7, 8]),
        ([("IntWrapper", 7), ("DoubleWrapper", 8.5)], pa.float64(), [7.0, 8.5]),
        ([("LongWrapper", 7), ("StringWrapper", "x")], pa.string(), ["7", "x"]),
    ],
)
def test_wrappers_of_several_types_become_one_column(
    wrapped: list[tuple[str, Any]], dtype: pa.DataType, values: list[Any]
) -> None:
    """Log compaction puts deletes from before and after a type was widened into one block."""
    ordering = read_delete_block(by_the_book(["a", "b"], ["", ""], wrapped)).ordering
    assert ordering is not None
    assert (ordering.type, ordering.to_pylist()) == (dtype, values)


@pytest.mark.parametrize(
    ("keys", "partitions"), [([None], ["p"]), (["k"], [None])], ids=["no key", "no partition"]
)
def test_a_delete_without_key_or_partition_is_refused(keys: Any, partitions: Any) -> None:
    with pytest.raises(InputError, match="null"):
        encode_delete_block(of(keys, partitions))


@pytest.mark.parametrize(
    ("ordering", "message"),
    [
        (pa.array([[1]]), "ordering values of type list"),
        (pa.array([Decimal(10**15)], pa.decimal128(38, 0)), "15 digits before"),
        (pa.array([Decimal("0.0000000000000001")], pa.decimal128(38, 16)), "15 digits before"),
    ],
)
def test_an_ordering_value_that_no_wrapper_holds_is_refused(ordering: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_delete_block(of(["k"], ["p"], ordering))


@pytest.mark.parametrize("version", [1, 2])
def test_java_objects_of_old_hudi_are_refused_with_the_way_out(version: int) -> None:
    with pytest.raises(TableError, match="compact the table with Apache Hudi first"):
        read_delete_block(struct.pack(">ii", version, 4) + b"\x01\x00\x63\x6f")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00\x00\x03",
        struct.pack(">ii", 4, 1) + b"\x00",
        struct.pack(">ii", 3, 2) + b"\x00",
        struct.pack(">ii", 3, 2**31 - 1) + b"\x00",
        struct.pack(">ii", 3, -1) + b"\x00",
        struct.pack(">ii", 3, 2) + b"\x00\x00",
        by_the_book(["k"], ["p"], [COMMIT_TIME])[:-1] + b"\x02",
        struct.pack(">ii", 3, 5) + b"\x02\x00\x02\x00\x00",
        struct.pack(">ii", 3, 13) + b"\x02\x02\x02k\x02\x02p\x04" + b"\x80\x80\x80\x80\x20",
    ],
    ids=["empty", "no length", "version 4", "longer", "huge", "negative", "left over", "open array",
         "torn record", "int beyond 32 bits"],
)  # fmt: skip
def test_damaged_content_is_a_table_error(content: bytes) -> None:
    with pytest.raises(TableError, match="delete block is damaged"):
        read_delete_block(content)


def test_a_record_without_a_key_is_damage() -> None:
    body = b"\x02\x00\x02\x02p\x04\x00\x00"
    with pytest.raises(TableError, match="no key"):
        read_delete_block(struct.pack(">ii", 3, len(body)) + body)


# --- several ordering values, as Apache Hudi 1.2.0 writes them -----------------------------------------

_BRANCHES = ("null", *log_delete_rows.WRAPPERS)
_ONE_LONGER = {name: {"type": "record", "name": name, "fields": [{"name": "value", "type": leaf.kind}]}
               for name, leaf in log_delete_rows.WRAPPERS.items()}  # fmt: skip
_LOCAL_DATE = {"type": "record", "name": "LocalDateWrapper", "fields": [{"name": "value", "type": "int"}]}
_VALUES = {"type": "array", "items": [*_BRANCHES, _LOCAL_DATE]}
_SEVERAL = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [{"name": "wrappedValues", "type": ["null", _VALUES]}],
}
_RECORD = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ["null", *_ONE_LONGER.values(), _SEVERAL]},
    ],
}
LATER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": _RECORD}}],
    }
)


def with_several(ordering: Sequence[Any]) -> bytes:
    """A list of (wrapper, value) is several ordering values, a pair is one."""

    def one(value: Any) -> Any:
        return value and (value[0], {"value": value[1]})

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return ("ArrayWrapper", {"wrappedValues": [one(each) for each in value]})
        return one(value)

    records = [
        {"recordKey": f"k{number}", "partitionPath": "", "orderingVal": of(value)}
        for number, value in enumerate(ordering)
    ]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, LATER, {"deleteRecordList": records})
    return struct.pack(">ii", 3, len(out.getvalue())) + out.getvalue()


def test_several_ordering_values() -> None:
    ordering = [
        [("LongWrapper", 7), ("StringWrapper", "x" * 100), ("LocalDateWrapper", 1)],
        COMMIT_TIME,
        [("IntWrapper", 0), None, ("LocalDateWrapper", -1)],
        None,
        [("LongWrapper", -(2**40)), ("StringWrapper", ""), ("DateWrapper", 3)],
        ("LongWrapper", 12),
        [("LongWrapper", 1)],
    ]
    kind = pa.struct([("0", pa.int64()), ("1", pa.string()), ("2", pa.date32())])
    found = read_delete_block(with_several(ordering), kind)
    assert found.keys.to_pylist() == [f"k{number}" for number in range(len(ordering))]
    assert found.ordering is not None
    assert found.ordering.type == kind
    first = {"0": 7, "1": "x" * 100, "2": dt.date(1970, 1, 2)}
    second = {"0": None, "1": None, "2": dt.date(1969, 12, 31)}
    third = {"0": -(2**40), "1": "", "2": dt.date(1970, 1, 4)}
    assert found.ordering.to_pylist() == [first, None, second, None, third, None, None]
    # a table with one ordering field has no use for them
    one = read_delete_block(with_several(ordering), pa.int64()).ordering
    assert one is not None
    assert one.to_pylist() == [None] * 5 + [12, None]
    pairs = read_delete_block(with_several([[("LongWrapper", 1), ("IntWrapper", 0)]])).ordering
    assert pairs is not None
    assert pairs.to_pylist() == [{"0": 1, "1": 0}]
    none = read_delete_block(with_several([COMMIT_TIME, None]), kind)
    assert none.ordering is None


def test_the_int_zero_is_a_value_of_several_only_in_a_column_of_ints() -> None:
    content = with_several([[("IntWrapper", 0), ("IntWrapper", 0)]])
    found = read_delete_block(content, pa.struct([("0", pa.int32()), ("1", pa.int64())])).ordering
    assert found is not None
    assert found.to_pylist() == [{"0": 0, "1": None}]


def test_many_records_with_several_ordering_values() -> None:
    """More than are looked for at a time, and some longer than that."""
    many = [[("LongWrapper", number), ("StringWrapper", str(number))] for number in range(30_000)]
    many[7] = [("LongWrapper", 1), ("StringWrapper", "y" * (1 << 19))]
    kind = pa.struct([("0", pa.int64()), ("1", pa.string())])
    found = read_delete_block(with_several(many), kind).ordering
    assert found is not None
    assert [tuple((row or {}).values()) for row in found.to_pylist()] == [
        (one[1], two[1]) for one, two in many
    ]


def test_torn_several_ordering_values() -> None:
    content = with_several([[("LongWrapper", 300), ("StringWrapper", "abc")]])
    kind = pa.struct([("0", pa.int64()), ("1", pa.string())])
    for size in range(9, len(content)):
        torn = struct.pack(">ii", 3, size - 8) + content[8:size]
        with pytest.raises(TableError):
            read_delete_block(torn, kind)
