"""Rows of the index's table in HBase.

The row key is the record key. Three columns are those of Apache Hudi: the file id, the partition path, and
the instant of the commit that put the record there. Until the commit is published, a writer of this package
keeps the entry that counted in three more.

Rows whose keys begin with MARKS say which instants of the table the index follows.
"""

from __future__ import annotations

from typing import NamedTuple

from hoodie.index.hbase.client import Cells
from hoodie.timeline.instant import Instant

INSTANT = b"_s:commit_ts"
_COLUMNS = (b"_s:partition_path", b"_s:file_name", INSTANT)
BEFORE = (b"_s:before_partition_path", b"_s:before_file_name", b"_s:before_commit_ts")
COLUMNS = (*_COLUMNS, *BEFORE)

MARKS = b"\0hoodie/"
FOLLOWED = b"_s:followed"
#: values of FOLLOWED: its keys are entered; also, what it deleted, and entries that were kept, are taken out
ENTERED, DONE = b"entered", b"done"


class Place(NamedTuple):
    """Where a record is: a file group, and the instant that put it there."""

    partition: str
    file_id: str
    instant: str

    @property
    def group(self) -> tuple[str, str]:
        return self.partition, self.file_id


class Entry(NamedTuple):
    """`before`: where the record was when `place` was entered, and is if that commit came to nothing."""

    place: Place | None
    before: Place | None


NO_ENTRY = Entry(None, None)


def entry_of(cells: Cells) -> Entry:
    return Entry(_place(cells, _COLUMNS), _place(cells, BEFORE))


def cells_of(place: Place, before: Place | None) -> dict[bytes, bytes]:
    cells = dict(zip(_COLUMNS, map(str.encode, place), strict=True))
    if before is not None:
        cells |= zip(BEFORE, map(str.encode, before), strict=True)
    return cells


def mark_of(instant: Instant) -> bytes:
    """The row key of an instant's mark."""
    return MARKS + f"{instant.time}.{instant.action.value}".encode()


def _place(cells: Cells, columns: tuple[bytes, ...]) -> Place | None:
    values = [cells.get(column) for column in columns]
    texts = [value.decode(errors="replace") for value in values if value is not None]
    return Place(*texts) if len(texts) == len(columns) else None
