"""Functions: by name and types of the arguments, DuckDB's text and Spark's type of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hoodie.statements.local.operators import (
    boolean,
    cast,
    compared,
    concatenated,
    is_null,
    listed,
    remainder,
    unified,
)
from hoodie.statements.local.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    GROUPED,
    INT,
    MAX_PRECISION,
    NUMBERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    WHOLE,
    Bound,
    SqlType,
    decimal,
    fits,
    guarded,
    refused,
)


@dataclass(frozen=True, kw_only=True)
class Function:
    """`takes`, `gives`, `note`: of the page. `bind`: makes the result of name and arguments."""

    names: tuple[str, ...]
    takes: str
    gives: str
    bind: Callable[[str, Sequence[Bound]], Bound]
    note: str = ""


def _check_arity(name: str, given: Sequence[Bound], least: int, most: int | None = None) -> None:
    """Raises ConfigError for another number of arguments."""
    if not least <= len(given) <= (most if most is not None else len(given)):
        raise refused(f"the function {name} with {len(given)} arguments")


def _of(families: Sequence[Sequence[str]], gives: SqlType, text: str) -> Callable[..., Bound]:
    """A function whose arguments have types of these families."""

    def bind(name: str, given: Sequence[Bound]) -> Bound:
        _check_arity(name, given, len(families), len(families))
        for item, family in zip(given, families, strict=True):
            if item.type.name not in family:
                raise refused(f"the function {name} of {listed(given)}", "write a CAST")
        return Bound(text=text.format(*(item.text for item in given)), type=gives)

    return bind


def _first(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 1 if name == "coalesce" else 2, None if name == "coalesce" else 2)
    texts, kind = unified(given, name)
    return Bound(text=f"COALESCE({', '.join(texts)})", type=kind)


def _unless_equal(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 2, 2)
    same = compared("=", given).text
    kind = given[0].type
    if kind == VOID:
        raise refused(f"{name} of NULL")
    return Bound(text=f"(CASE WHEN {same} THEN NULL ELSE {given[0].text} END)", type=kind)


def chosen(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 3, 3)
    (yes, no), kind = unified(given[1:], name)
    return Bound(text=f"(CASE WHEN {boolean(given[0], name)} THEN {yes} ELSE {no} END)", type=kind)


def _null(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 1, 1)
    found = is_null(name, given)
    return found if name == "isnull" else Bound(text=f"(NOT {found.text})", type=BOOLEAN)


def _extreme(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 2)
    texts, kind = unified(given, name)
    if kind.name not in GROUPED:
        raise refused(f"the function {name} of {listed(given)}")
    return Bound(text=f"{name}({', '.join(texts)})", type=kind)


def _absolute(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 1, 1)
    if given[0].type.name not in NUMBERS:
        raise refused(f"the function {name} of {listed(given)}")
    return Bound(text=f"CAST(abs({given[0].text}) AS {given[0].type.duckdb})", type=given[0].type)


#: Latin letters up to U+017E, and Cyrillic ones, without those whose cases differ between engines
_CASED = r"\x{00}-\x{DE}\x{E0}-\x{12F}\x{132}-\x{148}\x{14A}-\x{17E}\x{400}-\x{45F}"
_LETTERS = "texts of Latin letters up to \u017e but ß, \u0149, \u0130 and \u0131, and of Cyrillic ones,"


def _cased(name: str, given: Sequence[Bound]) -> Bound:
    """Of some letters the engines' upper and lower cases differ, as of ß."""
    _check_arity(name, given, 1, 1)
    if given[0].type not in (STRING, VOID):
        raise refused(f"the function {name} of {listed(given)}", "cast to string")
    text = cast(given[0], STRING).text
    said = f'{name} takes {_LETTERS} on the local engine; use engine="spark" for'
    made = f"{'upper' if name in ('upper', 'ucase') else 'lower'}({text})"
    wrong = f"NOT regexp_full_match({text}, '[{_CASED}]*')"
    return Bound(text=guarded(wrong, said, text, made, STRING), type=STRING)


def substring(name: str, given: Sequence[Bound]) -> Bound:
    """From a place that is a literal; 0 is the first one, as 1 is."""
    _check_arity(name, given, 2, 3)
    places = [item.constant for item in given[1:]]
    if given[0].type not in (STRING, VOID) or not all(isinstance(item, int) for item in places):
        raise refused(
            f"the function {name} of {listed(given)}", "take a string and whole numbers as literals"
        )
    start, *rest = [int(item) for item in places if isinstance(item, int)]
    if start < 0 or any(item < 0 for item in rest) or not all(fits(item, INT) for item in (start, *rest)):
        raise refused(f"the function {name} with a place or length below 0")
    texts = [cast(given[0], STRING).text, *map(str, (max(start, 1), *rest))]
    return Bound(text=f"substring({', '.join(texts)})", type=STRING)


def aggregate(name: str, given: Sequence[Bound], *, distinct: bool, rows: bool) -> Bound:
    """`rows`: is it count(*). Raises ConfigError for types that are not on the list."""
    _check_arity(name, given, 0 if rows else 1, 0 if rows else 1)
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


def _concat(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 1)
    return concatenated(name, [cast(item, STRING) for item in given])


def _strings(name: str, given: Sequence[Bound]) -> list[str]:
    if any(item.type not in (STRING, VOID) for item in given):
        raise refused(f"the function {name} of {listed(given)}", "cast to string")
    return [cast(item, STRING).text for item in given]


def _with_separator(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 2)
    return Bound(text=f"concat_ws({', '.join(_strings(name, given))})", type=STRING)


def _replaced(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 2, 3)
    texts = [*_strings(name, given), "''"][:3]
    return Bound(text=f"replace({', '.join(texts)})", type=STRING)


def _length(name: str, given: Bound) -> int:
    """Raises ConfigError for a length that is no literal from 0 on."""
    if not isinstance(given.constant, int) or not 0 <= given.constant < 1 << 20:
        raise refused(f"the function {name} with a length that is no literal from 0 on")
    return given.constant


def _end(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 2, 2)
    return Bound(text=f"{name}({_strings(name, given[:1])[0]}, {_length(name, given[1])})", type=STRING)


def _padded(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 3, 3)
    if not given[2].constant:
        raise refused(f"the function {name} with a text that is no literal")
    text, filler = _strings(name, [given[0], given[2]])
    return Bound(text=f"{name}({text}, {_length(name, given[1])}, {filler})", type=STRING)


def _reversed(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 1, 1)
    (text,) = _strings(name, given)
    said = f'{name} takes texts of ASCII on the local engine; use engine="spark" for'
    wrong = f"strlen({text}) <> length({text})"
    return Bound(text=guarded(wrong, said, text, f"reverse({text})", STRING), type=STRING)


def _hashed(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 2, 2)
    if given[1].constant != 256:
        raise refused(f"the function {name} of another length than 256")
    return Bound(text=f"sha256({_strings(name, given[:1])[0]})", type=STRING)


def _one_of(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 3, 3)
    value, there, lacking = given
    return chosen(name, [is_null(name, [value]), lacking, there])


def _modulo(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 2, 2)
    return remainder("%", given)


def _whole(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 1, 1)
    (value,) = given
    if value.type.name in WHOLE:
        return cast(value, BIGINT)
    if value.type.name not in NUMBERS:
        raise refused(f"the function {name} of {listed(given)}", "write a CAST")
    kind = BIGINT
    if value.type.name == "decimal":
        kind = decimal(min(value.type.precision - value.type.scale + 1, MAX_PRECISION), 0)
    return Bound(
        text=f"CAST({'floor' if name == 'floor' else 'ceil'}({value.text}) AS {kind.duckdb})", type=kind
    )


def _rounded(name: str, given: Sequence[Bound]) -> Bound:
    _check_arity(name, given, 1, 2)
    value, places = given[0], _length(name, given[1]) if len(given) == 2 else 0
    if value.type.name in WHOLE:
        return value
    if value.type.name != "decimal":
        raise refused(f"the function {name} of {listed(given)}", "cast to decimal")
    scale = min(value.type.scale, places)
    precision = value.type.precision - value.type.scale + 1 + scale
    if precision > MAX_PRECISION:
        raise refused(f"the function {name} of {value.type}", "cast to fewer digits")
    return cast(value, decimal(precision, scale))


def _as(kind: SqlType) -> Callable[[str, Sequence[Bound]], Bound]:
    def bind(name: str, given: Sequence[Bound]) -> Bound:
        _check_arity(name, given, 1, 1)
        return cast(given[0], kind)

    return bind


def _part(text: str, of: SqlType) -> Callable[[str, Sequence[Bound]], Bound]:
    """A number in a day or time: DuckDB's `text` takes one of the type `of`."""
    advice = "cast to date" if of == DATE else "cast to timestamp"

    def bind(name: str, given: Sequence[Bound]) -> Bound:
        _check_arity(name, given, 1, 1)
        if given[0].type not in (of, TIMESTAMP, TIMESTAMP_NTZ):
            raise refused(f"the function {name} of {listed(given)}", advice)
        return Bound(text=f"CAST({text.format(cast(given[0], of).text)} AS INTEGER)", type=INT)

    return bind


_STRING, _DATE = ("string",), ("date",)
_TODAY = "CAST(timezone('UTC', now()) AS DATE)"
_CAST_FUNCTIONS = {
    **{
        name: SqlType(name) for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
    },
    **{name: SqlType(name) for name in ("string", "date", "timestamp")},
    "decimal": decimal(10, 0),
}
#: names, DuckDB's text of a date, what the page says
_PARTS = (
    (("year",), "year({0})", ""),
    (("quarter",), "quarter({0})", ""),
    (("month",), "month({0})", ""),
    (("day", "dayofmonth"), "day({0})", ""),
    (("dayofweek",), "dayofweek({0}) + 1", "Sunday is 1"),
    (("weekday",), "isodow({0}) - 1", "Monday is 0"),
    (("dayofyear",), "dayofyear({0})", ""),
    (("weekofyear",), "week({0})", "of ISO 8601"),
)
_ALL = [
    Function(names=("coalesce",), takes="values of one type", gives="it", bind=_first),
    Function(names=("nvl", "ifnull"), takes="two values of one type", gives="it", bind=_first),
    Function(
        names=("nullif",), takes="two values of one type", gives="that of the first", bind=_unless_equal
    ),
    Function(names=("if",), takes="a condition, two values of one type", gives="it", bind=chosen),
    Function(names=("isnull", "isnotnull"), takes="any value", gives="boolean", bind=_null),
    Function(
        names=("greatest", "least"),
        takes="values of one type but float and double",
        gives="it",
        bind=_extreme,
    ),
    Function(names=("abs",), takes="a number", gives="its type", bind=_absolute),
    Function(
        names=("upper", "ucase", "lower", "lcase"),
        takes="a string",
        gives="string",
        bind=_cased,
        note=f"{_LETTERS} others are an error",
    ),
    Function(
        names=("length", "char_length", "character_length", "len"),
        takes="a string",
        gives="int",
        bind=_of([_STRING], INT, "CAST(length({0}) AS INTEGER)"),
    ),
    Function(
        names=("trim",), takes="a string", gives="string", bind=_of([_STRING], STRING, "trim({0}, ' ')")
    ),
    Function(
        names=("ltrim",), takes="a string", gives="string", bind=_of([_STRING], STRING, "ltrim({0}, ' ')")
    ),
    Function(
        names=("rtrim",), takes="a string", gives="string", bind=_of([_STRING], STRING, "rtrim({0}, ' ')")
    ),
    Function(
        names=("substring", "substr"),
        takes="a string, a place and possibly a length from 0 on, as literals",
        gives="string",
        bind=substring,
    ),
    Function(
        names=("concat",),
        takes="strings, and what a CAST to string takes",
        gives="string",
        bind=_concat,
        note="NULL if one is",
    ),
    Function(
        names=("concat_ws",),
        takes="a separator and strings",
        gives="string",
        bind=_with_separator,
        note="without NULLs",
    ),
    Function(names=("replace",), takes="two or three strings", gives="string", bind=_replaced),
    Function(names=("left", "right"), takes="a string, a length as a literal", gives="string", bind=_end),
    Function(
        names=("lpad", "rpad"),
        takes="a string, a length and a text as literals",
        gives="string",
        bind=_padded,
    ),
    Function(
        names=("instr",),
        takes="two strings",
        gives="int",
        bind=_of([_STRING] * 2, INT, "CAST(instr({0}, {1}) AS INTEGER)"),
    ),
    Function(names=("reverse",), takes="a string of ASCII", gives="string", bind=_reversed),
    Function(names=("md5",), takes="a string", gives="string", bind=_of([_STRING], STRING, "md5({0})")),
    Function(names=("sha2",), takes="a string, and 256", gives="string", bind=_hashed),
    Function(names=("nvl2",), takes="any value, two values of one type", gives="it", bind=_one_of),
    Function(names=("mod",), takes="as %", gives="their type", bind=_modulo),
    Function(
        names=("floor", "ceil", "ceiling"),
        takes="a number",
        gives="bigint; of a decimal decimal(p-s+1,0)",
        bind=_whole,
    ),
    Function(
        names=("round",),
        takes="a decimal or whole number, and possibly places from 0 on as a literal",
        gives="of a decimal decimal(p-s+1+n,n); else its type",
        bind=_rounded,
        note="half up",
    ),
    *(
        Function(names=(name,), takes="a value", gives=str(kind), bind=_as(kind), note="as CAST")
        for name, kind in _CAST_FUNCTIONS.items()
    ),
    Function(
        names=("to_date",), takes="a string, date or timestamp", gives="date", bind=_as(DATE), note="as CAST"
    ),
    Function(
        names=("current_date", "curdate"),
        takes="nothing",
        gives="date",
        bind=_of([], DATE, _TODAY),
        note="in UTC",
    ),
    Function(
        names=("current_timestamp", "now"),
        takes="nothing",
        gives="timestamp",
        bind=_of([], TIMESTAMP, "now()"),
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
    *(
        Function(
            names=names,
            takes="a date or timestamp",
            gives="int",
            bind=_part(text, DATE),
            note=note,
        )
        for names, text, note in _PARTS
    ),
    *(
        Function(
            names=(name,),
            takes="a timestamp",
            gives="int",
            bind=_part(f"{name}({{0}})", TIMESTAMP_NTZ),
            note="in UTC",
        )
        for name in ("hour", "minute", "second")
    ),
    Function(names=("last_day",), takes="a date", gives="date", bind=_of([_DATE], DATE, "last_day({0})")),
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
