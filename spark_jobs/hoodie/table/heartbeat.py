"""Heartbeats: they distinguish a live writer from a dead one (format.md 14.4).

- `.hoodie/.heartbeat/<instant>` is rewritten every interval. Apache Hudi checks the modification time only,
  so the content is free. It has the writer's process, its machine, its task run, and the silence after which
  it is dead.
- A heartbeat is dead at once if its process is gone from this machine, or if this very process has stopped
  it. Any other is dead when it has missed `tolerable misses` intervals.
- The identity of a process holds across machines, containers and time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hoodie.errors import Fenced, HoodieError
from hoodie.storage import FileInfo, Storage
from hoodie.table.handle import Table
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.instant import is_time
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import RUN_KEY, TOKEN_KEY, TaskRun


def this_process() -> str:
    """A text that no other process has: not one of another machine or container, nor one that had the number
    before.
    """
    pid = os.getpid()
    place = hashlib.sha256(f"{machine()}/{start_time(pid)}".encode()).hexdigest()[:12]
    return f"{pid} on {socket.gethostname()} ({place})"


@functools.cache
def machine() -> str:
    """Where process numbers mean the same: one boot of one kernel, one process namespace.

    A host name is not enough: containers share one, and their processes are separate.
    """
    boot = namespace = ""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        pass
    return f"{socket.gethostname()}/{boot}/{namespace}"


def start_time(pid: int) -> str:
    """Identity of a process beyond its number, which is used again; "" when it is not known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""


def gone(pid: int, started: str) -> bool:
    """Only what is certain: the number is free, or another process has it now, or it is a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    if not started:
        return False
    return os.path.exists(f"/proc/{pid}/stat") and start_time(pid) != started


_FOLDER = f"{META_FOLDER}/.heartbeat"
#: seconds, and a share of a heartbeat's interval
_LOOK_S, _LOOK_SHARE = 10.0, 0.5

#: tokens of the heartbeats this process runs: a failed write whose storage was gone could not remove its
#: file, and must not block its own retry
_LIVE: set[str] = set()

#: times that the file is made again
_SWEPT = 20


@dataclass(frozen=True)
class HeartbeatFile:
    """One heartbeat file as found on storage. `tolerance_ms` is 0 where the writer does not say it (Hudi's).

    `service` is "" for a writer; a service that runs beside writers names its work here, such as
    "compaction 20240531103000000", and excludes only another service of the same work. `shared`: the lock by
    which an optimistic writer excludes others of its kind; "" for one that writes alone. `alone`: no service
    may run beside it. `run`: of the task that the process works for, None where it names none.
    """

    instant: InstantTime
    age_ms: int
    host: str = ""
    machine: str = ""
    pid: int = 0
    started: str = ""
    token: str = ""
    tolerance_ms: int = 0
    service: str = ""
    shared: str = ""
    alone: bool = False
    run: TaskRun | None = None

    @property
    def owner(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else "an unknown process"

    def tolerance(self, interval_ms: int, misses: int) -> int:
        """Milliseconds of silence after which it is dead: its own writer's, else ours."""
        return self.tolerance_ms or interval_ms * misses

    def frozen(self, interval_ms: int, misses: int) -> bool:
        """Does it count as dead while its process is there, stopped? Known on its machine only."""
        here = bool(self.pid) and self.machine == machine() and self.pid != os.getpid()
        return here and not gone(self.pid, self.started) and not self.alive(interval_ms, misses)

    def alive(self, interval_ms: int, misses: int) -> bool:
        if self.pid and self.machine == machine():
            if gone(self.pid, self.started):
                return False
            if self.pid == os.getpid() and self.token not in _LIVE:
                return False
        return self.age_ms <= self.tolerance(interval_ms, misses)


def heartbeat_path(base_path: str, instant: str, folder: str = _FOLDER) -> str:
    return f"{base_path}/{folder}/{instant}"


def heartbeat_folder(base_path: str) -> str:
    return f"{base_path}/{_FOLDER}"


def has_heartbeat(storage: Storage, base_path: str, instant: str) -> bool:
    """Is the write on: neither withdrawn nor taken for dead by another writer?

    For tasks, which have a storage of their own.
    """
    return storage.is_file(heartbeat_path(base_path, instant))


def look_seconds(interval_ms: int) -> float:
    """How long a process goes on without a look at its heartbeat: it can't be taken for dead sooner."""
    return min(_LOOK_S, _LOOK_SHARE * interval_ms / 1000)


def read_heartbeats(table: Table, folder: str = _FOLDER) -> list[HeartbeatFile]:
    """The heartbeats in a folder of the table, whose names are digits."""
    return heartbeats_of(table.storage, table.storage.list(f"{table.base_path}/{folder}"))


def heartbeats_of(
    storage: Storage, listing: Sequence[FileInfo], skipped: Collection[str] = ()
) -> list[HeartbeatFile]:
    """The heartbeats of a listing, but those of the `skipped` instants."""
    now = storage.now_ms()
    found = (item for item in listing if not item.is_dir and is_time(item.name))
    return [_parse(storage, item, now) for item in found if item.name not in skipped]


def remove_heartbeat(table: Table, instant: str, folder: str = _FOLDER) -> None:
    table.storage.delete(heartbeat_path(table.base_path, instant, folder))


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a heartbeat says of its process, beside who it is. `service`, `shared`, `alone`: see
    HeartbeatFile. `extra`: the extra metadata of its commit, of which what names a task run is told.
    """

    service: str = ""
    shared: str = ""
    alone: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        run = {key: self.extra[key] for key in (RUN_KEY, TOKEN_KEY) if self.extra.get(key)}
        shared = {"shared": self.shared} if self.shared else {}
        return {"service": self.service, **shared, **({"alone": True} if self.alone else {}), **run}


_UNNAMED = Work()


class Heartbeat:
    """Beats from a daemon thread between `start` and `stop`; `stop` removes the file."""

    def __init__(
        self,
        table: Table,
        instant: str,
        interval_ms: int,
        misses: int,
        work: Work = _UNNAMED,
        folder: str = _FOLDER,
    ) -> None:
        self._storage = table.storage
        self.instant = InstantTime(instant)
        self._path = heartbeat_path(table.base_path, instant, folder)
        self._interval = interval_ms / 1000
        self._young_s = look_seconds(interval_ms)
        self._service = work.service
        self._token = uuid.uuid4().hex
        self._content = _content(self._token, interval_ms * misses, work)
        #: by `time.monotonic`, when no other process can have taken this one for dead: before it was there
        self.began = -math.inf
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hoodie-heartbeat-{instant}", daemon=True)

    def start(self) -> None:
        """Raises AlreadyExists when another writer beats under the same instant, Fenced where the unfinished
        file is deleted each time.
        """
        _LIVE.add(self._token)
        self.began = time.monotonic()
        try:
            self._create()
        except BaseException:
            _LIVE.discard(self._token)
            raise
        self._thread.start()

    def _create(self) -> None:
        """A writer that begins deletes unfinished files here, which may be a dead writer's: made again, as no
        other process can have taken this one for dead yet.
        """
        for _ in range(_SWEPT):
            with contextlib.suppress(Fenced):
                self._storage.create_mark(self._path, self._content)
                return
        self._storage.create_mark(self._path, self._content)

    def silence(self) -> None:
        """No further beat; the file stays, and counts as dead in this process."""
        self._done.set()
        _LIVE.discard(self._token)

    def stop(self, first: Collection[str] = ()) -> None:
        """End the beats and remove the file, and others `first`; the beats end even where removing fails.

        A service's successor has a heartbeat of the same name; no other process takes that of a writer.
        """
        self.silence()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        mine = not self._service or self.is_ours()
        if first:
            self._storage.delete_many([*first, self._path] if mine else first)
        elif mine:
            self._storage.delete(self._path)

    @property
    def young(self) -> bool:
        """Was it made so shortly before that no other process can have taken this one for dead."""
        return time.monotonic() - self.began < self._young_s

    def on_storage(self) -> bool:
        """False when another writer took us for dead and removed the file."""
        return self._storage.exists(self._path)

    def is_ours(self) -> bool:
        """As `on_storage`, and the file is still this one's: a service's successor has the same name."""
        try:
            return self._storage.read(self._path) == self._content
        except FileNotFoundError:
            return False

    def _beat(self) -> bool:
        """False when another writer took us for dead; the file is not made anew where the storage can."""
        if not self._storage.conditional:
            if ours := self.is_ours():
                self._storage.write(self._path, self._content)
            return ours
        try:
            content, version = self._storage.read_version(self._path)
        except FileNotFoundError:
            return False
        return content == self._content and self._storage.put_if(self._path, content, version) is not None

    def _run(self) -> None:
        while not self._done.wait(self._interval):
            try:
                if not self._beat():
                    return
            except (OSError, HoodieError):
                continue  # the storage is out of reach; the next beat may come through in time


def _content(token: str, tolerance_ms: int, work: Work) -> bytes:
    pid = os.getpid()
    owner = {
        "host": socket.gethostname(),
        "machine": machine(),
        "pid": pid,
        "started": start_time(pid),
        "token": token,
        "toleranceMs": tolerance_ms,
        **work.to_dict(),
    }
    return json.dumps(owner).encode()


def _parse(storage: Storage, item: FileInfo, now: int) -> HeartbeatFile:
    age = now - item.mtime_ms
    try:
        owner = json.loads(storage.read(item.path) or b"{}")
        return HeartbeatFile(
            InstantTime(item.name),
            age,
            host=str(owner.get("host", "")),
            machine=str(owner.get("machine", "")),
            pid=_number(owner.get("pid", 0), 1 << 31),
            started=str(owner.get("started", "")),
            token=str(owner.get("token", "")),
            tolerance_ms=_number(owner.get("toleranceMs", 0), 1 << 53),
            service=str(owner.get("service", "")),
            shared=str(owner.get("shared", "")),
            alone=owner.get("alone") is True,
            run=TaskRun.of({key: text for key, text in owner.items() if isinstance(text, str)}),
        )
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError, FileNotFoundError):
        return HeartbeatFile(InstantTime(item.name), age)


def _number(value: object, end: int) -> int:
    """Raises ValueError for what no process and no time is."""
    if isinstance(value, int) and 0 <= value < end:
        return value
    raise ValueError
