"""Parquet files are opened here: an INT96 time is a number of microseconds, so that every year fits.

Spark, Hive and Impala wrote times as INT96 by default: a Julian day and the nanoseconds of the day. Arrow
reads INT96 as 64-bit nanoseconds by default, which wrap outside the years 1677 to 2262 without an error.
Format: parquet-format, LogicalTypes.md and parquet.thrift, type INT96.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_INT96_UNIT = "us"


def parquet_file(source: Any, **options: Any) -> pq.ParquetFile:
    """A file; takes what pyarrow.parquet.ParquetFile takes, and raises Arrow's errors."""
    return pq.ParquetFile(source, coerce_int96_timestamp_unit=_INT96_UNIT, **options)


@functools.cache
def parquet_format() -> ds.ParquetFileFormat:
    """The format of a dataset's files."""
    import pyarrow.dataset as ds

    options: Any = ds.ParquetReadOptions
    return ds.ParquetFileFormat(read_options=options(coerce_int96_timestamp_unit=_INT96_UNIT))
