"""How many rows of a Parquet file are decoded at a time, and which files are refused before they are."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.errors import TableError
from hoodie.format.base_file import BaseFileReader
from hoodie.format.log_block import BlockType, LogBlock
from hoodie.format.log_data import read_data_block, record_count
from hoodie.format.parquet_guard import BATCH_BYTES, Footer, Pages
from hoodie.storage import storage_for
from tests.security import bombs
from tests.support.tiers import full_but

MOST = 1 << 16
CODECS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]


def pages(data: bytes) -> Pages:
    return Pages(Footer(pa.BufferReader(data)))


def stored(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, **options)
    return sink.getvalue()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", full_but({"2.0"}, ["1.0", "2.0"]))
def test_usual_columns_are_decoded_in_large_batches(codec: str, version: Any) -> None:
    texts = [f"text {number % 1000:020d}" for number in range(30_000)]
    table = pa.table({"a": texts, "b": range(30_000), "l": [[text] for text in texts], "n": [None] * 30_000})
    data = stored(table, compression=codec, data_page_version=version, row_group_size=12_000)
    assert pages(data).batch_rows(None, MOST) == MOST
    assert pages(data).size("a") > 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_long_text_of_a_dictionary_makes_batches_small(codec: str) -> None:
    table = pa.table({"a": bombs.repeated("x" * 100_000, 10_000), "b": range(10_000)})
    data = stored(table, compression=codec, dictionary_pagesize_limit=1 << 20)
    rows = pages(data).batch_rows(None, MOST)
    assert BATCH_BYTES / 100_200 <= rows + 1 <= BATCH_BYTES / 100_000 + 1
    assert pages(data).batch_rows(["b"], MOST) == MOST


def test_texts_that_share_their_beginnings_make_batches_small() -> None:
    table = pa.table({"a": ["x" * 20_000] * 3_000})
    data = stored(table, use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
    assert pages(data).batch_rows(None, MOST) * 20_000 <= BATCH_BYTES


def test_what_is_no_footer() -> None:
    data = stored(pa.table({"a": [1]}))
    for wrong in (b"", b"PAR1", data[:-4], data[:-1], data[:-8] + struct.pack("<I", 1 << 31) + b"PAR1"):
        with pytest.raises(ValueError, match="Parquet file"):
            Footer(pa.BufferReader(wrong))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bombs.nested_footer(100), "more than 64 levels"),
        (bombs.nested_footer(200_000), "footer is damaged"),
        (bombs.parquet(pa.table({"a": bombs.lists_of("x" * 1024, 1 << 20)})), "HOODIE_MAX_BLOCK_BYTES"),
        (bombs.parquet(pa.table({"_hoodie_record_key": bombs.repeated("k", 1 << 20)})), "rows in .* bytes"),
    ],
    ids=["levels", "many levels", "lists", "rows"],
)
def test_base_files_that_are_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "f-0_0-0-0_20240101000000000.parquet"
    path.write_bytes(data)
    with (
        pytest.raises(TableError, match=why),
        BaseFileReader(storage_for(str(tmp_path)), str(path)) as reader,
    ):
        list(reader.batches())


def test_a_base_file_of_one_long_text_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "f-0_0-0-0_20240101000000000.parquet"
    path.write_bytes(bombs.parquet(pa.table({"a": bombs.repeated("x" * (1 << 20), 600)})))
    with BaseFileReader(storage_for(str(tmp_path)), str(path)) as reader:
        batches = reader.batches()
        assert next(batches).nbytes <= BATCH_BYTES
        assert 2 * next(batches).num_rows < 600


@pytest.mark.parametrize(
    ("rows", "length"), [(1 << 12, 1 << 20), (1 << 22, 200)], ids=["long texts", "many rows"]
)
def test_a_log_block_that_becomes_too_large_is_refused(rows: int, length: int) -> None:
    data = bombs.parquet(pa.table({"a": bombs.repeated("x" * length, rows)}))
    block = LogBlock(BlockType.PARQUET_DATA, {}, 1, 0, len(data), 0, len(data))
    with pytest.raises(TableError, match="HOODIE_MAX_BLOCK_BYTES"):
        read_data_block(block, data)
    assert record_count(block, data) == rows
