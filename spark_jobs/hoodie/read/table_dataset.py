"""A table as a pyarrow Dataset, whose files are looked for when an engine scans it with its filter."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from hoodie.errors import TableError
from hoodie.read.arrow import broken_file, scan
from hoodie.read.arrow_filter import ArrowFilter
from hoodie.read.sql_tables import SqlTable
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
