"""Heartbeats: a live writer is told from a dead one (format.md 14.4).

`.hoodie/.heartbeat/<instant>`, rewritten every interval; Apache Hudi looks at the modification time only,
so the content is free: we keep host, process and its start time there. A heartbeat whose process is gone
from this host is dead at once; any other is dead when it has missed `tolerable misses` intervals.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from dataclasses import dataclass

from hoodie.config.key import int_key
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.active import META_FOLDER

INTERVAL_MS = int_key(
    "hoodie.client.heartbeat.interval_in_ms",
    60000,
    "Milliseconds between two beats of a live writer.",
    minimum=100,
    group="concurrency",
)
TOLERABLE_MISSES = int_key(
    "hoodie.client.heartbeat.tolerable.misses",
    2,
    "Beats a writer may miss before it counts as dead and its write is rolled back.",
    minimum=1,
    group="concurrency",
)

_FOLDER = f"{META_FOLDER}/.heartbeat"


@dataclass(frozen=True)
class Beat:
    """One heartbeat file as found on storage."""

    instant: str
    age_ms: int
    host: str
    pid: int
    started: str

    @property
    def owner(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else "an unknown process"

    def alive(self, interval_ms: int, misses: int) -> bool:
        if self.host == socket.gethostname() and self.pid and _start_time(self.pid) != self.started:
            return False
        return self.age_ms <= interval_ms * misses


def heartbeat_path(base_path: str, instant: str) -> str:
    return f"{base_path}/{_FOLDER}/{instant}"


def read_beats(storage: Storage, base_path: str) -> list[Beat]:
    now = int(time.time() * 1000)
    listing = storage.list(f"{base_path}/{_FOLDER}")
    return [_parse(storage, item, now) for item in listing if not item.is_dir and item.name.isdigit()]


def remove_beat(storage: Storage, base_path: str, instant: str) -> None:
    storage.delete(heartbeat_path(base_path, instant))


class Heartbeat:
    """Beats from a daemon thread between `start` and `stop`; `stop` removes the file."""

    def __init__(self, storage: Storage, base_path: str, instant: str, interval_ms: int) -> None:
        self._storage = storage
        self._base_path = base_path
        self.instant = instant
        self._interval = interval_ms / 1000
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hoodie-heartbeat-{instant}", daemon=True)

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        remove_beat(self._storage, self._base_path, self.instant)

    def on_storage(self) -> bool:
        """False when another writer took us for dead and removed the file."""
        return self._storage.exists(heartbeat_path(self._base_path, self.instant))

    def _beat(self) -> None:
        pid = os.getpid()
        owner = {"host": socket.gethostname(), "pid": pid, "started": _start_time(pid)}
        self._storage.write(heartbeat_path(self._base_path, self.instant), json.dumps(owner).encode())

    def _run(self) -> None:
        while not self._done.wait(self._interval):
            if not self.on_storage():
                return
            try:
                self._beat()
            except OSError:
                continue


def _parse(storage: Storage, item: FileInfo, now: int) -> Beat:
    try:
        owner = json.loads(storage.read(item.path) or b"{}")
    except (ValueError, FileNotFoundError):
        owner = {}
    return Beat(
        item.name,
        now - item.mtime_ms,
        str(owner.get("host", "")),
        int(owner.get("pid", 0)),
        str(owner.get("started", "")),
    )


def _start_time(pid: int) -> str:
    """Identity of a process beyond its number, which is used again; "" when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        if fields[0] in "ZX":
            return ""
        return fields[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "unknown"
