"""docs/sql-functions.md, made from the list: `python -m hoodie.statements.local.page` prints the Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hoodie.statements.local.functions import AGGREGATES, FUNCTIONS, RANKS
from hoodie.statements.local.operators import CASTS, OPERATORS
from hoodie.statements.local.queries import FORMS
from hoodie.statements.local.types import LITERALS

_HEAD = """# SQL of statements on the local engine

<!-- Made by `python -m hoodie.statements.local.page > docs/sql-functions.md`; a test keeps it fresh. -->

[Statements that change a table](python.md#sql-that-changes-a-table) are Spark's SQL on both engines. Locally
DuckDB evaluates them, and a function of one name may mean something else there. So the local engine takes
what is on this page, and nothing else: each entry gives Spark's value in Spark's type, in its ANSI mode and a
session in UTC, or the statement fails; a test of edge values on both engines proves it
(`tests/spark/test_spark_sql_list.py`). Whatever is not here is a `ConfigError` that names it; the same
statement works with `engine="spark"`, or in Python with `spark=`.

Errors are those of Spark's ANSI mode: a number that is too large, a division by zero, a text that is no
number. Only numbers, and literals of days and times, take another type by themselves: compare a text with a
number by CAST. A condition that is an operand stands in parentheses: `(a > 1) = b`.
"""
_MORE = {
    "`x IS [NOT] NULL`": ("any value", "boolean"),
    "`x IS [NOT] TRUE`, `FALSE`": ("a condition", "boolean"),
    "`x IS [NOT] DISTINCT FROM y`": ("two values of one type, or two numbers", "boolean"),
    "`x [NOT] IN (…)`": (
        "values of one type, or numbers; a subquery of one type but float and double",
        "boolean",
    ),
    "`x [NOT] BETWEEN y AND z`": ("values of one type, or numbers", "boolean"),
    "`x [NOT] LIKE 'pattern' [ESCAPE 'c']`": (
        "a string; a pattern that is a literal, and `\\` escapes",
        "boolean",
    ),
    "`CASE [x] WHEN … THEN … [ELSE …] END`": ("values of one type, or numbers", "it"),
    "`CAST(x AS type)`, `x::type`": ("see below", "the type"),
    "`[NOT] EXISTS (…)`": ("a subquery", "boolean"),
}


def markdown() -> str:
    parts = [
        _HEAD,
        "## Queries\n",
        *(f"- {form}" for form in FORMS),
        "\nValues of float and double are none to group, sort, or find distinct rows by.\n",
        *_table("Literals", ("Literal", "Type"), LITERALS.items()),
        *_table("Operators", ("Operator", "Takes", "Gives"), _operators()),
        *_table("Casts", ("From", "To", "Values"), _casts()),
        *_table("Functions", ("Function", "Takes", "Gives", ""), _functions()),
        *_table(
            "Aggregate functions",
            ("Function", "Takes"),
            ((f"`{name}`", takes) for name, takes in AGGREGATES.items()),
        ),
        "## Window functions\n",
        f"{', '.join(f'`{name}()`' for name in RANKS)}, with `OVER ([PARTITION BY …] ORDER BY …)`, no frame.",
    ]
    return "\n".join(parts) + "\n"


def _table(title: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


def _operators() -> Iterator[tuple[str, str, str]]:
    for symbol in dict.fromkeys(item.symbol for item in OPERATORS.values()):
        entries = [item for item in OPERATORS.values() if item.symbol == symbol]
        takes = "; ".join(dict.fromkeys(item.takes for item in entries))
        yield f"`{symbol}`", takes, "; ".join(dict.fromkeys(item.gives for item in entries))
    for symbol, (takes, gives) in _MORE.items():
        yield symbol, takes, gives


def _casts() -> Iterator[tuple[str, str, str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for (one, other), entry in CASTS.items():
        found.setdefault((one, entry.note), []).append(other)
    for (one, note), others in sorted(found.items()):
        yield one, ", ".join(others), note


def _functions() -> Iterator[tuple[str, str, str, str]]:
    for function in sorted(set(FUNCTIONS.values()), key=lambda item: item.names):
        yield ", ".join(f"`{name}`" for name in function.names), function.takes, function.gives, function.note


if __name__ == "__main__":
    print(markdown(), end="")
