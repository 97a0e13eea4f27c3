"""How often a table is written, and whether its next write is late: one answer for pages, sensors, messages.

The usual gap between writes is the first of these that is known:

- stated: the setting `hoodie.write.expected.interval.ms`, which the newest commit that has it carries in its
  extra metadata;
- intervals: the lengths of the data intervals that the last writes stood for (timeline.tokens), or, of runs
  that stand for a moment, the gaps between the moments. A backfill writes many intervals at once, and the
  gaps between its commits say nothing;
- writes: the gaps between commits. Commits that lie close together count as one. Of a table that was only
  written within a short time no gap is known.

Compactions and clusterings are no writes. Standard library only.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import wall_millis
from hoodie.timeline.commit_details import CommitDetails
from hoodie.timeline.instant import Instant
from hoodie.timeline.tokens import TaskRun

#: the setting (table.settings), and the key of extra metadata
EXPECTED_KEY = "hoodie.write.expected.interval.ms"

STATED, INTERVALS, WRITES = "stated", "intervals", "writes"

#: so many of the last writes are opened, and so many commits are looked at in the listing
_OPENED, _LISTED = 21, 1000
#: a table is late once nothing was written for so many gaps, and for so long
_LATE, _LATE_MS = 3, 10 * 60_000
#: commits closer than this are one write, unless there are as many of them for so long
_CLOSE_MS, _STEADY_MS = 10 * 60_000, 30 * 60_000
#: gaps of so many writes say what is usual; of fewer the longest does
_FEWEST = 4
#: ten years; what a forged commit states beyond this is not read
_LONGEST_MS = 10 * 366 * 86_400_000


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """`age_ms` of the last write, `usual_ms` between writes and its `basis`; None where it is not known."""

    last: Instant | None = None
    age_ms: int | None = None
    usual_ms: int | None = None
    basis: str | None = None

    @classmethod
    def of(
        cls, timeline: Timeline, details: Callable[[Instant], CommitDetails | None], now_ms: int
    ) -> Freshness:
        """`details` opens a completed commit, if it can be read; `now_ms` by the storage's clock."""
        listed = [instant for instant in timeline.commits() if not _rewrites(timeline, instant)]
        writes: list[Instant] = []
        opened: list[CommitDetails] = []
        for instant in reversed(listed):
            if len(writes) >= _OPENED:
                break
            found = details(instant)
            if found is None or not found.is_service:
                writes.append(instant)
                opened += [found] if found is not None else []
        if not writes:
            return cls()
        completed = timeline.completion_of(writes[0])
        # of older ones the listing alone is looked at
        older = [item for item in listed[-_LISTED:] if item.is_before(writes[-1].time)]
        usual, basis = _usual(opened, [*older, *reversed(writes)])
        return cls(
            last=writes[0],
            age_ms=None if completed is None else max(0, now_ms - completed),
            usual_ms=usual,
            basis=basis,
        )

    @property
    def late_after_ms(self) -> int | None:
        """The age beyond which the table is late; None where no gap is known."""
        return None if self.usual_ms is None else max(_LATE_MS, _LATE * self.usual_ms)

    @property
    def late(self) -> bool:
        limit = self.late_after_ms
        return self.age_ms is not None and limit is not None and self.age_ms > limit

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "instant": str(self.last.time) if self.last else None,
            "action": self.last.action.value if self.last else None,
            "start_ms": wall_millis(self.last.time) if self.last else None,
            "age_ms": self.age_ms,
            "usual_ms": self.usual_ms,
            "basis": self.basis,
            "late": self.late,
        }


def _rewrites(timeline: Timeline, instant: Instant) -> bool:
    """Of replacecommits and of those whose plan is gone, only the commit itself says it."""
    kind = timeline.kind_from_listing(instant)
    return kind is not None and kind.rewrites


def _usual(opened: Sequence[CommitDetails], writes: Sequence[Instant]) -> tuple[int | None, str | None]:
    """`opened`: newest first; `writes`: oldest first. The gap, and by what it is known."""
    for details in opened:
        text = details.extra_metadata.get(EXPECTED_KEY) or ""
        if text.isascii() and text.isdigit() and 0 < int(text[:15]) <= _LONGEST_MS:
            return int(text[:15]), STATED
    if (gap := _of_intervals(opened)) is not None:
        return gap, INTERVALS
    times = [ms for ms in (wall_millis(item.time) for item in writes) if ms is not None]
    gap = _of_writes(sorted(times))
    return (None, None) if gap is None else (gap, WRITES)


def _of_intervals(opened: Iterable[CommitDetails]) -> int | None:
    """The usual length of the data intervals, each counted once, or the usual gap between moments."""
    runs = (TaskRun.of(details.extra_metadata) for details in opened)
    spans = {span for run in runs if run is not None and (span := _span(run.stands_for)) is not None}
    lengths = [end - start for start, end in spans if end > start]
    if lengths:
        return int(statistics.median_high(lengths))
    return _typical([later - earlier for earlier, later in pairwise(sorted({start for start, _ in spans}))])


def _span(stands_for: str) -> tuple[int, int] | None:
    """Start and end in epoch milliseconds; a moment begins and ends at once. None for other texts."""
    start, slash, end = stands_for.removeprefix("partition=").partition("/")
    try:
        first = datetime.fromisoformat(start)
        last = datetime.fromisoformat(end) if slash else first
        return _millis(first), _millis(last)
    except (ValueError, OverflowError):
        return None


def _millis(moment: datetime) -> int:
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return int(moment.timestamp() * 1000)


def _of_writes(times: Sequence[int]) -> int | None:
    """The usual gap between commits at these sorted times; None where only one burst of them is known."""
    if not times:
        return None
    bursts = [[times[0]]]
    for earlier, later in pairwise(times):
        if later - earlier > _CLOSE_MS:
            bursts.append([])
        bursts[-1].append(later)
    starts = [burst[0] for burst in bursts]
    last = bursts[-1]
    pause = last[0] - bursts[-2][-1] if len(bursts) > 1 else 0
    steady = last[-1] - last[0] >= max(_STEADY_MS, pause)
    if len(bursts) <= 2 and steady:
        return int(statistics.median(later - earlier for earlier, later in pairwise(last)))
    return _typical([later - earlier for earlier, later in pairwise(starts)])


def _typical(gaps: Sequence[int]) -> int | None:
    if len(gaps) < _FEWEST:
        return max(gaps, default=None)
    return int(statistics.median(gaps))
