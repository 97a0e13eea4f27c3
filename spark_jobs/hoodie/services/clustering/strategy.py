"""Which partitions and file slices go into a clustering plan, and in which groups (Apache Hudi 0.15.0:
PartitionAwareClusteringPlanStrategy, SparkSizeBasedClusteringPlanStrategy, ClusteringPlanPartitionFilter).
"""

from __future__ import annotations

import difflib
import enum
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from hoodie.config.key import Config, Key, bool_key, enum_key, int_key, paths_key
from hoodie.format.base_file import MAX_FILE_SIZE
from hoodie.table.view import FileSlice
from hoodie.timeline.clustering_plan import ClusteringGroup, SliceInfo
from hoodie.timeline.compaction_plan import (
    TOTAL_IO_MB,
    TOTAL_IO_READ_MB,
    TOTAL_IO_WRITE_MB,
    TOTAL_LOG_FILES,
    TOTAL_LOG_FILES_SIZE,
)


class Strategy(enum.Enum):
    SIZE_BASED = "size_based"
    RECENT_DAYS = "recent_days"
    SELECTED_PARTITIONS = "selected_partitions"
    SINGLE_FILE = "single_file"


class Partitions(enum.Enum):
    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


class Execution(enum.Enum):
    SORT_AND_SIZE = "sort_and_size"


class Updates(enum.Enum):
    REJECT = "reject"
    ALLOW = "allow"


_PLANS = "org.apache.hudi.client.clustering.plan.strategy."
_RUNS = "org.apache.hudi.client.clustering.run.strategy."
_UPDATES = "org.apache.hudi.client.clustering.update.strategy."
#: what we put into plans, for Apache Hudi to load
EXECUTION_CLASS = _RUNS + "SparkSortAndSizeExecutionStrategy"

_PLAN_CLASSES = {
    _PLANS + "SparkSizeBasedClusteringPlanStrategy": Strategy.SIZE_BASED,
    _PLANS + "JavaSizeBasedClusteringPlanStrategy": Strategy.SIZE_BASED,
    _PLANS + "FlinkSizeBasedClusteringPlanStrategy": Strategy.SIZE_BASED,
    _PLANS + "SparkRecentDaysClusteringPlanStrategy": Strategy.RECENT_DAYS,
    _PLANS + "JavaRecentDaysClusteringPlanStrategy": Strategy.RECENT_DAYS,
    _PLANS + "SparkSelectedPartitionsClusteringPlanStrategy": Strategy.SELECTED_PARTITIONS,
    _PLANS + "SparkSingleFileSortPlanStrategy": Strategy.SINGLE_FILE,
}
_EXECUTION_CLASSES = {
    EXECUTION_CLASS: Execution.SORT_AND_SIZE,
    _RUNS + "JavaSortAndSizeExecutionStrategy": Execution.SORT_AND_SIZE,
    _RUNS + "SparkSingleFileSortExecutionStrategy": Execution.SORT_AND_SIZE,
}
_UPDATE_CLASSES = {
    _UPDATES + "SparkRejectUpdateStrategy": Updates.REJECT,
    _UPDATES + "SparkAllowUpdateStrategy": Updates.ALLOW,
}


def _parser(classes: Mapping[str, enum.Enum]) -> Callable[[str], enum.Enum]:
    """Parser of our short names and Apache Hudi's class names, with or without their package."""
    names = {str(item.value): item for item in set(classes.values())}
    plain = {name.rpartition(".")[2]: item for name, item in classes.items()}
    known = {name.lower(): item for name, item in {**classes, **plain, **names}.items()}
    shown = [*sorted(names), *plain]

    def parse(text: str) -> enum.Enum:
        given = text.strip()
        if given.lower() in known:
            return known[given.lower()]
        near = difflib.get_close_matches(given.rpartition(".")[2], shown, n=1, cutoff=0.4)
        hint = f"; the nearest is {near[0]}" if near else ""
        raise ValueError(f"expected one of {', '.join(shown)}{hint}")

    return parse


def executes(class_name: str | None) -> bool:
    """Can a plan with this execution strategy be executed here?"""
    return not class_name or class_name in _EXECUTION_CLASSES


STRATEGY: Key[enum.Enum] = Key(
    "hoodie.clustering.plan.strategy.class",
    Strategy.SIZE_BASED,
    "What a clustering takes: files below small.file.limit (size_based), also of the newest partitions only "
    "(recent_days) or of a range of them (selected_partitions), or every such file on its own (single_file). "
    "Apache Hudi's class names name the same.",
    _parser(_PLAN_CLASSES),
    group="clustering",
)
EXECUTION: Key[enum.Enum] = Key(
    "hoodie.clustering.execution.strategy.class",
    Execution.SORT_AND_SIZE,
    "How a plan is executed: rows are sorted and cut into files (sort_and_size). Apache Hudi's class names "
    "of such strategies name the same.",
    _parser(_EXECUTION_CLASSES),
    group="clustering",
)
FILTER = enum_key(
    "hoodie.clustering.plan.partition.filter.mode",
    Partitions.NONE,
    "Partitions that a clustering looks at: all (NONE), the newest (RECENT_DAYS), those from begin.partition "
    "to end.partition (SELECTED_PARTITIONS), or every 24th, another set each hour (DAY_ROLLING).",
    group="clustering",
)
_PREFIX = "hoodie.clustering.plan.strategy."
LOOKBACK = int_key(
    _PREFIX + "daybased.lookback.partitions",
    2,
    "Partitions, newest first, that recent_days takes; 0: all.",
    minimum=0,
    group="clustering",
)
SKIP_LATEST = int_key(
    _PREFIX + "daybased.skipfromlatest.partitions",
    0,
    "Newest partitions that are left out, since rows are still written to them; with size_based, too.",
    minimum=0,
    group="clustering",
)
BEGIN: Key[str | None] = Key(
    _PREFIX + "cluster.begin.partition",
    None,
    "First partition that selected_partitions takes.",
    str,
    group="clustering",
)
END: Key[str | None] = Key(
    _PREFIX + "cluster.end.partition",
    None,
    "Last partition that selected_partitions takes.",
    str,
    group="clustering",
)
SELECTED = paths_key(
    _PREFIX + "partition.selected",
    (),
    "Partitions to cluster, instead of all; between commas, blanks belong to them.",
    group="clustering",
)


def _parse_regex(text: str) -> str | None:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


REGEX: Key[str | None] = Key(
    _PREFIX + "partition.regex.pattern",
    None,
    "Only partitions whose whole path fits this regular expression are clustered.",
    _parse_regex,
    group="clustering",
)
SMALL_FILE_LIMIT = int_key(
    _PREFIX + "small.file.limit",
    300 << 20,
    "Bytes of a base file below which its rows are clustered.",
    minimum=0,
    group="clustering",
)
TARGET_BYTES = int_key(
    _PREFIX + "target.file.max.bytes",
    1 << 30,
    "Bytes of the files that a clustering makes.",
    minimum=1,
    group="clustering",
)
MAX_GROUP_BYTES = int_key(
    _PREFIX + "max.bytes.per.group",
    2 << 30,
    "Bytes of base files whose rows are sorted together.",
    minimum=1,
    group="clustering",
)
MAX_GROUPS = int_key(
    _PREFIX + "max.num.groups",
    30,
    "Groups of one plan; files beyond them wait for the next.",
    minimum=1,
    group="clustering",
)
SINGLE_GROUP = bool_key(
    _PREFIX + "single.group.clustering.enabled",
    True,
    "Cluster a file that is alone, too. One that the last clustering made in the same order is left as it "
    "is.",
    group="clustering",
)
UPDATES: Key[enum.Enum] = Key(
    "hoodie.clustering.updates.strategy",
    Updates.REJECT,
    "Updates of rows that a pending clustering rewrites: refused (reject), or, with "
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict, done after it was rolled back (allow). "
    "Apache Hudi's class names name the same.",
    _parser(_UPDATE_CLASSES),
    group="clustering",
)
ROLLBACK_ON_CONFLICT = bool_key(
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict",
    False,
    "Roll a pending clustering back whose rows a write updates, unless the updates strategy is set to "
    "reject.",
    group="clustering",
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
    """Is it small? A slice of logs only is."""
    size = file_slice.base.size if file_slice.base else 0
    return bool(file_slice.base or file_slice.logs) and size < config[SMALL_FILE_LIMIT]


def groups(
    slices: Sequence[FileSlice], config: Config, settled: Callable[[Sequence[FileSlice], int], bool]
) -> list[ClusteringGroup]:
    """The eligible slices of one partition in groups, the largest first.

    `settled` is asked for each group, with the number of files it would become: one that rewriting would not
    change is left out.
    """
    if config[STRATEGY] is Strategy.SINGLE_FILE:
        return [_group([item], 1, config) for item in slices if not settled([item], 1)][: config[MAX_GROUPS]]
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
    for group in found:
        outputs = math.ceil(sum(_size(item, config) for item in group) / config[TARGET_BYTES])
        if not settled(group, outputs):
            out.append(_group(group, outputs, config))
    return out[: config[MAX_GROUPS]]


def _size(file_slice: FileSlice, config: Config) -> int:
    """Bytes of its base file; a slice of logs only may become a whole one."""
    return file_slice.base.size if file_slice.base else config[MAX_FILE_SIZE]


def _group(slices: Sequence[FileSlice], outputs: int, config: Config) -> ClusteringGroup:
    """With Apache Hudi's metrics (whole MB)."""
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
