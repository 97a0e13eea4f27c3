"""Looks that need more than the standard library, or longer than a page: what the planner of services would
do, and the whole doctor. Each is a process of its own (hoodie.cli.examine), so that a server of the page
imports nothing for it, and a look that hangs is ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hoodie
from hoodie.errors import HoodieError, JobError
from hoodie.serve.tables import ShownTable

#: what can be asked
SERVICES, DOCTOR = "services", "doctor"
_MODULE = "hoodie.cli.examine"


@dataclass
class Examiner:
    """At most `at_once` processes, each with `seconds`. The answer about a timeline is kept for `keeps_s`.
    Threads may share it.
    """

    seconds: float = 60
    at_once: int = 2
    keeps_s: float = 600
    _kept: dict[tuple[str, str], tuple[int, float, dict[str, Any]]] = field(default_factory=dict)
    _busy: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._free = threading.Semaphore(self.at_once)

    def ask(self, what: str, table: ShownTable, again: bool = False) -> dict[str, Any]:
        """The answer, JSON-able, with its age; `again`: not one that was kept. Raises HoodieError."""
        key = (what, table.base_path)
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        if not busy.acquire(timeout=self.seconds):
            raise _busy(table)
        try:
            state = hash(tuple(table.timeline().instants))
            known = self._kept.get(key)
            if known and not again and known[0] == state and time.monotonic() - known[1] < self.keeps_s:
                return {**known[2], "looked_ms": int((time.monotonic() - known[1]) * 1000)}
            found = self._examined(what, table)
            with self._lock:
                self._kept[key] = (state, time.monotonic(), found)
                while len(self._kept) > 500:
                    del self._kept[next(iter(self._kept))]
            return {**found, "looked_ms": 0}
        finally:
            busy.release()

    def _examined(self, what: str, table: ShownTable) -> dict[str, Any]:
        request = {
            "what": what,
            "table": table.base_path,
            "options": dict(table.table.ref.storage_options),
        }
        if not self._free.acquire(timeout=self.seconds):
            raise _busy(table)
        try:
            run = subprocess.run(
                [sys.executable, "-m", _MODULE],
                input=json.dumps(request).encode(),
                capture_output=True,
                timeout=self.seconds,
                check=False,
                # -m puts this folder in front of the path: the same package, nothing of the server's folder
                cwd=Path(hoodie.__file__).parent.parent,
            )
        except subprocess.TimeoutExpired:
            raise JobError(
                f"the look at {table.base_path} took more than {self.seconds:g} s and was ended; run "
                f"{_COMMANDS[what]} --table {table.base_path}",
                path=table.base_path,
            ) from None
        except OSError as error:
            raise JobError(f"no process could be started: {error.strerror or error}") from None
        finally:
            self._free.release()
        return _answer(run, what, table)


_COMMANDS = {SERVICES: "hoodie services plan", DOCTOR: "hoodie doctor"}


def _answer(run: subprocess.CompletedProcess[bytes], what: str, table: ShownTable) -> dict[str, Any]:
    try:
        document: Any = json.loads(run.stdout)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise JobError(
            f"the look at {table.base_path} ended with exit code {run.returncode} and no answer; run "
            f"{_COMMANDS[what]} --table {table.base_path}",
            path=table.base_path,
        )
    if "error" in document:
        raise HoodieError(str(document["error"].get("message", "")))
    return document


def _busy(table: ShownTable) -> JobError:
    return JobError(
        f"other looks are under way, and {table.base_path} has to wait; ask again", path=table.base_path
    )
