"""Services that a write runs after its commit, as its settings ask."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from hoodie.config.key import Config
from hoodie.engine import Engine
from hoodie.errors import HoodieError, ServiceError
from hoodie.hooks import CommitEvent, HookContext, PostCommitHook, WriteEvent
from hoodie.progress import ProgressCallback
from hoodie.services.archive.run import archive
from hoodie.services.archive.settings import AUTOMATIC as ARCHIVE
from hoodie.services.clean.run import clean
from hoodie.services.clean.settings import AUTOMATIC as CLEAN
from hoodie.services.clustering.settings import ASYNC as ASYNC_CLUSTER
from hoodie.services.clustering.settings import INLINE as CLUSTER
from hoodie.services.clustering.settings import SCHEDULE_INLINE as SCHEDULE_CLUSTER
from hoodie.services.clustering.strategy import check as check_clustering
from hoodie.services.compaction.settings import INLINE, LOG_INLINE, SCHEDULE_INLINE
from hoodie.services.request import PlannedRequest, Request, RewriteRequest
from hoodie.services.service_table import ServiceTable, check_retention
from hoodie.services.settings import ENABLED, FAIL
from hoodie.table.handle import Table
from hoodie.table.properties import TableType
from hoodie.write.settings import MAX_AMPLIFICATION, TABLE_TYPE


def check_services(config: Config) -> None:
    """Raises ConfigError for settings of services that contradict one another, before anything is written."""
    check_retention(config)
    check_clustering(config)


class InlineServices(PostCommitHook):
    """Clean, archive, compact, compact logs and cluster as the settings ask for, in the order of Apache Hudi.

    The first of them begins with the timeline that the write listed last. Failures come back as warnings, or
    are raised as ServiceError, if the settings ask for that.
    """

    name = "the inline services"

    def wants(self, config: Config, event: CommitEvent) -> bool:
        return isinstance(event, WriteEvent) and bool(config[ENABLED])

    def run(self, event: CommitEvent, context: HookContext) -> list[str]:
        assert context.engine is not None
        config, instant = context.config, event.instant.time
        failures: list[str] = []
        warnings = _run(context.engine, event.table, config, context.progress, failures)
        if config[FAIL] and failures:
            raise ServiceError(
                f"the rows are committed at {instant}, don't write them again; {'; '.join(failures)}. With "
                f"{FAIL.name}=false this is a warning",
                path=event.table.base_path,
                instant=instant,
                setting=FAIL.name,
            )
        return [warning for warning in dict.fromkeys(warnings) if warning not in config.warnings]


def _run(
    engine: Engine,
    table: Table,
    config: Config,
    progress: ProgressCallback,
    failures: list[str],
) -> list[str]:
    """Warnings of the services; those that failed are among the `failures`, too."""
    warnings: list[str] = []
    if config[CLEAN]:
        warnings += _warnings(failures, "clean", "hoodie clean", lambda: _clean(table, config, progress))
    if config[ARCHIVE]:
        warnings += _warnings(
            failures,
            "archiving",
            "hoodie archive",
            lambda: archive(Request(table=table, options=config.texts, progress=progress)).warnings,
        )
    if config[TABLE_TYPE] is TableType.MERGE_ON_READ and (config[INLINE] or config[SCHEDULE_INLINE]):
        mode = "run" if config[INLINE] and not config[MAX_AMPLIFICATION] else "schedule"
        remedy = "hoodie compact" if mode == "run" else "hoodie compact --mode schedule"
        warnings += _warnings(
            failures, "compaction", remedy, lambda: _compact(engine, table, mode, config, progress)
        )
    if config[TABLE_TYPE] is TableType.MERGE_ON_READ and config[LOG_INLINE]:
        warnings += _warnings(
            failures,
            "log compaction",
            "hoodie log-compact",
            lambda: _compact_logs(engine, table, config, progress),
        )
    mode = (
        "run" if config[CLUSTER] else "schedule" if config[SCHEDULE_CLUSTER] or config[ASYNC_CLUSTER] else ""
    )
    if mode:
        warnings += _warnings(
            failures,
            "clustering",
            "hoodie cluster" if mode == "run" else "hoodie cluster --mode schedule",
            lambda: _cluster(engine, table, mode, config, progress),
        )
    return warnings


def _clean(table: Table, config: Config, progress: ProgressCallback) -> list[str]:
    result = clean(PlannedRequest(table=table, options=config.texts, progress=progress))
    if not result.failed:
        return result.warnings
    failed = f"{len(result.failed)} old files could not be deleted, such as {result.failed[0]}"
    return [*result.warnings, f"{failed}; the next clean tries again"]


def _compact(
    engine: Engine, table: Table, mode: str, config: Config, progress: ProgressCallback
) -> list[str]:
    from hoodie.services.compaction.execute import pending
    from hoodie.services.compaction.run import compact

    if mode == "schedule" and pending(table.refresh()):
        return []
    result = compact(
        RewriteRequest(table=table, mode=mode, options=config.texts, progress=progress, engine=lambda: engine)
    )
    if not (config[INLINE] and mode == "schedule" and result.scheduled):
        return result.warnings
    left = f"compaction {result.scheduled} is scheduled and left to another job ({MAX_AMPLIFICATION.name})"
    return [*result.warnings, f"{left}; run `hoodie compact --mode execute`"]


def _compact_logs(engine: Engine, table: Table, config: Config, progress: ProgressCallback) -> list[str]:
    from hoodie.services.log_compaction.run import compact_logs

    return compact_logs(
        RewriteRequest(table=table, options=config.texts, progress=progress, engine=lambda: engine)
    ).warnings


def _cluster(
    engine: Engine, table: Table, mode: str, config: Config, progress: ProgressCallback
) -> list[str]:
    from hoodie.services.clustering.run import cluster, pending

    if mode == "schedule":
        target = ServiceTable.open(table, config.texts)
        if pending(target.timeline(), target):
            return []
    return cluster(
        RewriteRequest(table=table, mode=mode, options=config.texts, progress=progress, engine=lambda: engine)
    ).warnings


def _warnings(failures: list[str], what: str, remedy: str, run: Callable[[], list[str]]) -> list[str]:
    """The service's own warnings, or the one that it failed."""
    try:
        return run()
    except (HoodieError, OSError) as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  whatever it is, the rows are committed
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
    failures.append(f"the inline {what} failed: {reason} ({remedy} repeats it)")
    return [f"the rows are committed, but {failures[-1]}"]
