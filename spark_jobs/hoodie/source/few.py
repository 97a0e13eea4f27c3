"""Small sources of text and Avro, whose rows this process reads with the pieces that Spark's tasks have."""

from __future__ import annotations

import pyarrow as pa

from hoodie.engine.gather import FEW_BYTES, FEW_ROWS
from hoodie.engine.required import loosened
from hoodie.engine.streams import Stream
from hoodie.errors import HoodieError
from hoodie.format.map_keys import has_map
from hoodie.source import Format, Source, source_files
from hoodie.source.ddl import ddl
from hoodie.source.spark_text import shared_options, spark_type, stored

#: compressed rows may take so many bytes in memory
_HELD_BYTES = 16 * FEW_BYTES


def few_rows(source: Source, known: pa.Schema | None, *, local: bool) -> pa.Table | None:
    """All rows of the source, in the types that Spark's engine gives them. None where they are not known to
    be few, where a reader of Spark's own reads them, and where they can't be read, as that says better why.

    `local`: are Spark's files without a scheme those of this process's machine; else they are left to Spark.
    """
    own = _shared(source, known)
    if own is None:
        return None
    try:
        if not local and any(own.storage(path).local for path in own.paths):
            return None
        files = [file for found in source_files(own).values() for file in found]
        if sum(file.size for file in files) > FEW_BYTES or any(_is_left(file.path) for file in files):
            return None
        rows = _read(own, known)
        if rows is None:
            return None
        types = [(field.name, stored(spark_type(field, known))) for field in rows.schema]
        for _, kind in types:
            ddl(kind)  # raises for one that Spark has not
        return rows.cast(loosened(pa.schema(types)))
    except (HoodieError, pa.ArrowException, OSError, ValueError):
        return None


def _shared(source: Source, known: pa.Schema | None) -> Source | None:
    """The source with the options of the local engine, where tasks would read it with its pieces."""
    if source.transform or any("{" in path for path in source.paths):
        return None
    if source.format is Format.CSV:
        return shared_options(source)
    maps = any(has_map(field.type) for field in known or ())
    plain = source.format is Format.AVRO or (source.format is Format.JSON and not maps)
    return source if plain and not source.options else None


def _is_left(path: str) -> bool:
    """Does the file have columns in the names of its folders, or more bytes than its size says."""
    return "=" in path or path.endswith(".gz")


def _read(source: Source, known: pa.Schema | None) -> pa.Table | None:
    from hoodie.source.arrow import read

    stream = read(source, known)
    assert isinstance(stream, Stream)
    held: list[pa.RecordBatch] = []
    count = size = 0
    for batch in (batch for part in stream.parts for batch in part()):
        held.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count > FEW_ROWS or size > _HELD_BYTES:
            return None
    return pa.Table.from_batches(held, stream.schema)
