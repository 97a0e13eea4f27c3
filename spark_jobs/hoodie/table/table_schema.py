"""A table's schema (format.md 3.1): the newest commit's, else the one it was created with."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hoodie.errors import TableError
from hoodie.storage import Storage
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline, meta_path
from hoodie.timeline.commit import LATEST_SCHEMA_KEY, CommitMetadata

#: folder in `.hoodie` of the history of a table's columns; Apache Hudi makes it for every table
SCHEMA_FOLDER = ".schema"


@dataclass(frozen=True)
class TableSchema:
    """`avro` is JSON, possibly with meta columns; None for a table that nothing was written to yet.

    `version`: files of earlier instants may know columns by other names (schema-on-read evolution, format.md
    3.10); "" where all files know them by the names that they have now.
    """

    avro: str | None
    version: str = ""

    @classmethod
    def load(
        cls, timeline: Timeline, storage: Storage, props: TableProperties, as_of: str | None = None
    ) -> TableSchema:
        """The newest; with `as_of` that of the last commit up to then."""
        for instant in reversed(timeline.commits()):
            if as_of is not None and instant.time > as_of:
                continue
            commit = CommitMetadata.parse(timeline.read(instant, storage))
            if text := commit.schema_text():
                return cls(text, _version(timeline, storage, commit.extra_metadata.get(LATEST_SCHEMA_KEY)))
        return cls(props.create_schema)

    def refuse_version(self, base_path: str, verb: str) -> None:
        """Raises TableError for a table whose files know columns by id."""
        if self.version:
            raise TableError(
                f"the columns of {base_path} were changed by schema-on-read evolution "
                "(hoodie.schema.on.read.enable), so files know them by id; that is not supported here yet: "
                f"{verb} it with Apache Hudi",
                path=base_path,
            )


def _version(timeline: Timeline, storage: Storage, latest: str | None) -> str:
    if latest:
        return str(json.loads(latest).get("version_id") or timeline.last_time)
    if not timeline.holds(SCHEMA_FOLDER):
        return ""
    names = storage.names(f"{meta_path(timeline.base_path)}/{SCHEMA_FOLDER}")
    history = any(name.endswith(".schemacommit") and not name.startswith(".") for name in names)
    return str(timeline.last_time) if history else ""
