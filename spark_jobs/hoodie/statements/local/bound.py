"""An expression in DuckDB's SQL with its type in Spark's, and how one is refused."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from hoodie.errors import ConfigError
from hoodie.statements.local.types import SqlType
from hoodie.statements.words import MARK

#: the most letters that DuckDB's text may have: guards repeat what they guard
_LONGEST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Bound:
    """`text` is one operand for whatever stands around it. `constant`: the value of a literal. `fails`: no
    value, but an error.
    """

    text: str
    type: SqlType
    constant: str | int | Decimal | None = None
    fails: bool = False

    def __post_init__(self) -> None:
        if len(self.text) > _LONGEST:
            raise refused("an expression that is nested so deeply")


def refused(what: str, instead: str = "") -> ConfigError:
    """The error of what is not on the list, which names it and the next step."""
    other = f"{instead}, or " if instead else ""
    return ConfigError(
        f"{what} is not on the list of what means the same on the local engine as in Spark "
        f'(docs/sql-functions.md); {other}use engine="spark" (in Python: spark=)',
        refused=what,
    )


def failed(text: str, shown: str, kind: SqlType) -> str:
    """DuckDB's expression that fails with the text and a shown value, in the place of a value of a type."""
    said = quoted(f"{MARK}{text}: ")
    return f"CAST(error({said} || CAST({shown} AS VARCHAR)) AS {kind.duckdb})"


def guarded(wrong: str, text: str, shown: str, value: str, kind: SqlType) -> str:
    """A value, unless a condition is true: then the statement fails."""
    return f"(CASE WHEN {wrong} THEN {failed(text, shown, kind)} ELSE {value} END)"


def quoted(text: str) -> str:
    """A text as DuckDB's literal."""
    return "'" + text.replace("'", "''") + "'"


def named(text: str) -> str:
    """A name as DuckDB's identifier."""
    return '"' + text.replace('"', '""') + '"'
