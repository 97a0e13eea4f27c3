"""The writes of a table as methods: each one calls `hoodie.write_table` with its operation.

Parameters that they have in common: rows: a Spark DataFrame, a pyarrow Table, RecordBatch, RecordBatchReader
or Dataset, a DataFrame of pandas or polars, what exports an Arrow stream, or a list of dictionaries. keys,
partition_by, ordering: the columns of a new table; a table that is there knows its own, and refuses others
(TableMismatch). options: settings over those of the table object. extra_metadata, force, dry_run, progress:
as of `hoodie.write_table`, and so are the errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from hoodie import api
from hoodie.progress import ProgressCallback
from hoodie.source.target import target_schema
from hoodie.table_api.access import TableAccess
from hoodie.table_api.arguments import Columns, TableColumns, check_keys
from hoodie.table_api.merge import TARGET, MergeBuilder, checked_updates, on_text, quoted
from hoodie.table_api.where import where_text
from hoodie.write.operation import Operation

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow.compute as pc

    from hoodie.write.explain.explanation import WriteExplanation
    from hoodie.write.operation import WriteResult


class ColumnArguments(TypedDict, total=False):
    keys: Columns | None
    partition_by: Columns | None
    ordering: Columns | None


class WriteArguments(TypedDict, total=False):
    """Of a write to a table that is there."""

    options: Mapping[str, Any] | None
    extra_metadata: Mapping[str, str] | None
    force: bool
    dry_run: bool
    progress: ProgressCallback | None


class TableWrites(TableAccess):
    def upsert(
        self,
        rows: object,
        *,
        keys: Columns | None = None,
        partition_by: Columns | None = None,
        ordering: Columns | None = None,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Update the rows whose keys are stored, and insert the others."""
        columns = TableColumns.of(keys, partition_by, ordering)
        return self._write(rows, Operation.UPSERT, columns, **how)

    def insert(
        self,
        rows: object,
        *,
        keys: Columns | None = None,
        partition_by: Columns | None = None,
        ordering: Columns | None = None,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Add the rows, without a look-up of their keys."""
        columns = TableColumns.of(keys, partition_by, ordering)
        return self._write(rows, Operation.INSERT, columns, **how)

    def bulk_insert(
        self,
        rows: object,
        *,
        keys: Columns | None = None,
        partition_by: Columns | None = None,
        ordering: Columns | None = None,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Add many rows as new file groups, in the sort mode of the settings."""
        columns = TableColumns.of(keys, partition_by, ordering)
        return self._write(rows, Operation.BULK_INSERT, columns, **how)

    def delete(
        self,
        rows: object,
        *,
        keys: Columns | None = None,
        partition_by: Columns | None = None,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Delete the rows with these keys: the columns of record key and partition path are enough. Keys that
        the table does not hold are counted (`num_missing`).
        """
        return self._write(rows, Operation.DELETE, TableColumns.of(keys, partition_by, None), **how)

    def delete_where(self, where: str | pc.Expression, **how: Unpack[WriteArguments]) -> WriteResult:
        """Delete the rows that a condition finds, in Spark's SQL or as an expression of pyarrow.compute. It
        is a statement of `hoodie.sql`: DELETE FROM … WHERE.
        """
        return self._run(f"DELETE FROM {TARGET} WHERE {where_text(where, 'spark')}", **how)

    def update(
        self,
        updates: Mapping[str, str],
        where: str | pc.Expression | None = None,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Set columns of the rows that a condition finds, or of all rows; `updates` has Spark's SQL for each:
        {"amount": "amount * 2"}. It is a statement of `hoodie.sql`: UPDATE … SET … WHERE.
        """
        given = checked_updates(updates)
        assigned = ", ".join(f"{quoted(name)} = {value}" for name, value in given.items())
        some = "" if where is None else f" WHERE {where_text(where, 'spark')}"
        return self._run(f"UPDATE {TARGET} SET {assigned}{some}", **how)

    def insert_overwrite(
        self,
        rows: object,
        *,
        keys: Columns | None = None,
        partition_by: Columns | None = None,
        ordering: Columns | None = None,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Replace the partitions that there are rows for."""
        columns = TableColumns.of(keys, partition_by, ordering)
        return self._write(rows, Operation.INSERT_OVERWRITE, columns, **how)

    def insert_overwrite_table(
        self,
        rows: object,
        *,
        keys: Columns | None = None,
        partition_by: Columns | None = None,
        ordering: Columns | None = None,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Replace all rows of the table; without rows it is empty."""
        columns = TableColumns.of(keys, partition_by, ordering)
        return self._write(rows, Operation.INSERT_OVERWRITE_TABLE, columns, **how)

    def delete_partitions(
        self,
        partitions: str | Sequence[str],
        *,
        missing_ok: bool = False,
        **how: Unpack[WriteArguments],
    ) -> WriteResult:
        """Delete whole partitions by their paths; `*` stands for any text (`hoodie.delete_partitions`)."""
        how["options"] = self._options(how.get("options"))
        return api.delete_partitions(self._path, partitions, missing_ok=missing_ok, **how)

    def merge(
        self,
        rows: object,
        on: Columns | None = None,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> MergeBuilder:
        """Merge rows by clauses, as MERGE INTO does: add them to the builder, then `execute`.

        on: columns that target and source have in common, those of the record key by default, or a condition
        in Spark's SQL, `target.id = source.order_id`. Raises TableNotFound.
        """
        stored = self._open().properties
        names = stored.record_key_fields if on is None else on
        schema = target_schema(self._path, self._settings)
        condition = on_text(names or (), [] if schema is None else schema.names)
        return MergeBuilder(self._path, rows, condition, self._options(options))

    def explain_write(
        self,
        rows: object,
        operation: str | Operation = Operation.UPSERT,
        *,
        options: Mapping[str, Any] | None = None,
        progress: ProgressCallback | None = None,
        **columns: Unpack[ColumnArguments],
    ) -> WriteExplanation:
        """What a write of these rows would do and cost; nothing is written (`hoodie.explain`)."""
        given = TableColumns.of(columns.get("keys"), columns.get("partition_by"), columns.get("ordering"))
        return api.explain(
            rows,
            self._path,
            spark=self._session_for(rows),
            operation=operation,
            options=self._write_options(given, options),
            progress=progress,
        )

    def _run(self, statement: str, **how: Unpack[WriteArguments]) -> WriteResult:
        options = self._options(how.pop("options", None))
        tables = {TARGET: {"path": self._path, "options": options}}
        result: WriteResult = api.sql(statement, tables=tables, spark=self._session, **how)
        return result

    def _write(
        self,
        rows: object,
        operation: Operation,
        columns: TableColumns,
        *,
        options: Mapping[str, Any] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        force: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> WriteResult:
        return api.write_table(
            rows,
            self._path,
            spark=self._session_for(rows),
            operation=operation,
            options=self._write_options(columns, options, operation.brings_rows),
            extra_metadata=extra_metadata,
            force=force,
            dry_run=dry_run,
            progress=progress,
        )

    def _write_options(
        self, columns: TableColumns, options: Mapping[str, Any] | None, needs_keys: bool = True
    ) -> dict[str, Any]:
        """Raises TableMismatch, and ConfigError for a new table without keys."""
        stored = self._stored_properties()
        given = {**self._options(options), **columns.settings(self._path, stored)}
        if stored is None and needs_keys:
            check_keys(self._path, given)
        return given

    def _session_for(self, rows: object) -> Any:
        """Spark reads its own rows and Dataset of files; what this process holds the local engine writes."""
        if self._session is None:
            return None
        import pyarrow.dataset as ds

        return self._session if isinstance(rows, ds.Dataset) else None
