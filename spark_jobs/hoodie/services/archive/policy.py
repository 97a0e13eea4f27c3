"""Which instants may be archived, and what holds the others back (Hudi 0.15.0 HoodieTimelineArchiver). It
also reads which commits are in the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hoodie.config.key import Config
from hoodie.services.archive.settings import BEYOND_SAVEPOINT, MAX_COMMITS, MIN_COMMITS
from hoodie.services.compaction.settings import MAX_DELTA_COMMITS, TRIGGER, Trigger
from hoodie.services.service_table import ServiceTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, COMPLETES_AS, Action, Instant
from hoodie.timeline.time import REQUESTED, InstantTime

_WRITES = frozenset({*COMMIT_ACTIONS, *COMPLETES_AS})
#: counted on their own: they may be older or newer than the commits that stay
_APART = (Action.CLEAN, Action.ROLLBACK)


@dataclass(frozen=True)
class Hold:
    """Commits at or after `time` stay, for the reason `why`."""

    time: InstantTime
    why: str


@dataclass(frozen=True)
class Facts:
    """What the timeline's listing alone does not show.

    `earliest` is the instant that the cleaner's settings retain. `replaced_left` returns for a completed
    replacecommit whether files of the groups that it replaced are still there; it is called only for those
    that would be archived. `archived`: is the instant in the archive already, so that a run was killed before
    it deleted it? `metadata_compaction` returns the newest compaction of the metadata table, "" where that
    has none yet, None for tables without a metadata table. `schema_commit` returns the commit whose
    schemacommit counts, of a table with schema-on-read evolution. Both are called only where instants would
    be archived.
    """

    earliest: InstantTime | None = None
    replaced_left: Callable[[Instant], bool] = lambda instant: False
    archived: Callable[[Instant], bool] = lambda instant: False
    metadata_compaction: Callable[[], InstantTime | None] = lambda: None
    merge_on_read: bool = False
    schema_commit: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Choice:
    """`instants` to archive: cleans, rollbacks, commits, each oldest first. `held`: what stopped the commits
    short of what their number asks for. `least` and `most` are the limits that were applied.
    """

    instants: tuple[Instant, ...]
    reason: str = ""
    held: tuple[Hold, ...] = ()
    least: int = 0
    most: int = field(default=0)


def choose(timeline: Timeline, config: Config, facts: Facts) -> Choice:
    """The completed instants that may be archived now."""
    least, most = limits(timeline, config, facts.earliest)
    commits, held = _commits(timeline, config, facts, least, most)
    chosen = [*_apart(timeline, facts, least, most, commits), *commits]
    bound = facts.metadata_compaction() if chosen else None
    if bound is not None:
        hold = Hold(bound, _METADATA_TABLE if bound else _NO_METADATA_COMPACTION)
        if any(not instant.is_before(bound) for instant in chosen):
            held = (*held, hold)
        chosen = timeline.before(bound, chosen)
    reason = "" if chosen else _reason(timeline, held, most)
    return Choice(tuple(chosen), reason, held, least, most)


def limits(timeline: Timeline, config: Config, earliest: InstantTime | None) -> tuple[int, int]:
    """How many commits stay at least, and above how many some are archived: the settings, or what the cleaner
    needs.

    The commit before the earliest retained one stays on the timeline with all after it.
    """
    least, most = config[MIN_COMMITS], config[MAX_COMMITS]
    if earliest is not None:
        needed = len(timeline.after(earliest, timeline.commits())) + 2
        if least < needed:
            least, most = needed, needed + most - least
    return least, most


def holds(timeline: Timeline, config: Config, facts: Facts) -> Iterator[Hold]:
    """Everything that keeps commits from being archived, save file groups that were replaced: readers hide
    those by their replacecommit, so that it stays until their files are gone (see `Facts.replaced_left`).
    """
    savepoint = next((item.time for item in timeline.filter([Action.SAVEPOINT])), None)
    if savepoint is not None and not config[BEYOND_SAVEPOINT]:
        yield Hold(savepoint, f"savepoint {savepoint} ({BEYOND_SAVEPOINT.name} is off)")
    pending = next(iter(timeline.filter(_WRITES, completed=False)), None)
    if pending is not None:
        before = _last_before(timeline, pending.time)
        yield Hold(before or pending.time, f"pending {pending.action.value} {pending.time}")
    schema_commit = facts.schema_commit()
    if schema_commit is not None:
        yield Hold(
            InstantTime(schema_commit), f"commit {schema_commit}, by which the table's columns are known"
        )
    if facts.merge_on_read and config[TRIGGER] in (Trigger.NUM_COMMITS, Trigger.NUM_AND_TIME):
        oldest = _oldest_for_compaction(timeline, config[MAX_DELTA_COMMITS])
        if oldest is not None:
            yield Hold(oldest, f"delta commits from {oldest} on, by which the next compaction is due")


def _commits(
    timeline: Timeline, config: Config, facts: Facts, least: int, most: int
) -> tuple[list[Instant], tuple[Hold, ...]]:
    """Commits from the oldest on, without a gap, and what held more of them back."""
    commits = timeline.commits()
    begun = _begun(commits, facts)
    if len(commits) <= most and not begun:
        return [], ()
    saved = {instant.time for instant in timeline.filter([Action.SAVEPOINT])}
    wanted = commits
    if config[BEYOND_SAVEPOINT]:
        wanted = [instant for instant in commits if instant.time not in saved]
    excess = len(wanted) - least if len(commits) > most else 0
    wanted = wanted[: max(0, excess, begun)]
    found = list(holds(timeline, config, facts))
    bound = REQUESTED.first(hold.time for hold in found)
    chosen = timeline.before(bound, wanted)
    left = next(
        (item for item in chosen if item.action is Action.REPLACECOMMIT and facts.replaced_left(item)), None
    )
    if left is not None:
        found.append(Hold(left.time, f"replacecommit {left.time}, whose replaced files were not cleaned yet"))
        chosen = timeline.before(left.time, chosen)
    first_kept = wanted[len(chosen)] if len(chosen) < len(wanted) else None
    held = tuple(hold for hold in found if first_kept is not None and not first_kept.is_before(hold.time))
    return chosen, held


def _apart(
    timeline: Timeline, facts: Facts, least: int, most: int, commits: Sequence[Instant]
) -> Iterator[Instant]:
    """In layout two, as in Apache Hudi 1.x, those before the newest of the `commits` that are archived: its
    readers look for times of completion in the archive only before the first instant of the timeline. A log
    file of an archived commit after it would count as one of the newest slice.
    """
    for action in _APART:
        done = timeline.filter([action], completed=True)
        excess = len(done) - least if len(done) > most else 0
        if timeline.layout.has_completion_time:
            excess = len(timeline.before(commits[-1].time, done)) if commits else 0
        yield from done[: max(excess, _begun(done, facts))]


def _begun(instants: Sequence[Instant], facts: Facts) -> int:
    """How many of the oldest a killed run has archived and not deleted."""
    kept = (number for number, instant in enumerate(instants) if not facts.archived(instant))
    return next(kept, len(instants))


def _oldest_for_compaction(timeline: Timeline, wanted: int) -> InstantTime | None:
    """The commit from which on delta commits are counted for the next compaction; it must stay countable."""
    compactions = timeline.filter([Action.COMMIT], completed=True)
    deltas = timeline.filter([Action.DELTACOMMIT])
    if compactions:
        since = timeline.after(compactions[-1].time, deltas)
        start = compactions[-1].time
    elif deltas:
        since, start = deltas, deltas[0].time
    else:
        return None
    return start if len(since) < wanted else since[len(since) - wanted].time


def _last_before(timeline: Timeline, time: InstantTime) -> InstantTime | None:
    before = [instant.time for instant in timeline.before(time, timeline.commits())]
    return before[-1] if before else None


def _reason(timeline: Timeline, held: tuple[Hold, ...], most: int) -> str:
    return (
        f"held back by {min(held, key=lambda hold: REQUESTED.key(hold.time)).why}"
        if held
        else counts(timeline, most)
    )


def counts(timeline: Timeline, most: int) -> str:
    """For people: how many instants there are, and how many there may be."""
    found = [f"{len(timeline.commits())} commits"]
    for action in _APART:
        done = timeline.filter([action], completed=True)
        found += [f"{len(done)} {action.value}s"] if done else []
    return f"the timeline has {', '.join(found)}, {most} of each may stay ({MAX_COMMITS.name})"


_METADATA_TABLE = "the newest compaction of the metadata table"
_NO_METADATA_COMPACTION = "the metadata table, which has no compaction yet"


def archived_commits(target: ServiceTable) -> Iterator[Instant]:
    """The completed commits of the archived timeline, in the order of its files."""
    for instant in target.table.archive.instants():
        if instant.comparable_action in COMMIT_ACTIONS:
            yield instant
