"""Parquet files that executors read without Spark, if Spark would read the same rows and types from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from hoodie.engine.files import read_footers
from hoodie.engine.legacy_calendar import LegacyCalendar
from hoodie.engine.parquet_open import check_not_encrypted, table_types


def local_path(uri: str) -> str | None:
    """The path of a file of this machine; None for another one."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc or parts.query or parts.fragment:
        return None
    return unquote(parts.path)


def spark_dataset(paths: Sequence[str], files: pafs.FileSystem | None = None) -> ds.Dataset | None:
    """Of files of this machine, or of a file system. None for files whose types differ, and for types or old
    calendars that Spark converts on its own.

    Raises Arrow's errors, OSError and ValueError for files that are none, InputError for encrypted columns.
    """
    # not in the format of parquet_open: INT96 becomes nanoseconds, which are left to Spark
    dataset: Any = ds.dataset(list(paths), format="parquet", filesystem=files)
    fragments = list(dataset.get_fragments())
    types: dict[str, pa.DataType] = {}
    footers = read_footers(fragments)
    check_not_encrypted(fragments, footers)
    for footer, schema in zip(footers, (file.physical_schema for file in fragments), strict=True):
        if LegacyCalendar.of(footer.metadata) is not None:
            return None
        for field in table_types(schema, footer.schema):
            if types.setdefault(field.name, field.type) != field.type or not _is_common(field.type):
                return None
        if len(set(schema.names)) < len(schema.names):
            return None
    if len({name.lower() for name in types}) < len(types):
        return None
    fields = [pa.field(name, _micros(dtype)) for name, dtype in types.items()]
    return ds.FileSystemDataset(fragments, pa.schema(fields), dataset.format, dataset.filesystem)


def _is_common(dtype: pa.DataType, units: tuple[str, ...] = ("ms", "us")) -> bool:
    if pa.types.is_timestamp(dtype):
        return dtype.unit in units and dtype.tz in (None, "UTC")
    if pa.types.is_nested(dtype):
        kind = pa.types.is_list(dtype) or pa.types.is_struct(dtype) or pa.types.is_map(dtype)
        return kind and all(_is_common(dtype.field(child).type, ("us",)) for child in range(dtype.num_fields))
    return dtype in _COMMON or pa.types.is_decimal128(dtype)


_COMMON = (
    pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()
)  # fmt: skip


def _micros(dtype: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", dtype.tz) if pa.types.is_timestamp(dtype) else dtype
