"""Content of data blocks: Avro records of every version, Parquet, and what is not read."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.codec.arrow_avro import decode_values
from hoodie.errors import TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_cells import pairs
from hoodie.format.log_block import BlockType, LogBlock
from hoodie.format.log_data import encode_data_block, find_rows, read_data_block, record_count
from hoodie.format.schema import to_avro_text
from hoodie.format.settings import Codec
from tests.support.arrow import arrow_schema
from tests.unit.log.reference import avro_content, avro_records

TABLE = arrow_schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
ROWS: list[dict[str, Any]] = [{"id": 1, "name": "a", "price": 0.5}, {"id": 2, "name": None, "price": None}]
TEXT = to_avro_text(TABLE, "t")
SCHEMA: dict[str, Any] = json.loads(TEXT)


def block(type_: BlockType, headers: dict[int, str], content: bytes, version: int = 1) -> LogBlock:
    return LogBlock(type_, headers, version, 0, len(content), 0, len(content))


def avro(content: bytes, text: str = TEXT, **more: Any) -> LogBlock:
    return block(BlockType.AVRO_DATA, {0: "001", 2: text}, content, **more)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("type_", [BlockType.AVRO_DATA, BlockType.CDC_DATA])
def test_avro_of_every_content_version(type_: BlockType, version: int) -> None:
    content = avro_content(SCHEMA, ROWS, content_version=version)
    item = block(type_, {2: TEXT}, content)
    rows = read_data_block(item, content, TABLE)
    assert rows.schema == TABLE
    assert rows.to_pylist() == ROWS
    assert record_count(item, content) == 2


def test_what_is_encoded_is_content_version_3() -> None:
    rows = pa.Table.from_pylist(ROWS, TABLE)
    pieces = encode_data_block(rows, TEXT, BlockType.AVRO_DATA, Codec.ZSTD)
    assert b"".join(map(bytes, pieces)) == avro_content(SCHEMA, ROWS)


def test_a_block_without_rows() -> None:
    content = avro_content(SCHEMA, [])
    assert (
        b"".join(map(bytes, encode_data_block(TABLE.empty_table(), TEXT, BlockType.AVRO_DATA, Codec.ZSTD)))
        == content
    )
    assert read_data_block(avro(content), content, TABLE).to_pylist() == []


def test_log_format_version_0_brings_its_schema_along() -> None:
    packed = zlib.compress(TEXT.encode())
    content = struct.pack(">i", len(packed)) + packed + struct.pack(">i", 2) + avro_records(SCHEMA, ROWS)
    item = block(BlockType.AVRO_DATA, {}, content, version=0)
    assert read_data_block(item, content, TABLE).to_pylist() == ROWS
    assert record_count(item, content) == 2


@pytest.mark.parametrize("codec", list(Codec))
def test_parquet_is_a_whole_file_with_the_footers_of_apache_hudi(codec: Codec) -> None:
    rows = pa.Table.from_pylist(ROWS, TABLE)
    content = b"".join(map(bytes, encode_data_block(rows, TEXT, BlockType.PARQUET_DATA, codec)))
    metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
    assert metadata.metadata == {b"parquet.avro.schema": TEXT.encode(), b"writer.model.name": b"avro"}
    assert metadata.num_row_groups == 1
    item = block(BlockType.PARQUET_DATA, {2: TEXT}, content)
    assert read_data_block(item, content, TABLE).to_pylist() == ROWS
    assert record_count(item, content) == 2


def contents() -> list[Any]:
    rows = pa.Table.from_pylist(ROWS, TABLE)
    parquet = b"".join(map(bytes, encode_data_block(rows, TEXT, BlockType.PARQUET_DATA, Codec.ZSTD)))
    made = avro_content(SCHEMA, ROWS)
    return [
        pytest.param(avro(made), made, id="avro"),
        pytest.param(block(BlockType.PARQUET_DATA, {2: TEXT}, parquet), parquet, id="parquet"),
    ]


@pytest.mark.parametrize(("item", "content"), contents())
def test_rows_come_in_the_types_of_the_table(item: LogBlock, content: bytes) -> None:
    """Columns that came later are null, those that were dropped are left out, narrow types are widened."""
    now = arrow_schema([("price", pa.string()), ("id", pa.float64()), ("tags", pa.list_(pa.string()))])
    rows = read_data_block(item, content, now)
    assert rows.schema == now
    assert rows.to_pylist() == [
        {"price": "0.5", "id": 1.0, "tags": None},
        {"price": None, "id": 2.0, "tags": None},
    ]


@pytest.mark.parametrize(("item", "content"), contents())
def test_columns_are_picked_and_ordered(item: LogBlock, content: bytes) -> None:
    now = pa.schema([*TABLE, ("later", pa.int32())])
    rows = read_data_block(item, content, now, ["name", "id"])
    assert (rows.column_names, rows.to_pylist()) == (
        ["name", "id"],
        [{"name": "a", "id": 1}, {"name": None, "id": 2}],
    )
    assert read_data_block(item, content, now, ["later"]).to_pylist() == [{"later": None}, {"later": None}]
    assert read_data_block(item, content, columns=["price"]).schema == pa.schema([("price", pa.float64())])


@pytest.mark.parametrize(("item", "content"), contents())
def test_rows_that_cannot_become_the_tables_are_a_table_error(item: LogBlock, content: bytes) -> None:
    with pytest.raises(TableError, match=r"column name.*can't be widened to int"):
        read_data_block(item, content, pa.schema([("name", pa.int32())]))


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (BlockType.HFILE_DATA, "HFile"),
        (BlockType.DELETE, "holds no rows"),
        (BlockType.CORRUPT, "holds no rows"),
    ],
)
def test_blocks_without_readable_rows_say_so(type_: BlockType, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_data_block(block(type_, {0: "001", 2: TEXT}, b"x"), b"x", TABLE)


def test_rows_that_hold_changed_columns_only_are_refused() -> None:
    """They would blank the columns they lack."""
    content = avro_content(SCHEMA, ROWS)
    with pytest.raises(TableError, match="changed columns only"):
        read_data_block(block(BlockType.AVRO_DATA, {2: TEXT, 7: "true"}, content), content, TABLE)
    assert (
        len(read_data_block(block(BlockType.AVRO_DATA, {2: TEXT, 7: "false"}, content), content, TABLE)) == 2
    )


GOOD = avro_content(SCHEMA, ROWS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GOOD[:3],
        GOOD[:7],
        GOOD[:-1],
        GOOD + b"\x00",
        struct.pack(">i", 4) + GOOD[4:],
        struct.pack(">i", 0) + GOOD[4:],
        struct.pack(">ii", 3, -1) + GOOD[8:],
        struct.pack(">ii", 3, 1) + GOOD[8:],
        struct.pack(">ii", 3, 3) + GOOD[8:],
        struct.pack(">ii", 3, 2**31 - 1) + GOOD[8:],
        struct.pack(">iii", 3, 2, 2**31 - 1) + GOOD[12:],
        struct.pack(">iii", 3, 2, -1) + GOOD[12:],
    ],
)
def test_damaged_avro_is_a_table_error(content: bytes) -> None:
    with pytest.raises(TableError):
        read_data_block(avro(content), content, TABLE)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"string"', '{"type":"record"}', '{"type":"record","name":"r","fields":[{"name":"a"}]}',
     '{"type":"record","name":"r","fields":[{"name":"a","type":"lonf"}]}',
     '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f","logicalType":"decimal"}}]}',
     "[" * 100_000],
)  # fmt: skip
def test_a_damaged_schema_is_a_table_error(text: str) -> None:
    with pytest.raises(TableError):
        read_data_block(avro(GOOD, text), GOOD, TABLE)


def test_a_block_without_schema_is_a_table_error() -> None:
    with pytest.raises(TableError, match="no schema"):
        read_data_block(block(BlockType.AVRO_DATA, {0: "001"}, GOOD), GOOD, TABLE)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x00", "a schema of -1 bytes"),
        (struct.pack(">i", 2**31 - 1), "a schema of 2147483647 bytes"),
        (struct.pack(">i", -1), "a schema of -1 bytes"),
        (struct.pack(">i", 3) + b"abc", "its schema: .* incorrect header check"),
        (struct.pack(">i", 11) + zlib.compress(b"\xff\xff\xff"), "its schema: .* invalid start byte"),
    ],
)
def test_damaged_content_of_log_format_version_0_is_a_table_error(content: bytes, why: str) -> None:
    with pytest.raises(TableError, match=rf"AVRO_DATA block at byte 0 can't be read \({why}\)"):
        read_data_block(block(BlockType.AVRO_DATA, {}, content, version=0), content, TABLE)


def test_a_packed_schema_does_not_fill_the_memory() -> None:
    packed = zlib.compress(bytes(1 << 26), 1)
    content = struct.pack(">i", len(packed)) + packed + struct.pack(">i", 0)
    tracemalloc.start()
    try:
        with pytest.raises(TableError):
            read_data_block(block(BlockType.AVRO_DATA, {}, content, version=0), content, TABLE)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_parquet_with_a_wrong_byte_in_a_page_is_a_table_error() -> None:
    """Apache Hudi's pages carry checksums, as do ours."""
    rows = pa.table({"id": list(range(1000))})
    content = b"".join(map(bytes, encode_data_block(rows, "", BlockType.PARQUET_DATA, Codec.UNCOMPRESSED)))
    place = content.index(struct.pack("<q", 500))
    damaged = content[:place] + b"\xff" + content[place + 1 :]
    item = block(BlockType.PARQUET_DATA, {2: ""}, damaged)
    with pytest.raises(TableError, match="PARQUET_DATA block"):
        read_data_block(item, damaged)


def test_an_hfile_is_compressed_with_gzip_or_not_at_all() -> None:
    with pytest.raises(ValueError, match="HFILE_DATA"):
        encode_data_block(TABLE.empty_table(), TEXT, BlockType.HFILE_DATA, Codec.ZSTD)


KEYED = arrow_schema([("key", pa.string()), ("n", pa.int64())])


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.UNCOMPRESSED])
def test_rows_of_an_hfile_are_sorted_and_looked_up_by_their_keys(codec: Codec) -> None:
    """Rows of one key keep their order. The key is in the cell, the value has an empty text for it."""
    texts = ["b", "\u00e9", "a", "b", "\U0001f600", "ab"]
    rows = pa.table({"key": texts, "n": range(6)}, KEYED)
    text = to_avro_text(KEYED, "t")
    content = b"".join(map(bytes, encode_data_block(rows, text, BlockType.HFILE_DATA, codec)))
    item = block(BlockType.HFILE_DATA, {2: text}, content)
    expected = [("a", 2), ("ab", 5), ("b", 0), ("b", 3), ("\u00e9", 1), ("\U0001f600", 4)]
    found = read_data_block(item, content, KEYED)
    assert list(zip(*found.to_pydict().values(), strict=True)) == expected
    assert record_count(item, content) == 6
    assert read_data_block(item, content, columns=["n"]).to_pydict() == {"n": [n for _, n in expected]}
    some = find_rows(item, content, lambda reader: reader.get([b"b", b"a", b"c"]), ["n"])
    assert some.to_pydict() == {"n": [2, 0, 3]}
    with HFileReader.of_bytes(content, "block") as reader:
        stored = decode_values(pa.array([value for _, value in pairs(reader.scan())], pa.binary()), text)
        assert stored["key"].to_pylist() == [""] * 6


def test_a_damaged_hfile_names_the_block() -> None:
    rows = pa.table({"key": ["a", "b"], "n": [1, 2]}, KEYED)
    text = to_avro_text(KEYED, "t")
    content = b"".join(map(bytes, encode_data_block(rows, text, BlockType.HFILE_DATA, Codec.UNCOMPRESSED)))
    item = block(BlockType.HFILE_DATA, {2: text}, content)
    torn = content[:40] + b"\xff" + content[41:]
    with pytest.raises(TableError, match=r"HFILE_DATA block at byte 0.*checksum of the block at 0"):
        read_data_block(item, torn)
    with pytest.raises(TableError, match=r"HFILE_DATA block at byte 0.*checksum of the block at 0"):
        find_rows(item, torn, HFileReader.scan)
    with pytest.raises(TableError, match=r"HFILE_DATA block.*schema is no JSON"):
        read_data_block(block(BlockType.HFILE_DATA, {2: "{"}, content), content)
    unknown = block(
        BlockType.HFILE_DATA, {2: to_avro_text(arrow_schema([("key", pa.int64())]), "t")}, content
    )
    with pytest.raises(TableError, match="damaged"):
        read_data_block(unknown, content)
