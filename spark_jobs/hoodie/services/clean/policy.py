"""How much of a table's past the cleaner keeps, counted as Apache Hudi 0.15.0 does (CleanerUtils)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.config.key import Config
from hoodie.services.clean.settings import COMMITS_RETAINED, HOURS_RETAINED, POLICY, VERSIONS_RETAINED, Policy
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant

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
