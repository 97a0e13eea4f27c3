"""Executes a statement: the SELECT of its plan on the engine, and the write of its rows.

The rows of the target are read by one timeline. They are written only if no commit of rows came since
(write.input.self_referencing). Otherwise the statement is evaluated again, a few times.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hoodie.backend import Backend
from hoodie.errors import CommitConflict, ConfigError, HoodieError, InputError
from hoodie.pipeline import write
from hoodie.progress import ProgressCallback, silent
from hoodie.read.among import Among
from hoodie.read.duckdb_sql import TableDataset
from hoodie.read.sql_tables import SqlTable
from hoodie.statements.words import MARK, is_of_index, named, relations, table_named
from hoodie.text import install
from hoodie.write.operation import Derived, Operation, WriteRequest, WriteResult
from hoodie.write.settings import INSERT_INTO

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from hoodie.services.results import ServiceResult
    from hoodie.statements.parser import Delete, Insert, Merge, Update
    from hoodie.statements.plan import Join, Plan, Target, Updates

_ATTEMPTS = 3
#: of a source's values that the driver collects and each task is given
_MOST_VALUE_BYTES = 32 << 20
#: the dialect of the engine whose SQL is not Spark's
LOCAL = "duckdb"


@dataclass(frozen=True, kw_only=True)
class StatementRequest:
    """One statement; the fields are the parameters of `hoodie.sql`."""

    text: str
    tables: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    force: bool = False
    dry_run: bool = False


def run(
    backend: Backend, request: StatementRequest, progress: ProgressCallback = silent
) -> WriteResult | ServiceResult:
    """The result of the write, or of the service that is called. Raises HoodieError: ConfigError for a text
    that is no such statement or does not fit the table, InputError for rows that it can't write so,
    CommitConflict where other writers were faster each time.
    """
    _library()
    from hoodie.statements.call import call
    from hoodie.statements.index import index_call
    from hoodie.statements.parser import Call, parsed

    statement = index_call(request.text) if is_of_index(request.text) else parsed(request.text)
    tables, rows = named(request.tables, request.options)
    if isinstance(statement, Call):
        return call(
            statement,
            tables,
            rows,
            backend,
            extra_metadata=request.extra_metadata,
            dry_run=request.dry_run,
            progress=progress,
        )
    name = table_named(statement.target.table, tables, rows)
    for left in reversed(range(_ATTEMPTS)):
        try:
            return _Attempt.of(backend, request, name, tables, rows).run(statement, progress)
        except CommitConflict as error:
            if not left or not error.values.get("derived"):
                raise
            progress("conflict", f"{error.message}; evaluated again")
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Attempt:
    """The target is open: what is read of it is what its timeline has."""

    backend: Backend
    request: StatementRequest
    name: str
    tables: Mapping[str, SqlTable]
    rows: Mapping[str, Any]
    target: Target

    @classmethod
    def of(
        cls,
        backend: Backend,
        request: StatementRequest,
        name: str,
        tables: Mapping[str, SqlTable],
        rows: Mapping[str, Any],
    ) -> _Attempt:
        from hoodie.statements.plan import target_of

        asked = replace(tables[name], table=tables[name].open())
        target = target_of(name, asked)
        return cls(
            backend,
            request,
            name,
            {**tables, name: asked},
            relations(rows, backend, target.schema),
            target,
        )

    def run(self, statement: Delete | Update | Insert | Merge, progress: ProgressCallback) -> WriteResult:
        plan = self._plan(statement)
        try:
            if plan.updates is not None:
                done = self._updated(plan, plan.updates, progress)
                if done is not None:
                    return done
            with self._rows_of(plan, progress) as made:
                return self._written(made, plan, progress)
        except Exception as error:
            if (said := _failure(error)) is None:
                raise
            raise InputError(said, sql=self.request.text) from None

    def _written(
        self, rows: Any, plan: Plan, progress: ProgressCallback, found_by: tuple[str, ...] = ()
    ) -> WriteResult:
        asked = self.tables[self.name]
        request = WriteRequest(
            asked.ref.uri,
            plan.operation,
            dict(asked.config.texts),
            self.request.extra_metadata,
            self.request.force,
            self.request.dry_run,
            derived=Derived(
                read=asked.open().timeline if plan.reads else None,
                flagged=plan.flagged,
                changed=plan.changed,
                found_by=found_by,
            ),
        )
        return write(self.backend.engine(), self.backend.frame(rows), request, progress)

    def _updated(self, plan: Plan, updates: Updates, progress: ProgressCallback) -> WriteResult | None:
        """None where the rows can't be written so, be it that one of them is bad which has no stored row."""
        if self.request.dry_run:
            return None
        rows = self.backend.sql_rows(self._text(updates.query), self._named_in(updates.query), self.rows)
        if self.backend.alike(rows, updates.schema).names != updates.schema.names:
            return None
        progress("read", f"{self.name}: the rows that are found, as they are written")
        try:
            return self._written(rows, plan, progress, updates.found_by)
        except InputError:
            progress("read", f"{self.name}: joined after all, for rows that can't be looked for")
            return None

    @contextlib.contextmanager
    def _rows_of(self, plan: Plan, progress: ProgressCallback) -> Iterator[Any]:
        """The rows that are written. Of a target that a source is joined to, those with its keys are read."""
        from hoodie.statements.plan import SOURCE, TARGET

        join, taken = plan.join, {name.lower() for name in (*self.tables, *self.rows)}
        if join is None or self.backend.dialect == LOCAL or taken & {SOURCE, TARGET}:
            yield self.backend.sql_rows(self._text(plan.query), self.tables, self.rows)
            return
        source = self.backend.sql(self._text(join.source), self._named_in(join.source), self.rows)
        with self.backend.held(source, join.compared, _MOST_VALUE_BYTES) as (held, values):
            among = self._among(join, values)
            what = "the whole table, beside" if among is None else "the rows with keys of"
            progress("read", f"{self.name}: {what} the source")
            tables = {**self._named_in(join.query), TARGET: replace(self.tables[self.name], among=among)}
            yield self.backend.sql_rows(self._text(join.query), tables, {**self.rows, SOURCE: held})

    def _among(self, join: Join, values: pa.Table | None) -> Among | None:
        """None where the source has no values of a key, or too many."""
        known = [] if values is None else values.column_names
        found = {name: theirs for name, theirs in join.columns.items() if theirs in known}
        if values is None or not found.keys() & {*self.target.keys}:
            return None
        return Among.of(values.select([*found.values()]).rename_columns([*found]))

    def _named_in(self, query: exp.Expr) -> Mapping[str, SqlTable]:
        """The tables that a query is about; all where it is about none of the names."""
        from hoodie.statements.plan import tables_of

        wanted = tables_of(query)
        found = {name: asked for name, asked in self.tables.items() if name.lower() in wanted}
        return found if found or wanted & {name.lower() for name in self.rows} else self.tables

    def _plan(self, statement: Delete | Update | Insert | Merge) -> Plan:
        from hoodie.statements import merge, parser, plan

        if isinstance(statement, parser.Delete):
            return plan.delete_plan(statement, self.target)
        if isinstance(statement, parser.Update):
            return plan.update_plan(statement, self.target)
        if isinstance(statement, parser.Insert):
            configured = Operation(self.tables[self.name].config[INSERT_INTO].value)
            operation = plan.insert_operation(statement, configured)
            return plan.insert_plan(statement, self.target, self._columns(statement.query), operation)
        return merge.merge_plan(statement, self.target, self._columns(statement.source))

    def _columns(self, source: exp.Expr) -> list[str]:
        """The names of a source's columns, without a look at its rows."""
        from sqlglot import exp

        rows = (
            source.subquery("hoodie_rows") if isinstance(source, exp.Query) and not source.alias else source
        )
        asked = exp.select("*").from_(rows.copy())
        if self.backend.dialect != LOCAL:
            text = asked.limit(0).sql(self.backend.dialect)
            answer = self.backend.sql(text, self._named_in(asked), self.rows)
            return list(answer.columns)
        from hoodie.statements.local import queries

        return list(queries.answer(asked, self._schemas(asked)).names)

    def _text(self, query: exp.Query) -> str:
        """The query for the engine. Raises ConfigError for what does not mean the same on both."""
        if self.backend.dialect != LOCAL:
            return query.sql(self.backend.dialect)
        from hoodie.statements.local import queries

        return queries.text(query, self._schemas(query))

    def _schemas(self, query: exp.Expr) -> dict[str, pa.Schema]:
        """Of the tables of a query, by names in lower case."""
        from hoodie.statements.plan import tables_of

        wanted = tables_of(query)
        found = {
            name: TableDataset(name, asked) for name, asked in self.tables.items() if name.lower() in wanted
        }
        return {name.lower(): given.schema for name, given in {**found, **self.rows}.items()}


def _failure(error: BaseException) -> str | None:
    """What the statement says of rows that it can't write, in the error of whichever engine."""
    text = error.message if isinstance(error, HoodieError) else str(error)
    _, found, said = text.partition(MARK)
    return said.splitlines()[0].partition(" SQLSTATE")[0].partition("; columns are")[0] if found else None


def _library() -> None:
    """Raises ConfigError where the parser is not installed."""
    try:
        import sqlglot  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"statements that change a table need the package sqlglot, which is not here ({error}): "
            + install("sql")
        ) from None
