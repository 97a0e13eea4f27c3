"""The active timeline: a listing of `.hoodie`, and the ordered creation of its files.

Stdlib only: a sensor loads it in milliseconds. Only the highest state of an instant is kept, as Apache
Hudi does; the earlier states' files stay on storage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hoodie.errors import TableError, TableNotFound
from hoodie.storage import Storage, storage_for
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State

META_FOLDER = ".hoodie"


def meta_path(base_path: str) -> str:
    return f"{base_path}/{META_FOLDER}"


def instant_path(base_path: str, instant: Instant) -> str:
    return f"{base_path}/{META_FOLDER}/{instant.file_name}"


@dataclass(frozen=True)
class Timeline:
    """Instants sorted by (time, action, state), highest state of each; `mtimes`: epoch ms by file name."""

    base_path: str
    instants: tuple[Instant, ...]
    mtimes: dict[str, int]

    @classmethod
    def load(cls, base_path: str, storage: Storage | None = None) -> Timeline:
        """Raises TableNotFound when `.hoodie` is missing."""
        storage = storage or storage_for(base_path)
        folder = meta_path(base_path)
        listing = storage.list(folder)
        if not listing and not storage.exists(folder):
            raise TableNotFound(
                f"{base_path} is no Hudi table: {folder} is missing; check the path, or write to it first",
                path=base_path,
            )
        best: dict[tuple[str, Action], Instant] = {}
        mtimes: dict[str, int] = {}
        for item in listing:
            instant = None if item.is_dir else Instant.parse(item.name)
            if instant is None:
                continue
            mtimes[item.name] = item.mtime_ms
            key = (instant.time, instant.comparable_action)
            if key not in best or best[key].state < instant.state:
                best[key] = instant
        return cls(base_path, tuple(sorted(best.values())), mtimes)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

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

    @property
    def first_time(self) -> str | None:
        """Time of the oldest instant that is no savepoint; older files belong to archived commits."""
        for instant in self.instants:
            if instant.action is not Action.SAVEPOINT:
                return instant.time
        return None

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
        storage = storage or storage_for(self.base_path)
        return storage.read(instant_path(self.base_path, instant))

    def read_json(self, instant: Instant, storage: Storage | None = None) -> dict[str, Any]:
        """Parsed commit metadata; an empty file is an empty dict. Raises TableError when it is torn."""
        data = self.read(instant, storage)
        if not data.strip():
            return {}
        try:
            value = json.loads(data)
        except ValueError as error:
            raise TableError(
                f"{instant_path(self.base_path, instant)} is not JSON ({error}); restore the file or roll "
                "the instant back",
                instant=str(instant),
            ) from None
        return value if isinstance(value, dict) else {}


def create_instant(storage: Storage, base_path: str, instant: Instant, data: bytes = b"") -> None:
    """Create the file of one state; raises AlreadyExists when another writer took the same instant."""
    storage.create_if_absent(instant_path(base_path, instant), data)


def delete_instant(storage: Storage, base_path: str, instant: Instant) -> None:
    """Remove an instant's files, the completed one first, so that it never reappears as completed."""
    for state in (State.COMPLETED, State.INFLIGHT, State.REQUESTED):
        storage.delete(instant_path(base_path, instant.with_state(state)))
