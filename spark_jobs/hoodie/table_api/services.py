"""The services of a table as methods: each one calls its function of `hoodie.service_api`.

Parameters that all of them have: `options` are settings over those of the table object. With `dry_run` the
result says what would be done, and nothing is changed. `progress` is called with lines about the work. All of
them raise HoodieError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodie import service_api
from hoodie.progress import ProgressCallback
from hoodie.shown import Records
from hoodie.table_api.access import TableAccess

if TYPE_CHECKING:
    from hoodie.services.archive.run import ArchiveResult
    from hoodie.services.clean.run import CleanResult
    from hoodie.services.clustering.run import ClusteringResult
    from hoodie.services.compaction.run import CompactionResult
    from hoodie.services.index.run import IndexResult
    from hoodie.services.planner.run import ServicesPlan, ServicesResult
    from hoodie.services.restore.run import RestoreResult
    from hoodie.services.rollback.run import CancelResult, RollbackResult
    from hoodie.services.savepoint.run import SavepointResult
    from hoodie.services.sync.run import SyncResult
    from hoodie.services.ttl.result import TtlResult
    from hoodie.services.upgrade.run import VersionResult
    from hoodie.table.checkup import Finding

_Options = Mapping[str, Any] | None


class TableServices(TableAccess):
    def compact(
        self,
        *,
        mode: str = "run",
        instant: str | None = None,
        options: _Options = None,
        extra_metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> CompactionResult:
        """Merge the logs of a merge-on-read table into base files (`hoodie.compact_table`)."""
        return service_api.compact_table(
            self._path,
            mode=mode,
            instant=instant,
            options=self._options(options),
            extra_metadata=extra_metadata,
            spark=self._session,
            dry_run=dry_run,
            progress=progress,
        )

    def log_compact(
        self,
        *,
        mode: str = "run",
        instant: str | None = None,
        options: _Options = None,
        extra_metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> CompactionResult:
        """Merge the logs of each file slice into one log (`hoodie.log_compact_table`)."""
        return service_api.log_compact_table(
            self._path,
            mode=mode,
            instant=instant,
            options=self._options(options),
            extra_metadata=extra_metadata,
            spark=self._session,
            dry_run=dry_run,
            progress=progress,
        )

    def cluster(
        self,
        *,
        mode: str = "run",
        instant: str | None = None,
        options: _Options = None,
        extra_metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> ClusteringResult:
        """Rewrite small files into larger ones, sorted as the settings say (`hoodie.cluster_table`)."""
        return service_api.cluster_table(
            self._path,
            mode=mode,
            instant=instant,
            options=self._options(options),
            extra_metadata=extra_metadata,
            spark=self._session,
            dry_run=dry_run,
            progress=progress,
        )

    def clean(
        self,
        *,
        mode: str = "run",
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> CleanResult:
        """Delete file slices that are older than what the settings retain (`hoodie.clean_table`)."""
        return service_api.clean_table(
            self._path, mode=mode, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def archive(
        self,
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> ArchiveResult:
        """Move old instants into the archived timeline (`hoodie.archive_table`)."""
        return service_api.archive_table(
            self._path, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def rollback(
        self,
        instant: str,
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RollbackResult:
        """Roll one instant back (`hoodie.rollback_table`)."""
        return service_api.rollback_table(
            self._path, instant, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def cancel_plan(
        self,
        instant: str,
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> CancelResult:
        """Take a pending plan off the timeline (`hoodie.cancel_plan`)."""
        return service_api.cancel_plan(
            self._path, instant, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def savepoint(
        self,
        instant: str | None = None,
        *,
        user: str = "",
        comments: str = "",
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> SavepointResult:
        """Retain the files of a commit, the newest by default (`hoodie.savepoint_table`)."""
        return service_api.savepoint_table(
            self._path,
            instant,
            user=user,
            comments=comments,
            options=self._options(options),
            dry_run=dry_run,
            progress=progress,
        )

    def delete_savepoint(
        self,
        instant: str,
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> SavepointResult:
        """Leave the files of a savepoint to the cleaner (`hoodie.delete_savepoint`)."""
        return service_api.delete_savepoint(
            self._path, instant, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def restore(
        self,
        instant: str,
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RestoreResult:
        """Take the table back to a savepoint or a commit (`hoodie.restore_table`)."""
        return service_api.restore_table(
            self._path, instant, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def expire_partitions(
        self,
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> TtlResult:
        """Delete partitions that are older than the settings retain (`hoodie.expire_partitions`)."""
        return service_api.expire_partitions(
            self._path, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def create_index(
        self,
        indexes: str | Sequence[str],
        *,
        column: str | None = None,
        using: str | None = None,
        expression: str | None = None,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> IndexResult:
        """Make indexes of the metadata table, or with `column` one of this name (`hoodie.index_table`)."""
        return service_api.index_table(
            self._path,
            "create",
            indexes,
            column=column,
            using=using,
            expression=expression,
            options=self._options(options),
            dry_run=dry_run,
            progress=progress,
        )

    def drop_index(
        self,
        indexes: str | Sequence[str],
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> IndexResult:
        """Remove indexes, with `files` the whole metadata table (`hoodie.index_table`)."""
        return service_api.index_table(
            self._path, "drop", indexes, options=self._options(options), dry_run=dry_run, progress=progress
        )

    def indexes(self) -> IndexResult:
        """The indexes that the table has; reads only (`hoodie.index_table`)."""
        return service_api.index_table(self._path, "show", options=self._options())

    def sync(
        self,
        metastore: str | None = None,
        database: str | None = None,
        *,
        options: _Options = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> SyncResult:
        """Enter the table in Hive's metastore or AWS Glue (`hoodie.sync_table`)."""
        return service_api.sync_table(
            self._path,
            metastore,
            database,
            options=self._options(options),
            dry_run=dry_run,
            progress=progress,
        )

    def upgrade(
        self,
        to: int | str,
        *,
        options: _Options = None,
        extra_metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> VersionResult:
        """Change the table version to a later one (`hoodie.upgrade_table`)."""
        return service_api.upgrade_table(
            self._path,
            str(to),
            options=self._options(options),
            extra_metadata=extra_metadata,
            spark=self._session,
            dry_run=dry_run,
            progress=progress,
        )

    def downgrade(
        self,
        to: int | str,
        *,
        options: _Options = None,
        extra_metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> VersionResult:
        """Change the table version to an earlier one (`hoodie.downgrade_table`)."""
        return service_api.downgrade_table(
            self._path,
            str(to),
            options=self._options(options),
            extra_metadata=extra_metadata,
            spark=self._session,
            dry_run=dry_run,
            progress=progress,
        )

    def plan_services(self, *, only: Sequence[str] | None = None, options: _Options = None) -> ServicesPlan:
        """Which services the table needs now; reads only (`hoodie.plan_services`)."""
        return service_api.plan_services(self._path, only=only, options=self._options(options))

    def run_services(
        self,
        *,
        only: Sequence[str] | None = None,
        options: _Options = None,
        extra_metadata: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> ServicesResult:
        """Run every service that is due (`hoodie.run_services`)."""
        return service_api.run_services(
            self._path,
            only=only,
            options=self._options(options),
            extra_metadata=extra_metadata,
            spark=self._session,
            dry_run=dry_run,
            progress=progress,
        )

    def doctor(self, *, deep: bool = False) -> Records[Finding]:
        """Findings about the table, as of `hoodie doctor`. Raises nothing: what can't be read is a finding.
        `deep` reads every data file.
        """
        from hoodie.table.doctor import check_table

        return Records(check_table(self._path, deep, self._options()))
