"""Arrow and threads, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from hoodie.backend import Backend, arrow_rows
from hoodie.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.config.functions import Function
    from hoodie.engine import Engine, Frame
    from hoodie.read.binding import Predicate
    from hoodie.read.query import Query
    from hoodie.read.sql_tables import SqlTable
    from hoodie.source import Source
    from hoodie.source.rejected_records import Required, Screened


class LocalBackend(Backend):
    dialect = "duckdb"

    @classmethod
    def started(
        cls, master: str | None = None, settings: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Backend]:
        return nullcontext(cls())

    def engine(self) -> Engine:
        from hoodie.engine.local import LocalEngine

        return LocalEngine()

    def frame(self, rows: Any) -> Frame:
        from hoodie.engine.local import LocalEngine

        return LocalEngine().frame(arrow_rows(rows))

    def read_source(self, source: Source, known: pa.Schema | None) -> Any:
        from hoodie.source import arrow

        return arrow.read(source, known)

    def screened(self, source: Source, known: pa.Schema | None, required: Required, limit: int) -> Screened:
        from hoodie.source.validation import screened

        return screened(source, known, required, limit)

    def transformed(self, rows: Any, text: str | Function) -> pa.RecordBatchReader:
        from hoodie.source.transform import transformed

        return transformed(arrow_rows(rows), text)

    def read_table(
        self,
        path: str,
        *,
        query: Query,
        columns: Sequence[str] | None,
        where: str | None,
        meta: bool,
        options: Mapping[str, Any],
    ) -> pa.Table:
        from hoodie.read.arrow import read_batches

        found = read_batches(path, query=query, columns=columns, where=where, meta=meta, options=options)
        return found.read_all()

    def predicate(self, where: str, columns: Sequence[str]) -> Predicate:
        from hoodie.read import duckdb_predicate

        with duckdb_predicate.connection() as connection:
            try:
                return duckdb_predicate.parsed(connection, where)
            except duckdb_predicate.NoPredicate as error:
                raise duckdb_predicate.wrong(where, str(error), columns) from None

    def sql(
        self, text: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any] | None = None
    ) -> pa.Table:
        return self.sql_rows(text, tables, rows).read_all()

    def sql_rows(
        self, text: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any] | None = None
    ) -> pa.RecordBatchReader:
        from hoodie.read.duckdb_sql import sql_batches

        return sql_batches(text, tables, rows)

    def alike(self, rows: Any, wanted: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([field for field in wanted if (field.name, field.type) in _types(rows.schema)])

    def relation(self, rows: Any, known: pa.Schema | None = None) -> Any:
        """Raises InputError for rows that can be read once only: a text may need them more often."""
        import pyarrow as pa

        from hoodie.engine.streams import Stream
        from hoodie.source import Source

        found = arrow_rows(self.read_source(rows, known) if isinstance(rows, Source) else rows, known)
        if isinstance(found, Stream):
            return found.to_table()
        if not isinstance(found, pa.RecordBatchReader):
            return _in_microseconds(found)
        if found is rows:
            raise InputError("a RecordBatchReader can be read once; pass a pyarrow Table or Dataset")
        return _in_microseconds(found.read_all())


def _types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _in_microseconds(rows: Any) -> Any:
    """Of a table instants in nanoseconds as DuckDB has them. Raises InputError for one that would be another
    one.
    """
    import pyarrow as pa

    if not isinstance(rows, pa.Table):
        return rows
    fields = [
        field.with_type(pa.timestamp("us", field.type.tz))
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns" and field.type.tz
        else field
        for field in rows.schema
    ]
    if fields == list(rows.schema):
        return rows
    try:
        return rows.cast(pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise InputError(
            f"instants have nanoseconds, which no table has: {error}; round them first"
        ) from None
