"""A table's schema (format.md 3.1): the newest commit's, else the one it was created with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hoodie.errors import TableError
from hoodie.format.by_id import Evolution
from hoodie.format.internal_schema import InternalSchema, parse_history, schema_at
from hoodie.format.meta_fields import with_meta, without_meta
from hoodie.format.schema import from_avro
from hoodie.storage import Storage
from hoodie.table import schema_history
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import LATEST_SCHEMA_KEY
from hoodie.timeline.time import InstantTime


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
            commit = timeline.commit(instant, storage)
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
        latest = schema_history.save(table, instant, self.evolution.schema, self.history)
        return {LATEST_SCHEMA_KEY: latest}

    def check_fields(self, props: TableProperties) -> None:
        """Raises TableError when a key or ordering column has lost the name that the properties say."""
        self._check([*props.record_key_fields, *props.partition_fields, props.precombine_field or ""], props)

    def check_read_fields(self, props: TableProperties, *, merged: bool) -> None:
        """As `check_fields`, of what a query needs: the ordering column, where logs are `merged`, and that no
        other column has the name of a partition column, which is taken for the path's values.
        """
        if self.evolution is not None:
            now = self.evolution.schema.record
            reused = [name for name in props.partition_fields if now.named(name)]
            self._check([*reused, *([props.precombine_field or ""] if merged else ())], props)

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
    found = schema_history.newest(timeline, storage)
    if found is None:
        if latest:
            raise TableError(
                f"the columns of {timeline.base_path} are known by id (schema-on-read evolution), but "
                f"{schema_history.folder(timeline.base_path)} has no schemacommit of a completed commit, so "
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
