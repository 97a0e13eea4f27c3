"""`hoodie log`: the blocks of one log file, whatever state it is in."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hoodie.cli.output import Answer, grid, rows_grid
from hoodie.cli.rows import unique, values
from hoodie.errors import HoodieError, InputError, TableError
from hoodie.format.log_block import LATER_HEADERS, BlockType, HeaderKey, LogBlock
from hoodie.format.log_data import is_partial, read_data_block, read_delete_block, record_count
from hoodie.format.log_file import LogFileReader
from hoodie.storage import Storage, normalize, storage_for
from hoodie.text import plural, size, visible

#: rows of a block on screen
_SHOWN = 20
#: first bytes of files that are no logs
_OTHERS = {b"PAR1": "a base file (Parquet)", b"ORC": "a base file (ORC)", b"DATABLK*": "an HFile"}
_HEADS = ("offset", "type", "instant", "target", "records", "deletes", "content", "note")


def log(args: argparse.Namespace) -> Answer:
    """Damage is a finding, not an error: what can be read is shown, then where and why the reading ended."""
    path = normalize(args.file)
    storage = storage_for(path)
    _check_kind(storage, path)
    blocks: list[dict[str, Any]] = []
    ended: str | None = None
    with LogFileReader(storage, path) as reader:
        try:
            for block in reader.blocks():
                blocks.append(_described(reader, block, args.records))
        except TableError as error:
            ended = error.message
        document = {
            "path": path,
            "bytes": reader.size,
            "blocks": blocks,
            "corrupt_blocks": sum(block["type"] == BlockType.CORRUPT.name for block in blocks),
            "damage": ended,
        }
    return Answer(document, _text(document))


def _check_kind(storage: Storage, path: str) -> None:
    """Raises InputError for a file that is no log, which has no damage then."""
    begin = storage.read_range(path, 0, 8)
    for magic, what in _OTHERS.items():
        if begin.startswith(magic):
            raise InputError(
                f"{path} is {what}, not a log file; give one of the logs that `hoodie files` lists",
                file=path,
            )


def _described(reader: LogFileReader, block: LogBlock, with_records: bool) -> dict[str, Any]:
    about: dict[str, Any] = {
        "offset": block.offset,
        "bytes": block.length,
        "type": block.type.name,
        "instant": block.instant,
        "target_instant": block.target_instant,
        "compacted_instants": list(block.compacted_instants),
        "changed_columns_only": is_partial(block),
        "content_bytes": block.content_length,
        "headers": {_header_name(key): text for key, text in block.headers.items()},
        "records": None,
        "deletes": None,
        "problem": None,
    }
    if block.type in (BlockType.COMMAND, BlockType.CORRUPT):
        return about
    content = reader.content(block)
    try:
        about["deletes" if block.type is BlockType.DELETE else "records"] = record_count(block, content)
        if with_records:
            about["rows"] = _rows(block, content)
    except HoodieError as error:
        about["problem"] = error.message
    except (ValueError, OverflowError) as error:  # a date that Python has not, a text that is no UTF-8
        about["problem"] = f"its rows can't be shown: {error}"
    return about


def _header_name(key: int) -> str:
    return key.name if isinstance(key, HeaderKey) else LATER_HEADERS.get(key, str(key))


def _rows(block: LogBlock, content: bytes) -> list[dict[str, Any]]:
    if block.type is not BlockType.DELETE:
        rows = read_data_block(block, content, partial=True)
        columns = [values(column) for column in rows.columns]
        names = unique(rows.schema.names)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    deletes = read_delete_block(content)
    ordering = [None] * len(deletes) if deletes.ordering is None else deletes.ordering.to_pylist()
    return [
        {"record_key": key, "partition_path": partition, "ordering_value": value}
        for key, partition, value in zip(
            deletes.keys.to_pylist(), deletes.partitions.to_pylist(), ordering, strict=True
        )
    ]


def _text(document: dict[str, Any]) -> str:
    blocks = document["blocks"]
    lines = [(block["offset"], *_cells(block)) for block in blocks]
    parts = [grid(_HEADS, lines)]
    for block in blocks:
        if "rows" in block:
            parts.append(_rows_text(block))
    note = f"{plural(len(blocks), 'block')}, {size(document['bytes'])}"
    if document["corrupt_blocks"]:
        note += f", {document['corrupt_blocks']} of them corrupt: readers skip them"
    parts.append(note)
    if document["damage"]:
        parts.append(f"reading ends here: {visible(document['damage'])}")
    return "\n\n".join(parts)


def _cells(block: dict[str, Any]) -> Sequence[Any]:
    notes = [block["problem"]] if block["problem"] else []
    if block["changed_columns_only"]:
        notes.append("changed columns only")
    if block["compacted_instants"]:
        notes.append(f"compacts {', '.join(block['compacted_instants'])}")
    return (
        block["type"],
        block["instant"],
        block["target_instant"],
        block["records"],
        block["deletes"],
        size(block["content_bytes"]),
        "; ".join(notes),
    )


def _rows_text(block: dict[str, Any]) -> str:
    rows = block["rows"]
    heads = list(rows[0]) if rows else []
    table = rows_grid(heads, [list(row.values()) for row in rows[:_SHOWN]])
    more = f"\n{_SHOWN} of {len(rows):,} shown; --json prints all" if len(rows) > _SHOWN else ""
    return f"{block['type']} at {block['offset']}\n{table}{more}"
