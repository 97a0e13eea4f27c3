"""Base files as they are read: those of a metadata-only bootstrap joined with the files of their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute

from hoodie.errors import TableError
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.evolution import read_as
from hoodie.format.meta_fields import COMMIT_TIME
from hoodie.storage import Storage, storage_for
from hoodie.table.bootstrap import Source, source_of
from hoodie.table.view import BaseFile

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


def open_base(storage: Storage, base: BaseFile, schema: pa.Schema | None) -> BaseFileReader:
    """The rows of a base file; `schema` is the table's, None when the meta columns are enough."""
    if schema is None or not base.skeleton:
        return BaseFileReader(storage, base.path)
    return SkeletonReader(storage, base, schema)


class SkeletonReader(BaseFileReader):
    """A skeleton and the file with its rows, side by side.

    Partition columns that the source lacks, or has as null, come from the path, in the types of the table's
    schema: what Apache Hudi stores when it rewrites the file group. Columns go by the table's spelling.
    Raises TableError when the source is missing or damaged, or is not the file that was bootstrapped.
    """

    def __init__(self, storage: Storage, base: BaseFile, schema: pa.Schema) -> None:
        source = source_of(storage, base)
        with ExitStack() as stack:
            super().__init__(storage, base.path)
            stack.callback(super().__exit__)
            self._rows = stack.enter_context(_opened(storage, base, source))
            self._check()
            self._stored = _spelled(self._rows.schema.names, schema, super().schema)
            self._values = _typed(source, schema, self._stored)
            stack.pop_all()

    def __exit__(self, *exc: object) -> None:
        self._rows.__exit__(*exc)
        super().__exit__(*exc)

    @property
    def schema(self) -> pa.Schema:
        types = {name: self._rows.schema.field(stored).type for name, stored in self._stored.items()}
        types |= {name: value.type for name, value in self._values.items()}
        return pa.schema([*super().schema, *(pa.field(name, dtype) for name, dtype in types.items())])

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = READ_BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """As of one file; `columns` in the order of the schema."""
        wanted = pa.schema([field for field in self.schema if columns is None or field.name in columns])
        meta = [name for name in super().schema.names if name in wanted.names]
        stored = {name: stored for name, stored in self._stored.items() if name in wanted.names}
        sources = [super().batches(meta or [COMMIT_TIME], rows)]
        if stored:
            sources.append(self._read(list(stored.values()), rows))
        for left, *right in _side_by_side(sources, self._rows.path):
            held = {name: left.column(name) for name in meta}
            for part in right:
                held |= {name: part.column(source) for name, source in stored.items()}
            filled = [self._filled(field, held.get(field.name), left.num_rows) for field in wanted]
            yield pa.RecordBatch.from_arrays(filled, schema=wanted)

    def _read(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows.batches(names, rows)
        except (pa.ArrowException, OSError) as error:
            raise TableError(
                f"{self._rows.path}, which has the rows of {self.path}, can't be read ({error}); restore it",
                path=self._rows.path,
            ) from None

    def _filled(self, field: pa.Field[Any], column: pa.Array[Any] | None, rows: int) -> pa.Array[Any]:
        value = self._values.get(field.name)
        if column is None:
            column = pa.nulls(rows, field.type)
        if value is None or not column.null_count:
            return column if column.type == field.type else _as(column, field)
        filled: pa.Array[Any] = pc.fill_null(_as(column, field), value)
        return filled

    def _check(self) -> None:
        rows = self._rows.rows
        if rows != self.rows:
            raise TableError(
                f"{self._rows.path} has {rows} rows, its skeleton {self.path} {self.rows}: it was changed "
                "after the table was bootstrapped from it; restore it, or bootstrap the table anew",
                path=self._rows.path,
            )


def _as(column: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    batch = pa.RecordBatch.from_arrays([column], names=[field.name])
    return read_as(batch, pa.schema([field])).column(0)


def _opened(storage: Storage, base: BaseFile, source: Source) -> BaseFileReader:
    try:
        return BaseFileReader(storage_for(source.root, storage.options), source.path)
    except (FileNotFoundError, pa.ArrowException, OSError) as error:
        reason = "is not there" if isinstance(error, FileNotFoundError) else f"can't be read ({error})"
        raise TableError(
            f"{source.path}, which has the rows of {base.path}, {reason}; restore it", path=source.path
        ) from None


def _spelled(stored: Sequence[str], schema: pa.Schema, meta: pa.Schema) -> dict[str, str]:
    """Data columns of a source, by the names that the table's schema has for them: case does not matter."""
    spelling = {name.lower(): name for name in schema.names}
    out = {name: name for name in stored if name not in meta.names}
    for name in stored:
        known = spelling.get(name.lower(), name)
        if known not in out and known not in meta.names:
            out[known] = out.pop(name)
    return out


def _typed(source: Source, schema: pa.Schema, stored: Collection[str]) -> dict[str, pa.Scalar[Any]]:
    """The values of partition columns of the table, as far as they are needed."""
    out: dict[str, pa.Scalar[Any]] = {}
    for name, text in source.values.items():
        if name not in schema.names:
            continue
        dtype = schema.field(name).type
        try:
            out[name] = pa.scalar(text, pa.string()).cast(dtype)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if name in stored:  # the path has the value in another form
                continue
            raise TableError(
                f"the path of {source.path} has {name}={text!r}, which is no {dtype}", path=source.path
            ) from None
    return out


def _side_by_side(
    sources: Sequence[Iterator[pa.RecordBatch]], path: str
) -> Iterator[tuple[pa.RecordBatch, ...]]:
    """Batches with the same rows of each source, cut where any of them is cut; `path` is for errors."""
    nothing = pa.RecordBatch.from_pydict({})
    held = [nothing for _ in sources]
    for first in sources[0]:
        held[0] = first
        while held[0].num_rows:
            for number, source in enumerate(sources):
                while not held[number].num_rows:
                    found = next(source, None)
                    if found is None:
                        raise TableError(f"{path} has fewer rows than its footer says; restore it", path=path)
                    held[number] = found
            count = min(part.num_rows for part in held)
            yield tuple(part.slice(0, count) for part in held)
            held = [part.slice(count) for part in held]
