"""Opens Parquet files, and corrects what Arrow reads differently.

- **INT96 times** are numbers of microseconds here, so that every year fits. Spark, Hive and Impala wrote
  times as INT96 by default: a Julian day and the nanoseconds of the day. Arrow's default is 64-bit
  nanoseconds, which wrap outside the years 1677 to 2262 without an error (parquet-format, LogicalTypes.md;
  parquet.thrift, type INT96).
- **ENUM** is a text in UTF-8 by its definition. Arrow reads it as binary.
- **Encrypted columns**: Arrow ends the process when it opens one. The footer of such a file may be in plain
  form. Behind it is then its signature: a nonce of 12 bytes and a tag of 16 (parquet-format, Encryption.md).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.engine.legacy_calendar import LegacyCalendar
from hoodie.errors import InputError

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

_INT96_UNIT = "us"
_TAIL, _SIGNATURE = 8, 28
#: how a footer ends that names the order of its columns and has no signature: a list of them, and its end
_ORDINARY_END = b"\x1c\x00\x00\x00"
#: in the name of a writer that is not Spark's, which stands before that list, three bytes a column
_ARROW, _SPARK, _END = b"parquet-cpp", b"org.apache.spark", 16 << 10
#: files that are opened side by side
_OPENED = 8


def parquet_file(source: Any, **options: Any) -> pq.ParquetFile:
    """A file; takes what pyarrow.parquet.ParquetFile takes, and raises Arrow's errors."""
    return pq.ParquetFile(source, coerce_int96_timestamp_unit=_INT96_UNIT, **options)


@functools.cache
def parquet_format() -> ds.ParquetFileFormat:
    """The format of a dataset's files."""
    import pyarrow.dataset as ds

    options: Any = ds.ParquetReadOptions
    return ds.ParquetFileFormat(read_options=options(coerce_int96_timestamp_unit=_INT96_UNIT))


class Encrypted(ValueError):
    """A file is encrypted, or has encrypted columns."""


def check_not_signed(metadata: pq.FileMetaData, length: int) -> None:
    """Raises Encrypted where the footer takes so many bytes that a signature is behind it."""
    if length - metadata.serialized_size == _SIGNATURE:
        raise Encrypted("it has encrypted columns; write it without encryption")


def all_plain(paths: Sequence[str]) -> bool:
    """Does Arrow read the right rows of these local Parquet files: nothing is encrypted, nor in an old
    calendar. A file that can't be read is left to whoever reads its rows.
    """
    if len(paths) <= _OPENED:
        return all(map(_is_plain, paths))
    shares = [paths[number::_OPENED] for number in range(_OPENED)]
    with ThreadPoolExecutor(_OPENED) as pool:
        return all(pool.map(lambda share: all(map(_is_plain, share)), shares))


def _is_plain(path: str) -> bool:
    """The end of the footer is looked at, which is parsed only where it may say otherwise."""
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            start = max(0, size - _END)
            end = os.pread(file, size - start, start)
        finally:
            os.close(file)
        if end[-4:] != b"PAR1":
            return end[-4:] != b"PARE"
        if end[:-_TAIL].endswith(_ORDINARY_END) and _ARROW in end and _SPARK not in end:
            return True
        metadata = pq.read_metadata(path)
        check_not_signed(metadata, int.from_bytes(end[-_TAIL:-4], "little"))
    except Encrypted:
        return False
    except (pa.ArrowException, OSError, ValueError):
        return True
    return LegacyCalendar.of(metadata.metadata) is None


def check_not_encrypted(fragments: Sequence[Any], footers: Sequence[pq.FileMetaData]) -> None:
    """Raises InputError that names the first of these Parquet files with encrypted columns."""
    with ThreadPoolExecutor(_OPENED) as pool:  # of an object store each is a request
        lengths = pool.map(_footer_length, [f.filesystem for f in fragments], [f.path for f in fragments])
    for fragment, footer, length in zip(fragments, footers, lengths, strict=True):
        try:
            check_not_signed(footer, length)
        except ValueError as error:
            text = f"{fragment.path} can't be read as parquet: {error}"
            raise InputError(text, file=fragment.path) from None


def _footer_length(files: pafs.FileSystem, path: str) -> int:
    with files.open_input_file(path) as opened:
        file: Any = opened  # the stubs lack `read_at`
        return int.from_bytes(file.read_at(4, file.size() - _TAIL), "little")


def table_types(arrow: pa.Schema, parquet: Any) -> pa.Schema:
    """The Arrow schema of a file, in types of tables: texts for ENUM and JSON, float for FLOAT16."""
    leaves = iter([_is_enum(parquet.column(number)) for number in range(len(parquet.names))])
    return pa.schema([field.with_type(_table_type(field.type, leaves)) for field in arrow])


def _is_enum(column: Any) -> bool:
    return bool(column.logical_type.type == "ENUM")


def _table_type(dtype: Any, leaves: Iterator[bool]) -> Any:
    """The type, whose leaves are the next ones: are they enums."""
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_table_type(field.type, leaves)) for field in dtype])
    if pa.types.is_map(dtype):
        key = dtype.key_field.with_type(_table_type(dtype.key_type, leaves))
        return _map(key, dtype.item_field.with_type(_table_type(dtype.item_type, leaves)))
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_table_type(dtype.value_type, leaves)))
    if pa.types.is_large_list(dtype):
        return pa.large_list(dtype.value_field.with_type(_table_type(dtype.value_type, leaves)))
    if pa.types.is_fixed_size_list(dtype):
        value = dtype.value_field.with_type(_table_type(dtype.value_type, leaves))
        return pa.list_(value, dtype.list_size)
    if next(leaves) or (isinstance(dtype, pa.BaseExtensionType) and dtype.extension_name == "arrow.json"):
        return pa.string()
    return pa.float32() if pa.types.is_float16(dtype) else dtype


def _map(key: Any, item: Any) -> pa.DataType:  # the stubs know types only
    return pa.map_(key, item)
