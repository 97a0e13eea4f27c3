"""The files of a timeline on storage, as its layout names and encodes them.

Files of an instant are created in the order of its states, each of them by one process only. Completed files
are created by hoodie.write.commit alone, and those of a metadata table by hoodie.metadata.written_table.

Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hoodie.config.limits import MAX_READ_BYTES
from hoodie.errors import AlreadyExists, ConflictError, TableError
from hoodie.format.names import META_FOLDER
from hoodie.storage import Check, Storage
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant, State, in_order, is_time
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.models.clustering import RequestedReplace
from hoodie.timeline.time import REQUESTED, InstantTime

#: where processes agree on times of completion
_AUX = f"{META_FOLDER}/.aux"
#: files that are made beside writers are made this often
_ATTEMPTS = 20


@dataclass(frozen=True)
class TimelineStore:
    """The timeline's files of the table at `base_path`."""

    storage: Storage
    base_path: str
    layout: Layout

    @property
    def folder(self) -> str:
        """Where the files lie."""
        return f"{self.base_path}/{self.layout.folder}"

    def name(self, instant: Instant) -> str:
        """Of the file of the instant's state."""
        return self.layout.name(instant)

    def path(self, instant: Instant) -> str:
        return self.layout.path(self.base_path, instant)

    def paths(self, instant: Instant) -> list[str]:
        """Where the file of this state lies. A completed instant whose time of completion is not known is
        looked for: no path where it is not there, several where more than one process has completed it.
        """
        if not instant.completed or instant.completion or not self.layout.has_completion_time:
            return [self.path(instant)]
        names = (name for name in self.storage.names(self.folder) if name.startswith(instant.time))
        found = [item for item in map(self.layout.parse, names) if item == instant]
        return [self.path(item) for item in sorted(found, key=lambda item: str(item.completion or ""))]

    def exists(self, instant: Instant) -> bool:
        """Is the file of this state there now."""
        return any(map(self.storage.exists, self.paths(instant)))

    def read(self, instant: Instant) -> bytes:
        """The content of the file of this state, now. Raises FileNotFoundError."""
        paths = self.paths(instant)
        if not paths:
            raise FileNotFoundError(f"{instant} of {self.base_path}")
        return self.storage.read(paths[-1])

    def commit(self, instant: Instant) -> CommitMetadata | None:
        """What the file of a commit's state says, now; None where it is empty. Raises FileNotFoundError, and
        TableError where it is torn.
        """
        data = self.read(instant)
        value = partial(self.layout.commit_value, instant.action)
        return CommitMetadata.parse(data, value) if data.strip() else None

    def clustering_plan(self, instant: Instant) -> Mapping[str, Any] | None:
        """The HoodieClusteringPlan record of a clustering in any state, or of a replacecommit that may be
        one; None for another operation's.

        The requested file says it, whatever the state. A torn one was killed while it was made: that is None
        too as long as nothing has been started, and a TableError after that.
        """
        planned = self.layout.clustering
        if not instant.completed and instant.action is not planned:
            return None
        try:
            data = self.read(Instant(instant.time, planned, State.REQUESTED))
        except FileNotFoundError:
            return None
        if not data:
            return None
        try:
            return RequestedReplace.from_bytes(data).clustering_plan
        except TableError:
            if instant.state is State.REQUESTED:
                return None
            raise

    def content(self, metadata: Metadata) -> bytes:
        """What the completed file of an instant contains, or the inflight file of a commit."""
        return self.layout.content(metadata)

    def create(self, instant: Instant, data: bytes = b"", check: Check = None) -> None:
        """Create the file of one state; raises AlreadyExists when another process took the same instant, and
        TableError for more than a reader takes. `check`: see Storage.create.
        """
        check_size(instant.time, len(data))
        self.storage.create(self.path(instant), data, check)

    def agree(self, completing: Instant) -> Instant:
        """An instant that several processes may complete, at the one time that its file has in its name,
        whichever of them completes it: that of the first one, which `.aux/<time>.<action>` keeps. So they
        create the same file. `create_instant` and then `settle` are to follow; `sweep_agreed` deletes what is
        left. It may be the time of a process that died long ago: not for instants that write log files.
        Raises TableError for a damaged file.
        """
        path = self._agreed(completing)
        folder, _, name = path.rpartition("/")
        self.storage.sweep_partial(folder, of=name)
        for _ in range(_ATTEMPTS):
            try:
                self.storage.create(path, str(completing.completion).encode())
            except ConflictError:
                continue  # swept by another process
            except AlreadyExists:
                with contextlib.suppress(FileNotFoundError):
                    return completing.completed_at(_agreed_time(path, self.storage.read(path)))
            else:
                return completing
        raise TableError(
            f"{path} comes and goes: run this again when no other process completes it", path=path
        )

    def settle(self, completed: Instant) -> None:
        """No process agrees on another time of an instant whose completed file is there."""
        self.storage.delete(self._agreed(completed))

    def _agreed(self, instant: Instant) -> str:
        """As copies of plans are named that old releases made there, and archivers delete."""
        return f"{self.base_path}/{_AUX}/{instant.time}.{instant.comparable_action.value}"

    def sweep_agreed(self, archived: Iterable[Instant]) -> None:
        """Delete what `agree` left of instants up to the archived ones, and copies of compaction plans that
        releases before table version 6 kept beside.
        """
        newest = REQUESTED.last(item.time for item in archived if item.action is not Action.CLEAN)
        for item in self.storage.list(f"{self.base_path}/{_AUX}"):
            found = None if item.is_dir else ONE.parse(item.name)
            if found is not None and not found.is_after(newest):
                self.storage.delete(item.path)

    def replace_plan(self, instant: Instant, data: bytes) -> None:
        """Give a pending instant another plan, whose execution has not begun."""
        self.storage.write(self.path(instant.with_state(State.REQUESTED)), data)

    def delete(self, instant: Instant) -> None:
        """Remove an instant's files, the completed one first, so that it never reappears as completed."""
        self.delete_states(map(instant.with_state, (State.COMPLETED, State.INFLIGHT, State.REQUESTED)))

    def delete_states(self, instants: Iterable[Instant]) -> None:
        """Remove files of single states, each of them lastingly before the next."""
        for instant in instants:
            self.storage.delete_many(self.paths(instant))

    def delete_archived(self, files: Sequence[Instant]) -> None:
        """Remove the files of instants that the archive has, in each of their states.

        Pending states go first, so that an instant never looks pending after a kill; completed ones go oldest
        first, so that none in the middle is missing.
        """
        for done in (False, True):
            stage = in_order(item for item in files if item.completed is done)
            self.storage.delete_many([self.path(instant) for instant in stage])


def begin_instant(store: TimelineStore, instant: Instant, data: bytes = b"", check: Check = None) -> None:
    """Create the file of an instant's requested or inflight state; raises as `TimelineStore.create`."""
    if instant.completed:
        raise ValueError(f"{instant} is completed by hoodie.write.commit alone")
    store.create(instant, data, check)


def create_instant(
    store: TimelineStore, instant: Instant, data: bytes, check: Check = None, *, sole: bool = False
) -> None:
    """Create the completed file of an instant; raises as `TimelineStore.create`, and AlreadyExists where
    another process completed it at another time. `sole`: no other process completes it.
    """
    if instant.completion is not None and not sole and (others := store.paths(instant.completed_at(None))):
        raise AlreadyExists(others[0])
    store.create(instant, data, check)


def create_alone(store: TimelineStore, instant: Instant, data: bytes) -> None:
    """As `create_instant`, of an instant of which processes agree on no time. Where another one completed it
    at the same moment, the file goes again, too: two of them would make the timeline ambiguous.
    """
    create_instant(store, instant, data)
    mine = store.path(instant)
    if others := [path for path in store.paths(instant.completed_at(None)) if path != mine]:
        store.storage.delete_many([mine])
        raise AlreadyExists(f"{others[0]} is there already", path=others[0])


def _agreed_time(path: str, data: bytes) -> InstantTime:
    text = data.decode("ascii", "replace")
    if not is_time(text):
        raise TableError(f"{path} is damaged, no time of a completion: {text[:40]!r}; delete it", path=path)
    return InstantTime(text)


def check_size(time: InstantTime, size: int) -> None:
    """Raises TableError where the file of an instant has, or will have, more bytes than a reader takes."""
    if size > MAX_READ_BYTES:
        raise TableError(
            f"a file of instant {time} would have {size} bytes or more, and a reader takes at most "
            f"{MAX_READ_BYTES}: too many files for one instant. Write fewer partitions at a time, or larger "
            "files, or set HOODIE_MAX_READ_BYTES in the environment of all that read and write the table",
            instant=time,
            size=size,
        )


def again(create: Callable[[], object], check: Callable[[], object] | None = None) -> None:
    """Create a file beside writers: again where one of them, which sweep before they begin, deleted the
    unfinished file. `check` is called before each new try.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(ConflictError):
            create()
            return
        if check is not None:
            check()
    create()
