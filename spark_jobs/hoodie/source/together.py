"""Files of a source together: the types that all of them fit, and the name of the one that can't be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from hoodie.errors import InputError
from hoodie.source import Source


def union(found: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """The schema of files that have these names. Raises InputError that names the column and two files."""
    try:
        return pa.unify_schemas([schema for _, schema in found], promote_options="permissive")
    except pa.ArrowException as error:
        raise _unfit(found, str(error)) from error


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
