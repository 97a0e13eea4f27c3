"""A table's schema (format.md 3.1): the newest commit's, else the one it was created with."""

from __future__ import annotations

from hoodie.storage import Storage
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata


def schema_text(
    timeline: Timeline, storage: Storage, props: TableProperties, as_of: str | None = None
) -> str | None:
    """Avro JSON, possibly with meta columns; None for a table that nothing was written to yet.

    With `as_of` that of the last commit up to then.
    """
    for instant in reversed(timeline.commits()):
        if as_of is not None and instant.time > as_of:
            continue
        text = CommitMetadata.parse(timeline.read(instant, storage)).schema_text()
        if text:
            return text
    return props.create_schema
