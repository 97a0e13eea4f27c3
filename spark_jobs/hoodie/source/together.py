"""Files of a source together: the types that all of them fit, and the name of the one that can't be read."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hoodie.errors import InputError
from hoodie.source import Source


def union(found: Sequence[tuple[str, pa.Schema]], folders: Sequence[tuple[str, pa.Schema]] = ()) -> pa.Schema:
    """The schema of files that have these names; a column that a file lacks may be null. `folders`: of the
    columns in their names. Raises InputError that names the column and two files.
    """
    every = [*found, *folders]
    try:
        united = pa.unify_schemas([schema for _, schema in every], promote_options="permissive")
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
                kind = pa.unify_schemas(both, promote_options="permissive").field(0).type
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
    """Turns what a library says of a file that it can't read into an InputError that names it.

    Errors of the operating system have a number; those without one are a library's.
    """
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, pa.ArrowMemoryError) or getattr(error, "errno", None) is not None:
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


def _has(kind: Any, field: pa.Field[Any]) -> bool:
    return bool(kind.get_field_index(field.name) >= 0)
