"""Python API: write a DataFrame or Arrow rows, query a table as either.

The engine follows from what is passed in: a Spark DataFrame (classic or Connect) is written by Spark,
Arrow rows by the local engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodie.backend import arrow_rows
from hoodie.backend.choice import backend_for, backend_of
from hoodie.errors import ConfigError, InputError
from hoodie.progress import ProgressCallback, silent
from hoodie.write.operation import Operation, WriteRequest, WriteResult, partition_names

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.ingestion.checkpoint import Limits
    from hoodie.ingestion.run import IngestResult
    from hoodie.read.explanation import ReadExplanation
    from hoodie.write.explain.explanation import WriteExplanation


def write_table(
    rows: Any,
    path: str,
    *,
    spark: Any = None,
    operation: str | Operation = Operation.UPSERT,
    transform: str | Callable[[Any], Any] | None = None,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> WriteResult:
    """Write `rows`: a Spark DataFrame, pa.Table, pa.RecordBatch, RecordBatchReader or pyarrow Dataset, a
    DataFrame of pandas or polars, what exports an Arrow stream, or a list of dictionaries.

    With `spark`, a Dataset of Parquet files is read and written by that session's executors, which is faster
    than a DataFrame of the same files: no row passes through the JVM.
    operation: `upsert`, `insert`, `bulk_insert`; `delete`, whose rows need the columns of record key and
    partition path only, and whose keys may be missing in the table; `insert_overwrite`, which replaces the
    partitions that there are rows for, and `insert_overwrite_table`, which replaces all of the table: without
    rows the one changes nothing, the other empties the table.
    transform: one SELECT over the rows, which it names `source`, in Spark's SQL for a DataFrame, else in
    DuckDB's; its answer is what is written. Or a function of a pa.RecordBatch, itself or by its name as
    `package.module:function`, that returns a RecordBatch, a Table, or None for no rows. Batches have any
    size. With Spark it is called in tasks, which have to find its module.
    A text `airflow.token` in the extra metadata makes the write idempotent: where a commit has that token
    nothing is written, and that commit is the result, unless `airflow.fingerprint` differs from its, or
    `force`. With `dry_run` nothing is written, and the result says what would be, by partition. Returns when
    the commit is visible. Raises HoodieError; nothing is visible then.
    """
    from hoodie.pipeline import write

    backend, rows = backend_for(rows, spark), _rows(rows, path, options)
    frame = backend.frame(rows if transform is None else backend.transformed(rows, transform))
    request = WriteRequest(path, _of_rows(operation), options or {}, extra_metadata or {}, force, dry_run)
    return write(backend.engine(), frame, request, progress or silent)


def ingest(
    source: str | Sequence[str] | Mapping[str, Any],
    path: str,
    *,
    spark: Any = None,
    operation: str | Operation = Operation.UPSERT,
    max_files: int | None = None,
    max_bytes: int | None = None,
    lookback_s: float = 0,
    start_after: int | None = None,
    transform: str | Callable[[Any], Any] | None = None,
    error_table: str | None = None,
    max_bad_rows: int | None = None,
    max_bad_files: int | None = None,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> IngestResult:
    """Write the files of a folder, prefix or glob that are new since the last call, by one commit.

    `source` is a path, several, or {"path", "format", "options"}. How far they are taken is in the commit
    (`deltastreamer.checkpoint.key`, as Apache Hudi's streamer keeps it), so that no file is taken twice or
    lost, whatever is killed and whatever else is committed to the table meanwhile. Files are new by their
    modification time: one that appears later with an older time is none, unless it is at most `lookback_s`
    older than the newest file that was taken.
    operation: `upsert`, `insert` or `bulk_insert`. max_files, max_bytes: of one call; a file that is larger
    is taken alone. start_after: of a source that the table does not know, the time, in epoch milliseconds,
    after which its files are new. transform: as of `write_table`. Nothing new is no commit.
    error_table: path of a table that gets the records that can't be written, by a commit before that of the
    others; by default that of the settings `hoodie.errortable.*`, else such a record is an error.
    max_bad_rows: the call fails, and writes nothing, with more of them (default 1000). max_bad_files: so many
    files that can't be written are left out, and named in the commit and the result; with more, and by
    default with any, the call fails. Raises HoodieError; nothing is visible in the table then.
    """
    from hoodie.config.error_table import error_table as named
    from hoodie.ingestion.run import IngestRequest
    from hoodie.ingestion.run import ingest as run
    from hoodie.source import Source

    errors, options = named(options or {}, error_table, max_bad_rows)
    request = IngestRequest(
        path=path,
        source=Source.of(source, options, transform),
        operation=_of_rows(operation),
        limits=_limits(max_files, max_bytes, lookback_s, max_bad_files),
        start_after=start_after,
        options=options,
        extra_metadata=extra_metadata or {},
        dry_run=dry_run,
        errors=errors,
    )
    return run(backend_of(spark), request, progress or silent)


def explain(
    rows: Any,
    path: str,
    *,
    spark: Any = None,
    operation: str | Operation = Operation.UPSERT,
    options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
) -> WriteExplanation:
    """What a `write_table` of these rows would do and cost; nothing is written.

    Partitions and file groups, rows that are inserted and updated, bytes that are written and rewritten,
    pending services in the way, and what each index needs to find the keys: seconds and bytes, measured on a
    sample. The rows are staged and looked up as the write does it (a RecordBatchReader is read to its end).
    Raises what the write would raise before it begins; that it would be refused for a pending service, or for
    its cost, is a field of the result.
    """
    from hoodie.pipeline import explain as explain_write

    backend = backend_for(rows, spark)
    frame = backend.frame(_rows(rows, path, options))
    request = WriteRequest(path, _of_rows(operation), options or {})
    return explain_write(backend.engine(), frame, request, progress or silent)


def delete_partitions(
    path: str,
    partitions: str | Sequence[str] = (),
    *,
    missing_ok: bool = False,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> WriteResult:
    """Delete whole partitions, without reading a row; needs no Spark.

    `partitions` are paths as in the table, such as 2024-01-31 or country=de; `*` stands for any text. One
    that has no rows in the table is an InputError that names the nearest ones, or, with `missing_ok`, a
    warning. The rows are gone at once, their files when the cleaner takes them. Token, `force` and `dry_run`
    as in `write_table`.
    """
    from hoodie.pipeline import write

    request = WriteRequest(
        path,
        Operation.DELETE_PARTITION,
        options or {},
        extra_metadata or {},
        force,
        dry_run,
        partition_names(partitions),
        missing_ok,
    )
    return write(backend_of(None).engine(), None, request, progress or silent)


def read_table(
    path: str,
    *,
    spark: Any = None,
    query: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    as_of: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
    reader: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Rows of a table: a DataFrame of `spark`, or a pa.Table without it.

    `query` is snapshot (the default), read_optimized (base files only), incremental (rows written after
    `begin`, as of `end`, which it includes; `begin` may be "earliest", `end` is the newest commit by default)
    or time_travel (the table `as_of` an instant). Without it the options decide. Points in time are
    instants, or dates and times as yyyy-MM-dd HH:mm:ss in the time zone of the table's timeline.
    `reader`, with `spark`, says who reads base files on an object store: "spark" itself, by the session's
    file system, "arrow" tasks, or "auto" (hoodie.read.spark.reader).
    `options` are settings for reading, such as hoodie.memory.merge.max.size. With
    hoodie.datasource.query.incremental.format=cdc an incremental query gives changes instead of rows: op,
    ts_ms (the commit's instant), and the row before and after as JSON.
    """
    from hoodie.read.query import Query
    from hoodie.read.settings import READER

    options = {**(options or {}), **({READER.name: reader} if reader is not None else {})}
    return backend_of(spark).read_table(
        path,
        query=Query.of(query, begin, end, as_of),
        columns=columns,
        where=where,
        meta=meta,
        options=options,
    )


def explain_read(
    path: str,
    *,
    spark: Any = None,
    query: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    as_of: str | None = None,
    where: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> ReadExplanation:
    """What a `read_table` with these arguments would read, and what left out the rest: partitions, commit
    times, the indexes of the table's metadata table, Parquet's statistics. Opens footers of data files only.

    `where` is in DuckDB's SQL, or with `spark` in Spark's. Raises what the query would raise before it reads.
    """
    from hoodie.config.key import Config
    from hoodie.read.explanation import explain
    from hoodie.read.query import Query
    from hoodie.read.table_view import query_schema
    from hoodie.table.handle import Table, TableRef

    asked, config = Query.of(query, begin, end, as_of), Config.of(options or {})
    table, predicate = Table(TableRef.of(path, config)), None
    if where is not None:
        predicate = backend_of(spark).predicate(where, query_schema(table, asked, config).names)
    return explain(table, asked, config, where, predicate)


def sql(
    text: str,
    *,
    tables: Mapping[str, Any],
    spark: Any = None,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> Any:
    """The answer of one SELECT over tables, a DataFrame of `spark` or a pa.Table without it; or the result
    of a statement that changes a table: DELETE, UPDATE, MERGE INTO, INSERT (a WriteResult), CALL (of a
    service).

    `tables` has a path for each name, or a mapping of parameters of `read_table`: `path`, `query`, `begin`,
    `end`, `as_of`, `options`; or other rows: a DataFrame, a pa.Table or Dataset, or {"source": …} as of an
    operator. Of each table the columns are read that the text needs, and the files that its predicates leave.
    Spark plans a SELECT, or DuckDB, whose dialect it is in then; a statement is in Spark's on both engines.
    The text has the rights of the Spark session; in DuckDB it reaches nothing but the tables.
    `options` are settings for reading, for all tables, and for the write of a statement, whose further
    parameters are those of `write_table`. Raises HoodieError; nothing is written then.
    """
    from hoodie.statements.words import check_statement, is_statement, named, relations

    backend = backend_of(spark)
    if is_statement(text):
        from hoodie.statements.run import StatementRequest, run

        request = StatementRequest(
            text=text,
            tables=tables,
            options=options or {},
            extra_metadata=extra_metadata or {},
            force=force,
            dry_run=dry_run,
        )
        return run(backend, request, progress or silent)
    check_statement(text)
    ours, rows = named(tables, options or {})
    return backend.sql(text, ours, relations(rows, backend))


def read_batches(
    path: str,
    *,
    query: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    as_of: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
    options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """The rows of `read_table`, in its order, while they are read: for tables larger than the memory.

    Which files are read is decided now; a writer's commit after it changes nothing, a cleaner may take the
    files of a reading that lasts longer than they are retained. Memory: for each core, and one more, a file
    slice's merge (hoodie.memory.merge.max.size) and 32 MiB of rows.
    """
    from hoodie.read.arrow import read_batches as read_arrow
    from hoodie.read.query import Query

    asked = Query.of(query, begin, end, as_of)
    return read_arrow(path, query=asked, columns=columns, where=where, meta=meta, options=options or {})


def instants(
    path: str, *, archived: bool = False, options: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Instants, oldest first: time, action, state, what commits wrote, and of which instants a rollback, a
    restore or a savepoint is. Raises TableError.

    Those of the active timeline, or, with `archived`, those that were moved out of it. Their `operation` is
    the text in the commit, as Apache Hudi spells it (`UPSERT`); results and events have `upsert`.
    """
    from hoodie.config.key import Config
    from hoodie.table.handle import Table
    from hoodie.table.instants import active_instants, archived_instants
    from hoodie.timeline.time import plain

    table = Table.open(path, Config.of(options or {}))
    found: list[dict[str, Any]] = plain(archived_instants(table) if archived else active_instants(table))
    return found


def file_groups(path: str, *, options: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """File groups with their committed slices, newest first. Raises TableError for no table of ours.

    `name` and `bytes` of a slice are its base file's, None and 0 where it has log files only; `logs` are in
    the order in which they are read.
    """
    from hoodie.config.key import Config
    from hoodie.table.handle import Table
    from hoodie.table.view import file_slices

    table = Table.open(path, Config.of(options or {}))
    snapshot, listing = table.view, table.listing()
    return [
        {
            "partition": partition,
            "file_id": file_id,
            "slices": [
                {
                    "instant": str(item.instant),
                    "name": item.base.name if item.base else None,
                    "bytes": item.base.size if item.base else 0,
                    "logs": [{"name": log.name, "bytes": log.size} for log in item.logs],
                }
                for item in group
                if item.base or item.logs
            ],
        }
        for partition in listing.partitions()
        for file_id, group in file_slices(snapshot, listing.files, partition).items()
        if any(item.base or item.logs for item in group)
    ]


def _rows(rows: Any, path: str, options: Mapping[str, Any] | None) -> Any:
    """A list of dictionaries takes the types of the table's columns, an empty one the columns themselves."""
    if not isinstance(rows, (list, tuple)):
        return rows
    from hoodie.source.target import target_schema

    return arrow_rows(rows, target_schema(path, options or {}))


def _limits(
    max_files: int | None, max_bytes: int | None, lookback_s: float, max_bad_files: int | None
) -> Limits:
    from hoodie.ingestion.checkpoint import Limits

    counts = (("max_files", max_files), ("max_bytes", max_bytes), ("max_bad_files", max_bad_files))
    for name, value in counts:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"{name} is {value!r}; give a whole number, 1 or more, or leave it out")
    if isinstance(lookback_s, bool) or not isinstance(lookback_s, (int, float)) or not lookback_s >= 0:
        raise ConfigError(f"lookback_s is {lookback_s!r}; give seconds, 0 or more")
    return Limits(
        max_files=max_files or 0,
        max_bytes=max_bytes or 0,
        lookback_ms=min(int(lookback_s * 1000), 1 << 62),
        max_bad_files=max_bad_files or 0,
    )


def _of_rows(operation: str | Operation) -> Operation:
    asked = _operation(operation)
    if asked is Operation.DELETE_PARTITION:
        raise InputError("delete_partition takes partition paths, not rows; call hoodie.delete_partitions")
    return asked


def _operation(operation: str | Operation) -> Operation:
    if isinstance(operation, Operation):
        return operation
    try:
        return Operation(operation.lower().replace("-", "_"))
    except (ValueError, AttributeError):
        names = ", ".join(item.value for item in Operation)
        raise InputError(
            f"unknown operation {operation!r}; use one of {names}", operation=str(operation)
        ) from None
