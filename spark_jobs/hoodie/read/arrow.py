"""Queries and change data as Arrow batches; DuckDB evaluates predicates."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute

from hoodie.codec.prefetch import parallel
from hoodie.config.cores import usable_cores
from hoodie.config.key import Config
from hoodie.engine.parquet_open import all_plain, parquet_format
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.format.evolution import read_as
from hoodie.format.meta_fields import COMMIT_TIME
from hoodie.read import duckdb_predicate
from hoodie.read.binding import Predicate, Where
from hoodie.read.change_rows import change_tables
from hoodie.read.changes import SCHEMA, Change, ChangeView, asks_changes
from hoodie.read.duckdb_predicate import NoPredicate, wrong
from hoodie.read.file_slice import read_slice, read_through
from hoodie.read.pruning import asks_files, row_groups
from hoodie.read.query import Query
from hoodie.read.table_view import TableView, file_schemas
from hoodie.storage import Storage
from hoodie.table.handle import Table, TableRef
from hoodie.table.view import BaseFile, FileSlice

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

    found = parallel(map(read, view.changes), usable_cores() + 1, lambda rows: rows.nbytes, _READ_AHEAD)
    if where is not None:
        return _filtered_changes(found, names, where)
    batches = (batch for rows in found for batch in rows.select(list(names)).to_batches())
    return pa.RecordBatchReader.from_batches(_schema_of_changes(names), batches)


def _filtered_changes(found: Iterator[pa.Table], names: Sequence[str], where: str) -> pa.RecordBatchReader:
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

    return pa.RecordBatchReader.from_batches(_schema_of_changes(names), batches())


def _schema_of_changes(names: Sequence[str]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in names])


if TYPE_CHECKING:
    import duckdb

    from hoodie.read.arrow_filter import ArrowFilter

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: files whose footers are held in memory, so that fewer row groups are read, and the bytes of these files, of
#: which a footer with its bloom filter is at most a tenth
_FOOTERS, _FOOTER_FILES_BYTES = 256, 4 << 30


def read_batches(
    path: str,
    *,
    query: Query | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
    options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """The answer while it is read; `where` is one SQL predicate (DuckDB evaluates it;
    `duckdb_predicate` says what it may have).

    Memory: for each core, and one more, what merging a file slice takes and 32 MiB of rows that are not
    consumed yet; with a predicate what DuckDB takes. Which files are read is decided now, and wrong arguments
    raise now; what is wrong with a file shows when it is reached.
    """
    config = Config.of(options or {})
    table = Table(TableRef.of(path, config))
    if asks_changes(query, config):
        changes = ChangeView.load(table, query or Query(), config)
        return change_batches(changes, table.storage, changes.columns(columns), where)
    storage = table.storage
    if where is not None:
        with ExitStack() as stack:
            connection = stack.enter_context(duckdb_predicate.connection())
            try:
                predicate = duckdb_predicate.parsed(connection, where)
            except NoPredicate as error:
                columns_there = TableView.load(table, query, config).schema.names
                raise wrong(where, str(error), columns_there) from None
            view = TableView.load(table, query, config, predicate)
            names = view.columns(columns, meta)
            answer = _reader(view, names, _filtered(view, storage, names, predicate, connection))
            stack.pop_all()
            return answer
    view = TableView.load(table, query, config)
    names = view.columns(columns, meta)
    found = _tables(view, storage, view.slices, _looked_at(view, names, None))
    return _reader(view, names, (rows.select(names) for rows in found))


def slice_tables(
    view: TableView, storage: Storage, file_slice: FileSlice, names: Sequence[str], ordered: bool = True
) -> Iterator[pa.Table]:
    """Rows of one slice, with the values that its path contains; their order as `read_slice`."""
    columns, partition, schema = view.path_columns, file_slice.partition, _schema(view, names)
    groups = None
    if asks_files(view.predicate, columns) and not view.moved(file_slice):
        groups = partial(row_groups, view.predicate, columns, file_slice)
    stored = columns.stored(partition, names)
    for rows in read_slice(storage, file_slice, view.context, stored, groups, ordered):
        yield columns.put(rows, partition, schema)


def rows_of_slices(
    view: TableView, storage: Storage, slices: Sequence[FileSlice], names: Sequence[str]
) -> Iterator[pa.Table]:
    """Rows of these slices in these columns, one slice after the other, in no order, those outside the span
    left out: for a task, which is one of many.
    """
    wanted = _looked_at(view, names, None)
    for file_slice in slices:
        for rows in slice_tables(view, storage, file_slice, wanted, ordered=False):
            yield _within(view, rows).select(list(names))


def view_batches(view: TableView, storage: Storage, *, meta: bool = True) -> pa.RecordBatchReader:
    """All rows and columns of a view that has no span, as often as it is called."""
    names = view.columns(None, meta)
    return _reader(view, names, _tables(view, storage, view.slices, names))


def scan(
    view: TableView, storage: Storage, names: Sequence[str], condition: ArrowFilter | None
) -> pa.RecordBatchReader:
    """The rows for which the condition is true, in these columns, which may be none, while they are read."""
    import pyarrow.dataset as ds

    in_memory: Any = ds.InMemoryDataset  # the stubs give it no arguments
    asked: Any = None if condition is None else condition.expression
    if view.span is not None:
        time: Any = ds.field(COMMIT_TIME)
        within = (time > view.span.begin) & (time <= view.span.end)
        if view.span.instants is not None:
            within = time.isin(list(map(str, view.span.instants)))
        asked = within if asked is None else within & asked
    wanted = _looked_at(view, names, condition)
    target = _schema(view, names)

    def batches() -> Iterator[pa.RecordBatch]:
        for _, source in _sources(view, storage, wanted or view.schema.names[:1]):
            pieces = [source] if isinstance(source, ds.Dataset) else map(in_memory, source)
            for piece in pieces:
                for batch in piece.scanner(columns=list(names), filter=asked).to_batches():
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=target) if names else batch

    return pa.RecordBatchReader.from_batches(target, batches())


def _looked_at(view: TableView, names: Sequence[str], condition: Predicate | None) -> list[str]:
    """Columns to read for an answer that has these: those of the condition, too, and of the span."""
    return view.referenced([*names, COMMIT_TIME] if view.span else names, condition)


def _within(view: TableView, rows: pa.Table) -> pa.Table:
    """The rows of the span."""
    if view.span is None:
        return rows
    times = rows.column(COMMIT_TIME)
    if view.span.instants is not None:
        return rows.filter(pc.is_in(times, pa.array(list(map(str, view.span.instants)), pa.string())))
    return rows.filter(pc.and_(pc.greater(times, view.span.begin), pc.less_equal(times, view.span.end)))


def _tables(
    view: TableView, storage: Storage, slices: Sequence[FileSlice], names: Sequence[str]
) -> Generator[pa.Table, None, None]:
    """Rows of the slices in their order, those outside the span left out."""

    def read(file_slice: FileSlice) -> Generator[pa.Table, None, None]:
        for rows in slice_tables(view, storage, file_slice, names):
            yield _within(view, rows)

    # one more than there are cores: none idles while the last slice, often the largest, is merged
    many = usable_cores() + 1
    return parallel(map(read, slices), many, lambda rows: rows.nbytes, _READ_AHEAD)


def _filtered(
    view: TableView,
    storage: Storage,
    names: list[str],
    predicate: Where,
    connection: duckdb.DuckDBPyConnection,
) -> Iterator[pa.Table]:
    import duckdb

    where = predicate.text
    wanted = _looked_at(view, names, predicate)
    if not view.slices:
        wanted = list(view.schema.names)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    target = _schema(view, names)
    columns = view.schema.names

    def found(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
        with connection:
            try:
                for batch in rows:
                    yield read_as(pa.Table.from_batches([batch]), target)
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise _cause(view, storage, wanted, error) or wrong(where, str(error), columns) from None

    try:
        sources = []
        for name, source in _sources(view, storage, wanted):
            connection.register(name, source)
            sources.append(f"SELECT * FROM {name}" + (f" WHERE {view.span.predicate()}" if view.span else ""))
        text = f"SELECT {quoted} FROM ({' UNION ALL '.join(sources)}) AS snapshot WHERE (\n{where}\n)"
        return found(connection.sql(text).to_arrow_reader(READ_BATCH_ROWS))
    except duckdb.Error as error:
        raise _cause(view, storage, wanted, error) or wrong(where, str(error), columns) from None


def _cause(view: TableView, storage: Storage, names: list[str], error: Exception) -> Exception | None:
    """The error, unless it is one of the predicate. Raises TableError for a file that can't be read, which
    DuckDB does not name: all are read for that.
    """
    import duckdb

    if duckdb_predicate.of_text(error):
        return None
    broken_file(view, storage, names)
    return None if isinstance(error, duckdb.Error) else error


def broken_file(view: TableView, storage: Storage, names: Sequence[str]) -> None:
    """Reads all slices for the TableError of a file that can't be read, if there is one."""
    for item in view.slices:
        read_through(storage, item, view.context, names)


def _sources(view: TableView, storage: Storage, names: list[str]) -> Iterator[tuple[str, Any]]:
    """What holds the rows, by name: one of files, one of slices that are merged while they are read."""
    plain = view.plain
    if plain or not view.slices:
        yield "stored", _stored(view, storage, plain, names)
    if view.merged:
        yield "merged", _reader(view, names, _tables(view, storage, view.merged, names))


def _stored(view: TableView, storage: Storage, plain: list[FileSlice], names: list[str]) -> Any:
    """A pyarrow dataset, into which the predicate is pushed, of local files with the table's types.

    The values in a fragment's path replace what its file holds, and rule files out.
    """
    import pyarrow.dataset as ds
    import pyarrow.fs

    if not storage.local or not view.files or any(True for _ in _changed(view, storage)):
        return _reader(view, names, _tables(view, storage, plain, names))
    format_, local = parquet_format(), pyarrow.fs.LocalFileSystem()

    def known(partition: str) -> Any:
        values: Any = ds.scalar(True)
        for name, value in view.path_columns.scalars(partition).items():
            field, constant = ds.field(name), cast(Any, value)
            values = values & (field == ds.scalar(constant) if value.is_valid else field.is_null())
        return values

    if not all_plain([item.base.path for item in plain if item.base is not None]):
        return _reader(view, names, _tables(view, storage, plain, names))
    fragments = [
        format_.make_fragment(item.base.path, local, partition_expression=known(item.partition))
        for item in plain
        if item.base is not None
    ]
    size = sum(item.base.size for item in plain if item.base is not None)
    few = len(fragments) <= _FOOTERS and size <= _FOOTER_FILES_BYTES
    if few and asks_files(view.predicate, view.path_columns):
        with ThreadPoolExecutor() as pool:
            left = pool.map(partial(_possible, view), plain, fragments)
            fragments = [fragment for fragment in left if fragment is not None]
    return ds.FileSystemDataset(fragments, _schema(view, names), format_, local)


def _possible(view: TableView, item: FileSlice, fragment: Any) -> Any:
    """The row groups of a file that may have rows of the answer, with its footer, which is read once; None
    without any.
    """
    try:
        footer = fragment.metadata
    except (pa.ArrowException, OSError):
        return fragment  # whoever reads its rows says what is wrong
    kept = row_groups(view.predicate, view.path_columns, item, footer)
    if len(kept) == footer.num_row_groups:
        return fragment
    return fragment.subset(row_group_ids=kept) if kept else None


def _schema(view: TableView, names: Sequence[str]) -> pa.Schema:
    return pa.schema([view.schema.field(name) for name in names])


def _reader(view: TableView, names: Sequence[str], tables: Iterator[pa.Table]) -> pa.RecordBatchReader:
    batches = (batch for table in tables for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(_schema(view, names), batches)


def _changed(view: TableView, storage: Storage) -> Iterator[BaseFile]:
    """Files with a column of another type than the table's."""
    for file, schema in file_schemas(view, storage).items():
        for field in schema:
            index = view.schema.get_field_index(field.name)
            if index >= 0 and not view.schema.field(index).type.equals(field.type):
                yield file
                break
