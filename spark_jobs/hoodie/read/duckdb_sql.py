"""SQL over tables, which DuckDB plans: it scans the columns and rows of each table that the query needs.

A table is a pyarrow Dataset, whose files are found when an engine scans it with its filter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from hoodie.engine.files import bad_file
from hoodie.errors import ConfigError, HoodieError, TableError
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.read import duckdb_predicate
from hoodie.read.arrow import broken_file, scan
from hoodie.read.arrow_filter import ArrowFilter
from hoodie.read.settings import SPILL_PATH
from hoodie.read.spill import SpillFolder
from hoodie.read.sql_tables import SqlTable, query_text
from hoodie.read.table_view import TableView, query_schema


class TableDataset(ds.Dataset):
    """DuckDB calls `scanner` for each place of a table in a query, with the columns and the filter of it.

    All scans are of one state of the table: the timeline is read now. `error` is what a scan failed with; the
    engine has its own words for it.
    """

    def __init__(self, name: str, asked: SqlTable) -> None:
        self._name, self._asked, self._table = name, asked, asked.open()
        self._lock = threading.Lock()
        self._scanned: list[tuple[TableView, list[str]]] = []
        self.error: Exception | None = None
        self._rows = query_schema(self._table, asked.query, asked.config)

    @property
    def schema(self) -> pa.Schema:
        return self._rows

    def scanner(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Has `to_reader`, whose rows are those that the filter is true for. None: all columns, all rows."""
        with self._lock, self._noted():
            asked = None if filter is None else ArrowFilter(filter)
            view = self._load(asked)
            if not view.schema.equals(self._rows) or (
                self._scanned and view.timeline.instants != self._scanned[0][0].timeline.instants
            ):
                raise TableError(f"table {self._name} was changed while it was read; run the query again")
            names = list(view.schema.names if columns is None else columns)
            self._scanned.append((view, names))
            return _Scan(self._noting(scan(view, self._table.storage, names, asked)))

    def broken(self) -> None:
        """Raises TableError where a file of a scan can't be read: which one it is, no engine says."""
        for view, names in self._scanned:
            broken_file(view, self._table.storage, names)

    def _load(self, asked: ArrowFilter | None) -> TableView:
        return TableView.load(self._table, self._asked.query, self._asked.config, asked)

    def _noting(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            with self._noted():
                yield from rows

        return pa.RecordBatchReader.from_batches(rows.schema, batches())

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.error = self.error or error
            raise


class _Scan:
    def __init__(self, rows: pa.RecordBatchReader) -> None:
        self._rows = rows

    def to_reader(self) -> pa.RecordBatchReader:
        return self._rows


if TYPE_CHECKING:
    import duckdb

#: nulls are ordered as Spark does, and Python's variables are no tables. The optimizer that is off takes
#: rows by their sort keys, in which -0.0 is 0.0.
_SETTINGS = (
    "SET disabled_optimizers = 'top_n_window_elimination'",
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "SET python_enable_replacements = false",
)

#: what DuckDB says of rows that it can't read
READING = "reading the stream registered as"


def sql_batches(
    text: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any] | None = None
) -> pa.RecordBatchReader:
    """The answer of one SELECT while it is read. What DuckDB sorts, joins and groups takes 1 GiB of memory,
    and spills beyond that. A sum of whole numbers is a long, as in Spark. `rows`: other rows of the text, by
    name, that Arrow holds or scans.

    Raises ConfigError for a text that is no SELECT, or that DuckDB refuses, and TableError.
    """
    query = query_text(text)
    spill = next((item.config[SPILL_PATH] for item in tables.values()), None)
    datasets = {name: TableDataset(name, asked) for name, asked in tables.items()}
    named = {**datasets, **(rows or {})}
    return answered(query, named, partial(_wrong, query, named), spill or "")


def answered(
    query: str, rows: Mapping[str, Any], wrong: Callable[[Exception], Exception], spill: str = ""
) -> pa.RecordBatchReader:
    """The answer of one SELECT over what DuckDB scans by name, while it is read. A RecordBatchReader, which
    can be read once, is first taken as a whole, and spilled as needed.

    `wrong` makes the error that is raised of one of DuckDB, Arrow or the system. `spill`: a folder to spill
    to; "": the system's. Raises ConfigError for a text that is no SELECT, InputError for a file of a dataset
    that can't be read.
    """
    import duckdb

    failures = (duckdb.Error, pa.ArrowException, OSError)
    with ExitStack() as stack:
        folder = stack.enter_context(SpillFolder(spill))
        connection = stack.enter_context(duckdb_predicate.connection(folder.path, *_SETTINGS))
        try:
            for name, found in rows.items():
                once = isinstance(found, pa.RecordBatchReader)
                connection.register(f"{name}_once" if once else name, found)
                if once:
                    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM {name}_once")
            _check(connection, query)
            asked = connection.sql(query)
            longs = [str(kind) == "HUGEINT" for kind in asked.types]
            answer = asked.to_arrow_reader(READ_BATCH_ROWS)
        except failures as error:
            raise _of_file(rows, error) or wrong(error) from None
        target = _with_longs(answer.schema, longs)
        kept = stack.pop_all()

    def batches() -> Iterator[pa.RecordBatch]:
        with kept:
            yield pa.RecordBatch.from_pylist([])  # begun, so that what is never read ends, too
            try:
                for batch in answer:
                    yield pa.RecordBatch.from_arrays(_cast(batch, target), schema=target)
            except failures as error:
                raise _of_file(rows, error) or wrong(error) from None

    begun = batches()
    next(begun)
    return pa.RecordBatchReader.from_batches(target, begun)


def _check(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    statements = connection.extract_statements(query)
    kinds = [statement.type.name.upper() for statement in statements]
    if len(kinds) != 1 or "SELECT" not in kinds[0]:
        raise ConfigError(
            f"the SQL text has {', '.join(kinds) or 'no statement'}; give one SELECT", sql=query
        )


def _with_longs(schema: pa.Schema, longs: list[bool]) -> pa.Schema:
    fields = [
        field.with_type(pa.int64()) if long else field for field, long in zip(schema, longs, strict=True)
    ]
    return pa.schema(fields)


def _cast(batch: pa.RecordBatch, target: pa.Schema) -> list[Any]:
    columns = zip(batch.columns, target, strict=True)
    return [
        column if column.type.equals(field.type) else column.cast(field.type) for column, field in columns
    ]


def _of_file(rows: Mapping[str, Any], error: Exception) -> Exception | None:
    if isinstance(error, (pa.ArrowException, OSError)) or READING in str(error):
        return next((found for found in map(bad_file, rows.values()) if found is not None), None)
    return None


def _wrong(query: str, named: Mapping[str, Any], error: Exception) -> Exception:
    """The error of a scan, if one failed; else of a file that can't be read; else that of the text."""
    datasets = {name: found for name, found in named.items() if isinstance(found, TableDataset)}
    failed = [dataset.error for dataset in datasets.values() if dataset.error is not None]
    known = next((found for found in failed if isinstance(found, HoodieError)), None)
    if known is not None:
        return known
    if not duckdb_predicate.of_text(error):
        for dataset in datasets.values():
            dataset.broken()
    if failed:
        return failed[0]
    columns = "; ".join(f"{name}: {', '.join(found.schema.names)}" for name, found in named.items())
    return ConfigError(
        f"the SQL text can't be evaluated: {str(error).splitlines()[0]}; columns are {columns}", sql=query
    )
