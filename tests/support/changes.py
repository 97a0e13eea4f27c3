"""Answers of queries of change data, ours and Apache Hudi's, in a form that compares."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.codec.arrow_json import json_objects
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


def replayed(found: Sequence[Changed], keys: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The rows after each commit, as sorted texts, if the changes are applied to nothing; each says rightly
    what there was before. Rows that are gone come first: those of replaced files may be inserted again.
    """
    state: dict[str, list[Image]] = {}
    for time in sorted({row[1] for row in found}):
        for op, _, before, after in sorted(
            (row for row in found if row[1] == time), key=lambda row: "dui".index(row[0])
        ):
            image = before or after or {}
            rows = state.setdefault(str([image.get(name) for name in keys]), [])
            assert (before is None, after is None) == (op == "i", op == "d"), (time, op)
            if before is not None:
                assert before in rows, (time, op, before)
                rows.remove(before)
            if after is not None:
                rows.append(after)
        yield time, _texts(row for rows in state.values() for row in rows)


def images(rows: pa.Table) -> list[str]:
    """The rows of a query, without meta columns, in the form of `replayed`."""
    return _texts(_image(text) for text in json_objects(rows).to_pylist())


def _texts(rows: Iterable[Image]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


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
