"""When a clustering is due, and which partitions and file slices go into its plan, in which groups.

As Apache Hudi 0.15.0: ClusteringPlanActionExecutor for the first, PartitionAwareClusteringPlanStrategy,
SparkSizeBasedClusteringPlanStrategy and ClusteringPlanPartitionFilter for the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.services.clustering.settings import (
    ASYNC,
    ASYNC_MAX_COMMITS,
    BEGIN,
    END,
    FILTER,
    INLINE,
    INLINE_MAX_COMMITS,
    LOOKBACK,
    MAX_GROUP_BYTES,
    MAX_GROUPS,
    REGEX,
    ROLLBACK_ON_CONFLICT,
    SCHEDULE_INLINE,
    SELECTED,
    SINGLE_GROUP,
    SKIP_LATEST,
    SMALL_FILE_LIMIT,
    STRATEGY,
    TARGET_BYTES,
    UPDATES,
    Partitions,
    Strategy,
    Updates,
)
from hoodie.storage import Storage
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, Kind
from hoodie.timeline.models.clustering import ClusteringGroup, SliceInfo
from hoodie.timeline.models.compaction import (
    TOTAL_IO_MB,
    TOTAL_IO_READ_MB,
    TOTAL_IO_WRITE_MB,
    TOTAL_LOG_FILES,
    TOTAL_LOG_FILES_SIZE,
)

_MEGABYTE = 1 << 20


def rolls_back(config: Config) -> bool:
    """May a write roll pending clusterings back?"""
    allowed = config[UPDATES] is Updates.ALLOW or not config.given(UPDATES)
    return config[ROLLBACK_ON_CONFLICT] and allowed


def candidates(partitions: Sequence[str], config: Config, hour: int | None = None) -> list[str]:
    """The partitions that have to be listed, in the order in which they fill a plan.

    `hour`, 0 to 23, is that of DAY_ROLLING; None: the one it is now.
    """
    chosen_by_name: tuple[str, ...] = config[SELECTED]
    chosen = list(chosen_by_name) or sorted(partitions)
    regex = config[REGEX]
    if regex and not chosen_by_name:
        pattern = re.compile(regex)
        chosen = [partition for partition in chosen if pattern.fullmatch(partition)]
    mode, skipped = _filter(config), config[SKIP_LATEST]
    if mode is Partitions.SELECTED_PARTITIONS:
        begin, end = config[BEGIN], config[END]
        chosen = [item for item in chosen if begin is None or item >= begin]
        chosen = [item for item in chosen if end is None or item <= end]
    elif mode is Partitions.RECENT_DAYS:
        newest = sorted(chosen, reverse=True)[skipped:]
        chosen = newest[: config[LOOKBACK] or len(newest)]
    elif mode is Partitions.DAY_ROLLING:
        now = datetime.now().hour if hour is None else hour
        chosen = [item for number, item in enumerate(sorted(chosen)) if number % 24 == now]
    elif skipped:
        latest = set(sorted(chosen, reverse=True)[:skipped])
        chosen = [item for item in chosen if item not in latest]
    return chosen


def _filter(config: Config) -> Partitions:
    """Strategies of older releases are filters of partitions today."""
    strategy = config[STRATEGY]
    if strategy is Strategy.RECENT_DAYS:
        return Partitions.RECENT_DAYS
    if strategy is Strategy.SELECTED_PARTITIONS:
        return Partitions.SELECTED_PARTITIONS
    mode: Partitions = config[FILTER]
    return mode


def eligible(file_slice: FileSlice, config: Config) -> bool:
    """Whether the slice is small; a slice of logs only is."""
    size = file_slice.base.size if file_slice.base else 0
    return bool(file_slice.base or file_slice.logs) and size < config[SMALL_FILE_LIMIT]


def groups(
    slices: Sequence[FileSlice], config: Config, settled: Callable[[Sequence[FileSlice], int], bool]
) -> list[ClusteringGroup]:
    """The eligible slices of one partition in groups, the largest first.

    `settled` is called with each group and the number of files that it would become: a group that rewriting
    would not change is left out.
    """
    if config[STRATEGY] is Strategy.SINGLE_FILE:
        return [group([item], 1, config) for item in slices if not settled([item], 1)][: config[MAX_GROUPS]]
    found: list[list[FileSlice]] = []
    current: list[FileSlice] = []
    held = 0
    for item in sorted(slices, key=lambda item: -_size(item, config)):
        size = _size(item, config)
        if current and held + size > config[MAX_GROUP_BYTES]:
            found.append(current)
            current, held = [], 0
        current.append(item)
        held += size
    if len(current) > 1 or (current and config[SINGLE_GROUP]):
        found.append(current)
    out = []
    for chosen in found:
        outputs = math.ceil(sum(_size(item, config) for item in chosen) / config[TARGET_BYTES])
        if not settled(chosen, outputs):
            out.append(group(chosen, outputs, config))
    return out[: config[MAX_GROUPS]]


def _size(file_slice: FileSlice, config: Config) -> int:
    """Bytes of its base file; a slice of logs only may become a whole one."""
    return file_slice.base.size if file_slice.base else config[MAX_FILE_SIZE]


def group(slices: Sequence[FileSlice], outputs: int, config: Config) -> ClusteringGroup:
    """Slices to be rewritten into so many files, with Apache Hudi's metrics (whole MB)."""
    base = sum(item.base.size for item in slices if item.base)
    logs = [log.size for item in slices for log in item.logs]
    read = (base + sum(logs)) // _MEGABYTE
    written = sum(_size(item, config) for item in slices) // _MEGABYTE
    metrics = {
        TOTAL_IO_READ_MB: read,
        TOTAL_IO_WRITE_MB: written,
        TOTAL_IO_MB: read + written,
        TOTAL_LOG_FILES_SIZE: sum(logs),
        TOTAL_LOG_FILES: len(logs),
    }
    return ClusteringGroup(
        tuple(_info(item) for item in slices),
        max(1, outputs),
        {name: float(value) for name, value in metrics.items()},
    )


def _info(item: FileSlice) -> SliceInfo:
    return SliceInfo(
        partition_path=item.partition,
        file_id=item.file_id,
        data_file=_uri(item.base.path) if item.base else "",
        log_files=tuple(_uri(log.path) for log in item.logs),
    )


def _uri(path: str) -> str:
    """With a scheme: a Hadoop whose default file system is another one would not find the file."""
    return f"file:{path}" if path.startswith("/") else path


@dataclass(frozen=True)
class Due:
    """Whether a clustering is due, and the numbers behind the answer, for people."""

    due: bool
    reason: str


def check(config: Config) -> None:
    """Raises ConfigError where the settings ask a write to schedule only, and to run what it schedules."""
    if config[INLINE] and config[SCHEDULE_INLINE]:
        raise ConfigError(
            f"{INLINE.name} and {SCHEDULE_INLINE.name} are both true: the first runs what is scheduled, the "
            "second leaves that to another job. Set one of them to false",
            **{INLINE.name: True, SCHEDULE_INLINE.name: True},
        )


def due(timeline: Timeline, storage: Storage, config: Config) -> Due:
    """Whether a clustering is due. Only inline and async ones wait for commits, and those whose settings have
    a number of them.
    """
    last = last_clustering(timeline, storage)
    since = last.time if last else ""
    commits = len(timeline.after(since, timeline.commits()))
    for switch, wanted in ((INLINE, INLINE_MAX_COMMITS), (ASYNC, ASYNC_MAX_COMMITS)):
        if (config[switch] or config.given(wanted)) and commits < config[wanted]:
            after = f"since {since}" if since else "so far"
            return Due(False, f"{commits} of {config[wanted]} commits {after} ({wanted.name})")
    if not commits and not since:
        return Due(False, "the table has no commits")
    return Due(True, f"{commits} commits since {since}" if since else f"{commits} commits, never clustered")


def last_clustering(timeline: Timeline, storage: Storage) -> Instant | None:
    """The newest clustering, in whatever state."""
    for instant in reversed(timeline.filter([Action.REPLACECOMMIT, Action.CLUSTERING])):
        if timeline.kind(instant, storage) is Kind.CLUSTERING:
            return instant
    return None
