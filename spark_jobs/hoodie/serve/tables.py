"""The allow-list, and one table as the page finds it.

A look at a table has a time limit, so that a storage that hangs delays its own table only.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError, HoodieError, JobError, StorageError
from hoodie.storage import Storage, normalize
from hoodie.table import heartbeat
from hoodie.table.handle import Table
from hoodie.table.heartbeat import HeartbeatFile
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import Archive


class _Look:
    """One call, in a thread that nothing waits for at the end of the process; `begun`: when, by the clock
    `time.monotonic`, None while it waits for a thread.
    """

    def __init__(self, key: str, call: Callable[[], Any]) -> None:
        self.key = key
        self._call = call
        self.answer: Future[Any] = Future()
        self.begun: float | None = None

    def run(self) -> None:
        threading.current_thread().name = f"hoodie-look-{self.key}"
        try:
            result = self._call()
        except Exception as error:  # noqa: BLE001  raised where the result is asked for
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)


class Bounded:
    """Calls by a key, each with `seconds` to answer. Of one key there is one at a time: who asks meanwhile
    gets its answer, and a table that hangs holds one thread.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._looks: dict[str, _Look] = {}
        self._lock = threading.Lock()

    def run(self, key: str, call: Callable[[], Any]) -> Any:
        """What `call` returns or raises; StorageError where it takes too long, JobError where no thread can
        be started for it. The result is shared: leave it as it is.
        """
        return self.run_all({key: call}, 1)[key].result()

    def run_all(self, calls: Mapping[str, Callable[[], Any]], at_once: int) -> dict[str, Future[Any]]:
        """As `run`, what each call returns or raises. They share up to `at_once` threads: where no more can
        be started, fewer.
        """
        answers: dict[str, Future[Any]] = {}
        queue: deque[_Look] = deque()
        wake = threading.Event()
        try:
            looks = self._looks_of(calls, queue)
            own, threads = set(queue), 0
            for look in looks:
                look.answer.add_done_callback(lambda _: wake.set())
            while True:
                wake.clear()
                for look in looks:
                    if look.answer.done():
                        answers[look.key] = look.answer
                    elif self._left(look) <= 0:
                        answers[look.key] = self._too_late(look)
                        threads -= look in own  # it holds its thread
                looks = [look for look in looks if look.key not in answers]
                if not looks:
                    return answers
                while queue and threads < at_once and _started(queue, wake):
                    threads += 1
                if not threads:
                    _give_up(queue)
                wake.wait(min(map(self._left, looks)))
        finally:
            _give_up(queue)

    def _looks_of(self, calls: Mapping[str, Callable[[], Any]], queue: deque[_Look]) -> list[_Look]:
        """Looks by these keys; those that nobody has asked for yet are in the queue."""
        looks = []
        with self._lock:
            for key, call in calls.items():
                look = self._looks.get(key)
                if look is None or look.answer.done():
                    look = _Look(key, call)
                    look.answer.add_done_callback(partial(self._forget, look))
                    queue.append(look)
                    self._looks[key] = look
                looks.append(look)
        return looks

    def _forget(self, look: _Look, _: object) -> None:
        with self._lock:
            if self._looks.get(look.key) is look:
                del self._looks[look.key]

    def _left(self, look: _Look) -> float:
        """Seconds that it has left; all of them before it begins."""
        return self.seconds if look.begun is None else look.begun + self.seconds - time.monotonic()

    def _too_late(self, look: _Look) -> Future[Any]:
        message = f"table {look.key} did not answer within {self.seconds:g} s; check its storage"
        failed: Future[Any] = Future()
        failed.set_exception(StorageError(message, table=look.key))
        return failed


def _started(queue: deque[_Look], wake: threading.Event) -> bool:
    """Could a thread be started, which takes looks from the queue until it is empty?"""

    def work() -> None:
        while (look := _next(queue)) is not None:
            look.begun = time.monotonic()
            wake.set()
            look.run()

    try:
        threading.Thread(target=work, name="hoodie-look", daemon=True).start()
    except (RuntimeError, MemoryError):
        return False
    return True


def _next(queue: deque[_Look]) -> _Look | None:
    try:
        return queue.popleft()
    except IndexError:
        return None


def _give_up(queue: deque[_Look]) -> None:
    while (look := _next(queue)) is not None:
        look.answer.set_exception(
            JobError(
                f"no thread can be started to look at table {look.key}; this process has as much memory, or "
                "as many threads, as it may have",
                table=look.key,
            )
        )


#: a name is a part of URLs
_NAME = re.compile(r"[\w.-]{1,100}")
#: tries at properties that another process may be replacing; a request should not wait for long
_ROUNDS = 3
#: tables that are opened at once
_AT_ONCE = 8


#: settings of the storage of a table on the list, by its name; may raise ConfigError
Options = Callable[[str], Mapping[str, str]]


def allow_list(tables: Mapping[str, str]) -> dict[str, str]:
    """Names and paths of the tables that may be shown -> normalized. Raises ConfigError."""
    for name, path in tables.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or set(name) == {"."}:
            raise ConfigError(
                f"table name {name!r}: use up to 100 letters, digits, '_', '.' and '-'", name=str(name)
            )
        if not isinstance(path, str) or not path.strip():
            raise ConfigError(f"table {name!r} has the path {path!r}; give the table's folder", name=name)
    return {name: normalize(path) for name, path in tables.items()}


def parse_tables(texts: Iterable[str]) -> dict[str, str]:
    """`NAME=PATH` texts -> the allow-list. Raises ConfigError."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            raise ConfigError(f"table {text!r} is not NAME=PATH; write such as orders=/data/orders")
        if name in found:
            raise ConfigError(f"two tables have the name {name!r}; give each a name of its own", name=name)
        found[name] = path
    return allow_list(found)


@dataclass(frozen=True)
class ShownTable:
    """A table as it is now; `now_ms` by the storage's clock."""

    name: str
    table: Table
    now_ms: int

    @classmethod
    def open(cls, name: str, base_path: str, options: Mapping[str, str] | None = None) -> ShownTable:
        """`options`: settings of its storage. Raises TableNotFound, TornProperties, UnsupportedVersion,
        StorageError, ConfigError.
        """
        table = Table.open(base_path, Config.of(options or {}), rounds=_ROUNDS)
        return cls(name=name, table=table, now_ms=table.storage.now_ms())

    @property
    def base_path(self) -> str:
        return self.table.base_path

    @property
    def props(self) -> TableProperties:
        return self.table.properties

    @property
    def storage(self) -> Storage:
        return self.table.storage

    @property
    def archive(self) -> Archive:
        return self.table.archive

    def timeline(self, before: Timeline | None = None) -> Timeline:
        return Timeline.load(self.base_path, self.storage, before)

    def beats(self) -> dict[str, HeartbeatFile]:
        """Heartbeats of writers and services, by instant."""
        return {beat.instant: beat for beat in heartbeat.read_heartbeats(self.table)}

    def zone(self) -> str:
        """The time zone of the timeline's instants, for people."""
        if self.props.timeline_utc:
            return "UTC"
        here = datetime.fromtimestamp(self.now_ms / 1000, tz=timezone.utc).astimezone()
        offset = f"{here:%z}"
        zone = "UTC" if offset == "+0000" else f"{here.tzname()} (UTC{offset[:3]}:{offset[3:5]})"
        return f"local time of the writers, taken as this server's: {zone}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: what the page says of a table."""
        return {
            "name": self.name,
            "table": self.props.name,
            "base_path": self.base_path,
            "type": self.props.table_type.value,
            "version": self.props.version,
            "zone": self.zone(),
            "archive_files": len(self.archive.files()),
        }


def describe(tables: Mapping[str, str], options: Options, bounded: Bounded) -> list[dict[str, Any]]:
    """Every table on the list, by name; one that can't be opened in time with its error instead."""

    def opened(name: str) -> dict[str, Any]:
        return ShownTable.open(name, tables[name], options(name)).to_dict()

    def line(name: str, answer: Future[Any]) -> dict[str, Any]:
        base_path = tables[name]
        try:
            found: dict[str, Any] = answer.result()
            return found
        except HoodieError as error:
            problem = error.to_dict()
        except OSError as error:
            text = f"{error.filename or base_path}: {error.strerror or error}"
            problem = {"code": "storage", "message": text}
        except Exception as error:  # noqa: BLE001  one table must not hide the others
            problem = {"code": "internal", "message": f"{base_path}: {type(error).__name__}: {error}"}
        return {"name": name, "base_path": base_path, "error": problem}

    answers = bounded.run_all({name: partial(opened, name) for name in sorted(tables)}, _AT_ONCE)
    return [line(name, answers[name]) for name in sorted(tables)]


def listed(tables: Mapping[str, str]) -> list[dict[str, Any]]:
    """The list as it is configured; no table is looked at."""
    return [{"name": name, "base_path": path} for name, path in sorted(tables.items())]
