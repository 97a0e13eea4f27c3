"""The table a service works on and its settings, with the check of the cleaner's against the archiver's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.concurrency.gate import check_concurrency, is_optimistic
from hoodie.config import versions
from hoodie.config.key import Config
from hoodie.errors import CommitConflict, ConfigError
from hoodie.hooks import HookContext, Hooks
from hoodie.progress import ProgressCallback, silent
from hoodie.services.archive.settings import MAX_COMMITS, MIN_COMMITS
from hoodie.services.clean.settings import COMMITS_RETAINED, POLICY, Policy
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.pending import BusyGroups, changing_groups
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import InstantTime
from hoodie.write.operation import check_extra
from hoodie.write.table_options import merged
from hoodie.write.transaction import Transaction


@dataclass(frozen=True)
class ServiceTable:
    """`config` has the settings of the request and those that the table keeps; `extra` is for the commits'
    metadata. `transactions`: those of this service, in their order; `warnings`: those of hooks.
    """

    table: Table
    config: Config
    extra: Mapping[str, str] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        place: str | Table,
        options: Mapping[str, Any],
        extra_metadata: Mapping[str, str] | None = None,
        *,
        dry_run: bool = False,
        reads: bool = False,
    ) -> ServiceTable:
        """The table at a path, or one that is open, of which nothing is read twice.

        `dry_run` plans for a table that is read only, with a warning that no service runs there; `reads`: the
        service never changes the table. Raises ConfigError for wrong settings, TableMismatch where they
        contradict it, UnsupportedVersion for any other service of a table that is read only, TableError.
        """
        check_extra(extra_metadata or {})
        given = Config.of(options)
        table = place if isinstance(place, Table) else Table.open(place, given)
        warnings: list[str] = []
        if dry_run and not versions.is_writable(table.properties.version):
            warnings.append(
                f"table version {table.properties.version} is served by Apache Hudi alone: run there what is "
                "due. The plan goes by the settings of this call and of the table"
            )
        elif not reads:
            table.for_writing()
        config = merged(given, table.properties)
        check_concurrency(table, config)
        return cls(table, config, dict(extra_metadata or {}), warnings=warnings)

    @property
    def storage(self) -> Storage:
        return self.table.storage

    @property
    def base_path(self) -> str:
        return self.table.base_path

    @property
    def props(self) -> TableProperties:
        return self.table.properties

    def timeline(self) -> Timeline:
        """The timeline as it is now. `table.timeline` is the one listed last, for an inline service by the
        write, after its commit.
        """
        return self.table.refresh()

    @contextlib.contextmanager
    def transaction(self, progress: ProgressCallback = silent) -> Iterator[Transaction]:
        """A transaction of this service; the result reports what it repairs. The hooks run once it is left
        without an error.
        """
        made = Transaction(
            self.table, self.config, self.props.timeline_utc, progress=progress, extra=self.extra
        )
        hooks = Hooks()
        made.on_publish(hooks.announcer(self.config))
        self.transactions.append(made)
        with made:
            yield made
        context = HookContext(config=self.config, engine=None, progress=progress)
        self.warnings.extend(hooks.run(made.events, context))

    def planned(self, instant: Instant, service: str) -> bytes:
        """The requested file of a pending plan. Raises ConflictError where another process has rolled the
        plan back or completed it since the listing, and TableError where the file alone is lost.
        """
        try:
            return self.table.timeline.plan(instant, self.storage)
        except FileNotFoundError:
            raise CommitConflict(
                f"{service} {instant.time} was completed or rolled back by another process; run it again",
                instant=instant.time,
            ) from None

    def changing_groups(self, timeline: Timeline) -> BusyGroups:
        """The file groups that writers beside this service change now: a plan leaves them out. None with one
        writer at a time, which is waited for.
        """
        return changing_groups(timeline, self.storage) if is_optimistic(self.config) else {}

    def next_time(self, timeline: Timeline) -> InstantTime:
        """A new instant, later than all on the timeline."""
        return new_instant_time(timeline.last_time, self.props.timeline_utc)


def check_retention(config: Config) -> None:
    """Raises ConfigError unless cleaner.commits.retained <= keep.min.commits < keep.max.commits.

    Commits that are archived before their old files were cleaned can't be read incrementally although their
    files are there; and the archiver needs room between its two limits.
    """
    least, most = config[MIN_COMMITS], config[MAX_COMMITS]
    if least >= most:
        raise ConfigError(
            f"{MIN_COMMITS.name}={least} must be less than {MAX_COMMITS.name}={most}: beyond {most} commits "
            f"the oldest are archived until {least} are left. Raise {MAX_COMMITS.name}",
            **{MIN_COMMITS.name: least, MAX_COMMITS.name: most},
        )
    kept = config[COMMITS_RETAINED]
    if config[POLICY] is Policy.KEEP_LATEST_COMMITS and kept > least:
        raise ConfigError(
            f"{COMMITS_RETAINED.name}={kept} must be at most {MIN_COMMITS.name}={least}: commits would be "
            f"archived whose files are still kept for queries. Raise {MIN_COMMITS.name} and, if it is less "
            f"than {kept + 1}, {MAX_COMMITS.name}",
            **{COMMITS_RETAINED.name: kept, MIN_COMMITS.name: least},
        )
