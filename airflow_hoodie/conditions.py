"""Conditions on a timeline: one predicate for sensors, their triggers, and the watchers of assets.

What "after" means:

* an instant (14 or 17 digits) that is completed on the timeline: what completed after it. Of writers at once
  one that began earlier may complete later. "After" any other instant are those that are greater, compared as
  texts as Hudi does; of table versions 8 and 9 those that completed after that time, since spans of queries
  are times of completion there;
* a moment (datetime or ISO 8601 text; without a zone it is UTC): commits completed later. The completion
  time is the modification time of the completed instant's file, Hudi's state transition time; table versions
  8 and 9 have it in the file's name.

Commits of table services never count. They are known by their requested files; of replace commits those
that matter and whose requested file says nothing are opened, and so is every commit that a partition or extra
metadata is asked of.

A condition is made by `condition(kind, arguments)` from JSON-able arguments, those that a sensor takes and
its trigger carries. Neither pyspark nor pyarrow is imported, and Airflow is not either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any, Protocol

from airflow_hoodie.commits import CommitHit, TableReader, completed_at
from hoodie.errors import ConfigError
from hoodie.text import period, visible
from hoodie.timeline import freshness
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.commit_details import CommitDetails
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant
from hoodie.timeline.time import REQUESTED
from hoodie.timeline.tokens import TOKEN_KEY

#: names of the actions that commit rows
COMMITS = ("commit", "deltacommit", "replacecommit")

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
    def parse(cls, value: Any, name: str = "after") -> Since:
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
                f"{name}={value!r} is neither an instant (14 or 17 digits) nor an ISO 8601 time{hint}",
                **{name: value},
            ) from None

    def __bool__(self) -> bool:
        return self.instant is not None or self.moment_ms is not None

    def words(self) -> str:
        """As a sentence has it: "instant 20260101000000000", "2026-01-01T00:00:00+00:00"."""
        if self.instant is not None:
            return f"instant {self.instant}"
        return _iso(self.moment_ms) if self.moment_ms is not None else ""

    def on(self, timeline: Timeline) -> Bound:
        """The bound on a timeline: a completed instant is a place in the order of completion."""
        if self.instant is None:
            return Bound(moment_ms=self.moment_ms)
        known = next((item for item in timeline.commits() if item.time == self.instant), None)
        if known is None and timeline.layout.has_completion_time:
            return Bound(moment_ms=instant_millis(self.instant, timeline.utc))
        completed_ms = None if known is None else timeline.completion_of(known)
        return Bound(instant=self.instant, completed_ms=completed_ms)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A lower bound on one timeline, exclusive. `completed_ms`: when its instant was completed, where that is
    known.
    """

    instant: str | None = None
    completed_ms: int | None = None
    moment_ms: int | None = None

    def admits(self, instant: Instant, completed_ms: int) -> bool:
        if self.completed_ms is not None and completed_ms != self.completed_ms:
            return completed_ms > self.completed_ms
        if self.instant is not None:
            return instant.is_after(self.instant)
        return self.moment_ms is None or completed_ms > self.moment_ms

    def rules_out(self, instant: Instant) -> bool:
        """Is it known, without a look at its file, that the bound does not admit the instant."""
        return self.completed_ms is None and self.instant is not None and not instant.is_after(self.instant)


def commit_actions(names: Collection[str]) -> frozenset[Action]:
    """Names of commit actions -> actions. Raises ConfigError for others or none."""
    known = {action.value: action for action in COMMIT_ACTIONS}
    unknown = sorted(set(names) - set(known)) if not isinstance(names, str) else [names]
    if unknown or not names:
        raise ConfigError(
            f"actions={names!r}: use a list of {', '.join(sorted(known))}", actions=",".join(unknown)
        )
    return frozenset(known[name] for name in names)


@dataclass(frozen=True)
class CommitFilter:
    """Which completed commits count, whatever their time.

    actions: the actions. partitions: None, or those of which a commit must have written at least one.
    extra_metadata: texts that the commit must carry. services: do commits of table services count?
    """

    actions: frozenset[Action] = COMMIT_ACTIONS
    partitions: frozenset[str] | None = None
    extra_metadata: tuple[tuple[str, str], ...] = ()
    services: bool = False

    @classmethod
    def of(
        cls,
        actions: Collection[str] = COMMITS,
        partition: str | Collection[str] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        services: bool = False,
    ) -> CommitFilter:
        """Raises ConfigError."""
        wanted = None if partition is None else frozenset(partition_paths(partition))
        return cls(commit_actions(actions), wanted, _texts(extra_metadata), services)

    def words(self) -> str:
        """What else than being a commit of rows it asks for: " to partition 'a'", "" for nothing."""
        parts = []
        if self.actions != COMMIT_ACTIONS:
            parts.append(f"with action {' or '.join(sorted(action.value for action in self.actions))}")
        if self.partitions is not None:
            parts.append(f"to partition {' or '.join(map(repr, sorted(self.partitions)))}")
        parts += [f"with {key}={text!r}" for key, text in self.extra_metadata]
        return "".join(f" {visible(part)}" for part in parts)

    def admits(
        self, timeline: Timeline, instant: Instant, read: Callable[[], CommitDetails | None]
    ) -> bool | None:
        """Does a completed instant count? None: `read`, which opens it, has no answer yet."""
        if instant.action not in self.actions:
            return False
        kind = None if self.services else timeline.kind_from_listing(instant)
        if kind is not None and kind.rewrites:
            return False
        unsure = kind is None and not self.services
        if not (unsure or self.partitions is not None or self.extra_metadata):
            return True
        details = read()
        return None if details is None else self.admits_details(details)

    def admits_details(self, details: CommitDetails) -> bool:
        """`admits` for an opened commit of one of the actions."""
        return (
            (self.services or not details.is_service)
            and (self.partitions is None or not self.partitions.isdisjoint(details.partitions))
            and all(details.extra_metadata.get(key) == text for key, text in self.extra_metadata)
        )


class Hit(Protocol):
    """What a condition found: the XCom of a sensor."""

    def to_dict(self) -> dict[str, Any]: ...


class Condition(Protocol):
    """Something to wait for on a table's timeline."""

    def find(self, reader: TableReader, timeline: Timeline) -> Hit | None:
        """What fulfils it, None while nothing does. Opens as few commits as it can; blocks."""
        ...

    def words(self) -> str:
        """What it waits for, as a log says it."""
        ...


@dataclass(frozen=True)
class Commits:
    """At least `min_commits` commits of `which` lie after `since`, and not after `until` if that is given."""

    which: CommitFilter = CommitFilter()
    since: Since = Since()
    until: Since = Since()
    min_commits: int = 1

    @classmethod
    def of(
        cls,
        *,
        after: Any = None,
        until: Any = None,
        actions: Collection[str] = COMMITS,
        partition: str | Collection[str] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        token: str | None = None,
        min_commits: int = 1,
    ) -> Commits:
        """Raises ConfigError."""
        if isinstance(min_commits, bool) or not isinstance(min_commits, int) or min_commits < 1:
            raise ConfigError(f"min_commits is {min_commits!r}; use 1 or more", min_commits=min_commits)
        which = CommitFilter.of(actions, partition, extra_metadata)
        if token is not None:
            if not str(token).strip():
                raise ConfigError(
                    "token is blank; give the text that the commit carries, or None", token=token
                )
            which = replace(which, extra_metadata=(*which.extra_metadata, (TOKEN_KEY, str(token))))
        return cls(which, Since.parse(after), Since.parse(until, "until"), min_commits)

    def find(self, reader: TableReader, timeline: Timeline) -> CommitHit | None:
        """The commit that was completed last of all that count."""
        newest: CommitHit | None = None
        count = 0
        refused = reader.refused(self.which)
        for hit in self._last_first(timeline, refused):
            admitted = self.which.admits(timeline, hit.instant, partial(reader.details, hit.instant))
            if admitted is False:
                refused[hit.instant.time] = hit.instant.action
            if admitted:
                newest = newest or hit
                count += 1
                if count >= self.min_commits:
                    return newest
        return None

    def words(self) -> str:
        count = "a commit of rows" if self.min_commits == 1 else f"{self.min_commits:,} commits of rows"
        since = f" after {self.since.words()}" if self.since else ""
        until = f" and not after {self.until.words()}" if self.until else ""
        return f"{count}{self.which.words()}{since}{until}"

    def _last_first(self, timeline: Timeline, refused: Mapping[str, Action]) -> Iterator[CommitHit]:
        found: list[tuple[int, Instant]] = []
        since, until = self.since.on(timeline), self.until.on(timeline) if self.until else None
        for instant in timeline.filter(self.which.actions, completed=True):
            if refused.get(instant.time) is instant.action:
                continue  # thousands at each poll
            if since.rules_out(instant):
                continue
            completed_ms = completed_at(timeline, instant)
            past = until is not None and until.admits(instant, completed_ms)
            if since.admits(instant, completed_ms) and not past:
                found.append((completed_ms, instant))
        found.sort(key=lambda item: (item[0], REQUESTED.key(item[1].time)), reverse=True)
        return (CommitHit(timeline.base_path, instant, completed_ms) for completed_ms, instant in found)


@dataclass(frozen=True)
class PartitionsHit:
    """Partitions that are there, each with the instant of its last commit, None when that is archived."""

    base_path: str
    instants: Mapping[str, str | None]

    def to_dict(self) -> dict[str, Any]:
        return {"base_path": self.base_path, "partitions": dict(self.instants)}


@dataclass(frozen=True)
class Partitions:
    """Every one of the partitions exists, or got a commit after `since` if that is given.

    A partition exists when a completed commit wrote to it, be that commit archived or not, and none has
    deleted it since; a folder that a failed write left behind does not count.
    """

    partitions: tuple[str, ...]
    since: Since = Since()

    @classmethod
    def of(cls, *, partitions: str | Collection[str], after: Any = None) -> Partitions:
        """Raises ConfigError."""
        return cls(partition_paths(partitions), Since.parse(after))

    def find(self, reader: TableReader, timeline: Timeline) -> PartitionsHit | None:
        instants: dict[str, str | None] = {}
        for partition in self.partitions:
            commits = Commits(CommitFilter(partitions=frozenset((partition,))), self.since)
            if hit := commits.find(reader, timeline):
                details = reader.details(hit.instant)
                if details is None or partition in details.dropped:
                    return None
                instants[partition] = str(hit.instant.time)
            elif not self.since and _is_archived(reader, timeline, partition):
                instants[partition] = None
            else:
                return None
        return PartitionsHit(timeline.base_path, instants)

    def words(self) -> str:
        names = visible(", ".join(map(repr, self.partitions)))
        since = f" with a commit after {self.since.words()}" if self.since else ""
        return f"{'partition' if len(self.partitions) == 1 else 'partitions'} {names}{since}"


@dataclass(frozen=True)
class Freshness:
    """The table's last commit is at most `max_age_s` seconds old; None: the table is not late by the gap that
    usually lies between its writes (hoodie.timeline.freshness), and not before that gap is known.
    """

    max_age_s: float | None

    @classmethod
    def of(cls, *, max_age: float | timedelta | None = None) -> Freshness:
        """`max_age` in seconds. Raises ConfigError."""
        if max_age is None:
            return cls(None)
        seconds = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
            raise ConfigError(f"max_age is {max_age!r}; use a positive timedelta", max_age=str(max_age))
        return cls(float(seconds))

    def find(self, reader: TableReader, timeline: Timeline) -> CommitHit | None:
        limit = None if self.max_age_s is None else int(self.max_age_s * 1000)
        if limit is None:
            limit = freshness.Freshness.of(timeline, reader.details, reader.storage.now_ms()).late_after_ms
            if limit is None:
                return None
        oldest = reader.storage.now_ms() - limit
        return Commits(since=Since(moment_ms=oldest - 1)).find(reader, timeline)

    def words(self) -> str:
        if self.max_age_s is None:
            return "a commit of rows no older than three of the table's usual gaps between writes"
        return f"a commit of rows of the last {period(self.max_age_s * 1000)}"


def situation(reader: TableReader) -> str:
    """What the table had at the reader's last poll, as a log says it; opens as few commits as it can."""
    timeline = reader.last
    if timeline is None:
        return "no table is there yet"
    hit = Commits().find(reader, timeline)
    if hit is None:
        return "the table has no commit of rows yet"
    age = period(max(0, reader.storage.now_ms() - hit.completed_ms))
    return f"its last commit of rows is {hit.instant.time}, completed {age} ago"


_KINDS: dict[str, Callable[..., Condition]] = {
    "commits": Commits.of,
    "partitions": Partitions.of,
    "freshness": Freshness.of,
}


def condition(kind: str, arguments: Mapping[str, Any]) -> Condition:
    """Kind ("commits", "partitions", "freshness") and JSON-able arguments -> condition.

    Raises ConfigError.
    """
    return _KINDS[kind](**arguments)


def partition_paths(value: Any) -> tuple[str, ...]:
    """One partition path or several -> paths as the table has them, in order, each once.

    Raises ConfigError.
    """
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, Collection) or not items or not all(_is_text(item) for item in items):
        raise ConfigError(
            f"partition is {value!r}; use a partition path such as 'day=2026-01-01', or a list of them",
            partition=str(value),
        )
    return tuple(dict.fromkeys(item.strip("/") for item in items))


def _iso(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, tz=timezone.utc).isoformat()


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip("/"))


def _texts(extra_metadata: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    if extra_metadata is not None and not isinstance(extra_metadata, Mapping):
        raise ConfigError(
            f"extra_metadata is {extra_metadata!r}; use a dict of texts", extra_metadata=str(extra_metadata)
        )
    return tuple((str(key), str(text)) for key, text in sorted((extra_metadata or {}).items()))


def _is_archived(reader: TableReader, timeline: Timeline, partition: str) -> bool:
    """Did a commit older than the active timeline make the partition, and are there files of it?"""
    folder = f"{reader.base_path}/{partition}" if partition else reader.base_path
    try:
        text = reader.storage.read(f"{folder}/.hoodie_partition_metadata").decode("latin-1")
    except FileNotFoundError:
        return False
    made = re.search(r"^commitTime=(\d+)", text, re.MULTILINE)
    if made is None or not timeline.is_committed(made[1]):
        return False
    return any(not name.lstrip(".").startswith("hoodie") for name in reader.storage.names(folder))


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
