"""The files of a timeline in the other layout: of tables that go from version 6 to 8, or back.

Format: spec section 15.14. Source: Apache Hudi 1.2.0, SevenToEightUpgradeHandler and
EightToSevenDowngradeHandler.

- A commit is JSON in layout one and Avro in layout two; all other contents are the same.
- In layout two a pending clustering has an action of its own. Inflight files of clusterings and cleans are
  empty there.
- An instant of layout one gets the time of its request as that of its completion. So each log file, whose
  name has its slice there, stays in this slice, and times of incremental queries stay what they are. Apache
  Hudi takes the file's modification time, which is that of the last copy of the table.
- The archived timeline goes along: completed instants, and the plans that the other layout archives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hoodie.errors import TableError
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import Archive, ArchivedEntry, ArchivedState, WrittenArchive
from hoodie.timeline.archive.lsm_archive import LsmArchive
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.time import InstantTime

#: of a time with milliseconds; what Apache Hudi adds to older ones, which have none
_DIGITS, _MILLIS = 17, "999"
#: instants in a file of the archive, and states in a block of it
_BATCH, _BLOCK = 500, 10
#: entries of the archive of layout one -> the model of the instant's file
_MODELS = {
    (Action.CLEAN, State.COMPLETED): "HoodieCleanMetadata",
    (Action.CLEAN, State.REQUESTED): "HoodieCleanerPlan",
    (Action.ROLLBACK, State.COMPLETED): "HoodieRollbackMetadata",
    (Action.SAVEPOINT, State.COMPLETED): "HoodieSavepointMetadata",
    (Action.INDEXING, State.COMPLETED): "HoodieIndexCommitMetadata",
    (Action.COMPACTION, State.REQUESTED): "HoodieCompactionPlan",
    (Action.LOGCOMPACTION, State.REQUESTED): "HoodieCompactionPlan",
}


def completion_of(time: InstantTime) -> InstantTime:
    """The time of completion of an instant of layout one."""
    return InstantTime((time + _MILLIS)[:_DIGITS]) if len(time) < _DIGITS else InstantTime(time[:_DIGITS])


def later_files(timeline: Timeline, storage: Storage) -> Iterator[tuple[Instant, bytes]]:
    """Layout one -> the files in layout two. Raises TableError for a torn one."""
    for instant in timeline:
        clusters = instant.replaces and timeline.clustering_plan(instant, storage) is not None
        for state in timeline.states([instant]):
            data = timeline.read(state, storage)
            if state.completed:
                done = replace(state, completion=completion_of(state.time))
                yield done, _commit(timeline, state, storage) if _is_commit(state) else data
            elif clusters:
                content = data if state.state is State.REQUESTED else b""
                yield replace(state, action=Action.CLUSTERING), content
            else:
                yield state, _pending(timeline, state, data)


def older_files(timeline: Timeline, storage: Storage) -> Iterator[tuple[Instant, bytes]]:
    """Layout two -> the files in layout one, in the order of completion. Raises TableError for a torn one."""
    done = timeline.by_completion()
    for instant in (*timeline.pending(), *done):
        plan = b""
        for state in timeline.states([instant]):
            data = timeline.read(state, storage)
            plan = data if state.state is State.REQUESTED else plan
            if state.completed:
                bare = replace(state, completion=None)
                yield bare, _older_commit(timeline, state, storage) if _is_commit(state) else data
            elif state.action is Action.CLUSTERING:
                content = data if state.state is State.REQUESTED else b""
                yield replace(state, action=Action.REPLACECOMMIT), content
            elif state.action is Action.CLEAN and state.state is State.INFLIGHT:
                yield state, ONE.inflight_clean(plan)
            else:
                yield state, _older_pending(timeline, state, data)


def _is_commit(instant: Instant) -> bool:
    return instant.action in COMMIT_ACTIONS


def _commit(timeline: Timeline, state: Instant, storage: Storage) -> bytes:
    return TWO.content(timeline.commit(state, storage))


def _pending(timeline: Timeline, state: Instant, data: bytes) -> bytes:
    if state.action is Action.CLEAN and state.state is State.INFLIGHT:
        return TWO.inflight_clean(data)
    if _is_commit(state) and state.state is State.INFLIGHT:
        return TWO.content(_profile(timeline, state, data)) if data.strip() else b""
    return data if state.action not in (Action.COMMIT, Action.DELTACOMMIT) else b""


def _older_pending(timeline: Timeline, state: Instant, data: bytes) -> bytes:
    if _is_commit(state) and state.state is State.INFLIGHT:
        return ONE.content(older_commit(_profile(timeline, state, data))) if data.strip() else b""
    return data if state.action not in (Action.COMMIT, Action.DELTACOMMIT) else b""


def _profile(timeline: Timeline, state: Instant, data: bytes) -> CommitMetadata:
    """Of a write that is completed; nothing of it counts where it is torn."""
    try:
        found = timeline.parse_state(state, data)
    except TableError:
        return CommitMetadata()
    return CommitMetadata(
        found.partition_to_write_stats, found.compacted, found.extra_metadata, found.operation_type
    )


def _older_commit(timeline: Timeline, state: Instant, storage: Storage) -> bytes:
    return ONE.content(older_commit(timeline.commit(state, storage)))


def older_commit(commit: CommitMetadata) -> CommitMetadata:
    """A commit as layout one has it: without the nulls of Avro that its JSON does not have."""
    stats = {
        partition: tuple(_older_stat(stat) for stat in group)
        for partition, group in commit.partition_to_write_stats.items()
    }
    return replace(commit, partition_to_write_stats=stats, extra=_known(commit.extra))


def _older_stat(stat: WriteStat) -> WriteStat:
    return replace(stat, extra=_known(stat.extra))


def _known(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in extra.items() if value is not None}


def later_archive(archive: Archive, made: WrittenArchive, active: frozenset[InstantTime]) -> int:
    """Archived instants of layout one -> files of layout two; how many. `active`: times that are left out.

    Raises TableError where the archive can't be read.
    """
    count, batch = 0, list[ArchivedState]()
    instants = set[tuple[InstantTime, Action]]()
    for entry in archive.entries():
        instant = entry.instant
        if instant.time in active:
            continue
        key = (instant.time, instant.comparable_action)
        if key not in instants and len(instants) >= _BATCH:
            count += _append(made, batch)
            batch, instants = [], set()
        state = _later_state(entry)
        if state is not None:
            instants.add(key)
            batch.append(state)
    return count + _append(made, batch)


def _append(made: WrittenArchive, batch: list[ArchivedState]) -> int:
    if batch:
        made.append(batch, _BLOCK)
    return sum(state.completed for state, _, _ in batch)


def _later_state(entry: ArchivedEntry) -> ArchivedState | None:
    """None for a state that layout two does not archive."""
    from hoodie.codec.avro import write_record

    instant, record = entry.instant, entry.metadata
    time = completion_of(instant.time)
    if instant.completed:
        done = replace(instant, action=instant.comparable_action, completion=time)
        if _is_commit(done):
            return done, TWO.content(entry.commit or CommitMetadata()), time
        model = _MODELS.get((instant.action, instant.state))
        return done, write_record(model, record) if model and record is not None else b"", time
    model = _MODELS.get((instant.action, instant.state))
    if model is None or record is None or instant.state is not State.REQUESTED:
        return None
    return instant, write_record(model, record), time


def older_archive(archive: LsmArchive, made: WrittenArchive) -> int:
    """Archived instants of layout two -> a file of layout one, but for those that are there; how many.

    Raises TableError where either archive can't be read.
    """
    there = {(item.time, item.comparable_action) for item in made.instants()}
    missing = [item for item in archive.instants() if (item.time, item.comparable_action) not in there]
    for at in range(0, len(missing), _BATCH):
        made.append(_older_states(archive, missing[at : at + _BATCH]), _BLOCK)
    return len(missing)


def _older_states(archive: LsmArchive, instants: Iterable[Instant]) -> Iterator[ArchivedState]:
    contents = archive.content(instants)
    for instant, content in contents.items():
        changed = instant.completion or completion_of(instant.time)
        if content.plan and instant.action is Action.CLEAN:
            yield Instant(instant.time, Action.CLEAN, State.REQUESTED), content.plan, changed
        data = content.metadata or b""
        if _is_commit(instant):
            value = partial(TWO.commit_value, instant.action)
            commit = CommitMetadata.completed(data, TWO.name(instant), value)
            data = ONE.content(older_commit(commit))
        yield replace(instant, completion=None), data, changed
