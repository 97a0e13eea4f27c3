"""Parquet base files: five meta columns first, bloom filter and key range in the footer (format.md 6).

Writer and reader both stream: the writer holds one row group, the reader one batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.config.key import Config
from hoodie.engine.legacy_calendar import VERSION, LegacyCalendar, LegacyValue, int96_columns, is_temporal
from hoodie.engine.parquet_open import Encrypted, parquet_file
from hoodie.engine.required import settled
from hoodie.errors import StorageError, TableError
from hoodie.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_TYPE_KEY,
    LEGACY_BLOOM_FILTER_KEY,
    MAX_ENTRIES,
    BloomFilter,
)
from hoodie.format.bloom_size import FilterSettings, SizedFilter
from hoodie.format.instant_time import InstantTime
from hoodie.format.key_range import MAX_KEY_KEY, MIN_KEY_KEY, java_max, java_min, key_range
from hoodie.format.meta_fields import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from hoodie.format.names import BaseFileName
from hoodie.format.parquet_guard import Footer, Pages
from hoodie.format.settings import (
    BLOCK_SIZE,
    BLOOM_ENABLED,
    COMPRESSION_CODEC,
    FILE_SLACK,
    MAX_FILE_SIZE,
    BloomType,
    Codec,
)
from hoodie.storage import Output, Storage

_SAMPLE_ROWS = 4096
#: a column is written with a dictionary when the sample has at most this share of distinct values
_DICTIONARY_SHARE = 0.25
_ALWAYS_DICTIONARY = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)
_NEVER_DICTIONARY = (COMMIT_SEQNO, RECORD_KEY)
READ_BATCH_ROWS = 65536
_READ_BUFFER = 1 << 20
#: far more than keys, no two of which are alike, can be compressed to
_MOST_ROWS_PER_BYTE = 64


@dataclass(frozen=True)
class BaseFileFormat:
    """How base files are written; one for all files of a write. Picklable."""

    codec: Codec
    max_file_size: int
    slack: float
    block_size: int
    #: None: files get no filters
    bloom: FilterSettings | None

    @classmethod
    def of(cls, config: Config) -> BaseFileFormat:
        return cls(
            config[COMPRESSION_CODEC],
            config[MAX_FILE_SIZE],
            config[FILE_SLACK],
            min(config[BLOCK_SIZE], config[MAX_FILE_SIZE]),
            FilterSettings.of(config) if config[BLOOM_ENABLED] else None,
        )

    def new_filter(self) -> BloomFilter | SizedFilter | None:
        return None if self.bloom is None else self.bloom.new()


@dataclass
class KeySummary:
    """Bloom filter and key range of a file; a new version of the file continues its predecessor's."""

    bloom: BloomFilter | SizedFilter | None
    low: str | None = None
    high: str | None = None

    def add(self, keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> None:
        if len(keys) == 0:
            return
        if self.bloom is not None:
            self.bloom.add(keys)
        low, high = key_range(keys)
        self.low = low if self.low is None else java_min(self.low, low)
        self.high = high if self.high is None else java_max(self.high, high)


class BaseFileWriter:
    """Writes one base file. `write` takes tables in `schema`, meta columns first, and cuts row groups.

    Partition path and file name, the same in every row, are held as dictionaries (see `constant`).
    The caller creates the marker before constructing the writer, and adds keys to `summary`.
    """

    def __init__(self, sink: Output, schema: pa.Schema, avro_schema: str, format_: BaseFileFormat) -> None:
        self._sink = sink
        self.schema = _held(schema)
        self._avro_schema = avro_schema
        self._format = format_
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self.rows = 0

    @property
    def size(self) -> int:
        """Bytes on storage so far plus a guess for the rows not yet written."""
        return self._sink.tell() + int(self._pending_bytes * self._ratio)

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._pending_bytes >= self._format.block_size:
            self._flush()

    def close(self, summary: KeySummary) -> int:
        """Finish the file, which is lasting then (see Storage); returns its size in bytes."""
        self._flush()
        if self._writer is None:
            self._writer = self._open(self.schema.empty_table())
        footer = {"parquet.avro.schema": self._avro_schema, "writer.model.name": "avro"}
        if summary.bloom is not None:
            footer[BLOOM_FILTER_KEY] = summary.bloom.to_string()
            if summary.bloom.type is BloomType.DYNAMIC_V0:
                footer[BLOOM_TYPE_KEY] = BloomType.DYNAMIC_V0.value
        if summary.low is not None and summary.high is not None:
            footer[MIN_KEY_KEY] = summary.low
            footer[MAX_KEY_KEY] = summary.high
        self._writer.add_key_value_metadata(footer)
        self._writer.close()
        size = self._sink.tell()
        self._sink.commit()
        return size

    def abandon(self) -> None:
        """Close a file that will not be finished; its caller deletes it. Does nothing after `close`."""
        if self._writer is not None and self._writer.is_open:
            with contextlib.suppress(OSError, ValueError, pa.ArrowException):
                self._writer.close()
        self._sink.abandon()

    _ratio = 0.4

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = settled(pa.concat_tables(self._pending))
        if self._writer is None:
            self._writer = self._open(rows)
        before = self._sink.tell()
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._ratio = (self._sink.tell() - before) / max(1, self._pending_bytes)
        self._pending, self._pending_bytes = [], 0

    def _open(self, sample: pa.Table) -> pq.ParquetWriter:
        return parquet_writer(self._sink, self.schema, sample, self._format.codec)


def parquet_writer(
    sink: BinaryIO | Output | pa.NativeFile,
    schema: pa.Schema,
    sample: pa.Table,
    codec: Codec,
    checksums: bool = False,
) -> pq.ParquetWriter:
    """A writer of Parquet as Hudi's tables have it; `sample`, the first rows, decides on dictionaries."""
    return pq.ParquetWriter(
        sink,  # type: ignore[arg-type]  # the stubs know BinaryIO, which this does all of
        schema,
        compression="none" if codec is Codec.UNCOMPRESSED else codec.value,
        compression_level=1 if codec is Codec.ZSTD else None,
        use_dictionary=dictionary_columns(sample),  # type: ignore[arg-type]  # the stubs know bool only
        store_schema=False,
        coerce_timestamps="us",
        write_page_index=False,
        write_page_checksum=checksums,
    )


_CONSTANT = pa.dictionary(pa.int32(), pa.string())


def _held(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [pa.field(f.name, _CONSTANT) if f.name in (PARTITION_PATH, FILE_NAME) else f for f in schema]
    )


def dictionary_columns(sample: pa.Table) -> list[str]:
    """Top-level columns whose first rows repeat enough for a dictionary to pay."""
    head = sample.slice(0, _SAMPLE_ROWS)
    chosen = [name for name in _ALWAYS_DICTIONARY if name in head.column_names]
    for field in head.schema:
        if field.name in chosen or field.name in _NEVER_DICTIONARY or pa.types.is_nested(field.type):
            continue
        if pa.types.is_boolean(field.type) or head.num_rows == 0:
            continue
        distinct = pc.count_distinct(head.column(field.name), mode="all").as_py()
        if distinct <= max(1, int(head.num_rows * _DICTIONARY_SHARE)):
            chosen.append(field.name)
    return chosen


def constant(value: str, rows: int) -> pa.Array[Any]:
    """A string column with one value, stored once."""
    indices: pa.Int32Array = pa.array(np.zeros(rows, dtype=np.int32), pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def sequence_numbers(instant: InstantTime, task: int, start: int, rows: int) -> pa.Array[Any]:
    """`<instant>_<task>_<row>` for rows start, start+1, …"""
    numbers = pc.cast(pa.array(np.arange(start, start + rows), pa.int64()), pa.string())
    join: Any = pc.binary_join_element_wise
    joined: pa.Array[Any] = join(pa.scalar(f"{instant}_{task}"), numbers, "_")
    return joined


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turns what goes wrong while a base file is read into a TableError that names file and instant."""
    try:
        yield
    except FileNotFoundError:
        raise _unreadable(path, "is missing") from None
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"{path} can't be read: {error}", path=path) from error
        if isinstance(error, Encrypted | LegacyValue):
            raise _refused(path, error) from None
        why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
        raise _unreadable(path, f"is empty or damaged ({why})") from error


def _unreadable(path: str, what: str) -> TableError:
    name = BaseFileName.parse(path.rpartition("/")[2])
    instant = name.instant if name else "an unknown instant"
    return TableError(
        f"base file {path}, written by {instant}, {what}; restore the file from a copy, or take the table "
        "back to a state without it (hoodie restore). hoodie doctor --deep finds all such files",
        path=path,
        instant=instant,
    )


def _refused(path: str, error: Encrypted | LegacyValue) -> TableError:
    if isinstance(error, Encrypted):
        return TableError(f"base file {path} can't be read: {error}", path=path)
    return TableError(
        f"base file {path} can't be read: {error}, in Spark's legacy calendar; read the table on the Spark "
        "engine, or write the rows again by Spark with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
        path=path,
    )


class BaseFileReader:
    """Streams one base file; holds one batch of rows and the footer.

    Raises TableError, which names the instant that wrote it, for a file that is missing, empty or damaged.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self._groups: list[int] | None = None
        with readable(path):
            opened: Any = storage.open_input(path)
            self._source = pa.PythonFile(opened, "r")
            try:
                footer = Footer(self._source)
                self._pages = Pages(footer)
                self._file = parquet_file(
                    self._source, metadata=footer.metadata(), buffer_size=_READ_BUFFER, pre_buffer=False
                )
                self._check_rows()
                spark = footer.mentions(VERSION)
                self._legacy = LegacyCalendar.of(self._file.metadata.metadata) if spark else None
            except BaseException:
                self._source.close()
                raise

    def __enter__(self) -> BaseFileReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()
        self._source.close()

    def _check_rows(self) -> None:
        """Memory goes with the rows, whose keys take bytes: the footer's number must be one that can be."""
        metadata, size = self._file.metadata, self._source.size()
        if RECORD_KEY in metadata.schema.names and metadata.num_rows > _MOST_ROWS_PER_BYTE * size:
            raise ValueError(f"{metadata.num_rows:,} rows in {size:,} bytes")

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema_arrow.remove_metadata()

    @property
    def rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def key_column_bytes(self) -> int:
        """Uncompressed bytes of the record keys."""
        with readable(self.path):
            return self._pages.size(RECORD_KEY)

    @property
    def footer(self) -> dict[str, str]:
        raw = self._file.metadata.metadata or {}
        return {
            k.decode("utf-8", "surrogateescape"): v.decode("utf-8", "surrogateescape") for k, v in raw.items()
        }

    def key_bounds(self) -> tuple[str, str] | None:
        footer = self.footer
        low, high = footer.get(MIN_KEY_KEY), footer.get(MAX_KEY_KEY)
        if low is None or high is None:
            return None
        with readable(self.path):
            _ = low.encode(), high.encode()  # UnicodeEncodeError where the footer has no UTF-8
        return low, high

    def bloom(self, max_entries: int | None = None) -> BloomFilter | None:
        """The footer's filter; `max_entries` matters only when keys will be added, the footer lacks it."""
        footer = self.footer
        text = footer.get(BLOOM_FILTER_KEY) or footer.get(LEGACY_BLOOM_FILTER_KEY)
        if not text:
            return None
        return BloomFilter.from_string(text, footer.get(BLOOM_TYPE_KEY), max_entries or MAX_ENTRIES)

    def summary(self, format_: BaseFileFormat) -> KeySummary | None:
        """The file's own key summary, to be continued while the reader is open; None when it lacks what
        `format_` asks for, and when a new one is to be built.
        """
        bounds, settings = self.key_bounds(), format_.bloom
        if bounds is None:
            return None
        if settings is None:
            return KeySummary(None, *bounds)
        known = self.bloom(settings.max_entries)
        if known is None:
            return None
        bloom = settings.continued(known, self._file.metadata.num_rows, self.record_keys)
        return None if bloom is None else KeySummary(bloom, *bounds)

    def keep(self, chosen: Callable[[pq.FileMetaData], list[int]]) -> None:
        """From now on `batches` gives the rows of those row groups only whose numbers `chosen` returns."""
        self._groups = chosen(self._file.metadata)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        with readable(self.path):
            self._pages.batch_rows(columns, self.rows)
            rows = self._file.read(columns=None if columns is None else list(columns), use_threads=False)
            return pa.Table.from_batches(self._rebased(rows.to_batches()), rows.schema)

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = READ_BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """At most `rows` at a time, fewer where those might be more than BATCH_BYTES (`parquet_pages`)."""
        names = None if columns is None else list(columns)
        if self._groups == []:
            return
        with readable(self.path):
            step = self._pages.batch_rows(names, rows)
            yield from self._rebased(
                self._file.iter_batches(
                    batch_size=step, row_groups=self._groups, columns=names, use_threads=False
                )
            )

    def _rebased(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The rows in today's calendar."""
        legacy = self._legacy
        if legacy is None or not any(is_temporal(field.type) for field in self._file.schema_arrow):
            return batches
        int96 = int96_columns(self._file.metadata.schema)
        return (legacy.rebased(batch, int96) for batch in batches)

    def record_keys(self, batch_rows: int | None = None) -> Iterator[pa.ChunkedArray[Any] | pa.Array[Any]]:
        """The record keys, in batches of at most `batch_rows`; None: in one piece, if that is a small one."""
        if RECORD_KEY not in self._file.metadata.schema.names:
            raise _unreadable(self.path, f"has no column {RECORD_KEY}")
        if batch_rows is None:
            with readable(self.path):
                step = self._pages.batch_rows([RECORD_KEY], self.rows)
            if step >= self.rows:
                yield self.read([RECORD_KEY]).column(0)
                return
        for batch in self.batches([RECORD_KEY], batch_rows or READ_BATCH_ROWS):
            yield batch.column(0)


def footer_of(storage: Storage, path: str) -> dict[str, Any]:
    """Footer key/values of one base file."""
    with BaseFileReader(storage, path) as reader:
        return dict(reader.footer)
