"""HFiles of metadata tables that Apache Hudi wrote."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path

from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_block import BLOOM_FILTER
from hoodie.format.hfile_records import cells_of, decode_rows, schema_of
from hoodie.format.hfile_writer import HFileOptions, HFileWriter
from hoodie.format.log_block import BlockType
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage
from tests.unit.test_hfile import cells

STORAGE = LocalStorage()
CREATED = b"hfile.CREATE_TIME_TS"


def in_logs(golden_tables: Path) -> Iterator[bytes]:
    """The HFiles in the log blocks of the tables."""
    for path in sorted(golden_tables.glob("*/mdt_*/table/.hoodie/metadata/*/.[!.]*.log.*")):
        with LogFileReader(STORAGE, str(path)) as reader:
            for block in reader.blocks():
                if block.type is BlockType.HFILE_DATA:
                    yield reader.content(block)


def test_metadata_tables(golden_tables: Path) -> None:
    files = list(golden_tables.rglob("*.hfile"))
    assert files
    for file in files:
        with HFileReader.open(STORAGE, str(file)) as reader:
            found = cells(reader.scan())
            assert len(found) == reader.entries
            assert b"HoodieMetadataRecord" in reader.info[b"schema"]
            assert cells(reader.get([key for key, _ in found] + [b"", b"\xff"])) == found
            bloom = reader.meta(b"bloomFilter")
            assert bloom is None or len(bloom) > 100
            assert reader.meta(b"other") is None
            rows = decode_rows(reader.scan(), schema_of(reader), ["key", "type"])
            assert rows["key"].to_pylist() == [key.decode() for key, _ in found]


def test_cells_written_again_are_the_same_file_to_the_byte(golden_tables: Path) -> None:
    """HBase wrote them, with checksums of its own and gzip; all have one data block."""
    files = (path.read_bytes() for path in sorted(golden_tables.glob("*/mdt_*/**/*.hfile")))
    count = 0
    for data in itertools.chain(files, in_logs(golden_tables)):
        with HFileReader.of_bytes(data, "golden") as reader:
            sink = io.BytesIO()
            created = int.from_bytes(reader.info[CREATED], "big")
            writer = HFileWriter(sink, HFileOptions(created_ms=created, level=6))
            for batch in reader.scan():
                writer.append(batch.column(0), batch.column(1))
            bloom = reader.meta(BLOOM_FILTER)
            if bloom is not None:
                writer.append_meta(BLOOM_FILTER, bloom)
            assert writer.finish(reader.info) == len(data)
            assert sink.getvalue() == data
            count += 1
    assert count > 50


def test_records_written_again_are_the_same_cells(golden_tables: Path) -> None:
    """Those of all kinds, statistics among them, whose values are of many types."""
    files = sorted(golden_tables.glob("*/mdt_full_cow/**/*.hfile"))
    for data in (*(path.read_bytes() for path in files), *in_logs(golden_tables)):
        with HFileReader.of_bytes(data, "golden") as reader:
            text, found = schema_of(reader), cells(reader.scan())
            again = cells_of(decode_rows(reader.scan(), text), text)
            assert list(zip(*(column.to_pylist() for column in again.columns), strict=True)) == found
