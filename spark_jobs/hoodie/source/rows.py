"""Rows that a caller holds, as Arrow: pandas, polars, streams of other libraries, lists of dictionaries.

No library is imported for it: pandas and polars are known by the names of their classes, all others by the
Arrow PyCapsule interface (`__arrow_c_stream__`, `__arrow_c_array__`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from hoodie.codec.arrays import OF_VIEWS
from hoodie.errors import InputError

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatchReader)

#: what a list's column may become where the table has it: the kinds of both, by the tests of pa.types
_FITS = (
    (("is_integer", "is_decimal"), ("is_integer", "is_floating", "is_decimal")),
    (("is_floating",), ("is_floating",)),
    (("is_nested",), ("is_nested",)),
)


def arrow_form(given: Any, known: pa.Schema | None = None) -> pa.Table | pa.RecordBatchReader | None:
    """The rows as Arrow; None for what is no form of rows.

    pandas: an index without a name is left out, one with a name is columns. A list of dictionaries has the
    columns of all of them, in the order in which they come; a key that a row lacks is null. A column that
    `known` has, the table's schema, takes its type where the values fit it. An empty list has the columns of
    `known`. Raises InputError that names the column, and for an empty list without `known`.
    """
    if _is_a(given, "pandas", "DataFrame"):
        return _of_pandas(given)
    if _is_a(given, "polars", "LazyFrame"):
        given = given.collect()
    if hasattr(given, "__arrow_c_stream__"):
        return _of_stream(given)
    if hasattr(given, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(given)])
    if isinstance(given, (list, tuple)) and all(isinstance(row, Mapping) for row in given):
        return _of_dictionaries(given, known)
    return None


def plain_categories(rows: _Rows) -> _Rows:
    """The rows, with plain texts and bytes in their dictionaries: polars has views in those of categories,
    which Arrow neither decodes nor writes to Parquet.
    """
    plain = pa.schema([field.with_type(_plain(field.type)) for field in rows.schema])
    return rows if plain.equals(rows.schema) else rows.cast(plain)


def _plain(kind: Any) -> pa.DataType:
    """The type with plain values in its dictionaries, at any depth."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, OF_VIEWS.get(kind.value_type, kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        kind = pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make: Any = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        kind = make(kind.value_field.with_type(_plain(kind.value_type)))
    found: pa.DataType = kind
    return found


def _is_a(given: object, package: str, name: str) -> bool:
    kinds = type(given).__mro__
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == package for kind in kinds)


def _of_pandas(given: Any) -> pa.Table:
    keeps_index = any(name is not None for name in given.index.names)
    try:
        return pa.Table.from_pandas(given, preserve_index=keeps_index).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
        raise InputError(f"the DataFrame of pandas can't be written: {_said(error)}") from None


def _of_stream(given: Any) -> pa.RecordBatchReader:
    try:
        return plain_categories(pa.RecordBatchReader.from_stream(given))
    except (pa.ArrowException, TypeError, ValueError) as error:
        name = type(given).__name__
        raise InputError(f"the Arrow stream of a {name} is no table: {_said(error)}", type=name) from None


def _of_dictionaries(given: Sequence[Mapping[Any, Any]], known: pa.Schema | None) -> pa.Table:
    if not given:
        if known is None:
            raise InputError(
                "an empty list has no columns, and there is no table yet that has them; pass an empty "
                "pyarrow Table with a schema"
            )
        return known.empty_table()
    names = list(dict.fromkeys(name for row in given for name in row))
    if other := next((name for name in names if not isinstance(name, str)), None):
        raise InputError(f"a row has the key {other!r}, which is no name of a column; make it a text")
    columns = {name: _column(name, [row.get(name) for row in given], known) for name in names}
    if not columns:
        raise InputError("the rows of the list have no columns; give each row its keys")
    return pa.table(columns)


def _column(name: str, values: list[Any], known: pa.Schema | None) -> Any:
    target = known.field(name).type if known is not None and name in known.names else None
    try:
        found = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"column {name!r} of the list has values of no one type: {_said(error)}", column=name
        ) from None
    if target is None or found.type == target or not fits(found.type, target):
        return found
    try:
        return pa.array(values, type=target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return found  # the writer says what it does with another type, or that it can't


def fits(found: pa.DataType, target: pa.DataType) -> bool:
    """May a column that was found so become the table's type? Whether its values may is another question."""

    def of(kind: pa.DataType, tests: Sequence[str]) -> bool:
        return any(getattr(pa.types, test)(kind) for test in tests)

    return pa.types.is_null(found) or any(of(found, ours) and of(target, theirs) for ours, theirs in _FITS)


def _said(error: BaseException) -> str:
    """An error of Arrow on one line; that of pandas has the column behind it."""
    return "; ".join(str(part) for part in error.args) or type(error).__name__
