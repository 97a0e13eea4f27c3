"""Days and times that Spark stored in its legacy calendar: before 1582-10-15 as Julius Caesar counted them.

Spark before 3.0 wrote so, and later ones do where they are asked to; the footer's entries say it. Days are
exact. Times before 1900 depend on the rules that a time zone had in Java's old classes, and are exact
where the zone is UTC.
Source: Apache Spark 3.5, DataSourceUtils and RebaseDateTime.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from hoodie.engine.required import contains

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

VERSION = b"org.apache.spark.version"
_DATES, _INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_ZONE = b"org.apache.spark.timeZone"
_DATES_SINCE, _INT96_SINCE = b"3.0.0", b"3.1.0"
_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Zulu", "+00:00")
#: day of the legacy calendar, counted from 1970 -> days that are added from it on to give today's
_ADDED_FROM = {
    -719164: 2,
    -682945: 1,
    -646420: 0,
    -609895: -1,
    -536845: -2,
    -500320: -3,
    -463795: -4,
    -390745: -5,
    -354220: -6,
    -317695: -7,
    -244645: -8,
    -208120: -9,
    -171595: -10,
    -141427: 0,
}
_FROM, _ADDED = np.array([*_ADDED_FROM]), np.array([*_ADDED_FROM.values()])
_EPOCH = dt.date(1970, 1, 1).toordinal()
_SINCE_1900 = dt.date(1900, 1, 1).toordinal() - _EPOCH
_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class LegacyValue(ValueError):
    """A file has values of the legacy calendar that can't be converted."""


class LegacyCalendar(NamedTuple):
    """Which values of a file are in the legacy calendar. `dates`: days, and times that are no INT96."""

    dates: bool
    int96: bool
    zone: str

    @classmethod
    def of(cls, entries: Mapping[bytes, bytes] | None) -> LegacyCalendar | None:
        """By the entries of a footer; None where nothing is, as in files that Spark did not write."""
        version = (entries or {}).get(VERSION)
        if entries is None or version is None:
            return None
        dates = version < _DATES_SINCE or _DATES in entries
        int96 = version < _INT96_SINCE or _INT96 in entries
        return cls(dates, int96, entries.get(_ZONE, b"").decode(errors="replace")) if dates or int96 else None

    def rebased(self, batch: pa.RecordBatch, int96: Collection[str]) -> pa.RecordBatch:
        """The rows in today's calendar; `int96` are columns that have, or contain, such times.

        Raises LegacyValue for times of other zones than UTC or of none, and for old values in nested
        columns.
        """
        columns = [
            self._column(column, name, name in int96)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _column(self, column: Any, name: str, int96: bool) -> Any:
        if not is_temporal(column.type) or not (self.int96 if int96 else self.dates):
            return column
        if pa.types.is_nested(column.type):
            for leaf in _leaves(column):
                if not self._moved(leaf, name, int96).equals(leaf):
                    raise LegacyValue(f"nested column {name!r} has days or times before 1582-10-15")
            return column
        return self._moved(column, name, int96)

    def _moved(self, column: Any, name: str, int96: bool) -> Any:
        timed = pa.types.is_timestamp(column.type)
        unit, width = (_A_DAY[column.type.unit], pa.int64()) if timed else (1, pa.int32())
        stored = column.cast(width)
        limit = _SINCE_1900 if timed and self.zone not in _UTC else int(_FROM[-1])
        if not pc.any(pc.less(stored, pa.scalar(limit * unit, width))).as_py():
            return column
        if timed and column.type.tz is None and not int96:
            raise LegacyValue(f"column {name!r} has times without a zone before 1582-10-15")
        zone = self.zone or "an unknown zone"
        if limit == _SINCE_1900:
            raise LegacyValue(f"column {name!r} has times before 1900, which were written in {zone}")
        numbers = pc.fill_null(stored, 0).to_numpy(zero_copy_only=False)
        days = numbers // unit
        if int(days.min()) < int(_FROM[0]):
            raise LegacyValue(f"column {name!r} has days before the year 1")
        added = np.where(days < _FROM[-1], _ADDED[np.searchsorted(_FROM, days, "right") - 1], 0)
        moved = pa.array(numbers + added * unit, width, mask=np.asarray(stored.is_null()))
        return moved.cast(column.type)


def is_temporal(dtype: Any) -> bool:
    """Whether it is, or contains, a type of days or times."""
    return contains(dtype, lambda kind: bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind)))


def int96_columns(schema: Any) -> frozenset[str]:
    """The top-level columns of a Parquet schema that have INT96, or contain it."""
    columns = (schema.column(number) for number in range(len(schema.names)))
    return frozenset(column.path.partition(".")[0] for column in columns if column.physical_type == "INT96")


def check_legacy_values(metadata: pq.FileMetaData, opened: Callable[[], pq.ParquetFile]) -> None:
    """Raises LegacyValue where a file has values that are others in today's calendar. Reads, of a file
    in the old one, the columns of days and times.
    """
    old = LegacyCalendar.of(metadata.metadata)
    if old is None:
        return
    with opened() as file:
        names = [field.name for field in file.schema_arrow if is_temporal(field.type)]
        int96 = int96_columns(metadata.schema)
        for batch in file.iter_batches(columns=names, use_threads=False) if names else ():
            if not old.rebased(batch, int96).equals(batch):
                raise LegacyValue("it has days or times before 1582-10-15")


def _leaves(array: Any) -> Iterator[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _leaves(array.field(number))
    elif pa.types.is_map(kind):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_nested(kind):
        yield from _leaves(array.values)
    elif is_temporal(kind):
        yield array
