"""What change logs hold, and what they should: the rows before and after a write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.format.log_block import BlockType, HeaderKey
from hoodie.format.log_data import read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage
from tests.support.tables import SMALL_SCHEMA

CDC_NAME = "hoodie.table.cdc.enabled"
CDC: dict[str, Any] = {CDC_NAME: True}
MODE = "hoodie.table.cdc.supplemental.logging.mode"
MODES = ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"]
STORAGE = LocalStorage()


def stats(table: Path, instant: str) -> list[dict[str, Any]]:
    found = [path for path in (table / ".hoodie").iterdir() if path.name.startswith(instant)]
    completed = next(path for path in found if path.suffix in (".commit", ".deltacommit", ".replacecommit"))
    commit = json.loads(completed.read_text())
    return [stat for group in commit["partitionToWriteStats"].values() for stat in group]


def change_blocks(path: Path) -> list[tuple[Mapping[int, str], pa.Table]]:
    with LogFileReader(STORAGE, str(path)) as reader:
        found = [(block, read_data_block(block, reader.content(block))) for block in reader.blocks()]
    assert {block.type for block, _ in found} == {BlockType.CDC_DATA}
    return [(block.headers, rows) for block, rows in found]


def changes(table: Path, instant: str) -> list[dict[str, Any]]:
    """The records of the change logs that a commit names, which are all that are there of its instant."""
    found: list[dict[str, Any]] = []
    named = {path: size for stat in stats(table, instant) for path, size in (stat["cdcStats"] or {}).items()}
    there = {str(path.relative_to(table)) for path in table.rglob(".*.cdc") if f"_{instant}.log" in path.name}
    assert set(named) == there
    for path, size in named.items():
        assert (table / path).stat().st_size == size
        for headers, rows in change_blocks(table / path):
            assert headers[HeaderKey.INSTANT_TIME] == instant
            found += rows.to_pylist()
    return found


def rows_by_key(
    table: Path, schema: pa.Schema = SMALL_SCHEMA, as_of: str | None = None
) -> dict[str, dict[str, Any]]:
    rows = hoodie.read_table(str(table), meta=False, as_of=as_of).select(schema.names).to_pylist()
    return {row["id"]: row for row in rows}


def expected(
    mode: str, instant: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What a write changed."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        op = "i" if old is None else "d" if new is None else "u"
        known = {"op": op, "ts_ms": instant, "record_key": key, "before": old, "after": new}
        names = {
            "OP_KEY_ONLY": ("op", "record_key"),
            "DATA_BEFORE": ("op", "record_key", "before"),
            "DATA_BEFORE_AFTER": ("op", "ts_ms", "before", "after"),
        }[mode]
        found.append({name: known[name] for name in names})
    return found


def ordered(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def key(record: dict[str, Any]) -> str:
        image = record.get("after") or record.get("before") or {}
        return str(record.get("record_key") or image.get("id"))

    return sorted(records, key=key)
