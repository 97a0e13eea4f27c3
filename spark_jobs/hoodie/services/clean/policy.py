"""How much of a table's past the cleaner keeps, counted as Apache Hudi 0.15.0 does (CleanerUtils)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hoodie.config.key import Config, bool_key, enum_key, int_key
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant


class Policy(enum.Enum):
    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


AUTOMATIC = bool_key(
    "hoodie.clean.automatic",
    True,
    "After each write delete file slices that are older than what is kept. What fails there is a warning of "
    "the write, which stays.",
    group="clean",
)
MAX_COMMITS = int_key(
    "hoodie.clean.max.commits",
    1,
    "Commits since the last clean that make the next one due; 0: it always is.",
    minimum=0,
    aliases=("hoodie.clean.trigger.max.commits",),
    group="clean",
)
POLICY = enum_key(
    "hoodie.cleaner.policy",
    Policy.KEEP_LATEST_COMMITS,
    "What is kept: all that queries as of the last commits or hours need, or a number of versions of each "
    "file group (the files of replaced file groups then go at once).",
    aliases=("hoodie.clean.policy",),
    group="clean",
)
COMMITS_RETAINED = int_key(
    "hoodie.cleaner.commits.retained",
    10,
    "KEEP_LATEST_COMMITS: so many of the newest commits can be read as of their time, and incrementally.",
    minimum=1,
    aliases=("hoodie.clean.commits.retained",),
    group="clean",
)
VERSIONS_RETAINED = int_key(
    "hoodie.cleaner.fileversions.retained",
    3,
    "KEEP_LATEST_FILE_VERSIONS: so many of the newest slices of each file group.",
    minimum=1,
    aliases=("hoodie.clean.fileversions.retained",),
    group="clean",
)
HOURS_RETAINED = int_key(
    "hoodie.cleaner.hours.retained",
    24,
    "KEEP_LATEST_BY_HOURS: commits of so many hours can be read as of their time, and incrementally.",
    minimum=1,
    aliases=("hoodie.clean.hours.retained",),
    group="clean",
)
INCREMENTAL = bool_key(
    "hoodie.cleaner.incremental.mode",
    True,
    "Look only into partitions that commits changed since what the last clean kept, instead of all.",
    aliases=("hoodie.clean.incremental.enabled",),
    group="clean",
)

_HOUR_MS = 3_600_000
_COUNTED = frozenset({*COMMIT_ACTIONS, Action.COMPACTION})


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
        """The commit from which on every state is kept; None when nothing may go, and for versions.

        It is never later than the last commit before a write or service that is still pending: what that one
        reads, and a query of the state it began with, stay.
        """
        commits = timeline.commits()
        if self.by_versions:
            return None
        if self.policy is Policy.KEEP_LATEST_COMMITS:
            found = commits[-self.commits] if len(commits) > self.commits else None
        else:
            bound = format_millis(self.now_ms - self.hours * _HOUR_MS, self.utc)
            found = next((instant for instant in commits if instant.time >= bound), None)
        if found is None:
            return None
        pending = next((item.time for item in timeline.filter(_COUNTED, completed=False)), None)
        if pending is None or found.time <= pending:
            return found
        before = [instant for instant in commits if instant.time < pending]
        return before[-1] if before else None

    @property
    def text(self) -> str:
        """For people: what is kept, and by which setting."""
        if self.policy is Policy.KEEP_LATEST_COMMITS:
            return f"the newest {self.commits} commits are kept ({COMMITS_RETAINED.name})"
        if self.policy is Policy.KEEP_LATEST_BY_HOURS:
            return f"the commits of {self.hours} hours are kept ({HOURS_RETAINED.name})"
        return f"the newest {self.versions} versions of each file group are kept ({VERSIONS_RETAINED.name})"
