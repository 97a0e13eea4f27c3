"""The active timeline: a listing of `.hoodie`, and the ordered creation of its files.

Stdlib only: a sensor loads it in milliseconds. Only the highest state of an instant is kept, as Apache
Hudi does; the earlier states' files stay on storage.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.errors import HalfUpgraded, TableError, TableNotFound, UnsupportedVersion
from hoodie.format.names import META_FOLDER as META_FOLDER
from hoodie.storage import PARTIAL_SUFFIX, Storage, storage_for
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, COMPLETES_AS, SUFFIXES, Action, Instant, State, is_time

#: in `.hoodie`, where table versions 8 and later keep their instants
_LATER_FOLDER = "timeline"
_LATER_NAME = re.compile(r"\d+(_\d+)?\.[a-z]", re.ASCII)
#: bytes of completed commits that are kept; more are read again when they are asked for again
_KEPT_BYTES = 8 << 20
_VERSION = re.compile(rb"^hoodie\.table\.version\s*=\s*(\d+)", re.MULTILINE)


def meta_path(base_path: str) -> str:
    return f"{base_path}/{META_FOLDER}"


def instant_path(base_path: str, instant: Instant) -> str:
    return f"{base_path}/{META_FOLDER}/{instant.file_name}"


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

    def take(self, earlier: ModificationTimes) -> None:
        """Take over the times that an earlier listing of the folder knows."""
        self._known = {name: time for name, time in earlier._known.items() if name in self._names}

    def __getitem__(self, name: str) -> int:
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


class Contents:
    """What files of completed commits contain, by name: they never change. Bounded by _KEPT_BYTES."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._left = _KEPT_BYTES

    def get(self, name: str) -> bytes | None:
        return self._known.get(name)

    def keep(self, name: str, data: bytes) -> None:
        if 0 < len(data) <= self._left and name not in self._known:
            self._known[name] = data
            self._left -= len(data)

    def take(self, earlier: Contents, names: Collection[str]) -> None:
        """Take over what an earlier listing of the timeline knows of these files."""
        for name, data in earlier._known.copy().items():
            if name in names:
                self.keep(name, data)


@dataclass(frozen=True)
class Timeline:
    """Instants sorted by (time, action, state), highest state of each.

    `mtimes`: modification times in epoch ms by file name, of the files of all states. `contents`: of
    completed commits that were read, so that each is read once in an operation.
    """

    base_path: str
    instants: tuple[Instant, ...]
    mtimes: Mapping[str, int]
    contents: Contents = field(default_factory=Contents, compare=False, repr=False)

    @classmethod
    def load(cls, base_path: str, storage: Storage | None = None, before: Timeline | None = None) -> Timeline:
        """Raises TableNotFound where `.hoodie` is missing, and UnsupportedVersion or HalfUpgraded.

        `before`, an earlier load of the same table, is the result itself when no file came or went, and else
        lends the times and the commits that it knows: files of completed instants never change.
        """
        storage = storage or storage_for(base_path)
        folder = meta_path(base_path)
        listing = frozenset(storage.names(folder))
        earlier = before.mtimes if before is not None else None
        if isinstance(earlier, ModificationTimes) and listing and listing == earlier.listing:
            return before  # type: ignore[return-value]
        if not listing and not storage.exists(folder):
            raise TableNotFound(
                f"{base_path} is no Hudi table: {folder} is missing; check the path, or write to it first",
                path=base_path,
            )
        if _LATER_FOLDER in listing:
            _refuse_later_layout(storage, base_path)
        best: dict[tuple[str, Action], tuple[str, Action, State]] = {}
        names: list[str] = []
        for name in listing:  # thousands at each poll of a sensor, so no Instant for what is not kept
            time, _, suffix = name.partition(".")
            kind = SUFFIXES.get(suffix)
            if kind is None or not is_time(time):
                continue
            names.append(name)
            action, state = kind
            key = (time, COMPLETES_AS.get(action, action))
            other = best.get(key)
            if other is None or other[2] < state:
                best[key] = (time, action, state)
        instants = tuple(Instant(*parts) for parts in sorted(best.values()))
        mtimes = ModificationTimes(storage, folder, listing, names)
        timeline = cls(base_path, instants, mtimes)
        if before is not None and isinstance(earlier, ModificationTimes):
            mtimes.take(earlier)
            timeline.contents.take(before.contents, mtimes)
        return timeline

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def has(self, name: str) -> bool:
        """Was there a file or folder of this name beside the instants."""
        return isinstance(self.mtimes, ModificationTimes) and name in self.mtimes.listing

    def filter(self, actions: Iterable[Action] | None = None, completed: bool | None = None) -> list[Instant]:
        wanted = None if actions is None else frozenset(actions)
        return [
            instant
            for instant in self.instants
            if (wanted is None or instant.action in wanted)
            and (completed is None or instant.completed == completed)
        ]

    def commits(self) -> list[Instant]:
        """Completed commit, deltacommit and replacecommit instants, oldest first."""
        return self.filter(COMMIT_ACTIONS, completed=True)

    def pending(self) -> list[Instant]:
        return [instant for instant in self.instants if not instant.completed]

    @property
    def last_commit(self) -> Instant | None:
        commits = self.commits()
        return commits[-1] if commits else None

    def holds(self, name: str) -> bool:
        """Was a file or folder of this name in `.hoodie` when it was listed."""
        return isinstance(self.mtimes, ModificationTimes) and name in self.mtimes.listing

    def has_partial(self) -> bool:
        """Was there an unfinished file: a live process's, or one that a killed one left."""
        listing = self.mtimes.listing if isinstance(self.mtimes, ModificationTimes) else ()
        return any(name.endswith(PARTIAL_SUFFIX) for name in listing)

    @property
    def first_time(self) -> str | None:
        """Time of the oldest write; older files belong to archived commits.

        Other actions are archived apart and may be older. So may writes with a savepoint, which can stay when
        all others of their time are archived: the oldest one without counts, where there is one.
        """
        saved = {instant.time for instant in self.instants if instant.action is Action.SAVEPOINT}
        writes = [item.time for item in self.instants if item.comparable_action in COMMIT_ACTIONS]
        return next((time for time in writes if time not in saved), writes[0] if writes else None)

    @property
    def last_time(self) -> str | None:
        return self.instants[-1].time if self.instants else None

    def is_committed(self, time: str) -> bool:
        """Is a base file of this instant visible: completed, or older than the active timeline."""
        return time in self._committed or (self.first_time is not None and time < self.first_time)

    @property
    def _committed(self) -> frozenset[str]:
        cached = self.__dict__.get("_committed_cache")
        if cached is None:
            cached = frozenset(instant.time for instant in self.commits())
            self.__dict__["_committed_cache"] = cached
        return cached

    def read(self, instant: Instant, storage: Storage | None = None) -> bytes:
        """What the instant's file contains. Raises FileNotFoundError where it is gone, unless it was read
        before.
        """
        lasting = instant.completed and instant.action in COMMIT_ACTIONS
        data = self.contents.get(instant.file_name) if lasting else None
        if data is None:
            storage = storage or storage_for(self.base_path)
            data = storage.read(instant_path(self.base_path, instant))
            if lasting:
                self.contents.keep(instant.file_name, data)
        return data

    def commit(self, instant: Instant, storage: Storage | None = None) -> CommitMetadata:
        """What a completed commit says. Raises FileNotFoundError, and TableError for a damaged file."""
        data = self.read(instant, storage)
        return CommitMetadata.completed(data, instant_path(self.base_path, instant))

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
            path = instant_path(self.base_path, requested)
            gone = not storage.exists(instant_path(self.base_path, instant))
            if gone or requested.file_name in self.mtimes:
                raise
            raise TableError(
                f"{path} is missing, which holds the plan of {instant}; restore it from a copy, or, if no "
                f"process is at work on it, delete {instant.file_name} beside it",
                path=path,
                instant=instant.time,
            ) from None


def _refuse_later_layout(storage: Storage, base_path: str) -> None:
    """Raises an error where instants lie as table versions 8 and later have them, which are not read here.

    Downgraded tables keep the folder, without instants.
    """
    folder = f"{meta_path(base_path)}/{_LATER_FOLDER}"
    if not any(map(_LATER_NAME.match, storage.names(folder))):
        return
    try:
        found = _VERSION.search(storage.read(f"{meta_path(base_path)}/hoodie.properties"))
    except FileNotFoundError:
        found = None
    version = int(found[1][:9]) if found else 0
    if version >= 8:
        raise UnsupportedVersion(
            f"{base_path} has table version {version}, whose instants lie in {folder}; downgrade the table "
            "to version 6 with Apache Hudi, or read it with that",
            path=base_path,
            version=version,
        )
    raise HalfUpgraded(
        f"instants of {base_path} lie in {folder}, where table version 8 keeps them, but hoodie.properties "
        f"has version {version or '(none)'}: an upgrade by Apache Hudi 1.x is going on, or failed half-way. "
        f"Mend the archive (hoodie doctor --repair --table {base_path}) and let Apache Hudi 1.x finish the "
        "upgrade, which its next write does; or restore .hoodie from a copy",
        path=base_path,
        version=version,
    )


def create_instant(storage: Storage, base_path: str, instant: Instant, data: bytes = b"") -> None:
    """Create the file of one state; raises AlreadyExists when another writer took the same instant."""
    storage.create(instant_path(base_path, instant), data)


def delete_instant(storage: Storage, base_path: str, instant: Instant) -> None:
    """Remove an instant's files, the completed one first, so that it never reappears as completed."""
    delete_states(
        storage,
        base_path,
        (instant.with_state(s) for s in (State.COMPLETED, State.INFLIGHT, State.REQUESTED)),
    )


def delete_states(storage: Storage, base_path: str, instants: Iterable[Instant]) -> None:
    """Remove files of the timeline, each of them lastingly before the next."""
    for instant in instants:
        storage.delete_many([instant_path(base_path, instant)])
