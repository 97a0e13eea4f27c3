"""Pure predicates over a timeline. The sensor asks them now; triggers and watchers share them later.

What "after" means, for table version 6:

* an instant (14 or 17 digits): commits whose instant is greater, compared as texts as Hudi does. A slow
  commit with a smaller instant that completes later is not "after" it;
* a moment (datetime or ISO 8601 text; without a zone it is UTC): commits completed later. The completion
  time is the modification time of the completed instant's file, Hudi's state transition time.

Neither pyspark nor pyarrow is imported, and Airflow is not either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from hoodie.errors import ConfigError, TableError
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State

#: operation types of table services: they rewrite files and change no row
SERVICE_OPERATIONS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})

_INSTANT = re.compile(r"\d{14}(\d{3})?")
_ISO = re.compile(r"\d{4}(-?)\d{2}\1\d{2}([T ]\d.*)?")  # fromisoformat takes any letter or digit for the T
_COMPACT_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})(.*))?")
_COMPACT_ZONE = re.compile(r"([+-]\d{2})(\d{2})")


@dataclass(frozen=True)
class Since:
    """Lower bound, exclusive: an instant, or a moment in epoch milliseconds, or neither."""

    instant: str | None = None
    moment_ms: int | None = None

    @classmethod
    def parse(cls, value: Any) -> Since:
        """None and "" are no bound. Raises ConfigError for what is neither an instant nor a moment."""
        if value is None or value == "":
            return cls()
        if isinstance(value, datetime):
            return cls(moment_ms=_millis(value))
        text = str(value).strip() if isinstance(value, (str, int)) else ""  # native rendering gives an int
        if _INSTANT.fullmatch(text):
            return cls(instant=text)
        try:
            if not _ISO.fullmatch(text):
                raise ValueError
            return cls(moment_ms=_millis(datetime.fromisoformat(_python_iso(text))))
        except ValueError:
            hint = "; a template that may give None is written {{ value or '' }}" if text == "None" else ""
            raise ConfigError(
                f"after={value!r} is neither an instant (14 or 17 digits) nor an ISO 8601 time{hint}",
                after=value,
            ) from None

    def admits(self, instant: Instant, completed_ms: int) -> bool:
        if self.instant is not None:
            return instant.time > self.instant
        return self.moment_ms is None or completed_ms > self.moment_ms


@dataclass(frozen=True)
class CommitHit:
    """A completed commit that a condition found. `completed_ms` is epoch milliseconds."""

    base_path: str
    instant: Instant
    completed_ms: int

    def to_dict(self) -> dict[str, str]:
        """JSON-able form, the XCom of a sensor; the completion time is ISO 8601 in UTC."""
        moment = datetime.fromtimestamp(self.completed_ms / 1000, tz=timezone.utc)
        return {
            "base_path": self.base_path,
            "instant": self.instant.time,
            "action": self.instant.action.value,
            "completion_time": moment.isoformat(timespec="milliseconds"),
        }


def commit_actions(names: Collection[str]) -> frozenset[Action]:
    """Names of commit actions -> actions. Raises ConfigError for others or none."""
    known = {action.value: action for action in COMMIT_ACTIONS}
    unknown = sorted(set(names) - set(known)) if not isinstance(names, str) else [names]
    if unknown or not names:
        raise ConfigError(
            f"actions={names!r}: use a list of {', '.join(sorted(known))}", actions=",".join(unknown)
        )
    return frozenset(known[name] for name in names)


def newest_commit(
    timeline: Timeline,
    *,
    since: Since,
    actions: Collection[Action] = COMMIT_ACTIONS,
    min_commits: int = 1,
    operation_of: Callable[[Instant], str | None] | None = None,
) -> CommitHit | None:
    """The commit completed last, if at least `min_commits` commits of rows lie after `since`; else None.

    Commits of table services don't count: a compaction is known by its requested file; of replace commits
    the newest ones are opened (`operation_of`, default reads the timeline) until the answer is known.
    """
    operation_of = operation_of or (lambda instant: read_operation(timeline, instant))
    found: list[CommitHit] = []
    for instant in timeline.filter(actions, completed=True):
        completed_ms = timeline.mtimes.get(instant.file_name, 0)
        if since.admits(instant, completed_ms) and not _is_compaction(timeline, instant):
            found.append(CommitHit(timeline.base_path, instant, completed_ms))
    found.sort(key=lambda hit: (hit.completed_ms, hit.instant.time), reverse=True)
    newest: CommitHit | None = None
    count = 0
    for hit in found:
        if hit.instant.action is Action.REPLACECOMMIT and not _changes_rows(operation_of(hit.instant)):
            continue
        newest = newest or hit
        count += 1
        if count >= min_commits:
            return newest
    return None


def read_operation(timeline: Timeline, instant: Instant) -> str | None:
    """Operation type in a completed commit's metadata; None while it can't be read (being written, gone)."""
    try:
        operation = timeline.read_json(instant).get("operationType")
    except (TableError, FileNotFoundError):
        return None
    return None if operation is None else str(operation).upper()


def _changes_rows(operation: str | None) -> bool:
    return operation is not None and operation not in SERVICE_OPERATIONS


def _is_compaction(timeline: Timeline, instant: Instant) -> bool:
    if instant.action is Action.COMMIT:
        plan = Instant(instant.time, Action.COMPACTION, State.REQUESTED)
    elif instant.action is Action.DELTACOMMIT:
        plan = Instant(instant.time, Action.LOGCOMPACTION, State.REQUESTED)
    else:
        return False
    return plan.file_name in timeline.mtimes


def _millis(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return int(moment.timestamp() * 1000)


def _python_iso(text: str) -> str:
    """ISO 8601 in the forms Airflow renders (`ds`, `ts`, `ts_nodash`, …) -> the form Python 3.10 reads."""
    if match := _COMPACT_DATE.fullmatch(text):
        year, month, day, hour, minute, second, rest = match.groups()
        text = f"{year}-{month}-{day}" + (f"T{hour}:{minute}:{second}{rest}" if hour else "")
    if text.endswith("Z"):
        text = text[:-1] + "+00:00"
    if match := _COMPACT_ZONE.fullmatch(text[-5:]):
        text = f"{text[:-5]}{match[1]}:{match[2]}"
    return text
