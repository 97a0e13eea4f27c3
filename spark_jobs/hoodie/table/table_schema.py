"""A table's current schema (format.md 3.1): the newest commit's, else the one it was created with."""

from __future__ import annotations

from hoodie.storage import Storage
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata


def schema_text(timeline: Timeline, storage: Storage, props: TableProperties) -> str | None:
    """Avro JSON, possibly with meta columns; None for a table that nothing was written to yet."""
    for instant in reversed(timeline.commits()):
        text = CommitMetadata.parse(timeline.read(instant, storage)).schema_text()
        if text:
            return text
    return props.create_schema
