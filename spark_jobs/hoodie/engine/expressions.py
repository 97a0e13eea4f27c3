"""Expressions of rows that Arrow computes as Spark does: what Spark's own plan of a DataFrame has, where both
agree on every value.

Values are Arrow arrays, or scalars of what is the same in all rows. `engine.frame_plan` says which
expressions there are for which types; here they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute

from hoodie.errors import JobError

#: the stubs refuse plain values where the kernels take them
_pc: Any = pyarrow.compute


@dataclass(frozen=True)
class Expression:
    """`size` is how many expressions it is made of; `fails`: there are values that it raises an error for."""

    type: pa.DataType
    size: int = field(default=1, kw_only=True)
    fails: bool = field(default=False, kw_only=True)

    def inputs(self) -> frozenset[str]:
        """The columns that it is computed from."""
        return frozenset()

    def values(self, rows: pa.RecordBatch) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Column(Expression):
    name: str

    def inputs(self) -> frozenset[str]:
        return frozenset((self.name,))

    def values(self, rows: pa.RecordBatch) -> Any:
        return rows.column(self.name)


@dataclass(frozen=True)
class Constant(Expression):
    """`value` is Python's, None for null."""

    value: Any

    def values(self, rows: pa.RecordBatch) -> Any:
        return pa.scalar(self.value, self.type)


@dataclass(frozen=True)
class Call(Expression):
    """`function` is one of FUNCTIONS."""

    function: str
    arguments: tuple[Expression, ...]

    @classmethod
    def of(cls, kind: pa.DataType, function: str, *arguments: Expression) -> Call:
        size = 1 + sum(argument.size for argument in arguments)
        fails = function in FAILING or any(argument.fails for argument in arguments)
        return cls(kind, function, arguments, size=size, fails=fails)

    def inputs(self) -> frozenset[str]:
        return frozenset[str]().union(*(argument.inputs() for argument in self.arguments))

    def values(self, rows: pa.RecordBatch) -> Any:
        arguments = [argument.values(rows) for argument in self.arguments]
        return FUNCTIONS[self.function](self.type, *arguments)


@dataclass(frozen=True)
class Computation:
    """The rows for which all `filters` are true, with these columns in the place of theirs. Picklable."""

    filters: tuple[Expression, ...]
    columns: tuple[Expression, ...]
    schema: pa.Schema

    def only(self, names: Sequence[str]) -> Computation:
        """The same rows with these columns. Raises KeyError for one that is not there."""
        known = dict(zip(self.schema.names, self.columns, strict=True))
        schema = pa.schema([self.schema.field(name) for name in names])
        return Computation(self.filters, tuple(known[name] for name in names), schema)

    def inputs(self) -> frozenset[str]:
        return frozenset[str]().union(*(value.inputs() for value in (*self.filters, *self.columns)))

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Raises JobError for a value that Spark, too, raises an error for."""
        for batch in batches:
            try:
                found = self._batch(batch)
            except pa.ArrowException as error:
                raise JobError(f"a column of the DataFrame can't be computed: {error}") from error
            if found.num_rows:
                yield found

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for condition in self.filters:
            mask = _spread(condition.values(batch), batch.num_rows)
            if _pc.all(mask, skip_nulls=False).as_py() is not True:
                batch = batch.filter(mask)
        columns = [_spread(column.values(batch), batch.num_rows) for column in self.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _spread(values: Any, rows: int) -> Any:
    constant: Any = values
    return pa.repeat(constant, rows) if isinstance(values, pa.Scalar) else values


def _equal(_: pa.DataType, left: Any, right: Any) -> Any:
    equal = _pc.equal(left, right)
    if pa.types.is_floating(left.type):  # not a number equals itself
        return _pc.or_(equal, _pc.and_(_pc.is_nan(left), _pc.is_nan(right)))
    return equal


def _same(kind: pa.DataType, left: Any, right: Any) -> Any:
    no_left, no_right = _pc.is_null(left), _pc.is_null(right)
    return _pc.if_else(_pc.or_(no_left, no_right), _pc.and_(no_left, no_right), _equal(kind, left, right))


def _less(_: pa.DataType, left: Any, right: Any) -> Any:
    less = _pc.less(left, right)
    if pa.types.is_floating(left.type):  # not a number is the greatest
        return _pc.or_(less, _pc.and_(_pc.invert(_pc.is_nan(left)), _pc.is_nan(right)))
    return less


def _among(_: pa.DataType, value: Any, *members: Any) -> Any:
    known = pa.array([member.as_py() for member in members if member.is_valid], value.type)
    found = _pc.is_in(value, value_set=known)
    unknown = pa.scalar(None, pa.bool_())
    if len(known) < len(members):
        found = _pc.if_else(found, True, unknown)
    return _pc.if_else(_pc.is_null(value), unknown, found)


def _case(_: pa.DataType, *parts: Any) -> Any:
    """Conditions and values in turn, then the value where none is true."""
    found = parts[-1]
    for place in range(len(parts) - 3, -1, -2):
        found = _pc.if_else(_pc.fill_null(parts[place], False), parts[place + 1], found)
    return found


def _quotient(_: pa.DataType, left: Any, right: Any) -> Any:
    """Null by zero."""
    return _pc.divide(left, _pc.if_else(_pc.equal(right, 0.0), pa.scalar(None, right.type), right))


def _checked_quotient(kind: pa.DataType, left: Any, right: Any) -> Any:
    zero = _pc.and_(_pc.equal(right, 0.0), _pc.is_valid(left))
    if _pc.any(zero).as_py():
        raise pa.ArrowInvalid("divide by zero")
    return _quotient(kind, left, right)


def _of(name: str) -> Callable[..., Any]:
    """Arrow's function of this name."""

    def call(_: pa.DataType, *arguments: Any) -> Any:
        return _pc.call_function(name, list(arguments))

    return call


def _of_text(name: str) -> Callable[..., Any]:
    def call(_: pa.DataType, text: Any, pattern: Any) -> Any:
        return getattr(_pc, name)(text, pattern.as_py())

    return call


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "=": _equal,
    "<=>": _same,
    "<": _less,
    ">": lambda kind, left, right: _less(kind, right, left),
    "<=": lambda kind, left, right: _pc.invert(_less(kind, right, left)),
    ">=": lambda kind, left, right: _pc.invert(_less(kind, left, right)),
    "and": _of("and_kleene"),
    "or": _of("or_kleene"),
    "not": _of("invert"),
    "is null": lambda _, value: _pc.is_null(value),
    "is not null": _of("is_valid"),
    "in": _among,
    "starts with": _of_text("starts_with"),
    "ends with": _of_text("ends_with"),
    "contains": _of_text("match_substring"),
    "case": _case,
    "coalesce": _of("coalesce"),
    "concat": lambda _, *texts: _pc.binary_join_element_wise(*texts, ""),
    # without rounding but to the nearest double
    "cast": lambda kind, value: _pc.cast(value, kind, safe=False),
    # whole numbers wrap around, or raise an error if they are checked
    "abs": _of("abs"),
    "-": _of("negate"),
    "plus": _of("add"),
    "minus": _of("subtract"),
    "times": _of("multiply"),
    "checked abs": _of("abs_checked"),
    "checked -": _of("negate_checked"),
    "checked plus": _of("add_checked"),
    "checked minus": _of("subtract_checked"),
    "checked times": _of("multiply_checked"),
    # of doubles
    "quotient": _quotient,
    "checked quotient": _checked_quotient,
}
FAILING = frozenset(name for name in FUNCTIONS if name.startswith("checked "))
