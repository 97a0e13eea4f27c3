"""HFiles of ours, read by Apache Hudi: by HBase's reader in 0.15.0, by its own in 1.2.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.format.bloom import BloomFilter
from hoodie.format.hfile_block import Checksum, Compression
from hoodie.format.hfile_records import write_rows
from hoodie.format.hfile_writer import HFileOptions
from hoodie.storage.local import LocalStorage
from tests.support.hudi_client import HudiServer

pytestmark = [pytest.mark.interop, pytest.mark.full]

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "key", "type": "string"}, {"name": "n", "type": ["null", "long"], "default": None}],
}
COUNT = 3000
#: the last has leaf and intermediate indexes
OPTIONS = {
    "plain": HFileOptions(compression=Compression.NONE, block_bytes=4096),
    "crc32": HFileOptions(checksum=Checksum.CRC32, block_bytes=4096),
    "unchecked": HFileOptions(checksum=Checksum.UNCHECKED),
    "levels": HFileOptions(block_bytes=2048, index_bytes=256),
}


def row(number: int) -> dict[str, Any]:
    return {"key": f"key \u00e9 {number:05d}", "n": None if number % 7 == 0 else number * 1000}


def judged(server: HudiServer, path: Path, options: HFileOptions) -> None:
    rows = pa.Table.from_pylist([row(number) for number in range(COUNT)])
    with LocalStorage().output(str(path)) as sink:
        size = write_rows(sink, rows, json.dumps(SCHEMA), options, BloomFilter.create(COUNT))
        sink.commit()
    assert size == path.stat().st_size
    wanted = [row(number)["key"] for number in (0, 1, 1234, COUNT - 1)]
    found = server.hfile(path, [*wanted[:2], "key \u00e9 00001x", *wanted[2:], "z"], ["key \u00e9 0123", "x"])
    assert found["count"] == COUNT
    assert found["ends"] == [row(0)["key"], row(COUNT - 1)["key"]]
    assert set(wanted) <= set(found["bloom"])
    assert "z" not in found["bloom"]
    assert found["all"] == [row(number) for number in range(COUNT)]
    assert found["keys"] == [row(number) for number in (0, 1, 1234, COUNT - 1)]
    assert found["prefixes"] == [row(number) for number in range(1230, 1240)]


@pytest.mark.parametrize("name", OPTIONS)
def test_hbase_reads_them(hudi_015: HudiServer, tmp_path: Path, name: str) -> None:
    judged(hudi_015, tmp_path / "f-0_0-0-0_001.hfile", OPTIONS[name])


@pytest.mark.parametrize("name", OPTIONS)
def test_the_native_reader_reads_them(hudi_12: HudiServer, tmp_path: Path, name: str) -> None:
    judged(hudi_12, tmp_path / "f-0_0-0-0_001.hfile", OPTIONS[name])
