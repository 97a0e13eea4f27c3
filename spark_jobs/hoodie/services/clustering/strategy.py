"""Which partitions and file slices go into a clustering plan, and in which groups (Apache Hudi 0.15.0:
PartitionAwareClusteringPlanStrategy, SparkSizeBasedClusteringPlanStrategy, ClusteringPlanPartitionFilter).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime

from hoodie.config.key import Config
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.services.clustering.settings import (
    BEGIN,
    END,
    FILTER,
    LOOKBACK,
    MAX_GROUP_BYTES,
    MAX_GROUPS,
    REGEX,
    ROLLBACK_ON_CONFLICT,
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
from hoodie.table.view import FileSlice
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
