"""Files of a source together: the types that all of them fit, and the name of the one that can't be read."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hoodie.engine.files import of_library
from hoodie.errors import InputError
from hoodie.source import Source


def union(found: Sequence[tuple[str, pa.Schema]], folders: Sequence[tuple[str, pa.Schema]] = ()) -> pa.Schema:
    """The schema of files that have these names; a column that a file lacks may be null. `folders`: of the
    columns in their names. Raises InputError that names the column and two files.
    """
    every = [*found, *folders]
    try:
        united = pa.unify_schemas([schema for _, schema in every], promote_options="permissive")
        if any(_changes(field.type, united.field(field.name).type) for _, file in every for field in file):
            raise pa.ArrowTypeError("values would be changed")
        files = Counter(name for _, schema in found for name in schema.names)
        return pa.schema([f.with_nullable(f.nullable or files[f.name] < len(found)) for f in united])
    except pa.ArrowException as error:
        raise _unfit(every, str(error)) from error


def _unfit(found: Sequence[tuple[str, pa.Schema]], why: str) -> InputError:
    seen: dict[str, tuple[str, pa.DataType]] = {}
    for name, schema in found:
        for field in schema:
            first, kind = seen.get(field.name, (name, field.type))
            try:
                both = [pa.schema([(field.name, kind)]), pa.schema([(field.name, field.type)])]
                both_kinds = pa.unify_schemas(both, promote_options="permissive").field(0).type
                if _changes(kind, both_kinds) or _changes(field.type, both_kinds):
                    raise pa.ArrowTypeError("values would be changed")
                kind = both_kinds
            except pa.ArrowException:
                return InputError(
                    f"column {field.name} is {kind} in {first}, and {field.type} in {name}; give it one type "
                    "in all files of the source, or write these files one by one",
                    column=field.name,
                    file=name,
                )
            seen[field.name] = (first, kind)
    return InputError(f"the files of the source do not fit each other: {why}")


@contextlib.contextmanager
def unreadable(source: Source, path: str) -> Iterator[None]:
    """Turns what a library says of a file that it can't read into an InputError that names it."""
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        if not of_library(error):
            raise
        raise replace(source, paths=(path,)).unreadable(error) from error


def grown(known: Any, found: Sequence[Any], new: Callable[[pa.DataType], pa.DataType]) -> Any:
    """The table's type of a column, with the fields that its structs, at any depth, have in files beside.

    `found`: types of the column in files. `new`: what becomes of a field that the table lacks. Where the
    kinds differ, the type is the table's: whoever reads the values says what does not fit.
    """
    if pa.types.is_struct(known):
        structs = [kind for kind in found if pa.types.is_struct(kind)]
        own = [
            field.with_type(
                grown(field.type, [kind.field(field.name).type for kind in structs if _has(kind, field)], new)
            )
            for field in known
        ]
        others = [pa.schema([field for field in kind if not _has(known, field)]) for kind in structs]
        united = pa.unify_schemas([pa.schema([]), *others], promote_options="permissive")
        return pa.struct([*own, *(field.with_type(new(field.type)) for field in united)])
    if pa.types.is_list(known):
        kinds = [kind.value_type for kind in found if pa.types.is_list(kind)]
        return pa.list_(known.value_field.with_type(grown(known.value_type, kinds, new)))
    return known


def _changes(dtype: Any, wide: Any) -> bool:
    """Are values of the type others in the wide one: decimals as doubles, texts as bytes."""
    if pa.types.is_struct(dtype) and pa.types.is_struct(wide):
        return any(_changes(field.type, wide.field(field.name).type) for field in dtype)
    if pa.types.is_list(dtype) and pa.types.is_list(wide):
        return _changes(dtype.value_type, wide.value_type)
    if pa.types.is_map(dtype) and pa.types.is_map(wide):
        return _changes(dtype.item_type, wide.item_type)
    text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
    return bool(
        (pa.types.is_decimal(dtype) and pa.types.is_floating(wide))
        or (text and (pa.types.is_binary(wide) or pa.types.is_large_binary(wide)))
    )


def _has(kind: Any, field: pa.Field[Any]) -> bool:
    return bool(kind.get_field_index(field.name) >= 0)
