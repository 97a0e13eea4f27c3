"""The active timeline: one listing of its folder, and what was read of its files since.

Standard library only: a sensor loads it in milliseconds. Only the highest state of an instant counts, as in
Apache Hudi. The files of the earlier states stay on storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from operator import methodcaller
from typing import Any

from hoodie.errors import TableError, TableNotFound
from hoodie.format.names import META_FOLDER as META_FOLDER
from hoodie.format.names import relative_path
from hoodie.storage import PARTIAL_SUFFIX, Storage, storage_for
from hoodie.timeline.clock import format_millis, instant_millis
from hoodie.timeline.commit import CommitMetadata, ReadValue
from hoodie.timeline.commit_details import CommitDetails, head_of, is_searched
from hoodie.timeline.commit_head import PARTITION, CommitHead
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.instant_cache import InstantCache
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.placement import Placed, check_layout, looked_up
from hoodie.timeline.store import TimelineStore
from hoodie.timeline.time import REQUESTED, InstantTime

#: of a storage that is asked over a network, more files than this are looked at by a listing
_ALONE = 4
#: of such a storage, so many commits are read at once, until one of them has more bytes
_AHEAD = 8
_LARGE = 1 << 20


class ModificationTimes(Mapping[str, int]):
    """Epoch milliseconds by file name, each looked up when it is first asked for.

    Looking at thousands of files takes longer than listing them, and few times are ever wanted. A name whose
    file has gone since the listing is there, and its time is a KeyError. `listing` is all of the folder.
    """

    def __init__(
        self, storage: Storage, folder: str, listing: frozenset[str], names: Collection[str]
    ) -> None:
        self.listing = listing
        self._storage = storage
        self._folder = folder
        self._names = frozenset(names)
        self._known: dict[str, int] = {}
        self._asked = 0

    def take(self, earlier: ModificationTimes) -> None:
        """Take over the times that an earlier listing of the folder knows."""
        known = earlier._known.copy()  # threads that have the earlier listing look up times meanwhile
        self._known = {name: time for name, time in known.items() if name in self._names}

    def __getitem__(self, name: str) -> int:
        known = self._known.get(name)
        if known is None and self._storage.remote and name in self._names:
            self._asked += 1
            if self._asked == _ALONE + 1:
                times = {item.name: item.mtime_ms for item in self._storage.list(self._folder)}
                self._known.update((each, times[each]) for each in self._names.intersection(times))
                known = self._known.get(name)
        if known is None:
            found = self._storage.info(f"{self._folder}/{name}") if name in self._names else None
            if found is None:
                raise KeyError(name)
            known = self._known[name] = found.mtime_ms
        return known

    def get(self, name: str, default: Any = None) -> Any:
        known = self._known.get(name)  # asked for thousands of files at a poll
        return super().get(name, default) if known is None else known

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def meta_path(base_path: str) -> str:
    return f"{base_path}/{META_FOLDER}"


@dataclass(frozen=True)
class Timeline:
    """Instants sorted by (time, action, state), highest state of each.

    `mtimes`: modification times in epoch ms by file name, of the files of all states. `layout`: how the files
    are named and what they contain. `utc`: the zone of completion times in names, else the local one.
    `contents`: of completed commits that were read, so that each is read once in an operation.
    """

    base_path: str
    instants: tuple[Instant, ...]
    mtimes: Mapping[str, int]
    layout: Layout = ONE
    utc: bool = False
    contents: InstantCache = field(default_factory=InstantCache, compare=False, repr=False)
    #: what is in `.hoodie`; where instants lie elsewhere, as of an earlier listing unless all was asked for
    beside: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    #: of hoodie.properties then (Placed)
    stamp: str = field(default="", compare=False, repr=False)

    @classmethod
    def load(
        cls,
        base_path: str,
        storage: Storage | None = None,
        before: Timeline | None = None,
        *,
        empty: Layout = ONE,
        whole: bool = False,
        beside: bool = True,
        known: tuple[int, bool] | None = None,
        place: Placed | None = None,
    ) -> Timeline:
        """Raises TableNotFound where `.hoodie` is missing, and UnsupportedVersion or HalfUpgraded.

        `before`, an earlier load of the same table, is the result itself when no file came or went, and else
        lends the times and the commits that it knows: files of completed instants never change. `empty`: the
        layout of a table without instants. `known`: as of `placed`. Without `whole`, what lies beside the
        timeline need not be listed again. Without `beside` it is not, where `before` has a folder of its own,
        or, without `before`, the table is of layout two by its `empty`: for a look at what is in that folder,
        whatever the layout is by now. `place`: what the folders have, where they were just listed.
        """
        storage = storage or storage_for(base_path)
        earlier = before.mtimes if before is not None else None
        apart = before is not None and before.layout is TWO
        former = None if before is None else before._place
        if place is None:
            if before is not None and apart and beside and not whole and before._is_current(storage):
                return before
            place = looked_up(storage, base_path, former, empty=empty, beside=beside, known=known)
        if not place.beside and not storage.exists(folder := meta_path(base_path)):
            raise TableNotFound(
                f"{base_path} is no Hudi table: {folder} is missing; check the path, or write to it first",
                path=base_path,
            )
        if before is not None and place == former:
            return before
        layout, listing, found, utc, stamp = place
        instants, names = layout.instants(listing)
        mtimes = ModificationTimes(storage, f"{base_path}/{layout.folder}", listing, names)
        timeline = cls(base_path, instants, mtimes, layout, utc, beside=found, stamp=stamp)
        if before is not None and isinstance(earlier, ModificationTimes) and before.layout is layout:
            mtimes.take(earlier)
            timeline.contents.take(before.contents, mtimes)
        return timeline

    @property
    def _place(self) -> Placed | None:
        """As it was listed."""
        if not isinstance(self.mtimes, ModificationTimes):
            return None
        return Placed(self.layout, self.mtimes.listing, self.beside, self.utc, self.stamp)

    def _is_current(self, storage: Storage) -> bool:
        """Whether no file came or went in the timeline's folder since."""
        names = frozenset(storage.names(f"{self.base_path}/{self.layout.folder}"))
        return isinstance(self.mtimes, ModificationTimes) and names == self.mtimes.listing

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def filter(self, actions: Iterable[Action] | None = None, completed: bool | None = None) -> list[Instant]:
        wanted = None if actions is None else frozenset(actions)
        return [
            instant
            for instant in self.instants
            if (wanted is None or instant.action in wanted)
            and (completed is None or (instant.state is State.COMPLETED) is completed)
        ]

    def commits(self) -> list[Instant]:
        """Completed commit, deltacommit and replacecommit instants, oldest first."""
        return list(self._commits)

    @cached_property
    def _commits(self) -> Sequence[Instant]:
        return self.filter(COMMIT_ACTIONS, completed=True)

    def pending(self) -> list[Instant]:
        return [instant for instant in self.instants if instant.state is not State.COMPLETED]

    @property
    def last_commit(self) -> Instant | None:
        return self._commits[-1] if self._commits else None

    def has_file(self, name: str) -> bool:
        """Was a file of this name in the timeline's folder when it was listed."""
        return isinstance(self.mtimes, ModificationTimes) and name in self.mtimes.listing

    def holds(self, name: str) -> bool:
        """Was a file or folder of this name in `.hoodie` when it was listed."""
        return name in self.beside

    def has_partial(self, *, beside: bool = False) -> bool:
        """Was there an unfinished file: a live process's, or one that a killed one left. `beside`: also in
        `.hoodie`, where instants lie elsewhere.
        """
        listing = self.mtimes.listing if isinstance(self.mtimes, ModificationTimes) else frozenset[str]()
        names = listing | self.beside if beside else listing
        return any(map(methodcaller("endswith", PARTIAL_SUFFIX), names))

    @cached_property
    def first_time(self) -> InstantTime | None:
        """Time of the oldest write; older files belong to archived commits.

        Other actions are archived apart and may be older. So may writes with a savepoint, which can stay when
        all others of their time are archived: the oldest one without counts, where there is one.
        """
        saved = {instant.time for instant in self.instants if instant.action is Action.SAVEPOINT}
        writes = [item.time for item in self.instants if item.comparable_action in COMMIT_ACTIONS]
        return next((time for time in writes if time not in saved), writes[0] if writes else None)

    @property
    def last_time(self) -> InstantTime | None:
        """The last time in a name: of a request, or of a completion."""
        last = self.instants[-1].time if self.instants else None
        if not self.layout.has_completion_time or last is None:
            return last
        return REQUESTED.last([last, *(item.completion for item in self.instants if item.completion)])

    def is_archived(self, time: str) -> bool:
        """Is the instant older than the active timeline."""
        return self.first_time is not None and REQUESTED.before(time, self.first_time)

    def is_committed(self, time: str) -> bool:
        """Is a base file of this instant visible: completed, or older than the active timeline."""
        return time in self._committed or self.is_archived(time)

    @cached_property
    def _committed(self) -> frozenset[InstantTime]:
        return frozenset(instant.time for instant in self._commits)

    def name(self, instant: Instant) -> str:
        """Of the instant's file."""
        return self.layout.name(instant)

    def path(self, instant: Instant) -> str:
        return self.layout.path(self.base_path, instant)

    def states(self, instants: Iterable[Instant]) -> list[Instant]:
        """Every state of the instants that has a file, in the order of the instants and of their states."""
        found: dict[tuple[str, Action], list[Instant]] = {}
        for state in filter(None, map(self.layout.parse, self.mtimes)):
            found.setdefault((state.time, state.comparable_action), []).append(state)
        return [
            state
            for instant in instants
            for state in sorted(found[instant.time, instant.comparable_action], key=lambda item: item.state)
        ]

    def has_state(self, instant: Instant) -> bool:
        """Was the file of this state there, be there a higher state of the instant or not."""
        return self.layout.name(instant) in self.mtimes

    def changed_ms(self, instant: Instant) -> int | None:
        """When the instant came into its state, in epoch milliseconds; None if its file has gone since."""
        if instant.completed and instant.completion is not None:
            return instant_millis(instant.completion, self.utc)
        return self.mtimes.get(self.layout.name(instant))

    def completion_of(self, instant: Instant) -> int | None:
        """When a completed instant was completed, as `changed_ms`; None for another."""
        return self.changed_ms(instant) if instant.completed else None

    def completion_time(self, instant: Instant) -> InstantTime | None:
        """As `completion_of`, in the form of an instant, as names of files have it."""
        if instant.completion is not None:
            return instant.completion
        millis = self.completion_of(instant)
        return None if millis is None else format_millis(millis, self.utc)

    def by_completion(self) -> list[Instant]:
        """The completed instants in the order in which they were completed; of one moment, by the request."""
        found = {
            instant: when for instant in self.instants if (when := self.completion_of(instant)) is not None
        }
        return sorted(found, key=lambda instant: (found[instant], instant.requested_order))

    def kind_from_listing(self, instant: Instant) -> Kind | None:
        """What an instant does, as the listing shows; None where only its plan distinguishes a clustering
        from a write.
        """
        if (kind := _KINDS.get(instant.action)) is not None:
            return kind
        for action in self.layout.plans_of(instant.action):
            if self.layout.requested_name(instant.time, action) in self.mtimes:
                return _KINDS[action]
        if instant.action is not Action.REPLACECOMMIT:
            return Kind.WRITE
        apart = instant.completed and self.layout.clustering is not Action.REPLACECOMMIT
        requested = self.layout.requested_name(instant.time, Action.REPLACECOMMIT)
        return Kind.WRITE if apart and requested in self.mtimes else None

    def kind(self, instant: Instant, storage: Storage | None = None) -> Kind:
        """What an instant does; reads the requested file of a replacecommit. Raises TableError for a torn one
        of which the execution has begun.
        """
        kind = self.kind_from_listing(instant)
        if kind is None:
            kind = Kind.WRITE if self.clustering_plan(instant, storage) is None else Kind.CLUSTERING
        return kind

    def clustering_plan(self, instant: Instant, storage: Storage | None = None) -> Mapping[str, Any] | None:
        """The HoodieClusteringPlan record of a replacecommit in any state; None for a write's."""
        return self.store(storage).clustering_plan(instant)

    def store(self, storage: Storage | None = None) -> TimelineStore:
        """The timeline's files as they are now."""
        return TimelineStore(storage or storage_for(self.base_path), self.base_path, self.layout)

    def after(self, time: str | None, instants: Iterable[Instant] | None = None) -> list[Instant]:
        """Those that were requested later, of all or of the given ones; all for None."""
        found = self.instants if instants is None else instants
        return [instant for instant in found if instant.is_after(time)]

    def before(self, time: str | None, instants: Iterable[Instant] | None = None) -> list[Instant]:
        """Those that were requested earlier, of all or of the given ones; all for None."""
        found = self.instants if instants is None else instants
        return [instant for instant in found if instant.is_before(time)]

    def between(
        self, begin: str | None, end: str | None, instants: Iterable[Instant] | None = None
    ) -> list[Instant]:
        """Those that were requested in (begin, end], of all or of the given ones; None is no bound."""
        return [item for item in self.after(begin, instants) if end is None or not item.is_after(end)]

    def read(self, instant: Instant, storage: Storage | None = None) -> bytes:
        """What the instant's file contains. Raises FileNotFoundError where it is gone, unless it was read
        before, and TableBusy for a completed commit where the version has changed since the listing.
        """
        return self._cached(instant, self._looked_up(instant, storage))

    def _looked_up(self, instant: Instant, storage: Storage | None) -> bytes:
        lasting = instant.completed and instant.action in COMMIT_ACTIONS
        data = self.contents.get(self.layout.name(instant)) if lasting else None
        if data is None:
            storage = storage or storage_for(self.base_path)
            try:
                data = storage.read(self.path(instant))
            except FileNotFoundError:
                if lasting:
                    check_layout(storage, self.base_path, self.layout)
                raise
        return data

    def _cached(self, instant: Instant, data: bytes) -> bytes:
        if instant.completed and instant.action in COMMIT_ACTIONS:
            self.contents.keep(self.layout.name(instant), data)
        return data

    def read_each(self, instants: Iterable[Instant], storage: Storage) -> Iterator[tuple[Instant, bytes]]:
        """What the files of these instants contain, in turn, but those that are gone. Of a storage that is
        asked over a network it reads several at once, after the first. Raises as `read`.
        """
        if not storage.remote:
            found = ((instant, self._found(instant, storage)) for instant in instants)
            yield from ((item, self._cached(item, data)) for item, data in found if data is not None)
            return
        from concurrent.futures import ThreadPoolExecutor

        waiting, ahead, large = iter(instants), 1, False
        coming = deque[tuple[Instant, Any]]()
        with ThreadPoolExecutor(_AHEAD, thread_name_prefix="commits") as pool:
            while True:
                for instant in islice(waiting, max(0, ahead - len(coming))):
                    coming.append((instant, pool.submit(self._found, instant, storage)))
                if not coming:
                    return
                instant, reading = coming.popleft()
                data = reading.result()
                if data is not None:
                    large = large or len(data) > _LARGE
                    ahead = 1 if large else _AHEAD
                    yield instant, self._cached(instant, data)

    def _found(self, instant: Instant, storage: Storage) -> bytes | None:
        try:
            return self._looked_up(instant, storage)
        except FileNotFoundError:
            return None

    def commit(self, instant: Instant, storage: Storage | None = None) -> CommitMetadata:
        """What a completed commit says, parsed once. Raises FileNotFoundError, and TableError for a damaged
        file.
        """
        name = self.layout.name(instant)
        found = self.contents.parsed(name)
        if found is None:
            data = self.read(instant, storage)
            found = CommitMetadata.completed(data, self.path(instant), self.value_of(instant))
            self.contents.keep_parsed(name, len(data), found)
        return found

    def head(self, instant: Instant, storage: Storage | None = None) -> CommitHead:
        """What a completed commit says beside the statistics of its files, looked for once. Of a large one
        these are not parsed. Raises as `commit`.
        """
        name = self.layout.name(instant)
        found = self.contents.head(name)
        if found is None:
            data = self.read(instant, storage)
            found = head_of(data) if is_searched(data, ()) else None
            if found is None or (instant.action is Action.REPLACECOMMIT and not found.replaced):
                return self.commit(instant, storage).head
            self.contents.keep_head(name, found)
        return found

    def touched(self, instant: Instant, storage: Storage | None = None) -> set[str]:
        """The partitions that a completed commit names. Raises as `commit`."""
        data = self.read(instant, storage)
        found = CommitDetails.parse(data, self.value_of(instant)) if is_searched(data, ()) else None
        named = self.commit(instant, storage).partitions if found is None else found.partitions
        return {relative_path(partition, PARTITION) for partition in named}

    def details(self, instant: Instant, storage: Storage | None = None) -> CommitDetails | None:
        """The small part of what a completed commit says, read now; None while its file is empty or torn.
        Raises FileNotFoundError.
        """
        storage = storage or storage_for(self.base_path)
        return CommitDetails.parse(storage.read(self.path(instant)), self.value_of(instant))

    def parse_state(self, instant: Instant, data: bytes) -> CommitMetadata:
        """What the file of a state says: that of a commit in flight may say nothing. Raises TableError."""
        if instant.completed:
            return CommitMetadata.completed(data, self.path(instant), self.value_of(instant))
        return CommitMetadata.parse(data, self.value_of(instant))

    def value_of(self, instant: Instant) -> ReadValue:
        """What turns the content of a commit's file into an object with Hudi's keys; raises ValueError."""
        return partial(self.layout.commit_value, instant.action)

    def plan(self, instant: Instant, storage: Storage | None = None) -> bytes:
        """The requested file of a pending instant.

        Raises TableError where the timeline has the instant without it, and FileNotFoundError where the
        instant has gone since the listing.
        """
        storage = storage or storage_for(self.base_path)
        requested = instant.with_state(State.REQUESTED)
        try:
            return self.read(requested, storage)
        except FileNotFoundError:
            path = self.path(requested)
            gone = not storage.exists(self.path(instant))
            if gone or self.has_state(requested):
                raise
            raise TableError(
                f"{path} is missing, which holds the plan of {instant}; restore it from a copy, or, if no "
                f"process is at work on it, delete {self.name(instant)} beside it",
                path=path,
                instant=instant.time,
            ) from None


_KINDS = {
    Action.COMPACTION: Kind.COMPACTION,
    Action.LOGCOMPACTION: Kind.LOG_COMPACTION,
    Action.CLUSTERING: Kind.CLUSTERING,
    Action.CLEAN: Kind.CLEAN,
    Action.ROLLBACK: Kind.ROLLBACK,
    Action.RESTORE: Kind.RESTORE,
    Action.SAVEPOINT: Kind.SAVEPOINT,
    Action.INDEXING: Kind.INDEXING,
}
