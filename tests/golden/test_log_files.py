"""Every log file that Apache Hudi 0.15.0 wrote: walked, decoded, and encoded again to the same bytes."""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.codec.avro import schema_json
from hoodie.errors import TableError
from hoodie.format.log_block import BlockType, HeaderKey, LogBlock, encode_block, rollback_headers
from hoodie.format.log_data import (
    encode_data_block,
    encode_delete_block,
    read_data_block,
    read_delete_block,
    record_count,
)
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import LogFileName
from hoodie.format.schema import from_avro
from hoodie.format.settings import Codec
from hoodie.storage.local import LocalStorage
from hoodie.timeline.time import REQUESTED, InstantTime
from tests.support.rows import assert_same_rows
from tests.unit.log.reference import read_avro, walk

#: tables with log files, and the blocks in them
TABLES = {
    "all_instants": {"AVRO_DATA": 9, "COMMAND": 2},
    "cow_cdc": {"CDC_DATA": 6},
    "idx_rli_mor": {"DELETE": 6},
    "mor_bucket": {"AVRO_DATA": 12, "DELETE": 9},
    "mor_bucket_compacted": {"AVRO_DATA": 12},
    "mor_cdc": {"CDC_DATA": 3, "DELETE": 3},
    "mor_clustered": {"AVRO_DATA": 6},
    "mor_compacted": {"AVRO_DATA": 6, "DELETE": 3},
    "mor_inflight": {"AVRO_DATA": 4},
    "mor_insert_overwrite": {"AVRO_DATA": 3},
    "mor_late_overwrite": {"AVRO_DATA": 9, "DELETE": 3},
    "mor_logcompaction": {"AVRO_DATA": 21},
    "mor_logs": {"AVRO_DATA": 3, "DELETE": 6},
    "mor_parquet_logs": {"PARQUET_DATA": 6, "DELETE": 3},
    "mor_partial_payload": {"AVRO_DATA": 6},
    "mor_pending_compaction": {"AVRO_DATA": 6, "DELETE": 3},
    "mor_rollback": {"AVRO_DATA": 7, "COMMAND": 1},
    "mor_rollback_failed": {"AVRO_DATA": 7, "COMMAND": 1},
    "mor_types_flat": {"AVRO_DATA": 3, "DELETE": 6},
    "sql_mor_merge": {"AVRO_DATA": 4, "DELETE": 1},
}
VERSION = "0.15.0-v6"


def log_files(folder: Path) -> list[Path]:
    """Log files of a table, or of its metadata table."""
    found = [
        path
        for path in sorted(folder.rglob(".*.log.*"))
        if LogFileName.parse(path.name) and ".hoodie" not in path.relative_to(folder).parts
    ]
    assert all(path.stat().st_size for path in found)
    return found


def blocks(folder: Path) -> Iterator[tuple[LogBlock, bytes, bytes]]:
    """(block, its content, all its bytes) of every log file below."""
    for path in log_files(folder):
        data = path.read_bytes()
        with LogFileReader(LocalStorage(), str(path)) as reader:
            for block in reader.blocks():
                yield block, reader.content(block), data[block.offset : block.offset + block.length]


def joined(pieces: Any) -> bytes:
    return b"".join(map(bytes, pieces))


@pytest.mark.parametrize("name", TABLES)
def test_every_block_is_found_and_written_again_to_the_same_bytes(golden_tables: Path, name: str) -> None:
    folder = golden_tables / VERSION / name / "table"
    for path in log_files(folder):
        with LogFileReader(LocalStorage(), str(path)) as reader:
            ours = [(b.type, b.offset, b.length, dict(b.headers), reader.content(b)) for b in reader.blocks()]
        theirs, failed = walk(path.read_bytes())
        assert not failed
        assert ours == [(s.type, s.offset, s.length, s.headers, s.content) for s in theirs]
    found = list(blocks(folder))
    assert Counter(block.type.name for block, _, _ in found) == TABLES[name]
    for block, content, stored in found:
        assert joined(encode_block(block.type, block.headers, content)) == stored


@pytest.mark.parametrize(
    "name", [name for name, kinds in TABLES.items() if "AVRO_DATA" in kinds or "CDC_DATA" in kinds]
)
def test_avro_rows_are_those_of_fastavro_and_become_the_same_bytes(golden_tables: Path, name: str) -> None:
    seen = 0
    for block, content, _ in blocks(golden_tables / VERSION / name / "table"):
        if block.type not in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
            continue
        text = str(block.schema_text)
        rows = read_data_block(block, content)
        expected = read_avro(text, content)
        assert record_count(block, content) == len(expected) == rows.num_rows > 0
        assert rows.schema == from_avro(text)
        assert_same_rows(rows, pa.Table.from_pylist(expected, rows.schema), what=f"{name} at {block.offset}")
        assert joined(encode_data_block(rows, text, BlockType.AVRO_DATA, Codec.ZSTD)) == content
        seen += 1
    assert seen == sum(count for kind, count in TABLES[name].items() if kind in ("AVRO_DATA", "CDC_DATA"))


@pytest.mark.parametrize("name", [name for name, kinds in TABLES.items() if "DELETE" in kinds])
def test_deletes_are_those_of_fastavro_and_become_the_same_bytes(golden_tables: Path, name: str) -> None:
    parsed = fastavro.parse_schema(dict(schema_json("HoodieDeleteRecordList")), named_schemas={})
    seen = 0
    for block, content, _ in blocks(golden_tables / VERSION / name / "table"):
        if block.type is not BlockType.DELETE:
            continue
        datum: Any = fastavro.schemaless_reader(io.BytesIO(content[8:]), parsed, None)
        records = datum["deleteRecordList"]
        deletes = read_delete_block(content)
        assert record_count(block, content) == len(deletes) == len(records) > 0
        assert deletes.keys.to_pylist() == [record["recordKey"] for record in records]
        assert deletes.partitions.to_pylist() == [record["partitionPath"] for record in records]
        ordering = deletes.ordering.to_pylist() if deletes.ordering is not None else [None] * len(records)
        assert [value or 0 for value in ordering] == [record["orderingVal"]["value"] for record in records]
        assert encode_delete_block(deletes) == content
        seen += 1
    assert seen == TABLES[name]["DELETE"]


def test_deletes_have_the_ordering_values_of_their_rows(golden_tables: Path) -> None:
    """Deletes by key have none, rows that were marked as deleted have theirs."""
    kinds = Counter(
        type(value)
        for block, content, _ in blocks(golden_tables / VERSION / "mor_logs" / "table")
        if block.type is BlockType.DELETE
        for value in (read_delete_block(content, pa.int64()).ordering or pa.nulls(5)).to_pylist()
    )
    assert kinds == {int: 10, type(None): 15}


def physical_types(file: pq.ParquetFile) -> list[str]:
    return [file.schema.column(number).physical_type for number in range(len(file.schema))]


def test_parquet_blocks_are_whole_files(golden_tables: Path) -> None:
    seen = 0
    for block, content, _ in blocks(golden_tables / VERSION / "mor_parquet_logs" / "table"):
        if block.type is not BlockType.PARQUET_DATA:
            continue
        rows = read_data_block(block, content)
        expected = pq.read_table(pa.BufferReader(content)).replace_schema_metadata()
        assert rows.equals(expected)
        assert record_count(block, content) == rows.num_rows > 0
        assert rows.column_names == from_avro(str(block.schema_text)).names
        # the pages of Apache Hudi have checksums, so damage in them is seen
        place = len(content) // 4
        with pytest.raises(TableError, match="PARQUET_DATA block"):
            read_data_block(block, content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        again = joined(encode_data_block(rows, str(block.schema_text), BlockType.PARQUET_DATA, Codec.GZIP))
        assert read_data_block(block, again).equals(rows)
        ours, theirs = (pq.ParquetFile(pa.BufferReader(data)) for data in (again, content))
        assert ours.metadata.metadata == theirs.metadata.metadata
        assert physical_types(ours) == physical_types(theirs)
        seen += 1
    assert seen == 6


@pytest.mark.parametrize("name", ["all_instants", "mor_rollback", "mor_rollback_failed"])
def test_rollback_blocks(golden_tables: Path, name: str) -> None:
    for block, content, stored in blocks(golden_tables / VERSION / name / "table"):
        if block.type is BlockType.COMMAND:
            assert content == b""
            assert block.target_instant is not None
            assert block.instant is not None
            assert REQUESTED.before(block.target_instant, block.instant)
            assert dict(block.headers) == rollback_headers(block.instant, InstantTime(block.target_instant))
            assert len(stored) == 105


def test_blocks_of_log_compaction_name_what_they_replace(golden_tables: Path) -> None:
    folder = golden_tables / VERSION / "mor_logcompaction" / "table"
    found = [block for block, _, _ in blocks(folder)]
    compacted = [block for block in found if block.compacted_instants]
    assert len(compacted) == 3
    written = {block.instant for block in found}
    for block in compacted:
        assert len(block.compacted_instants) > 1
        assert set(block.compacted_instants) < written
        assert block.headers[HeaderKey.COMPACTED_BLOCK_TIMES] == ",".join(block.compacted_instants)


def test_blocks_of_metadata_tables_are_read(golden_tables: Path) -> None:
    """Their HFiles hold records, of which the key is that of the cell."""
    kinds: Counter[str] = Counter()
    for folder in sorted((golden_tables / VERSION).glob("*/table/.hoodie/metadata")):
        for block, content, stored in blocks(folder):
            kinds[block.type.name] += 1
            assert joined(encode_block(block.type, block.headers, content)) == stored
            if block.type is BlockType.HFILE_DATA and kinds[block.type.name] % 7:
                assert record_count(block, content)
            elif block.type is BlockType.HFILE_DATA:
                rows = read_data_block(block, content, columns=["key", "type", "filesystemMetadata"])
                keys: list[Any] = rows["key"].to_pylist()
                assert set(rows["type"].to_pylist()) <= {1, 2, 3, 4, 5}
                assert record_count(block, content) == len(keys) > 0
                assert keys == sorted(keys)
                assert all(keys)
            elif block.type is BlockType.DELETE:
                assert encode_delete_block(read_delete_block(content)) == content
    assert kinds == {"HFILE_DATA": 344, "DELETE": 81, "COMMAND": 6}


def test_archived_timelines_are_log_files_too(golden_tables: Path) -> None:
    """Their blocks have a schema and no instant."""
    seen = 0
    for path in sorted((golden_tables / VERSION).glob("*/table/.hoodie/archived/.commits_.archive.*")):
        if path.suffix == ".crc":
            continue
        with LogFileReader(LocalStorage(), str(path)) as reader:
            for block in reader.blocks():
                assert (block.type, block.instant) == (BlockType.AVRO_DATA, None)
                _, count = struct.unpack_from(">ii", reader.content(block))
                assert record_count(block, reader.content(block)) == count > 0
                seen += 1
    assert seen > 0
