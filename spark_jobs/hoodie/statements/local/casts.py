"""Casts by (from type, to type): those of the list, those that Spark does by itself, and assignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoodie.errors import ConfigError
from hoodie.statements.local.bound import Bound, guarded, refused
from hoodie.statements.local.literals import constant_as
from hoodie.statements.local.types import (
    DATE,
    FLOATING,
    MAX_PRECISION,
    NUMBERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    WHOLE,
    SqlType,
    common,
    decimal,
)

_PLAIN = "CAST({0} AS {type})"


@dataclass(frozen=True, kw_only=True)
class Cast:
    """`text`: DuckDB's. `takes`: where it is true the value is cast, else the statement fails. `note`: of
    the page.
    """

    text: str = _PLAIN
    takes: str = ""
    note: str = ""


_CUT = Cast(text="CAST(trunc({0}) AS {type})", note="the fraction is cut off")
_ROUNDED = Cast(note="rounded half up")
_SIGNED = r"[+-]?[0-9]+"
_DIGITS = Cast(takes=f"regexp_full_match({{0}}, '{_SIGNED}')", note="digits with or without a sign")
_DECIMALS = Cast(
    takes=f"regexp_full_match({{0}}, '{_SIGNED}([.][0-9]+)?')",
    note="digits with or without sign and fraction, rounded half up",
)
_NUMBER = Cast(
    takes=f"regexp_full_match({{0}}, '{_SIGNED}([.][0-9]+)?([eE]{_SIGNED})?')",
    note="digits with or without sign, fraction and exponent",
)
_DAY = Cast(takes="regexp_full_match({0}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')", note="`yyyy-mm-dd`")
_OF_DAY = Cast(takes="year({0}) BETWEEN 1 AND 9999", note="days of the years 1 to 9999")
_BY_TEXT = Cast(text="CAST(CAST({0} AS VARCHAR) AS {type})")
_OF_TIME = Cast(
    text="CAST(timezone('UTC', {0}) AS {type})",
    takes="year({0}) BETWEEN 1 AND 9999",
    note="instants of the years 1 to 9999, in UTC",
)
_OF_NTZ = Cast(takes="year({0}) BETWEEN 1 AND 9999", note="times of the years 1 to 9999")
_MIDNIGHT = Cast(
    text="CAST(timezone('UTC', CAST({0} AS TIMESTAMP)) AS {type})",
    takes="year({0}) BETWEEN 1 AND 9999",
    note="midnight in UTC, of the years 1 to 9999",
)
_INSTANT_OF_NTZ = Cast(
    text="timezone('UTC', {0})", takes="year({0}) BETWEEN 1 AND 9999", note="as UTC, of the years 1 to 9999"
)
_TIME = r"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}})?"
_INSTANT = Cast(
    text="timezone('UTC', CAST({0} AS TIMESTAMP))",
    takes=f"regexp_full_match({{0}}, '{_TIME}')",
    note="`yyyy-mm-dd hh:mm:ss[.ffffff]`, in UTC",
)
_LOCAL_TIME = Cast(
    takes=f"regexp_full_match({{0}}, '{_TIME}')",
    note="`yyyy-mm-dd hh:mm:ss[.ffffff]`",
)
_TRUTH = Cast(
    text="(lower({0}) = 'true')",
    takes="lower({0}) IN ('true', 'false')",
    note="`true` and `false`, in any case",
)


def _casts() -> dict[tuple[str, str], Cast]:
    whole_to = ((*WHOLE, *FLOATING, "string"), Cast())
    found = {(one, other): whole_to[1] for one in WHOLE for other in whole_to[0] if one != other}
    for one in WHOLE:
        found |= {
            (one, "decimal"): Cast(),
            ("decimal", one): _CUT,
            ("float", one): _CUT,
            ("double", one): _CUT,
            ("string", one): _DIGITS,
            ("boolean", one): Cast(),
        }
    return {
        **found,
        ("float", "double"): Cast(),
        ("double", "float"): Cast(),
        ("decimal", "decimal"): _ROUNDED,
        ("decimal", "float"): _BY_TEXT,
        ("decimal", "double"): _BY_TEXT,
        ("decimal", "string"): Cast(),
        ("boolean", "string"): Cast(),
        ("string", "float"): _NUMBER,
        ("string", "double"): _NUMBER,
        ("string", "decimal"): _DECIMALS,
        ("string", "date"): _DAY,
        ("date", "string"): _OF_DAY,
        ("string", "boolean"): _TRUTH,
        ("date", "timestamp"): _MIDNIGHT,
        ("date", "timestamp_ntz"): _OF_DAY,
        ("timestamp", "date"): _OF_TIME,
        ("timestamp", "timestamp_ntz"): _OF_TIME,
        ("timestamp", "string"): _OF_TIME,
        ("timestamp_ntz", "date"): _OF_NTZ,
        ("timestamp_ntz", "timestamp"): _INSTANT_OF_NTZ,
        ("timestamp_ntz", "string"): _OF_NTZ,
        ("string", "timestamp"): _INSTANT,
        ("string", "timestamp_ntz"): _LOCAL_TIME,
    }


CASTS = _casts()


def cast(given: Bound, to: SqlType) -> Bound:
    """An explicit cast. Raises ConfigError for one that is not on the list."""
    if given.type == to:
        return Bound(text=given.text, type=to)
    if given.type == VOID:
        return Bound(text=_null(given, to), type=to)
    made = constant_as(given, to)
    if made is not None:
        return made
    entry = CASTS.get((given.type.name, to.name))
    if entry is None:
        raise refused(f"CAST from {given.type} to {to}")
    text = entry.text.format(_with_integer_digit(given, to), type=to.duckdb)
    if entry.takes:
        wrong = f"NOT {entry.takes.format(given.text)}"
        said = (
            f'CAST from {given.type} to {to} takes {entry.note} on the local engine; use engine="spark" for'
        )
        text = guarded(wrong, said, given.text, text, to)
    return Bound(text=text, type=to)


def _with_integer_digit(given: Bound, to: SqlType) -> str:
    """DuckDB writes a decimal that has decimals only without the 0 before the point."""
    kind = given.type
    if to != STRING or kind.name != "decimal" or kind.precision > kind.scale:
        return given.text
    if kind.precision == MAX_PRECISION:
        raise refused(f"CAST from {kind} to {to}")
    return f"CAST({given.text} AS {decimal(kind.precision + 1, kind.scale).duckdb})"


def widened(given: Bound, to: SqlType) -> Bound:
    """A value in a type that it takes beside others, as `common` gives it."""
    return given if given.type == to else cast(given, to)


def unified(given: Sequence[Bound], what: str) -> tuple[list[str], SqlType]:
    """Texts of one type, and the type. Raises ConfigError for types that have none that is proven."""
    wider = common([item.type for item in given])
    if wider is None:
        known = common([item.type for item in given if not isinstance(item.constant, str)])
        if known in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            given = [(constant_as(item, known) if item.type == STRING else None) or item for item in given]
            wider = known
    if wider is None:
        raise refused(f"{what} of {listed(given)}", "write a CAST")
    return [widened(item, wider).text for item in given], wider


def _null(given: Bound, kind: SqlType) -> str:
    """A value without a type in one: null, or an error."""
    text = given.text if given.fails else "NULL"
    return f"CAST({text} AS {kind.duckdb})" if kind.duckdb else text


def listed(given: Sequence[Bound]) -> str:
    kinds = [str(item.type) for item in given]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"


def assigned(given: Bound, to: SqlType, column: str, written: str) -> Bound:
    """A value that a column of a type takes, as Spark assigns it (spark.sql.storeAssignmentPolicy=ANSI).

    Raises ConfigError where Spark assigns none, and for a cast that is not on the list.
    """
    if given.type in (to, VOID):
        return cast(given, to)
    if isinstance(given.constant, str) and (made := constant_as(given, to)) is not None:
        return made
    if not _assigns(given.type.name, to.name):
        raise ConfigError(
            f"{written} is {given.type} and column {column} is {to}: Spark assigns no {given.type} to {to}; "
            f"write CAST({written} AS {to}) or a value of that type",
            column=column,
        )
    return cast(given, to)


def _assigns(given: str, to: str) -> bool:
    """Does Spark assign values of a type to a column of another one."""
    if to == "string":
        return given in (*NUMBERS, "boolean", *_DAYS)
    return {given, to} <= set(NUMBERS) or {given, to} <= set(_DAYS)


_DAYS = ("date", "timestamp", "timestamp_ntz")
