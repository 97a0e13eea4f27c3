"""An archive job, in an order that survives a kill, and its entry for the planner.

1. A merge of archive files that was killed is finished or reverted.
2. Files that no commit reports are deleted, with the markers that name them.
3. Tokens of idempotent writes are stored (timeline.token_store).
4. The archive file is written, whole or not at all.
5. Times of completion that killed processes agreed on are deleted, and copies of plans of older releases.
6. Requested and inflight files are deleted.
7. Completed files are deleted, oldest first, so that no instant ever looks pending, and none in the middle
   is missing. Steps 3 to 7 are repeated for what follows where instants have very many bytes.
8. The tokens of archived commits move into their index.
9. Small archive files are merged.

After a kill the next run finds instants that the newest archive file already has, and only deletes their
files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from hoodie.codec.avro_container import MAGIC
from hoodie.config.key import Config
from hoodie.config.versions import LayoutVersion
from hoodie.errors import TableError, TableNotFound
from hoodie.format.names import META_FOLDER, METADATA_TABLE, BaseFileName, LogFileName
from hoodie.metadata.instants import last_compaction
from hoodie.progress import ProgressCallback
from hoodie.services.archive import policy
from hoodie.services.archive.policy import Choice, Facts, choose
from hoodie.services.archive.settings import (
    BATCH,
    MAX_COMMITS,
    MERGE_BATCH,
    MERGE_ENABLED,
    MERGE_SMALL_FILE_LIMIT,
)
from hoodie.services.clean.policy import Retention
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.request import Request
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable, check_retention
from hoodie.storage import Storage
from hoodie.table import properties, table_schema
from hoodie.table.listing import StorageListing
from hoodie.table.properties import TableType
from hoodie.table.rolled_back import rolled_back_instants
from hoodie.text import plural
from hoodie.timeline import token_store
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis, instant_millis
from hoodie.timeline.commit_details import head_of
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.rollback import unreported_files

#: names of archive files that are tried
_ATTEMPTS = 20
#: bytes of instants from which on those that follow have an archive file of their own
_PART_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, repr=False)
class ArchiveResult(ServiceResult):
    """What an archive job did, or, with dry_run, would do.

    status: `archived`, `planned` (a dry run), or `skipped`, for `reason`. archived: the instants, as time and
    action. num_files: files that left the timeline. archive_file: the (last) new file's name, "" for none.
    first: the oldest commit that is left on the active timeline. held: what keeps more commits from being
    archived, with the time from which on. merged: names of archive files that were merged.
    """

    archived: list[dict[str, str]]
    num_files: int
    archive_file: str
    bytes: int
    first: str
    held: list[dict[str, str]]
    merged: list[str]
    action: str = "archive"
    operation: str = "archive"


@dataclass
class _Done:
    choice: Choice
    first: str = ""
    num_files: int = 0
    archive_file: str = ""
    bytes: int = 0
    merged: list[str] = field(default_factory=list)


def archive(request: Request) -> ArchiveResult:
    """Archive the instants that may go.

    Raises HoodieError, ConflictError while a writer is at work. What was archived before an error stays so.
    """
    started = time.monotonic()
    dry_run = request.dry_run
    target = ServiceTable.open(request.table, request.options, dry_run=dry_run)
    check_retention(target.config)
    _check_no_metadata_table(target)
    timeline = target.table.timeline
    done = _Done(choose(timeline, target.config, facts(target, timeline)))
    if dry_run:
        done.num_files = len(timeline.states(done.choice.instants))
    elif done.choice.instants or _unmerged(target):
        done = _run(target, request.progress)
        timeline = target.timeline()
    gone = {instant.time for instant in done.choice.instants if instant.action is not Action.CLEAN}
    done.first = next((item.time for item in timeline.commits() if item.time not in gone), "")
    return _result(target, dry_run, done, time.monotonic() - started)


def facts(target: ServiceTable, timeline: Timeline) -> Facts:
    """What `choose` needs beyond the timeline, from the settings and the storage."""
    commits = timeline.commits()
    earliest = None
    if commits:
        utc = target.props.timeline_utc
        newest = instant_millis(commits[-1].time, utc)
        earliest = Retention.of(target.config, newest, utc).earliest(timeline)

    def schema_commit() -> str | None:
        known = table_schema.newest(timeline, target.storage)
        return known.instant if known else None

    return Facts(
        earliest=earliest.time if earliest else None,
        replaced_left=lambda instant: _replaced_left(target.storage, timeline, instant),
        archived=_archived(target, timeline),
        metadata_compaction=partial(_metadata_compaction, target),
        merge_on_read=target.props.table_type is TableType.MERGE_ON_READ,
        schema_commit=schema_commit,
    )


def _run(target: ServiceTable, progress: ProgressCallback) -> _Done:
    storage, archive = target.storage, target.table.written_archive
    with target.transaction(progress) as transaction:
        transaction.claim(repair=False, beside=True)
        with transaction.publishing():
            storage.sweep_partial(archive.folder)
            archive.recover()
            _settle_tokens(target)
            timeline = target.timeline()
            done = _Done(choose(timeline, target.config, facts(target, timeline)))
            if done.choice.instants:
                unreported_files.sweep_attempts(target.table, timeline)
                files = timeline.states(done.choice.instants)
                progress("archive", f"{len(done.choice.instants)} instants, {len(files)} files")
                for part in _parts(target, timeline, files, archive.newest()):
                    _write(target, timeline, part, done)
                    transaction.check_claim()
                    target.table.store.sweep_agreed(part.files)
                    target.table.store.delete_archived(part.files)
                _settle_tokens(target)
            transaction.check_claim()
            if archive.always_merged or target.config[MERGE_ENABLED]:
                done.merged = archive.merge(*_merge_limits(target.config))
    return done


def _settle_tokens(target: ServiceTable) -> None:
    """Before commits are archived, tokens go that would seem to be theirs; afterwards theirs are moved."""
    storage = target.storage
    token_store.settle(storage, target.base_path, target.timeline, partial(rolled_back_instants, storage))


@dataclass
class _Part:
    """Some whole instants that are archived: all files, and contents of those that no archive file has."""

    files: list[Instant] = field(default_factory=list)
    contents: list[tuple[Instant, bytes]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(len(data) for _, data in self.contents)


def _parts(
    target: ServiceTable, timeline: Timeline, files: Sequence[Instant], known: Collection[Instant]
) -> Iterator[_Part]:
    """What is archived, in parts of a bounded size. `known` are in the newest archive file already: a run was
    killed before it deleted them. Tokens are kept before their part is there, those of `known` commits, too,
    as another writer may have archived them.
    """
    storage, part = target.storage, _Part()
    tokens = token_store.TokenKeeper(timeline, storage)
    for _, states in groupby(files, key=lambda item: item.time):
        if part.nbytes >= _PART_BYTES:
            yield part
            part = _Part()
        for item in states:
            part.files.append(item)
            commit = item.completed and item.action in COMMIT_ACTIONS
            data = _content(timeline, item, storage) if commit or item not in known else b""
            if commit:
                tokens.keep(item, data)
            if item not in known:
                part.contents.append((item, data))
    yield part


def _write(target: ServiceTable, timeline: Timeline, part: _Part, done: _Done) -> None:
    """The archive file of a part."""
    done.num_files += len(part.files)
    utc = target.props.timeline_utc
    states = ((item, data, format_millis(_changed_ms(timeline, item), utc)) for item, data in part.contents)
    if part.contents:
        name, size = target.table.written_archive.append(states, target.config[BATCH], _ATTEMPTS)
        done.archive_file, done.bytes = name, done.bytes + size


def _content(timeline: Timeline, instant: Instant, storage: Storage) -> bytes:
    """Raises TableError for a completed commit that was emptied or torn: what it wrote would be forgotten. An
    archive of layout one parses it itself.
    """
    data = timeline.read(instant, storage)
    if instant.completed and instant.action in COMMIT_ACTIONS:
        walked = data.startswith(MAGIC) and head_of(data) is not None
        if not walked and timeline.layout.version is not LayoutVersion.ONE:
            timeline.parse_state(instant, data)
    return data


def _changed_ms(timeline: Timeline, instant: Instant) -> int:
    changed = timeline.changed_ms(instant)
    if changed is None:
        raise FileNotFoundError(timeline.path(instant))
    return changed


def _replaced_left(storage: Storage, timeline: Timeline, instant: Instant) -> bool:
    """Are files of the groups that a replacecommit replaced still there?"""
    listing = StorageListing(storage, timeline.base_path)
    for partition, ids in timeline.head(instant, storage).replaced.items():
        for item in listing.files(partition) if ids else ():
            name = BaseFileName.parse(item.name) or LogFileName.parse(item.name)
            if name is not None and name.file_id in ids:
                return True
    return False


def _archived(target: ServiceTable, timeline: Timeline) -> Callable[[Instant], bool]:
    """The instants whose files a killed run has begun to delete. The archive is read only when the timeline
    has such an instant.
    """
    known: Collection[Instant] | None = None

    def look(instant: Instant) -> bool:
        nonlocal known
        actions = (instant.action, *timeline.layout.plans_of(instant.action))
        if instant.action is Action.SAVEPOINT:  # has no requested file, and is not archived
            return False
        if any(timeline.has_state(Instant(instant.time, kind, State.REQUESTED)) for kind in actions):
            return False
        if known is None:
            known = target.table.written_archive.newest()
        return instant in known

    return look


def _metadata_compaction(target: ServiceTable) -> InstantTime | None:
    """The newest compaction of the metadata table: instants after it are still needed there."""
    if not target.props.get(properties.METADATA_PARTITIONS):
        return None
    try:
        return last_compaction(target.table.metadata_table.timeline) or NO_TIME
    except TableNotFound:
        return None


def _unmerged(target: ServiceTable) -> bool:
    """Whether archive files have to be merged, or a merge was killed."""
    folder, _, name = target.table.archive_folder.rpartition("/")
    if folder == target.table.store.folder and not target.table.timeline.has_file(name):
        return False  # nothing was ever archived
    archive = target.table.written_archive
    if archive.is_unfinished():
        return True
    wanted = archive.always_merged or target.config[MERGE_ENABLED]
    return bool(wanted and archive.is_unmerged(*_merge_limits(target.config)))


def _merge_limits(config: Config) -> tuple[int, int]:
    return config[MERGE_SMALL_FILE_LIMIT], config[MERGE_BATCH]


def _check_no_metadata_table(target: ServiceTable) -> None:
    if target.base_path.endswith(f"/{META_FOLDER}/{METADATA_TABLE}"):
        raise TableError(
            f"{target.base_path} is a metadata table, which is archived with the table that it describes",
            path=target.base_path,
        )


def _result(target: ServiceTable, dry_run: bool, done: _Done, seconds: float) -> ArchiveResult:
    choice = done.choice
    status = "planned" if dry_run else "archived"
    anything = bool(choice.instants or done.merged)
    return ArchiveResult(
        status=status if anything else "skipped",
        archived=[{"instant": item.time, "action": item.action.value} for item in choice.instants],
        num_files=done.num_files,
        archive_file=done.archive_file,
        bytes=done.bytes,
        first=done.first,
        held=[{"from": hold.time, "why": hold.why} for hold in choice.held],
        merged=done.merged,
        reason="" if anything else choice.reason,
        **about(target, dry_run, seconds),
    )


class ArchiveEntry(PlannerEntry):
    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        instants = [item["instant"] for item in result["archived"]]
        text = f"archive {plural(len(instants), 'instant')}" if instants else "merge archive files"
        return Work(text, result["num_files"], result["bytes"], instants)

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return policy.counts(timeline, target.config[MAX_COMMITS])
