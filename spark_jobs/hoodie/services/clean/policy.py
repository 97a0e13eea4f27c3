"""How much of a table's past the cleaner retains, counted as Apache Hudi 0.15.0 does (CleanerUtils).

- A clean that finds nothing to delete leaves no instant. The next one would search all partitions again,
  after every commit to a table that only grows.
- So `.hoodie/.aux/airflow-examined.json` has the commit up to which a clean found nothing. The next clean
  searches only where later commits wrote.
- Readers of the format ignore the file. If it is missing or damaged, all partitions are searched. If it has
  a later commit than it should, old files stay.
- The files that pending cleans will delete are read here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from hoodie.config.key import Config
from hoodie.errors import TableError
from hoodie.format.names import join
from hoodie.services.clean.settings import COMMITS_RETAINED, HOURS_RETAINED, POLICY, VERSIONS_RETAINED, Policy
from hoodie.storage import Storage
from hoodie.timeline.active import Timeline, meta_path
from hoodie.timeline.clock import format_millis
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.models.clean import CleanPlan
from hoodie.timeline.time import InstantTime

_HOUR_MS = 3_600_000
_COUNTED = frozenset({*COMMIT_ACTIONS, Action.COMPACTION, Action.CLUSTERING})


@dataclass(frozen=True)
class Retention:
    """What `config` asks to be kept. `now_ms` is the time of planning, in epoch milliseconds."""

    policy: Policy
    commits: int
    versions: int
    hours: int
    now_ms: int
    utc: bool

    @classmethod
    def of(cls, config: Config, now_ms: int, utc: bool) -> Retention:
        return cls(
            config[POLICY],
            config[COMMITS_RETAINED],
            config[VERSIONS_RETAINED],
            config[HOURS_RETAINED],
            now_ms,
            utc,
        )

    @property
    def by_versions(self) -> bool:
        return self.policy is Policy.KEEP_LATEST_FILE_VERSIONS

    def earliest(self, timeline: Timeline) -> Instant | None:
        """The commit from which on every state is kept; None when nothing may be deleted, and for the policy
        by versions.

        It is never later than the last commit before a write or service that is still pending: what that
        reads, and what a query of the state before it reads, is kept.
        """
        commits = timeline.commits()
        if self.by_versions:
            return None
        if self.policy is Policy.KEEP_LATEST_COMMITS:
            found = commits[-self.commits] if len(commits) > self.commits else None
        else:
            bound = format_millis(self.now_ms - self.hours * _HOUR_MS, self.utc)
            found = next((instant for instant in commits if not instant.is_before(bound)), None)
        if found is None:
            return None
        pending = next((item.time for item in timeline.filter(_COUNTED, completed=False)), None)
        if pending is None or not found.is_after(pending):
            return found
        before = timeline.before(pending, commits)
        return before[-1] if before else None

    @property
    def text(self) -> str:
        """For people: what is kept, and by which setting."""
        if self.policy is Policy.KEEP_LATEST_COMMITS:
            return f"the newest {self.commits} commits are kept ({COMMITS_RETAINED.name})"
        if self.policy is Policy.KEEP_LATEST_BY_HOURS:
            return f"the commits of {self.hours} hours are kept ({HOURS_RETAINED.name})"
        return f"the newest {self.versions} versions of each file group are kept ({VERSIONS_RETAINED.name})"


_NAME = "airflow-examined.json"


@dataclass(frozen=True)
class Examined:
    """Nothing that commits before `earliest` left behind can be deleted, as long as these savepoints stay."""

    earliest: InstantTime
    savepoints: tuple[str, ...]

    @classmethod
    def read(cls, storage: Storage, base_path: str) -> Examined | None:
        """None where nothing is known."""
        try:
            value = json.loads(storage.read(join(_folder(base_path), _NAME)))
            earliest, savepoints = value["earliest"], value["savepoints"]
            if isinstance(earliest, str) and isinstance(savepoints, list):
                return cls(InstantTime(earliest), tuple(map(str, savepoints)))
        except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
            pass
        return None

    def save(self, storage: Storage, base_path: str) -> None:
        """Replaces the file at once. Its folder is swept here: such a clean does not take the table, and so
        leaves nothing by which the next write would know that it was killed.
        """
        value = {"earliest": self.earliest, "savepoints": list(self.savepoints)}
        storage.sweep_partial(_folder(base_path), of=_NAME)
        storage.write(join(_folder(base_path), _NAME), json.dumps(value).encode())


def _folder(base_path: str) -> str:
    return f"{meta_path(base_path)}/.aux"


def pending_plans(timeline: Timeline, storage: Storage) -> Iterator[tuple[Instant, CleanPlan]]:
    """The plans of pending cleans; without those that were cut while they were written, which do nothing."""
    for instant in timeline.filter([Action.CLEAN], completed=False):
        try:
            yield instant, CleanPlan.from_bytes(timeline.plan(instant, storage))
        except (FileNotFoundError, TableError):
            if instant.state is not State.REQUESTED:
                raise


def pending_files(timeline: Timeline, storage: Storage) -> Iterator[tuple[str, str, str]]:
    """(partition, file name, time of the clean) of every file that a pending clean will delete."""
    for instant, plan in pending_plans(timeline, storage):
        for partition, file in plan:
            yield partition, file.name, instant.time
