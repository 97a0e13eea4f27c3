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
    """hoodie.table.version. `name` is Apache Hudi's. `writable`: tables are written and served, too."""

    number: int
    name: str
    layout: LayoutVersion
    writable: bool


#: a step between the layouts, which Apache Hudi makes of no new table
_BRIDGE = 7

#: all that Apache Hudi 1.2.0 knows: they are read. It counts tables below version 1 among those of layout 0,
#: whose files of completed instants have the same names
VERSIONS = {
    number: TableVersion(
        number,
        name,
        LayoutVersion.ONE if number < 8 else LayoutVersion.TWO,
        writable=number != _BRIDGE,
    )
    for number, name in enumerate(
        ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
    )
}

#: what new tables get
DEFAULT = VERSIONS[9]

#: what new tables may have; those between them are steps of upgrades
OF_NEW_TABLES = (6, 8, 9)

#: the earliest of them, which the metadata table of each table of the first layout has
EARLIEST = VERSIONS[OF_NEW_TABLES[0]]

#: the first version in which Apache Hudi's own payload classes are merge modes, and what is said beside them
PAYLOADS_ARE_MODES_SINCE = 9

#: the first version whose hoodie.properties always has a checksum
CHECKSUM_SINCE = 4

#: the first version whose hoodie.properties always has the merge mode
MERGE_MODE_SINCE = 8


def is_of_layout(number: int, layout: LayoutVersion) -> bool:
    """Whether a table version's timeline has this layout; an unknown, newer one is taken to have the last."""
    return (VERSIONS[number].layout if number in VERSIONS else max(LayoutVersion)) is layout


def check_readable(number: int, base_path: str) -> None:
    """Raises UnsupportedVersion for a table version that this package does not know."""
    if number in VERSIONS:
        return
    raise UnsupportedVersion(
        f"{base_path} has table version {number}; this package reads versions up to {max(VERSIONS)}. Read it "
        f"with Apache Hudi, or use a table written with version {max(VERSIONS)}",
        path=base_path,
        version=number,
    )


def is_writable(number: int) -> bool:
    """Whether tables of a version are written and served here, too."""
    return number in VERSIONS and VERSIONS[number].writable


def check_writable(number: int, base_path: str, name: str) -> None:
    """Raises UnsupportedVersion for a table version that is read only. `name` is the table's."""
    if is_writable(number):
        return
    raise UnsupportedVersion(
        f"{base_path} has table version {number}, which is read here and not written. Upgrade the table with "
        f"Apache Hudi (call upgrade_table(table => '{name or '…'}', to_version => "
        f"'{VERSIONS[max(VERSIONS)].name}')), or downgrade it (call downgrade_table, to_version => "
        f"'{EARLIEST.name}')",
        path=base_path,
        version=number,
    )
