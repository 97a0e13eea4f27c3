"""Settings of clustering."""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Mapping

from hoodie.config.key import Key, bool_key, enum_key, fields_key, float_key, int_key, parse_int, paths_key


class Layout(enum.Enum):
    LINEAR = "linear"
    ZORDER = "z-order"
    HILBERT = "hilbert"


class BuildMethod(enum.Enum):
    DIRECT = "direct"
    SAMPLE = "sample"


def parse_layout(text: str) -> Layout:
    name = text.strip().lower()
    try:
        return Layout.ZORDER if name == "zorder" else Layout(name)
    except ValueError:
        raise ValueError(f"expected one of {', '.join(item.value for item in Layout)}") from None


SORT_COLUMNS = fields_key(
    "hoodie.clustering.plan.strategy.sort.columns",
    (),
    "Columns by which a clustering sorts rows; none: rows stay in the order of their files.",
    group="clustering",
)
LAYOUT: Key[Layout] = Key(
    "hoodie.layout.optimize.strategy",
    Layout.LINEAR,
    "Order of the sort columns: one after the other (linear), or along a z-order or hilbert curve, for "
    "queries that filter by any of several columns.",
    parse_layout,
    group="clustering",
)
BUILD_METHOD = enum_key(
    "hoodie.layout.optimize.curve.build.method",
    BuildMethod.DIRECT,
    "Curves: cells of equal width between a column's least and greatest value (direct), or of about equally "
    "many rows (sample), which is better for values that are spread unevenly.",
    group="clustering",
)
SAMPLE_SIZE = int_key(
    "hoodie.layout.optimize.build.curve.sample.size",
    200000,
    "Rows that are looked at to find the cells of a curve, and where a group is cut into tasks.",
    minimum=100,
    group="clustering",
)


class Strategy(enum.Enum):
    SIZE_BASED = "size_based"
    RECENT_DAYS = "recent_days"
    SELECTED_PARTITIONS = "selected_partitions"
    SINGLE_FILE = "single_file"
    CONSISTENT_HASHING = "consistent_hashing"


class Partitions(enum.Enum):
    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


class Execution(enum.Enum):
    SORT_AND_SIZE = "sort_and_size"
    CONSISTENT_HASHING = "consistent_hashing"


class Updates(enum.Enum):
    REJECT = "reject"
    ALLOW = "allow"


_PLANS = "org.apache.hudi.client.clustering.plan.strategy."

_RUNS = "org.apache.hudi.client.clustering.run.strategy."

_UPDATES = "org.apache.hudi.client.clustering.update.strategy."

#: what we put into plans, for Apache Hudi to load
EXECUTION_CLASS = _RUNS + "SparkSortAndSizeExecutionStrategy"
RESIZE_CLASS = _RUNS + "SparkConsistentBucketClusteringExecutionStrategy"

_PLAN_CLASSES = {
    _PLANS + "SparkSizeBasedClusteringPlanStrategy": Strategy.SIZE_BASED,
    _PLANS + "JavaSizeBasedClusteringPlanStrategy": Strategy.SIZE_BASED,
    _PLANS + "FlinkSizeBasedClusteringPlanStrategy": Strategy.SIZE_BASED,
    _PLANS + "SparkRecentDaysClusteringPlanStrategy": Strategy.RECENT_DAYS,
    _PLANS + "JavaRecentDaysClusteringPlanStrategy": Strategy.RECENT_DAYS,
    _PLANS + "SparkSelectedPartitionsClusteringPlanStrategy": Strategy.SELECTED_PARTITIONS,
    _PLANS + "SparkSingleFileSortPlanStrategy": Strategy.SINGLE_FILE,
    _PLANS + "SparkConsistentBucketClusteringPlanStrategy": Strategy.CONSISTENT_HASHING,
}

_EXECUTION_CLASSES = {
    EXECUTION_CLASS: Execution.SORT_AND_SIZE,
    _RUNS + "JavaSortAndSizeExecutionStrategy": Execution.SORT_AND_SIZE,
    _RUNS + "SparkSingleFileSortExecutionStrategy": Execution.SORT_AND_SIZE,
    RESIZE_CLASS: Execution.CONSISTENT_HASHING,
}

_UPDATE_CLASSES = {
    _UPDATES + "SparkRejectUpdateStrategy": Updates.REJECT,
    _UPDATES + "SparkAllowUpdateStrategy": Updates.ALLOW,
}


def _parser(classes: Mapping[str, enum.Enum]) -> Callable[[str], enum.Enum]:
    """Parser of short names and of Apache Hudi's class names, with or without their package."""
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


def executes(class_name: str | None, *, resizes: bool) -> bool:
    """Can a plan with this execution strategy be executed here? `resizes`: it changes hash rings."""
    wanted = Execution.CONSISTENT_HASHING if resizes else Execution.SORT_AND_SIZE
    return not (class_name or resizes) or _EXECUTION_CLASSES.get(class_name or "") is wanted


STRATEGY: Key[enum.Enum] = Key(
    "hoodie.clustering.plan.strategy.class",
    Strategy.SIZE_BASED,
    "What a clustering takes: files below small.file.limit (size_based), also of the newest partitions only "
    "(recent_days) or of a range of them (selected_partitions), or every such file on its own (single_file). "
    "A table of consistent hashing has its own: buckets are split and merged (consistent_hashing). Apache "
    "Hudi's class names name the same.",
    _parser(_PLAN_CLASSES),
    group="clustering",
)
EXECUTION: Key[enum.Enum] = Key(
    "hoodie.clustering.execution.strategy.class",
    Execution.SORT_AND_SIZE,
    "How a plan is executed: rows are sorted and cut into files (sort_and_size), or put into the buckets "
    "that the plan makes (consistent_hashing). Apache Hudi's class names of such strategies name the same.",
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
_BUCKET = "hoodie.bucket.index."

MAX_BUCKETS: Key[int | None] = Key(
    _BUCKET + "max.num.buckets",
    None,
    "Engine CONSISTENT_HASHING: how many buckets of a partition a clustering may make; unset, or less: "
    "the number that the partition began with.",
    parse_int,
    group="clustering",
)
MIN_BUCKETS: Key[int | None] = Key(
    _BUCKET + "min.num.buckets",
    None,
    "Engine CONSISTENT_HASHING: how many buckets of a partition a clustering has to leave; unset, or more: "
    "the number that the partition began with.",
    parse_int,
    group="clustering",
)
SPLIT_THRESHOLD = float_key(
    _BUCKET + "split.threshold",
    2.0,
    "Engine CONSISTENT_HASHING: a clustering splits a bucket whose files, logs included, are larger than so "
    "many times hoodie.parquet.max.file.size.",
    minimum=0,
    group="clustering",
)
MERGE_THRESHOLD = float_key(
    _BUCKET + "merge.threshold",
    0.2,
    "Engine CONSISTENT_HASHING: a clustering merges neighbouring buckets whose files, logs included, are "
    "smaller than so many times hoodie.parquet.max.file.size.",
    minimum=0,
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
INLINE = bool_key(
    "hoodie.clustering.inline",
    False,
    "After each write run pending clusterings, then schedule and run one if it is due. A failure there is a "
    "warning of the write; its commit stays.",
    aliases=("hoodie.datasource.clustering.inline.enable",),
    group="clustering",
)
SCHEDULE_INLINE = bool_key(
    "hoodie.clustering.schedule.inline",
    False,
    "After each write schedule a clustering if none is pending; another job runs it.",
    group="clustering",
)
INLINE_MAX_COMMITS = int_key(
    "hoodie.clustering.inline.max.commits",
    4,
    "Commits since the last clustering that make the next inline one due.",
    minimum=1,
    group="clustering",
)
ASYNC = bool_key(
    "hoodie.clustering.async.enabled",
    False,
    "After each write schedule a clustering if it is due and none is pending; another job runs it while "
    "writers go on.",
    aliases=("hoodie.datasource.clustering.async.enable",),
    group="clustering",
)
ASYNC_MAX_COMMITS = int_key(
    "hoodie.clustering.async.max.commits",
    4,
    "Commits since the last clustering that make the next one due, with hoodie.clustering.async.enabled.",
    minimum=1,
    group="clustering",
)
