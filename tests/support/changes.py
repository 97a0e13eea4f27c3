"""Answers of queries of change data, ours and Apache Hudi's, in a form that compares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.format.log_block import BlockType, HeaderKey
from hoodie.format.log_data import encode_data_block
from hoodie.format.log_file import LogFileWriter
from hoodie.format.settings import Codec
from hoodie.storage.local import LocalStorage
from hoodie.table import properties

FORMAT = "hoodie.datasource.query.incremental.format"
Image = dict[str, Any] | None
#: op, instant, row before, row after
Changed = tuple[str, str, Image, Image]


def ask(path: str, begin: str = "earliest", end: str | None = None, **more: Any) -> pa.Table:
    more["options"] = {FORMAT: "cdc", **more.get("options", {})}
    found: pa.Table = hoodie.read_table(path, query="incremental", begin=begin, end=end, **more)
    return found


def keeps_changes(path: Path) -> None:
    """Says of a table what Apache Hudi says of one that it makes with a change log."""
    properties.update(LocalStorage(), str(path), {properties.CDC_ENABLED: "true"})


def changes(rows: pa.Table) -> list[Changed]:
    """Without what Hudi 0.15.0 has in some images only: meta columns, nulls, the text null for no image."""
    found = [
        (row["op"], row["ts_ms"], _image(row["before"]), _image(row["after"])) for row in rows.to_pylist()
    ]
    return sorted(found, key=lambda row: (row[1], row[0], json.dumps(row[2:], sort_keys=True)))


def write_change_log(log: Path, records: pa.Table, schema: str, instant: str) -> int:
    """Replaces a `.cdc` file by one of these records; returns its bytes."""
    log.unlink(missing_ok=True)
    writer = LogFileWriter(LocalStorage().output(str(log)))
    headers: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
    content = encode_data_block(records, schema, BlockType.CDC_DATA, Codec.UNCOMPRESSED)
    writer.append(BlockType.CDC_DATA, headers, content)
    return writer.close()


def _image(text: str | None) -> Image:
    value = None if text is None else json.loads(text)
    if value is None:
        return None
    return {
        name: item for name, item in value.items() if not name.startswith("_hoodie_") and item is not None
    }
