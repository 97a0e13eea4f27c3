"""When a metadata table is compacted, cleaned and archived (format.md 10.7)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Upkeep:
    """`compact_after`: deltacommits since the last compaction. `keep_commits`: those before which old slices
    are cleaned. Of `keep_most` commits on the timeline all but `keep_least` are archived.
    """

    compact_after: int = 10
    keep_commits: int = 20
    keep_least: int = 21
    keep_most: int = 31


#: as Apache Hudi has it
DEFAULT = Upkeep()
