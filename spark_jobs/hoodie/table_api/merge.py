"""MERGE INTO, clause by clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodie import api
from hoodie.backend import arrow_rows
from hoodie.errors import ConfigError, InputError
from hoodie.progress import ProgressCallback
from hoodie.source.target import target_schema

if TYPE_CHECKING:
    from typing import Self

    from hoodie.write.operation import WriteResult

TARGET, SOURCE = "target", "source"


class MergeBuilder:
    """Rows that are merged into a table, by clauses in Spark's SQL.

    In the clauses `target.column` is the stored row, and `source.column` the incoming one. Of the clauses of
    one kind the first counts whose predicate is true. A pair that no clause takes stays as it is. Each method
    adds a clause and returns the builder; `execute` writes, as one commit.
    """

    def __init__(self, path: str, rows: Any, on: str, options: Mapping[str, Any]) -> None:
        self._path = path
        self._rows = rows
        self._on = on
        self._options = options
        self._clauses: list[str] = []

    def when_matched_update(self, updates: Mapping[str, str], predicate: str | None = None) -> Self:
        """Set columns of the stored row; `updates` has SQL for each: {"amount": "source.amount"}."""
        given = checked_updates(updates)
        assigned = ", ".join(f"{quoted(name)} = {value}" for name, value in given.items())
        return self._when("MATCHED", predicate, f"UPDATE SET {assigned}")

    def when_matched_update_all(self, predicate: str | None = None) -> Self:
        """Replace the stored row by the incoming one."""
        return self._when("MATCHED", predicate, "UPDATE SET *")

    def when_matched_delete(self, predicate: str | None = None) -> Self:
        """Delete the stored row."""
        return self._when("MATCHED", predicate, "DELETE")

    def when_not_matched_insert(self, updates: Mapping[str, str], predicate: str | None = None) -> Self:
        """Insert a row with these columns; others are null."""
        given = checked_updates(updates)
        names, values = ", ".join(map(quoted, given)), ", ".join(given.values())
        return self._when("NOT MATCHED", predicate, f"INSERT ({names}) VALUES ({values})")

    def when_not_matched_insert_all(self, predicate: str | None = None) -> Self:
        """Insert the incoming row."""
        return self._when("NOT MATCHED", predicate, "INSERT *")

    @property
    def sql(self) -> str:
        """The statement."""
        return "\n".join([f"MERGE INTO {TARGET} USING {SOURCE} ON {self._on}", *self._clauses])

    def execute(
        self,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        force: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> WriteResult:
        """Write. Parameters and errors: those of `hoodie.sql`; ConfigError for a merge without a clause."""
        if not self._clauses:
            raise ConfigError("the merge has no clause; add one, such as when_matched_update_all()")
        is_frame = hasattr(self._rows, "sparkSession")
        result: WriteResult = api.sql(
            self.sql,
            tables={
                TARGET: {"path": self._path, "options": self._options},
                SOURCE: self._rows if is_frame else _repeatable(self._rows, self._path, self._options),
            },
            spark=self._rows.sparkSession if is_frame else None,
            extra_metadata=extra_metadata,
            force=force,
            dry_run=dry_run,
            progress=progress,
        )
        return result

    def __repr__(self) -> str:
        return f"merge into {self._path!r}:\n{self.sql}"

    def _when(self, kind: str, predicate: str | None, action: str) -> Self:
        condition = "" if predicate is None else f" AND ({predicate})"
        self._clauses.append(f"WHEN {kind}{condition} THEN {action}")
        return self


def on_text(on: str | Sequence[str], columns: Sequence[str]) -> str:
    """The condition of a merge: a text that is no name among `columns` is one, names are compared."""
    if isinstance(on, str) and on not in columns:
        return on
    names = [on] if isinstance(on, str) else list(on)
    if not names:
        raise ConfigError("on is empty; name the columns of the record key, or leave it out")
    return " AND ".join(f"{TARGET}.{quoted(name)} = {SOURCE}.{quoted(name)}" for name in names)


def quoted(name: str) -> str:
    """A name of a column in Spark's SQL."""
    return f"`{name.replace('`', '``')}`"


def checked_updates(updates: Mapping[str, str]) -> Mapping[str, str]:
    """Columns with SQL for each; raises ConfigError for anything else."""
    if not isinstance(updates, Mapping) or not updates:
        raise ConfigError(f"the clause has {updates!r}; give columns and SQL: {{'amount': 'source.amount'}}")
    for name, value in updates.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigError(
                f"the clause sets {name!r} to {value!r}; give SQL as a text, such as 'source.amount' or '5'",
                column=str(name),
            )
    return updates


def _repeatable(rows: Any, path: str, options: Mapping[str, Any]) -> Any:
    """The rows in a form that may be read twice: a statement is evaluated again after a conflict."""
    known = target_schema(path, options) if isinstance(rows, (list, tuple)) else None
    found = arrow_rows(rows, known)
    try:
        return found.read_all() if hasattr(found, "read_all") else found
    except (ValueError, OSError) as error:
        raise InputError(f"the rows of the merge can't be read: {error}") from None
