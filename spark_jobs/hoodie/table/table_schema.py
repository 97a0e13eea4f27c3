"""A table's schema (format.md 3.1), and the history of its columns in `.hoodie/.schema` (format.md 3.10).

The schema is the newest commit's, else the one with which the table was created. Every write of a table of
schema-on-read evolution leaves a schemacommit with the whole history. A schemacommit counts when the commit
of its instant is completed. The table has the newest that counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hoodie.errors import TableError
from hoodie.format.internal_schema import Evolution, InternalSchema, inherited, parse_history, schema_at
from hoodie.format.meta_fields import with_meta, without_meta
from hoodie.format.schema import from_avro
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties
from hoodie.timeline.active import Timeline, meta_path
from hoodie.timeline.commit import LATEST_SCHEMA_KEY
from hoodie.timeline.time import InstantTime

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


@dataclass(frozen=True)
class TableSchema:
    """`avro` is JSON, possibly with meta columns; None for a table that nothing was written to yet.

    `evolution`: the columns by id, where the table is one of schema-on-read evolution; `history` is then the
    text of its schemacommit.
    """

    avro: str | None
    evolution: Evolution | None = None
    history: str = ""

    @classmethod
    def load(
        cls, timeline: Timeline, storage: Storage, props: TableProperties, as_of: InstantTime | None = None
    ) -> TableSchema:
        """The newest; with `as_of` that of the last commit up to then. Raises TableError for columns that are
        known by ids that no file contains.
        """
        for instant in reversed(timeline.commits()):
            if as_of is not None and instant.is_after(as_of):
                continue
            commit = timeline.head(instant, storage)
            if text := commit.schema_text():
                latest = commit.extra_metadata.get(LATEST_SCHEMA_KEY)
                found = _evolved(timeline, storage, text, latest, instant.time)
                if found.evolution is not None and props.get(BOOTSTRAP_BASE_PATH):
                    raise TableError(
                        f"table {props.name!r} was bootstrapped ({BOOTSTRAP_BASE_PATH}) and its columns were "
                        "changed by schema-on-read evolution; both together are not supported: use Apache "
                        "Hudi for it",
                        table=props.name,
                    )
                return found
        return cls(props.create_schema)

    @property
    def columns(self) -> pa.Schema | None:
        """The data columns."""
        return without_meta(from_avro(self.avro)) if self.avro else None

    def extended(self, schema: pa.Schema) -> TableSchema:
        """The schema after a write whose data columns are `schema`."""
        if self.evolution is None:
            return self
        now = self.evolution.schema.extended(with_meta(schema))
        return replace(self, evolution=replace(self.evolution, schema=now))

    def save(self, table: Table, instant: str) -> dict[str, str]:
        """What the commit of a write at `instant` says of the columns by id, which are saved before it."""
        if self.evolution is None:
            return {}
        latest = save(table, instant, self.evolution.schema, self.history)
        return {LATEST_SCHEMA_KEY: latest}

    def check_fields(self, props: TableProperties) -> None:
        """Raises TableError when a key or ordering column has lost the name that the properties say."""
        ordering = [props.precombine_field or "", *props.merge_rule.ordering_fields]
        self._check([*props.record_key_fields, *props.partition_fields, *ordering], props)

    def check_read_fields(self, props: TableProperties, *, merged: bool) -> None:
        """As `check_fields`, of what a query needs: the ordering column, where logs are `merged`, and that no
        other column has the name of a partition column, which is taken for the path's values.
        """
        if self.evolution is not None:
            now = self.evolution.schema.record
            reused = [name for name in props.partition_fields if now.named(name)]
            ordering = [props.precombine_field or "", *props.merge_rule.ordering_fields]
            self._check([*reused, *(ordering if merged else ())], props)

    def _check(self, fields: Sequence[str], props: TableProperties) -> None:
        if self.evolution is None:
            return
        names = {field.partition(":")[0].partition(".")[0] for field in fields if field}
        if lost := sorted(filter(self.evolution.lost, names)):
            raise TableError(
                f"columns {', '.join(lost)} of {props.name} were renamed or dropped, but hoodie.properties "
                "names them as record key, partition path or ordering column; rename them back with Apache "
                "Hudi (alter table … rename column)",
                columns=", ".join(lost),
            )


def _evolved(
    timeline: Timeline, storage: Storage, text: str, latest: str | None, time: InstantTime
) -> TableSchema:
    found = newest(timeline, storage)
    if found is None:
        if latest:
            raise TableError(
                f"the columns of {timeline.base_path} are known by id (schema-on-read evolution), but "
                f"{folder(timeline.base_path)} has no schemacommit of a completed commit, so "
                "nothing gives the ids of older files; restore that folder",
                path=timeline.base_path,
            )
        return TableSchema(text)
    history = parse_history(found.text)
    if latest:
        schema = InternalSchema.parse(latest)
    else:
        # a writer without schema-on-read evolution came last: it knows columns by name
        schema = schema_at(history, time).extended(with_meta(from_avro(text)))
    return TableSchema(text, Evolution(schema, history), found.text)
