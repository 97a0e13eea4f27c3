"""Pre-commit validators: queries that decide whether a write is published (Apache Hudi's SQL validators).

They see the rows of the partitions that the write touches, as they are and as they are going to be, meta
columns included; logs are merged, where Apache Hudi looks at base files only. They run when all files are
written, before the completed instant; one that fails withdraws the write.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config, Key
from hoodie.engine import Engine
from hoodie.errors import ConfigError, ValidationFailed
from hoodie.mask import masked
from hoodie.progress import ProgressCallback
from hoodie.read.settings import SPILL_PATH
from hoodie.table.handle import Table
from hoodie.table.properties import TableProperties
from hoodie.timeline.commit import VALIDATIONS_KEY, CommitMetadata
from hoodie.timeline.time import InstantTime
from hoodie.write.plan import WritePlan
from hoodie.write.settings import EQUALITY, INEQUALITY, SINGLE, VALIDATORS

if TYPE_CHECKING:
    from hoodie.read.partition_snapshot import Ask

#: what stands for the table in a query
TABLE_NAME = "<TABLE_NAME>"
_BEFORE, _AFTER = "hoodie_state_before", "hoodie_state_after"
_PACKAGE = "org.apache.hudi.client.validator."
_SHOWN = 5
#: of rows before and after the write
_SAME, _OTHER = "the same rows", "other rows"
#: characters of a text that a commit keeps
_KEPT = 1000


class Kind(enum.Enum):
    """Values: Apache Hudi's class."""

    EQUALITY = "SqlQueryEqualityPreCommitValidator"
    INEQUALITY = "SqlQueryInequalityPreCommitValidator"
    SINGLE = "SqlQuerySingleResultPreCommitValidator"

    @property
    def key(self) -> Key[tuple[str, ...]]:
        return {Kind.EQUALITY: EQUALITY, Kind.INEQUALITY: INEQUALITY, Kind.SINGLE: SINGLE}[self]


@dataclass(frozen=True)
class Validator:
    """One query; `expected` is that of a single value."""

    kind: Kind
    query: str
    expected: str = ""

    def outcome(self, ask: Ask) -> tuple[bool, str, str]:
        """Whether the write may be published, what was expected, and what was found. Raises QueryError."""
        if self.kind is Kind.SINGLE:
            return self._single(ask)
        before, after = self._of(_BEFORE), self._of(_AFTER)
        [(differing,)] = ask(
            f"SELECT count(*) FROM ((SELECT * FROM {before} AS a EXCEPT ALL SELECT * FROM {after} AS b) "
            f"UNION ALL (SELECT * FROM {after} AS c EXCEPT ALL SELECT * FROM {before} AS d)) AS differing"
        )
        if (differing == 0) is (self.kind is Kind.EQUALITY):
            same = _SAME if differing == 0 else _OTHER
            return True, same, same
        rows = _shown(ask(f"SELECT * FROM {before} AS a LIMIT {_SHOWN + 1}"))
        if self.kind is Kind.INEQUALITY:
            return False, f"other rows than {rows}", _SAME
        return False, rows, _shown(ask(f"SELECT * FROM {after} AS a LIMIT {_SHOWN + 1}"))

    def _single(self, ask: Ask) -> tuple[bool, str, str]:
        [(found,)] = ask(f"SELECT CAST({self._of(_AFTER)} AS STRING)")
        passed = found is not None and _same(str(found), self.expected)
        return passed, self.expected, "null" if found is None else str(found)

    def _of(self, table: str) -> str:
        return f"(\n{self.query.replace(TABLE_NAME, table)}\n)"


def validators(config: Config) -> tuple[Validator, ...]:
    """Those that the settings ask for. Raises ConfigError for unknown ones, and for queries that would not
    be asked.
    """
    kinds = list(dict.fromkeys(_kind(name) for name in config[VALIDATORS]))
    for kind in Kind:
        queries = config[kind.key]
        if queries and kind not in kinds:
            raise ConfigError(
                f"{kind.key.name} is set, but {VALIDATORS.name} does not name {kind.value}; add it, or take "
                "the queries out",
                setting=kind.key.name,
            )
        if kind in kinds and not queries:
            raise ConfigError(
                f"{VALIDATORS.name} names {kind.value}, but there is no query; give {kind.key.name}",
                setting=kind.key.name,
            )
    return tuple(_validator(kind, query) for kind in kinds for query in config[kind.key])


def rehearse(engine: Engine, table: Table, plan: WritePlan) -> None:
    """Ask every query about no rows: raises ConfigError for one that can't be evaluated."""
    every = validators(plan.config)
    if not every:
        return
    from hoodie.read.partition_snapshot import QueryError

    props = TableProperties(plan.new_properties or {})
    with _asking(engine, table, plan, every, props, ()) as ask:
        for validator in every:
            try:
                validator.outcome(ask)
            except QueryError as error:
                raise ConfigError(
                    f"{validator.kind.key.name}: {validator.query!r} can't be evaluated: {error}; correct "
                    "the query. Nothing was written",
                    setting=validator.kind.key.name,
                    query=validator.query,
                ) from None


def gate(
    engine: Engine, table: Table, plan: WritePlan, instant: InstantTime, progress: ProgressCallback
) -> Callable[[CommitMetadata], dict[str, str]] | None:
    """What Transaction.commit calls before it publishes; None without validators.

    It returns the extra metadata with the outcome of each query. It raises ValidationFailed that names the
    queries that failed, with what was expected and found; its value `validations` is the JSON of all.
    """
    every = validators(plan.config)
    if not every:
        return None

    def check(metadata: CommitMetadata) -> dict[str, str]:
        progress("validate", f"{len(every)} queries about {len(metadata.partitions)} partitions")
        props = table.read_properties()
        partitions = metadata.partitions
        with _asking(engine, table, plan, every, props, partitions, (instant, metadata)) as ask:
            found = [_outcome(validator, ask) for validator in every]
        rows = [{name: _stored(value) for name, value in item.items()} for item in found]
        said = json.dumps(rows)
        if failures := [item for item in found if not item["passed"]]:
            raise _failed(failures, len(every), said)
        return {VALIDATIONS_KEY: said}

    return check


def _asking(
    engine: Engine,
    table: Table,
    plan: WritePlan,
    every: Sequence[Validator],
    props: TableProperties,
    partitions: Sequence[str],
    written: tuple[InstantTime, CommitMetadata] | None = None,
) -> contextlib.AbstractContextManager[Ask]:
    """The states that the queries are about; `written` is the instant and what it is going to commit."""
    from hoodie.read.partition_snapshot import sql_about, state_view

    context = plan.context
    before = after = context.snapshot
    if written is not None:
        instant, metadata = written
        replaced = getattr(metadata, "partition_to_replace_file_ids", {})
        gone = {(partition, file_id) for partition, ids in replaced.items() for file_id in ids}
        after = replace(
            before, committed=before.committed | {instant}, replaced=before.replaced | frozenset(gone)
        )
    listing = table.listing()
    views = {
        name: state_view(table, props, plan.config, snapshot, context.file_schema, listing, partitions)
        for name, snapshot in ((_BEFORE, before), (_AFTER, after))
        if name == _AFTER or any(validator.kind is not Kind.SINGLE for validator in every)
    }
    if context.evolution is not None:
        views = {
            name: replace(view, context=replace(view.context, evolution=context.evolution))
            for name, view in views.items()
        }
    return sql_about(engine, table.storage, views, plan.config[SPILL_PATH] or "")


def _outcome(validator: Validator, ask: Ask) -> dict[str, Any]:
    """As CommitMetadata.validations has it."""
    from hoodie.read.partition_snapshot import QueryError

    try:
        passed, expected, found = validator.outcome(ask)
    except QueryError as error:
        passed, expected, found = False, validator.expected or "an answer", f"an error: {error}"
    return {
        "validator": validator.kind.value,
        "query": validator.query,
        "passed": passed,
        "expected": expected,
        "found": found,
    }


def _stored(value: Any) -> Any:
    """Every reader of the table sees it."""
    return masked(value)[:_KEPT] if isinstance(value, str) else value


def _failed(failures: Sequence[dict[str, Any]], asked: int, said: str) -> ValidationFailed:
    named = [
        f"{item['validator']} failed for {item['query']!r}: expected {item['expected']}, "
        f"found {item['found']}"
        for item in failures[:_SHOWN]
    ]
    more = f" ({len(failures)} of {asked} failed)" if failures[1:] else ""
    first = {name: value for name, value in failures[0].items() if name != "passed"}
    return ValidationFailed(
        f"{'; '.join(named)}{more}. The write was withdrawn; correct the rows or the query",
        **first,
        failed=len(failures),
        validations=said,
    )


def _kind(name: str) -> Kind:
    short = name.removeprefix(_PACKAGE)
    for kind in Kind:
        if short == kind.value or short.lower() == kind.name.lower():
            return kind
    known = ", ".join(_PACKAGE + kind.value for kind in Kind)
    raise ConfigError(
        f"{VALIDATORS.name}: no validator {name!r} here; there are {known}. Write what it checks as a query",
        setting=VALIDATORS.name,
        value=name,
    )


def _validator(kind: Kind, text: str) -> Validator:
    query, mark, expected = text.rpartition("#") if kind is Kind.SINGLE else (text, "#", "")
    problem = ""
    if not mark or not query.strip() or (kind is Kind.SINGLE and not expected.strip()):
        problem = "write `SELECT…#expected`"
    elif TABLE_NAME not in query:
        problem = f"write {TABLE_NAME} where the table's name belongs"
    if problem:
        raise ConfigError(
            f"{kind.key.name}: {text!r} is no query of {kind.value}; {problem}",
            setting=kind.key.name,
            query=text,
        )
    return Validator(kind, query.strip(), expected.strip())


def _same(found: str, expected: str) -> bool:
    if found == expected:
        return True
    try:
        return Decimal(found) == Decimal(expected)
    except InvalidOperation:
        return False


def _shown(rows: Sequence[tuple[Any, ...]]) -> str:
    if not rows:
        return "no rows"
    shown = ", ".join(
        str(row[0]) if len(row) == 1 else f"({', '.join(map(str, row))})" for row in rows[:_SHOWN]
    )
    return shown + (", …" if len(rows) > _SHOWN else "")
