"""Which DataFrames are cheap to compute, by the plan that Spark explains.

Columns of Parquet and ORC files are, and those of cached frames, filtered and computed with: a query of a few
of them reads little. Whatever else a plan has (joins, aggregates, functions in Python, other sources) is not
known to be.
"""

from __future__ import annotations

import re

#: operators of Spark's physical plans that cost no more than reading their columns
_CHEAP = frozenset(
    {
        "AdaptiveSparkPlan",
        "ColumnarToRow",
        "Filter",
        "InputAdapter",
        "LocalTableScan",
        "Project",
        "Range",
        "Union",
        "WholeStageCodegen",
    }
)
_COLUMNAR = frozenset({"parquet", "orc"})
_STORED = _COLUMNAR | {"avro", "csv", "json", "text", "xml", "OneRowRelation"}
#: operators that give no more rows than Spark estimates by the bytes of what they read
_ESTIMATED = _CHEAP | {
    *("AQEShuffleRead", "BroadcastExchange", "BroadcastHashJoin", "Exchange", "HashAggregate"),
    *("ObjectHashAggregate", "ShuffledHashJoin", "Sort", "SortAggregate", "SortMergeJoin", "Window"),
}
#: what is below it, is computed once
_CACHED = "InMemoryTableScan"
#: functions with another value at each reading
_UNSTEADY = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id|"
    r"input_file_\w+|reflect|java_method|try_reflect)\(",
    re.IGNORECASE,
)
#: a scan whose partitions depend on the columns that are read
_BUCKETED = "Bucketed: true"
#: functions of the time at which rows are read; of a logical plan: rows that are taken by it
_TIMES = r"\b(now|curdate|current_date|current_time|current_timestamp|localtimestamp)\("
_TIME = re.compile(_TIMES, re.IGNORECASE)
_TIMED = re.compile(rf"^[ :+-]*Filter .*{_TIMES}", re.IGNORECASE | re.MULTILINE)
#: a scan of all rows as they are stored; of several paths one may be there twice
_PLAIN = re.compile(
    r"[ :+-]*(\*\(\d+\) |\* )?FileScan parquet \[[^\]]*\] Batched: \w+, (Bucketed: false[^,]*, )?"
    r"DataFilters: \[\], Format: Parquet, Location: InMemoryFileIndex\(1 paths\)\[.*, "
    r"PartitionFilters: \[\], PushedFilters: \[\], ReadSchema: struct<.*"
)
_SCANS = ("FileScan", "BatchScan", "Scan")
_TITLE = "== Physical Plan =="
_OPERATOR = re.compile(r"[ :+-]*(?:\*\(\d+\) |\* )?(\w+)(?: (\w+))?")


def is_cheap(plan: str) -> bool:
    """`plan` is a physical plan as text. False for one with anything unknown in it."""
    tree = plan.partition(_TITLE)[2]
    return not _UNSTEADY.search(tree) and _has_only(tree, _COLUMNAR)


def is_short(plan: str) -> bool:
    """Are rows computed of files and constants, and no more than Spark estimates? `plan` is a physical plan
    as text.
    """
    return _has_only(plan.partition(_TITLE)[2], _STORED, _ESTIMATED)


def _has_only(tree: str, formats: frozenset[str], operators: frozenset[str] = _CHEAP) -> bool:
    known, inside = 0, -1
    for line in tree.splitlines():
        operator = _OPERATOR.match(line)
        if not line.strip() or (inside >= 0 and operator and operator.start(1) > inside):
            continue
        if operator is None:
            return False
        name, detail = operator.groups()
        if detail not in formats if name in _SCANS else name != _CACHED and name not in operators:
            return False
        known, inside = known + 1, operator.start(1) if operator[1] == _CACHED else -1
    return known > 0


def is_in_order(plans: str) -> bool:
    """Are rows of cheap columns always in the same partitions and order, whichever columns are asked for?
    `plans` are the logical and the physical plan as text.
    """
    return is_cheap(plans) and _BUCKETED not in plans and not _TIMED.search(plans)


def is_constant(plans: str) -> bool:
    """Are rows of cheap columns the same at each reading, in any order? `plans` as of `is_in_order`."""
    return is_cheap(plans) and not _TIME.search(plans)


def is_plain(plan: str) -> bool:
    """Are the rows those of Parquet files, or columns of them? `plan` is a physical plan as text."""
    _, _, tree = plan.partition(_TITLE)
    lines = [line for line in tree.splitlines() if line.strip()]
    above = [_OPERATOR.match(line) for line in lines[:-1]]
    names = [found[1] for found in above if found is not None]
    return bool(lines) and _PLAIN.fullmatch(lines[-1]) is not None and names == ["ColumnarToRow"] * len(above)
