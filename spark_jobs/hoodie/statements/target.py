"""The table that a statement changes, as far as its plan depends on it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie.errors import ConfigError, TableError
from hoodie.format.meta_fields import without_meta
from hoodie.format.schema import from_avro
from hoodie.keygen import key_generator
from hoodie.merge import merger
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.read.query import QueryType
from hoodie.read.sql_tables import SqlTable
from hoodie.table.table_schema import TableSchema
from hoodie.write.table_options import merged


@dataclass(frozen=True, kw_only=True)
class Target:
    """schema: the data columns. keys, partitions: the columns that record keys and partition paths are made
    of.

    ordering: the ordering column, if it is a top-level one. keeps_newer: a stored row with a greater
    ordering value stays. whole_rows: a row that is written replaces the stored one in all columns.
    """

    name: str
    schema: pa.Schema
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    ordering: str | None
    keeps_newer: bool
    whole_rows: bool

    def column(self, given: str) -> str:
        """The table's spelling of a column. Raises ConfigError where it has none."""
        if given in self.schema.names:
            return given
        alike = [name for name in self.schema.names if name.lower() == given.lower()]
        if len(alike) != 1:
            raise ConfigError(
                f"table {self.name} has no column {given}; it has {', '.join(self.schema.names)}",
                column=given,
            )
        return alike[0]


def target_of(name: str, asked: SqlTable) -> Target:
    """Raises ConfigError for a table that is read otherwise than as it is now, TableError for one without
    columns, and as a write for settings that contradict the table's.
    """
    if asked.query.type is not QueryType.SNAPSHOT:
        raise ConfigError(
            f"table {name} is read as {asked.query.type.value}; a statement changes the table as it is "
            "now: leave "
            "query, begin, end and as_of out",
            table=name,
        )
    table = asked.open()
    props = table.properties
    text = TableSchema.load(table.timeline, table.storage, props).avro
    if not text:
        raise TableError(
            f"table {name} has no columns yet; write its first rows with hoodie.write_table", table=name
        )
    schema = without_meta(from_avro(text))
    config = merged(asked.config, props)
    keys = key_generator(config, schema)
    field = config[PRECOMBINE_FIELD]
    merging = merger(config, field, schema)
    return Target(
        name=name,
        schema=schema,
        keys=_top(keys.record_key_fields),
        partitions=_top(keys.partition_fields),
        ordering=field if field and field in schema.names else None,
        keeps_newer=merging.keeps_newer,
        whole_rows=merging.takes_whole_rows,
    )


def _top(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field.partition(":")[0].partition(".")[0] for field in fields))
