"""Versions of tables and of their timelines' layouts. No other module has these numbers.

In a ring so low that settings, timelines and properties can ask. Standard library only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hoodie.errors import UnsupportedVersion


class LayoutVersion(enum.IntEnum):
    """hoodie.timeline.layout.version; `timeline.layouts` has what each of them means."""

    ONE = 1
    TWO = 2


@dataclass(frozen=True)
class TableVersion:
    """hoodie.table.version. `name` is Apache Hudi's.

    `supported`: tables are read, written and served. Of the others that are known the timeline is read,
    if it lies as its layout says.
    """

    number: int
    name: str
    layout: LayoutVersion
    supported: bool

    @property
    def timeline_readable(self) -> bool:
        return self.supported or self.layout is LayoutVersion.TWO


#: all that Apache Hudi 1.2.0 knows. It counts tables below version 1 among those of layout 0, whose files
#: of completed instants have the same names
VERSIONS = {
    number: TableVersion(
        number,
        name,
        LayoutVersion.ONE if number < 8 else LayoutVersion.TWO,
        supported=number <= 6,
    )
    for number, name in enumerate(
        ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
    )
}

#: what new tables get, and the newest that is supported
NEWEST = VERSIONS[6]

#: the first version whose hoodie.properties always has a checksum
CHECKSUM_SINCE = 4

#: the first version whose hoodie.properties always has the merge mode
MERGE_MODE_SINCE = 8


def is_of_layout(number: int, layout: LayoutVersion) -> bool:
    """Whether a table version's timeline has this layout; an unknown, newer one is taken to have the last."""
    return (VERSIONS[number].layout if number in VERSIONS else max(LayoutVersion)) is layout


def check_supported(number: int, base_path: str, name: str = "", *, timeline_only: bool = False) -> None:
    """Raises UnsupportedVersion for a table version whose tables, or of which not even the timeline, can be
    read. `name` is the table's.
    """
    known = VERSIONS.get(number)
    if known is not None and (known.timeline_readable if timeline_only else known.supported):
        return
    partly = ""
    if known is not None and known.timeline_readable:
        partly = "; of this table its timeline is listed and waited for by sensors, no more"
    table = f"'{name}'" if name else "…"
    raise UnsupportedVersion(
        f"{base_path} has table version {number}; this package reads and writes versions up to "
        f"{NEWEST.number}{partly}. Downgrade the table with Apache Hudi (call downgrade_table(table => "
        f"{table}, to_version => '{NEWEST.name}')), or use a table written with version {NEWEST.number}",
        path=base_path,
        version=number,
    )
