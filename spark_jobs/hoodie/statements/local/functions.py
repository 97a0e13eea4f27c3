"""Functions: by name and types of the arguments, DuckDB's text and Spark's type of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hoodie.statements.local.bound import Bound, guarded, refused
from hoodie.statements.local.casts import cast, listed, unified
from hoodie.statements.local.operators import boolean, compared, concatenated, is_null
from hoodie.statements.local.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    GROUPED,
    INT,
    MAX_PRECISION,
    NUMBERS,
    STRING,
    VOID,
    WHOLE,
    SqlType,
    decimal,
)


@dataclass(frozen=True, kw_only=True)
class Function:
    """`takes`, `gives`, `note`: of the page. `bind`: makes the result of name and arguments."""

    names: tuple[str, ...]
    takes: str
    gives: str
    bind: Callable[[str, Sequence[Bound]], Bound]
    note: str = ""


def _counted(name: str, given: Sequence[Bound], least: int, most: int | None = None) -> None:
    """Raises ConfigError for another number of arguments."""
    if not least <= len(given) <= (most if most is not None else len(given)):
        raise refused(f"the function {name} with {len(given)} arguments")


def _of(families: Sequence[Sequence[str]], gives: SqlType, text: str) -> Callable[..., Bound]:
    """A function whose arguments have types of these families."""

    def bind(name: str, given: Sequence[Bound]) -> Bound:
        _counted(name, given, len(families), len(families))
        for item, family in zip(given, families, strict=True):
            if item.type.name not in family:
                raise refused(f"the function {name} of {listed(given)}", "write a CAST")
        return Bound(text=text.format(*(item.text for item in given)), type=gives)

    return bind


def _first(name: str, given: Sequence[Bound]) -> Bound:
    _counted(name, given, 1 if name == "coalesce" else 2, None if name == "coalesce" else 2)
    texts, kind = unified(given, name)
    return Bound(text=f"COALESCE({', '.join(texts)})", type=kind)


def _unless_equal(name: str, given: Sequence[Bound]) -> Bound:
    _counted(name, given, 2, 2)
    same = compared("=", given).text
    kind = given[0].type
    if kind == VOID:
        raise refused(f"{name} of NULL")
    return Bound(text=f"(CASE WHEN {same} THEN NULL ELSE {given[0].text} END)", type=kind)


def chosen(name: str, given: Sequence[Bound]) -> Bound:
    _counted(name, given, 3, 3)
    (yes, no), kind = unified(given[1:], name)
    return Bound(text=f"(CASE WHEN {boolean(given[0], name)} THEN {yes} ELSE {no} END)", type=kind)


def _null(name: str, given: Sequence[Bound]) -> Bound:
    _counted(name, given, 1, 1)
    found = is_null(name, given)
    return found if name == "isnull" else Bound(text=f"(NOT {found.text})", type=BOOLEAN)


def _extreme(name: str, given: Sequence[Bound]) -> Bound:
    _counted(name, given, 2)
    texts, kind = unified(given, name)
    if kind.name not in GROUPED:
        raise refused(f"the function {name} of {listed(given)}")
    return Bound(text=f"{name}({', '.join(texts)})", type=kind)


def _absolute(name: str, given: Sequence[Bound]) -> Bound:
    _counted(name, given, 1, 1)
    if given[0].type.name not in NUMBERS:
        raise refused(f"the function {name} of {listed(given)}")
    return Bound(text=f"CAST(abs({given[0].text}) AS {given[0].type.duckdb})", type=given[0].type)


def _cased(name: str, given: Sequence[Bound]) -> Bound:
    """Of letters beyond ASCII the engines' upper and lower cases differ, as of ß."""
    _counted(name, given, 1, 1)
    if given[0].type not in (STRING, VOID):
        raise refused(f"the function {name} of {listed(given)}", "cast to string")
    text = cast(given[0], STRING).text
    said = f'{name} takes ASCII texts on the local engine; use engine="spark" for'
    made = f"{'upper' if name in ('upper', 'ucase') else 'lower'}({text})"
    return Bound(text=guarded(f"strlen({text}) <> length({text})", said, text, made, STRING), type=STRING)


def substring(name: str, given: Sequence[Bound]) -> Bound:
    """From a place that is a literal; 0 is the first one, as 1 is."""
    _counted(name, given, 2, 3)
    places = [item.constant for item in given[1:]]
    if given[0].type not in (STRING, VOID) or not all(isinstance(item, int) for item in places):
        raise refused(f"the function {name} of {listed(given)}", "take a string and whole numbers as literals")
    start, *rest = [int(item) for item in places if isinstance(item, int)]
    if start < 0 or any(item < 0 for item in rest) or not all(fits_int(item) for item in (start, *rest)):
        raise refused(f"the function {name} with a place or length below 0")
    texts = [cast(given[0], STRING).text, *map(str, (max(start, 1), *rest))]
    return Bound(text=f"substring({', '.join(texts)})", type=STRING)


def fits_int(value: int) -> bool:
    return value < 1 << 31


def aggregate(name: str, given: Sequence[Bound], *, distinct: bool, rows: bool) -> Bound:
    """`rows`: is it count(*). Raises ConfigError for types that are not on the list."""
    _counted(name, given, 0 if rows else 1, 0 if rows else 1)
    if name == "count":
        if distinct and given[0].type.name not in GROUPED:
            raise refused(f"count(DISTINCT …) of {listed(given)}")
        text = "count(*)" if rows else f"count({'DISTINCT ' * distinct}{given[0].text})"
        return Bound(text=text, type=BIGINT)
    kind = given[0].type
    if distinct:
        raise refused(f"the function {name} with DISTINCT")
    if name in ("min", "max"):
        if kind.name not in GROUPED:
            raise refused(f"the function {name} of {listed(given)}")
        return Bound(text=f"{name}({given[0].text})", type=kind)
    made = BIGINT if kind.name in WHOLE else None
    if kind.name == "decimal" and kind.precision + 10 <= MAX_PRECISION:
        made = decimal(kind.precision + 10, kind.scale)
    if made is None:
        raise refused(f"the function {name} of {listed(given)}", "cast to a decimal of up to 28 digits")
    return Bound(text=f"CAST(sum({given[0].text}) AS {made.duckdb})", type=made)


_STRING, _DATE = ("string",), ("date",)
_ASCII = "texts of ASCII letters; others are an error"
_ALL = [
    Function(names=("coalesce",), takes="values of one type", gives="it", bind=_first),
    Function(names=("nvl", "ifnull"), takes="two values of one type", gives="it", bind=_first),
    Function(names=("nullif",), takes="two values of one type", gives="that of the first", bind=_unless_equal),
    Function(names=("if",), takes="a condition, two values of one type", gives="it", bind=chosen),
    Function(names=("isnull", "isnotnull"), takes="any value", gives="boolean", bind=_null),
    Function(
        names=("greatest", "least"), takes="values of one type but float and double", gives="it", bind=_extreme
    ),
    Function(names=("abs",), takes="a number", gives="its type", bind=_absolute),
    Function(names=("upper", "ucase", "lower", "lcase"), takes="a string", gives="string", bind=_cased, note=_ASCII),
    Function(
        names=("length", "char_length", "character_length", "len"),
        takes="a string",
        gives="int",
        bind=_of([_STRING], INT, "CAST(length({0}) AS INTEGER)"),
    ),
    Function(names=("trim",), takes="a string", gives="string", bind=_of([_STRING], STRING, "trim({0}, ' ')")),
    Function(names=("ltrim",), takes="a string", gives="string", bind=_of([_STRING], STRING, "ltrim({0}, ' ')")),
    Function(names=("rtrim",), takes="a string", gives="string", bind=_of([_STRING], STRING, "rtrim({0}, ' ')")),
    Function(
        names=("substring", "substr"),
        takes="a string, a place and possibly a length from 0 on, as literals",
        gives="string",
        bind=substring,
    ),
    Function(names=("concat",), takes="strings", gives="string", bind=concatenated, note="NULL if one is"),
    Function(
        names=("replace",),
        takes="three strings",
        gives="string",
        bind=_of([_STRING] * 3, STRING, "replace({0}, {1}, {2})"),
    ),
    Function(
        names=("startswith",),
        takes="two strings",
        gives="boolean",
        bind=_of([_STRING] * 2, BOOLEAN, "starts_with({0}, {1})"),
    ),
    Function(
        names=("endswith",),
        takes="two strings",
        gives="boolean",
        bind=_of([_STRING] * 2, BOOLEAN, "suffix({0}, {1})"),
    ),
    Function(
        names=("contains",),
        takes="two strings",
        gives="boolean",
        bind=_of([_STRING] * 2, BOOLEAN, "contains({0}, {1})"),
    ),
    Function(
        names=("year",), takes="a date", gives="int", bind=_of([_DATE], INT, "CAST(year({0}) AS INTEGER)")
    ),
    Function(
        names=("quarter",), takes="a date", gives="int", bind=_of([_DATE], INT, "CAST(quarter({0}) AS INTEGER)")
    ),
    Function(
        names=("month",), takes="a date", gives="int", bind=_of([_DATE], INT, "CAST(month({0}) AS INTEGER)")
    ),
    Function(
        names=("day", "dayofmonth"),
        takes="a date",
        gives="int",
        bind=_of([_DATE], INT, "CAST(day({0}) AS INTEGER)"),
    ),
    Function(
        names=("dayofweek",),
        takes="a date",
        gives="int",
        bind=_of([_DATE], INT, "CAST(dayofweek({0}) + 1 AS INTEGER)"),
        note="Sunday is 1",
    ),
    Function(
        names=("weekday",),
        takes="a date",
        gives="int",
        bind=_of([_DATE], INT, "CAST(isodow({0}) - 1 AS INTEGER)"),
        note="Monday is 0",
    ),
    Function(
        names=("dayofyear",),
        takes="a date",
        gives="int",
        bind=_of([_DATE], INT, "CAST(dayofyear({0}) AS INTEGER)"),
    ),
    Function(
        names=("last_day",), takes="a date", gives="date", bind=_of([_DATE], DATE, "last_day({0})")
    ),
    Function(
        names=("date_add", "dateadd"),
        takes="a date, an int",
        gives="date",
        bind=_of([_DATE, ("tinyint", "smallint", "int")], DATE, "({0} + {1})"),
    ),
    Function(
        names=("date_sub",),
        takes="a date, an int",
        gives="date",
        bind=_of([_DATE, ("tinyint", "smallint", "int")], DATE, "({0} - {1})"),
    ),
    Function(
        names=("datediff", "date_diff"),
        takes="end and start, dates",
        gives="int",
        bind=_of([_DATE, _DATE], INT, "CAST({0} - {1} AS INTEGER)"),
    ),
]
FUNCTIONS = {name: function for function in _ALL for name in function.names}
#: aggregate functions, and what the page says of them
AGGREGATES = {
    "count": "`count(*)`; `count(x)`; `count(DISTINCT x)` but of float and double; bigint",
    "sum": "of whole numbers bigint; of decimal(p,s) up to 28 digits decimal(p+10,s)",
    "min": "of one type but float and double",
    "max": "of one type but float and double",
}
#: functions that may stand without parentheses, where no column has the name
WITHOUT_PARENTHESES = ("current_date", "current_timestamp")
#: functions of a row's place, with OVER (PARTITION BY … ORDER BY …)
RANKS = ("row_number", "rank", "dense_rank")
