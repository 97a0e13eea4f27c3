"""A table at a glance: what needs a hand, and why. A few listings, whatever the size of the table.

Looks that need more than the standard library, or longer than a page: what the planner of services would
do, and the whole doctor. Each is a process of its own (hoodie.cli.examine), so that a server of the page
imports nothing for it, and a look that hangs is ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import hoodie
from hoodie.errors import HoodieError, JobError
from hoodie.serve import instants
from hoodie.serve.instants import Summaries, show
from hoodie.serve.repairs import repairs
from hoodie.serve.tables import ShownTable
from hoodie.table.checkup import ERROR, OK, WARNING, Finding, glance
from hoodie.table.settings import INTERVAL_MS
from hoodie.text import period
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import wall_millis
from hoodie.timeline.freshness import Freshness
from hoodie.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.timeline.tokens import TaskRun

_DAY_MS = 24 * 3_600_000
#: which tables go first
_NOT_WRITTEN, _WELL, _NOTED, _WARNED, _LATE, _FAILED, UNREADABLE = range(7)
#: findings that this page says in other words
_SAID = frozenset({"pending"})


def health(table: ShownTable, summaries: Summaries) -> dict[str, Any]:
    """JSON-able. `level`: 3 an error, 2 something is wrong, 1 something goes on or went wrong lately, 0 all
    is well; `rank`: which tables go first, real failures before late ones, and what is not written yet last;
    `reasons`: the kinds of it, most important first. Raises HoodieError and OSError.
    """
    timeline, beats = table.timeline(), table.beats()
    pending = [show(table, timeline, summaries, item, beats).to_dict() for item in timeline.pending()]
    waiting = instants.waiting(table, beats.values())
    opened = partial(summaries.commit, table, timeline)
    fresh = Freshness.of(timeline, opened, table.now_ms)
    rolled_back = _recent_rollbacks(table, timeline, summaries)
    findings = [finding for finding in glance(table.table) if finding.status != OK]
    judged = _judged(pending, fresh, rolled_back, findings, waiting)
    details = opened(fresh.last) if fresh.last is not None else None
    run = TaskRun.of(details.extra_metadata) if details is not None else None
    failed = [item for item in pending if item["status"] in ("failed", "open")]
    return {
        "table": table.to_dict(),
        **judged,
        "last_write": {**fresh.to_dict(), "run": None if run is None else vars(run)},
        "pending": pending,
        "rolled_back": rolled_back,
        "waiting": waiting,
        "findings": [finding.to_dict() for finding in findings],
        "repair": repairs(table, failed, waiting, fresh, run),
    }


def not_written(why: str) -> dict[str, Any]:
    """`health` of a table that is not there yet."""
    return {"level": 0, "rank": _NOT_WRITTEN, "reasons": [why]}


def _recent_rollbacks(table: ShownTable, timeline: Timeline, summaries: Summaries) -> list[dict[str, Any]]:
    """Rollbacks of the last day, newest first, with what each took back."""
    found = []
    for instant in reversed(timeline.filter([Action.ROLLBACK], completed=True)):
        completed = timeline.completion_of(instant)
        if completed is None or table.now_ms - completed > _DAY_MS:
            break
        what = summaries.rolled_back(table, timeline, instant) or {}
        found.append(
            {"instant": instant.time, "start_ms": wall_millis(instant.time), "taken_back": dict(what)}
        )
    return found


def _judged(
    pending: list[dict[str, Any]],
    fresh: Freshness,
    rolled_back: list[dict[str, Any]],
    findings: list[Finding],
    waiting: list[dict[str, Any]],
) -> dict[str, Any]:
    """`level`, `rank`, `reasons`."""
    writes = {action.value for action in COMMIT_ACTIONS}
    failed = [item for item in pending if item["status"] in ("failed", "open")]
    lost = [item for item in failed if item["action"] in writes]
    processes = [item.get("writer") for item in failed] + waiting
    frozen = [f"{item['owner']} is frozen" for item in processes if item is not None and item["frozen"]]
    silent = [item["writer"] for item in pending if item["status"] == "running" and _misses_beats(item)]
    others = [finding for finding in findings if finding.check not in _SAID]
    count = len(waiting)
    weighed = [
        (3, _FAILED, [finding.text for finding in others if finding.status == ERROR]),
        (2, _FAILED, [f"{len(lost)} failed {'write' if len(lost) == 1 else 'writes'}"] if lost else []),
        (
            2,
            _FAILED,
            [f"{item['action']} {item['instant']} did not end" for item in failed if item not in lost],
        ),
        (2, _FAILED, list(dict.fromkeys(frozen))),
        (2, _LATE, ["no write for longer than usual"] if fresh.late else []),
        (2, _WARNED, [finding.text for finding in others if finding.status == WARNING]),
        (
            1,
            _NOTED,
            [f"{item['owner']} at work is silent for {period(item['silent_ms'])}" for item in silent],
        ),
        (1, _NOTED, [f"{count} {'job waits' if count == 1 else 'jobs wait'}"] if count else []),
        (1, _NOTED, [f"{len(rolled_back)} rolled back in 24 h"] if rolled_back else []),
    ]
    reasons = [text for _, _, texts in weighed for text in texts]
    if fresh.last is None and not reasons and not pending:
        return not_written("not written yet")
    return {
        "level": max((level for level, _, texts in weighed if texts), default=0),
        "rank": max((rank for _, rank, texts in weighed if texts), default=_WELL),
        "reasons": reasons,
    }


def _misses_beats(item: Mapping[str, Any]) -> bool:
    """Has it missed a beat, of the usual length?"""
    return bool(item["writer"]["silent_ms"] > 1.5 * (INTERVAL_MS.default or 0))


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
