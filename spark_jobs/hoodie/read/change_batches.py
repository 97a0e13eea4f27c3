"""Change data as Arrow batches; DuckDB evaluates predicates."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa

from hoodie.codec.ahead import side_by_side
from hoodie.config.cores import usable_cores
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.read import duckdb_predicate
from hoodie.read.change_rows import change_tables
from hoodie.read.changes import SCHEMA, Change, ChangeView
from hoodie.read.duckdb_predicate import NoPredicate, wrong
from hoodie.storage import Storage

#: bytes of rows of one change that are read before the caller takes them
_READ_AHEAD = 32 << 20


def change_batches(
    view: ChangeView, storage: Storage, names: Sequence[str], where: str | None
) -> pa.RecordBatchReader:
    """The changes in the order of their commits, while they are read; `where` is one SQL predicate on op,
    ts_ms, before and after. Raises ConfigError for a wrong one.
    """

    def read(change: Change) -> Generator[pa.Table, None, None]:
        yield from change_tables(view, storage, change)

    found = side_by_side(map(read, view.changes), usable_cores() + 1, lambda rows: rows.nbytes, _READ_AHEAD)
    if where is not None:
        return _filtered(found, names, where)
    batches = (batch for rows in found for batch in rows.select(list(names)).to_batches())
    return pa.RecordBatchReader.from_batches(_schema(names), batches)


def _filtered(found: Iterator[pa.Table], names: Sequence[str], where: str) -> pa.RecordBatchReader:
    import duckdb

    failed: list[Exception] = []  # DuckDB would hide it

    def every() -> Iterator[pa.RecordBatch]:
        try:
            for rows in found:
                yield from rows.to_batches()
        except Exception as error:
            failed.append(error)
            raise

    def cause(error: Exception) -> Exception:
        return failed[0] if failed else wrong(where, str(error), SCHEMA.names)

    with ExitStack() as stack:
        connection = stack.enter_context(duckdb_predicate.connection())
        try:
            duckdb_predicate.parsed(connection, where)
            connection.register("changes", pa.RecordBatchReader.from_batches(SCHEMA, every()))
            text = f"SELECT {', '.join(names)} FROM changes WHERE (\n{where}\n)"
            answer = connection.sql(text).to_arrow_reader(READ_BATCH_ROWS)
        except (NoPredicate, duckdb.Error) as error:
            raise cause(error) from None
        held = stack.pop_all()

    def batches() -> Iterator[pa.RecordBatch]:
        with held:
            try:
                yield from answer
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise cause(error) from None

    return pa.RecordBatchReader.from_batches(_schema(names), batches())


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in names])
