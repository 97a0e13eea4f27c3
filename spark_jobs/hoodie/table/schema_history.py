"""The history of a table's columns in `.hoodie/.schema` (format.md 3.10): read, and continued by a write.

Every write of a table of schema-on-read evolution leaves a schemacommit that has the whole history. One
counts when the commit of its instant is completed; the newest that counts is the table's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hoodie.errors import TableError
from hoodie.format.internal_schema import InternalSchema, inherited, parse_history
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline, meta_path

#: folder in `.hoodie`; Apache Hudi makes it for every table
SCHEMA_FOLDER = ".schema"
_NAME = re.compile(r"(\d+)\.schemacommit")


@dataclass(frozen=True)
class SchemaCommit:
    """`text` is the file's content."""

    instant: str
    text: str


def folder(base_path: str) -> str:
    return f"{meta_path(base_path)}/{SCHEMA_FOLDER}"


def newest(timeline: Timeline, storage: Storage) -> SchemaCommit | None:
    """The newest schemacommit that counts; None for a table whose columns are known by name."""
    if not timeline.holds(SCHEMA_FOLDER):
        return None
    names = storage.names(folder(timeline.base_path))
    found = sorted(match.group(1) for match in map(_NAME.fullmatch, names) if match)
    last = next((instant for instant in reversed(found) if timeline.is_committed(instant)), None)
    if last is None:
        return None
    path = f"{folder(timeline.base_path)}/{last}.schemacommit"
    try:
        return SchemaCommit(last, storage.read(path).decode())
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is damaged ({error}); restore it from a copy", path=path) from None


def save(table: Table, instant: str, schema: InternalSchema, history: str) -> str:
    """Leave the schemacommit of the write at `instant`, before its commit; gives what the commit says.

    `history` is the text of the newest one, to which a `schema` of other columns is added. It counts once the
    commit is completed; after a kill before that the next write deletes it.
    """
    text, storage, base_path = history, table.storage, table.base_path
    if parse_history(text)[-1].record != schema.record:
        schema = replace(schema, version=int(instant))
        text = inherited(schema, text)
    place = f"{folder(base_path)}/{instant}.schemacommit"
    storage.sweep_partial(folder(base_path))
    for suffix in (".requested", ".inflight"):
        storage.create(place + suffix, b"")
    storage.create(place, text.encode())
    _clean(storage, table.refresh(), instant)
    return schema.to_json()


def _clean(storage: Storage, timeline: Timeline, instant: str) -> None:
    """Delete schemacommits whose commits are not there; the newest that counts stays: `instant` may fail."""
    known = newest(timeline, storage)
    kept = {item.time for item in timeline.commits()} | {instant, known.instant if known else instant}
    for name in storage.names(folder(timeline.base_path)):
        if "." in name and not name.startswith(".") and name.partition(".")[0] not in kept:
            storage.delete(f"{folder(timeline.base_path)}/{name}")
