"""What of a table's past can still be read: after cleaning, archiving, and beside writes in flight."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hoodie.codec.avro import read_record
from hoodie.errors import ConfigError
from hoodie.format.names import LogFileName, join
from hoodie.read.query import EARLIEST, HOLES_POLICY, Holes
from hoodie.storage import Storage
from hoodie.table.pending import clustering_plan
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline, instant_path, meta_path
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, State

#: (partition path, file id)
Groups = Collection[tuple[str, str]]


def check_retained(
    timeline: Timeline, storage: Storage, name: str, time: str, groups: Groups | None = None
) -> None:
    """ConfigError when files of the table as of `time` may be gone, which says from when on it is whole.

    `name` is the option that asked for it. With `groups` only these file groups have to be whole, which
    commits on the active timeline wrote. The newest state is always whole; so is a savepoint's.
    """
    commits = [instant.time for instant in timeline.commits()]
    if not commits or time >= commits[-1]:
        return
    if time < commits[0]:
        raise ConfigError(
            f"{name} {time} is before the table's active timeline, which begins with commit {commits[0]}; "
            "ask for that time or a later one",
            **{name: time, "earliest": commits[0]},
        )
    cleans = timeline.filter([Action.CLEAN])
    kept = max(_kept_since(timeline, storage), default=None)
    commit = max(instant for instant in commits if instant <= time)
    savepoints = {instant.time for instant in timeline.filter([Action.SAVEPOINT], completed=True)}
    if kept is not None and time < kept and commit not in savepoints and groups is None:
        raise _gone(
            f"{name} {time} is before what the cleaner kept: files are complete from {kept} on",
            **{name: time, "earliest": kept},
        )
    if not cleans or (kept is not None and time >= kept):
        return
    for path in _files_as_of(timeline, storage, time, groups):
        if not storage.exists(join(timeline.base_path, path)):
            raise _gone(f"{name} {time} is before what the cleaner kept: {path} is gone", **{name: time})


def check_begin(timeline: Timeline, storage: Storage, props: TableProperties, begin: str) -> None:
    """ConfigError when commits later than `begin` are archived: what they wrote isn't known any more."""
    commits = timeline.commits()
    if not begin or not commits or begin >= commits[0].time:
        return
    folder = join(meta_path(timeline.base_path), props.archive_folder)
    if any("archive" in item.name for item in storage.list(folder)):
        raise ConfigError(
            f"begin {begin} is before the table's active timeline, which begins with commit "
            f"{commits[0].time}; older commits are archived. Take begin={EARLIEST} for all rows, or a later "
            "instant",
            begin=begin,
            earliest=commits[0].time,
        )


def last_before_hole(timeline: Timeline, storage: Storage, policy: Holes, end: str) -> str:
    """`end`, or an earlier commit where a write that began before it is still in flight.

    Raises ConfigError with the policy FAIL. "" when no commit is left. Pending clustering writes no new rows.
    """
    hole = next(_in_flight(timeline, storage), None)
    if hole is None or hole > end:
        return end
    before = [instant.time for instant in timeline.commits() if instant.time < hole]
    if policy is Holes.FAIL:
        known = f"commits up to {before[-1]}" if before else "no commit"
        raise ConfigError(
            f"write {hole} is in flight, or failed and was not rolled back yet; rows that it wrote may come "
            f"later, so only {known} can be read. Wait for it, ask for an earlier time, or set "
            f"{HOLES_POLICY.name}={Holes.BLOCK.value}",
            instant=hole,
        )
    return before[-1] if before else ""


def _in_flight(timeline: Timeline, storage: Storage) -> Iterator[str]:
    for instant in timeline.filter(COMMIT_ACTIONS, completed=False):
        clusters = instant.action is Action.REPLACECOMMIT and clustering_plan(
            storage, timeline.base_path, instant
        )
        if not clusters:
            yield instant.time


def _kept_since(timeline: Timeline, storage: Storage) -> Iterator[str]:
    """Instants from which on the newest clean, and those that may be going on, keep everything."""
    completed = timeline.filter([Action.CLEAN], completed=True)
    if completed:
        data = timeline.read(completed[-1], storage)
        if data:
            earliest = read_record("HoodieCleanMetadata", data)["earliestCommitToRetain"]
            yield from [earliest] if earliest else []
    for instant in timeline.filter([Action.CLEAN], completed=False):
        data = storage.read(instant_path(timeline.base_path, instant.with_state(State.REQUESTED)))
        plan = read_record("HoodieCleanerPlan", data)["earliestInstantToRetain"] if data else None
        yield from [plan["timestamp"]] if plan and plan["timestamp"] else []


def _files_as_of(timeline: Timeline, storage: Storage, time: str, wanted: Groups | None) -> Iterator[str]:
    """Paths of the slices that were the latest then, as far as commits on the active timeline tell."""
    groups: dict[tuple[str, str], list[str]] = {}
    for instant in timeline.commits():
        if instant.time > time:
            break
        commit = CommitMetadata.parse(timeline.read(instant, storage))
        for partition, stats in commit.partition_to_write_stats.items():
            for stat in stats:
                if not stat.path:
                    continue
                files = groups.setdefault((partition, stat.file_id), [])
                if not LogFileName.parse(stat.path.rpartition("/")[2]):
                    files.clear()
                files.append(stat.path)
        if isinstance(commit, ReplaceCommitMetadata):
            for partition, ids in commit.partition_to_replace_file_ids.items():
                for file_id in ids:
                    groups.pop((partition, file_id), None)
    for group, files in groups.items():
        if wanted is None or group in wanted:
            yield from files


def _gone(text: str, **values: str) -> ConfigError:
    return ConfigError(f"{text}. Ask for a later time, or keep more next time (hoodie.cleaner.*)", **values)
