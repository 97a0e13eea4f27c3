"""Rows of a query: on screen, as a JSON document, and in files and formats, a batch at a time."""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from hoodie.cli.later_pandas import with_nanoseconds
from hoodie.cli.output import FORMATS, Answer, fragment, plain_text, rows_grid
from hoodie.engine.required import settled
from hoodie.errors import ConfigError
from hoodie.storage import normalize, storage_for
from hoodie.storage.settings import options_of
from hoodie.text import lines, plural, size

#: rows on screen without --limit
_SHOWN = 20
#: rows of a row group of Parquet
_ROW_GROUP = 1 << 18
#: rows that are texts at a time
_TEXTS = 1 << 14
_SUFFIXES = {**{f".{name}": name for name in FORMATS}, ".ndjson": "jsonl"}
_ARROW_ERRORS = (pa.ArrowException, KeyError, ValueError, OverflowError, TypeError)


def rows_answer(reader: pa.RecordBatchReader, args: argparse.Namespace, about: Mapping[str, Any]) -> Answer:
    """Rows as --limit, --output, --format and --json ask for them; `about` comes first in the document.

    Raises ConfigError for flags that contradict each other, and for a file that can't be written.
    """
    form = _format(args)
    if args.output is not None:
        return _saved(reader, args.limit, args.output, form, options_of(dict(args.option)))
    if form is not None:
        return _printed(reader, args.limit, form)
    limit = _SHOWN if args.limit is None and not args.json else args.limit
    rows, total = _first(reader, limit)
    names = unique(rows.column_names)
    columns = [values(column) for column in rows.columns]
    by_row = list(zip(*columns, strict=True))
    fields = zip(names, rows.schema, strict=True)
    document = {
        **about,
        "columns": [{"name": name, "type": str(field.type)} for name, field in fields],
        "num_rows": total,
        "rows": [dict(zip(names, row, strict=True)) for row in by_row] if args.json else [],
    }
    note = plural(total, "row")
    if rows.num_rows < total:
        note += f", {rows.num_rows:,} shown; --limit N shows more, --output FILE.parquet writes all"
    return Answer(document, f"{rows_grid(rows.column_names, by_row)}\n\n{note}")


def unique(names: Sequence[str]) -> list[str]:
    """The names of columns, those that are there before with a number: a, a_2."""
    found: dict[str, None] = {}
    for name in names:
        number, own = 1, name
        while own in found or (number > 1 and own in names):
            number += 1
            own = f"{name}_{number}"
        found[own] = None
    return list(found)


def values(column: Any) -> list[Any]:
    """The values of an array. A value that Python has no form of is a text, as a time after the year 9999; a
    map with a key twice is a list of pairs.
    """
    with_nanoseconds(column.type)
    try:
        found: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except _ARROW_ERRORS:
        found = [_value(item) for item in column]
    return found


def _value(scalar: Any) -> Any:
    if not scalar.is_valid:
        return None
    try:
        return scalar.as_py(maps_as_pydicts="strict")
    except _ARROW_ERRORS:
        pass
    dtype = scalar.type
    if pa.types.is_map(dtype):
        keys, items = (values(scalar.values.field(place)) for place in (0, 1))
        return list(zip(keys, items, strict=True))
    if pa.types.is_struct(dtype):
        names = unique([dtype.field(place).name for place in range(dtype.num_fields)])
        return {name: _value(scalar[place]) for place, name in enumerate(names)}
    if pa.types.is_union(dtype):
        return _value(scalar.value)
    if hasattr(scalar, "values") and scalar.values is not None:
        return [_value(item) for item in scalar.values]
    try:
        return str(scalar.cast(pa.string()).as_py())
    except _ARROW_ERRORS:
        return repr(getattr(scalar, "value", scalar))


def _format(args: argparse.Namespace) -> str | None:
    """Of the rows in a file or on stdout; None for the screen, and for the document of --json."""
    form: str | None = args.format
    if args.output is None:
        if form and args.json:
            raise ConfigError(f"--json prints one document, --format {form} rows; leave one of them out")
        if form == "parquet":
            raise ConfigError("--format parquet is for a file; add --output FILE.parquet")
        return form
    suffix = os.path.splitext(args.output)[1].lower()
    if form is None and suffix not in _SUFFIXES:
        raise ConfigError(
            f"--output {args.output}: no format has the suffix {suffix!r}; use one of "
            f"{', '.join(_SUFFIXES)}, or add --format",
            path=args.output,
        )
    return form or _SUFFIXES[suffix]


def _first(reader: pa.RecordBatchReader, limit: int | None) -> tuple[pa.Table, int]:
    """The first rows (None: all), and how many there are."""
    kept, total = [], 0
    for batch in reader:
        kept += _limited(batch, limit, total)
        total += batch.num_rows
    return pa.Table.from_batches(kept, reader.schema), total


def _limited(batch: pa.RecordBatch, limit: int | None, before: int) -> list[pa.RecordBatch]:
    """What a limit leaves of a batch after so many rows. An empty slice would hold the batch in memory."""
    if limit is None:
        return [batch]
    return [batch.slice(0, limit - before)] if before < limit else []


def _printed(reader: pa.RecordBatchReader, limit: int | None, form: str) -> Answer:
    """All rows on stdout, or so many; the rest is not read. A terminal gets no control characters."""
    out: Any = _Terminal() if sys.stdout.isatty() else sys.stdout.buffer
    writer = _WRITERS[form](out, reader.schema)
    before = 0
    for batch in reader:
        for rows in _limited(batch, limit, before):
            writer.write(rows)
        before += batch.num_rows
        if limit is not None and before >= limit:
            break
    writer.close()
    return Answer({}, "", printed=True)


class _Terminal:
    def write(self, data: bytes) -> None:
        sys.stdout.write(lines(data.decode(errors="surrogateescape")))


def _saved(
    reader: pa.RecordBatchReader, limit: int | None, output: str, form: str | None, options: Mapping[str, str]
) -> Answer:
    """A file that is there is replaced once the new one is whole. `options`: settings of the storage."""
    path = normalize(output)
    total = saved = 0
    with _opened(path, options) as sink:
        writer = _WRITERS[str(form)](sink, reader.schema)
        for batch in reader:
            for rows in _limited(batch, limit, total):
                writer.write(rows)
                saved += rows.num_rows
            total += batch.num_rows
        writer.close()
        written = sink.tell()
    note = "" if saved == total else f" of {total:,}"
    document = {"output": path, "num_rows": saved, "bytes": written}
    return Answer(document, f"{plural(saved, 'row')}{note} written to {path} ({size(written)})")


@contextmanager
def _opened(path: str, options: Mapping[str, str]) -> Iterator[Any]:
    """The file to write, which has its name at the end only, and is gone after an error."""
    storage = storage_for(path, options)
    if not storage.local:
        with storage.output(path) as sink:
            yield sink
            sink.commit()
        return
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ConfigError(f"--output: no folder {folder}; make it first", path=folder)
    if os.path.isdir(path):
        raise ConfigError(f"--output: {path} is a folder; name a file", path=path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(f"--output: {path} is no regular file; name one, or use --format", path=path)
    partial = os.path.join(folder, f".{os.path.basename(path)}.{uuid.uuid4().hex[:12]}")
    try:
        with open(partial, "xb") as file:
            yield file
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


class _Writer(Protocol):
    """Writes rows of one schema to a file; what it holds of them is bounded."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None: ...

    def write(self, rows: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class _Parquet:
    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        names = unique(schema.names)
        renamed = [field.with_name(name) for field, name in zip(schema, names, strict=True)]
        self._schema = pa.schema(renamed).with_metadata(schema.metadata)
        for field in self._schema:
            _check_parquet(field)
        self._writer = pq.ParquetWriter(sink, self._schema, compression="zstd")
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._pending.append(pa.RecordBatch.from_arrays(rows.columns, schema=self._schema))
        self._rows += rows.num_rows
        if self._rows >= _ROW_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        rows = settled(pa.Table.from_batches(self._pending, self._schema))
        if rows.num_rows:
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._pending.clear()
        self._rows = 0


def _check_parquet(field: pa.Field[Any]) -> None:
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except pa.ArrowNotImplementedError:
        raise ConfigError(
            f"--output: Parquet has no type for column {field.name}, {field.type}; write .csv or .jsonl, or "
            "convert the column in a SELECT",
            column=field.name,
        ) from None


class _Csv:
    """With a header. A null is empty, an empty text is in quotes; nested values are JSON, bytes base64."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._sink = sink
        self._names = unique(schema.names)
        empty: list[Any] = [pa.array([], pa.string())] * len(self._names)
        self._put(empty, header=True)

    def write(self, rows: pa.RecordBatch) -> None:
        for start in range(0, rows.num_rows, _TEXTS):
            piece = rows.slice(start, _TEXTS)
            self._put([_csv_column(column) for column in piece.columns], header=False)

    def close(self) -> None:
        pass

    def _put(self, columns: list[Any], header: bool) -> None:
        out = pa.BufferOutputStream()
        csv.write_csv(pa.table(columns, names=self._names), out, csv.WriteOptions(include_header=header))
        self._sink.write(out.getvalue().to_pybytes())


#: questions about the types that Arrow writes as they are
_AS_THEY_ARE = (
    *(
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_float32,
        pa.types.is_float64,
        pa.types.is_decimal,
    ),
    *(pa.types.is_string, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
)


def _csv_column(column: Any) -> Any:
    if any(asks(column.type) for asks in _AS_THEY_ARE):
        return column
    return pa.array([None if value is None else plain_text(value) for value in values(column)], pa.string())


class _Lines:
    """One object a line."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._sink = sink
        self._heads = [f"{fragment(name)}: " for name in unique(schema.names)]

    def write(self, rows: pa.RecordBatch) -> None:
        for start in range(0, rows.num_rows, _TEXTS):
            self._put(self._objects(rows.slice(start, _TEXTS)))

    def close(self) -> None:
        pass

    def _objects(self, rows: pa.RecordBatch) -> list[str]:
        columns = [
            [head + text for text in map(fragment, values(column))]
            for head, column in zip(self._heads, rows.columns, strict=True)
        ]
        return [f"{{{', '.join(row)}}}" for row in zip(*columns, strict=True)]

    def _put(self, objects: list[str]) -> None:
        self._sink.write("".join(f"{text}\n" for text in objects).encode())


class _Array(_Lines):
    """One array, an object a line."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        super().__init__(sink, schema)
        self._before = "["

    def _put(self, objects: list[str]) -> None:
        texts = []
        for text in objects:
            texts.append(f"{self._before}\n{text}")
            self._before = ","
        self._sink.write("".join(texts).encode())

    def close(self) -> None:
        self._sink.write(b"[]\n" if self._before == "[" else b"\n]\n")


_WRITERS: Mapping[str, type[_Writer]] = {"parquet": _Parquet, "csv": _Csv, "json": _Array, "jsonl": _Lines}
