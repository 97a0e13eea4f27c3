"""The record positions in all log blocks of Apache Hudi 1.x: encoded again to the same texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hoodie.format.log_block import POSITIONS_BASE, RECORD_POSITIONS, LogBlock
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import LogFileName
from hoodie.format.record_positions import encode_positions
from hoodie.storage.local import LocalStorage
from tests.unit.log.reference import positions_of


def blocks(folder: Path) -> Iterator[LogBlock]:
    """Those with positions, in all log files of all tables."""
    for path in sorted(folder.rglob(".*.log.*")):
        if LogFileName.parse(path.name) is None or ".hoodie" in path.parts:
            continue
        with LogFileReader(LocalStorage(), str(path)) as reader:
            yield from (block for block in reader.blocks() if RECORD_POSITIONS in block.headers)


def test_headers_of_apache_hudi(later_tables: Path, later_more: Path) -> None:
    seen = Counter[int]()
    for folder in (later_tables, later_more):
        for block in blocks(folder):
            text = block.headers[RECORD_POSITIONS]
            positions = positions_of(text)
            assert encode_positions(np.array(positions, np.int32)) == text
            assert POSITIONS_BASE in block.headers
            seen[len(positions)] += 1
    assert seen.total() > 200
    assert len(seen) > 10
