"""Conditions of queries: SQL text as it is, and expressions of pyarrow as SQL of the engine.

An expression is read from its serialized form: an Arrow IPC file whose schema has the calls and columns in
its metadata, in order, and whose one row has the literals (Apache Arrow, compute/expression.cc `Serialize`).
Null is as in Arrow: `isin` is true or false for null, all else is null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hoodie.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow.compute as pc

_SIGNS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and_kleene": "AND",
    "or_kleene": "OR",
}
_TESTS = {"is_null": "IS NULL", "is_valid": "IS NOT NULL"}
_KNOWN = "comparisons with literals, &, |, ~, isin, is_null and is_valid of columns"
_LINE = re.compile(r"(call|field_ref|nested_field_ref|literal|options|end): '(.*)'")
_MATCH, _SKIP = 0, 1


def where_text(where: str | pc.Expression | None, dialect: str) -> str | None:
    """The condition in the SQL of `dialect`, duckdb or spark.

    Raises ConfigError for an expression with a part that is not translated, and names it.
    """
    if where is None or isinstance(where, str):
        return where
    import pyarrow.compute as pc

    if not isinstance(where, pc.Expression):
        raise ConfigError(
            f"where is a {type(where).__name__}; give SQL text, or an expression of pyarrow.compute",
            where=repr(where),
        )
    return _Translator(where, dialect).text()


class _Translator:
    def __init__(self, expression: pc.Expression, dialect: str) -> None:
        import pyarrow as pa

        self._expression = expression
        self._spark = dialect == "spark"
        with pa.ipc.open_file(expression.__reduce__()[1][0]) as file:
            self._literals = file.get_batch(0)
            schema = file.schema
        self._tokens = self._read(schema.to_string(truncate_metadata=False))

    def text(self) -> str:
        return self._next(next(self._tokens))

    def _read(self, schema: str) -> Iterator[tuple[str, str]]:
        _, _, metadata = schema.partition("-- schema metadata --\n")
        for line in metadata.splitlines():
            match = _LINE.fullmatch(line)
            if match is None:
                raise self._refused("a name of several lines")
            yield match[1], match[2]

    def _next(self, token: tuple[str, str]) -> str:
        kind, value = token
        if kind == "field_ref":
            return self._column(value)
        if kind == "literal":
            return self._literal(self._scalar(value))
        if kind == "call":
            return self._call(value)
        raise self._refused("a field of a struct")

    def _call(self, name: str) -> str:
        if name not in _SIGNS and name not in _TESTS and name not in ("invert", "is_in"):
            raise self._refused(name)
        arguments, options = list[str](), dict[str, Any]()
        for kind, value in self._tokens:
            if kind == "end":
                break
            if kind == "options":
                options = dict(self._scalar(value).items())
            else:
                arguments.append(self._next((kind, value)))
        if len(arguments) != (2 if name in _SIGNS else 1):
            raise self._refused("a name of several lines")
        if name in _SIGNS:
            return f"({arguments[0]} {_SIGNS[name]} {arguments[1]})"
        if name == "invert":
            return f"(NOT {arguments[0]})"
        if name == "is_in":
            return self._is_in(arguments[0], options)
        if "nan_is_null" in options and options["nan_is_null"].as_py():
            raise self._refused("is_null(nan_is_null=True)")
        return f"({arguments[0]} {_TESTS[name]})"

    def _is_in(self, column: str, options: Mapping[str, Any]) -> str:
        matching = options["null_matching_behavior"].as_py()
        if matching not in (_MATCH, _SKIP):
            raise self._refused("is_in with another null_matching_behavior")
        scalars = list(options["value_set"].values)
        listed = ", ".join(self._literal(item) for item in scalars if item.is_valid)
        found = f"({column} IS NOT NULL AND {column} IN ({listed}))" if listed else "FALSE"
        if matching == _MATCH and any(not item.is_valid for item in scalars):
            return f"({column} IS NULL OR {found})"
        return found

    def _scalar(self, place: str) -> Any:
        return self._literals.column(int(place))[0]

    def _column(self, name: str) -> str:
        if self._spark:
            return f"`{name.replace('`', '``')}`"
        return '"' + name.replace('"', '""') + '"'

    def _literal(self, scalar: Any) -> str:
        import pyarrow as pa

        kind, value = scalar.type, None
        if not scalar.is_valid:
            return "NULL"
        if pa.types.is_timestamp(kind):
            return self._moment(scalar)
        value = scalar.as_py()
        if pa.types.is_boolean(kind):
            return "TRUE" if value else "FALSE"
        if pa.types.is_integer(kind):
            return f"({value})"
        if pa.types.is_floating(kind) and math.isfinite(value):
            return f"({value:.16e})"
        if pa.types.is_decimal(kind):
            return f"({value:f})"
        if pa.types.is_date(kind):
            return f"DATE '{value}'"
        if isinstance(value, str):
            return self._quoted(value)
        raise self._refused(f"the literal {str(value)[:60]} of type {kind}")

    def _quoted(self, value: str) -> str:
        if self._spark:
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        escaped = value.replace("'", "''")
        return f"'{escaped}'"

    def _moment(self, scalar: Any) -> str:
        import pyarrow as pa

        if not scalar.type.tz:
            raise self._refused(f"the literal {scalar} without a time zone")
        try:
            value = scalar.cast(pa.timestamp("us", "UTC")).as_py()
        except (pa.ArrowException, ValueError, OverflowError):
            raise self._refused(f"the literal {scalar} with nanoseconds") from None
        text = value.replace(tzinfo=None).isoformat(" ")
        return f"TIMESTAMP '{text}+00:00'" if self._spark else f"TIMESTAMPTZ '{text}+00'"

    def _refused(self, part: str) -> ConfigError:
        return ConfigError(
            f"where has {part}, which is not translated into SQL: {str(self._expression)[:200]}; an "
            f"expression may have {_KNOWN}. Write the condition as SQL text",
            part=part,
        )
