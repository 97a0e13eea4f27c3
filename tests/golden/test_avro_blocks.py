"""The batch codec over every Avro block of the golden data tables; fastavro is the oracle."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.codec.arrow_avro import decode_records, encode_records
from hoodie.format.log_block import BlockType
from hoodie.format.log_file import LogFileReader
from hoodie.format.schema import from_avro
from hoodie.storage.local import LocalStorage
from tests.unit.codec.avro_cases import decode_one_by_one, raw_rows


def _blocks(golden_tables: Path) -> Iterator[tuple[str, int, bytes]]:
    """(schema, count, records) of every block."""
    for path in sorted(golden_tables.glob("0.15.0-v6/*/table/**/*.log.*")):
        if ".hoodie" in path.parts or path.suffix == ".crc":
            continue
        with LogFileReader(LocalStorage(), str(path)) as reader:
            for block in reader.blocks():
                if block.type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
                    content = reader.content(block)
                    version, count = struct.unpack_from(">ii", content)
                    assert (version, block.schema_text is not None) == (3, True)
                    yield str(block.schema_text), count, content[8:]


@pytest.mark.full
def test_blocks_of_apache_hudi_are_read_and_written_byte_by_byte(golden_tables: Path) -> None:
    blocks = records = 0
    for text, count, data in _blocks(golden_tables):
        rows, schema = decode_records(data, count, text), json.loads(text)
        rows.validate(full=True)
        assert (rows.num_rows, rows.schema) == (count, from_avro(text))
        assert raw_rows(schema, rows) == decode_one_by_one(schema, data)
        assert b"".join(map(bytes, encode_records(rows, text))) == data
        name = rows.column_names[-1]
        assert decode_records(data, count, text, [name]).equals(rows.select([name]))
        blocks, records = blocks + 1, records + count
    assert blocks > 100
    assert records > 1000
