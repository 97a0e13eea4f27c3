"""Settings of compaction."""

from __future__ import annotations

import enum

from hoodie.config.key import Key, bool_key, enum_key, int_key


class Strategy(enum.Enum):
    UNBOUNDED = "unbounded"
    BOUNDED_IO = "bounded_io"
    LOG_FILE_SIZE = "log_file_size"
    LOG_FILE_NUM = "log_file_num"
    DAY_BASED = "day_based"


_JAVA = "org.apache.hudi.table.action.compact.strategy."

_CLASSES = {
    "UnBoundedCompactionStrategy": Strategy.UNBOUNDED,
    "BoundedIOCompactionStrategy": Strategy.BOUNDED_IO,
    "LogFileSizeBasedCompactionStrategy": Strategy.LOG_FILE_SIZE,
    "LogFileNumBasedCompactionStrategy": Strategy.LOG_FILE_NUM,
    "DayBasedCompactionStrategy": Strategy.DAY_BASED,
}

_NAMES = {strategy.value: strategy for strategy in Strategy} | {
    (_JAVA + name).lower(): strategy for name, strategy in _CLASSES.items()
}


def parse_strategy(text: str) -> Strategy:
    try:
        return _NAMES[text.strip().lower()]
    except KeyError:
        names = ", ".join(strategy.value for strategy in Strategy)
        raise ValueError(f"expected one of {names}, or Apache Hudi's class name of one") from None


STRATEGY: Key[Strategy] = Key(
    "hoodie.compaction.strategy",
    Strategy.LOG_FILE_SIZE,
    "Which file slices a compaction takes: all (unbounded), those within the target I/O in the table's order "
    "(bounded_io), or by descending size (log_file_size) or number (log_file_num) of logs, or those of the "
    "newest days' partitions (day_based). Apache Hudi's class names name the same.",
    parse_strategy,
    group="compaction",
)
TARGET_IO = int_key(
    "hoodie.compaction.target.io",
    512000,
    "MB that one compaction reads and writes; the slice that passes it is the last (bounded_io, "
    "log_file_size, log_file_num).",
    minimum=1,
    group="compaction",
)
SIZE_THRESHOLD = int_key(
    "hoodie.compaction.logfile.size.threshold",
    0,
    "Bytes of logs from which a slice is compacted (log_file_size).",
    minimum=0,
    group="compaction",
)
NUM_THRESHOLD = int_key(
    "hoodie.compaction.logfile.num.threshold",
    0,
    "Number of log files from which a slice is compacted (log_file_num).",
    minimum=0,
    group="compaction",
)
TARGET_PARTITIONS = int_key(
    "hoodie.compaction.daybased.target.partitions",
    10,
    "Partitions of the newest days that are compacted (day_based).",
    minimum=1,
    group="compaction",
)


class Trigger(enum.Enum):
    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


INLINE = bool_key(
    "hoodie.compact.inline",
    False,
    "Merge-on-read: after each write run pending compactions, then schedule and run one if it is due. A "
    "failure there is a warning of the write; its commit stays.",
    group="compaction",
)
SCHEDULE_INLINE = bool_key(
    "hoodie.compact.schedule.inline",
    False,
    "Merge-on-read: after each write schedule a compaction if it is due and none is pending; another job "
    "runs it.",
    group="compaction",
)
TRIGGER = enum_key(
    "hoodie.compact.inline.trigger.strategy",
    Trigger.NUM_COMMITS,
    "When a compaction is due: by delta commits since the last one (completed, or also requested), by the "
    "time since then, by both, or by either.",
    group="compaction",
)
MAX_DELTA_COMMITS = int_key(
    "hoodie.compact.inline.max.delta.commits",
    5,
    "Delta commits since the last compaction that make the next one due.",
    minimum=1,
    group="compaction",
)
LOG_ENABLED = bool_key(
    "hoodie.log.compaction.enable",
    False,
    "Versions 8 and 9, merge-on-read: a run of all services compacts logs into logs, too, where that is due.",
    group="compaction",
)
LOG_INLINE = bool_key(
    "hoodie.log.compaction.inline",
    False,
    "Versions 8 and 9, merge-on-read: after each write run pending log compactions, then schedule and run "
    "one if it is due. A failure there is a warning of the write; its commit stays.",
    group="compaction",
)
LOG_BLOCKS = int_key(
    "hoodie.log.compaction.blocks.threshold",
    5,
    "Delta commits since the last compaction and the last log compaction that make the next log compaction "
    "due, and log blocks of a file slice from which it is taken.",
    minimum=1,
    group="compaction",
)
MAX_DELTA_SECONDS = int_key(
    "hoodie.compact.inline.max.delta.seconds",
    3600,
    "Seconds since the last compaction (before there is one: since the first delta commit) that make the "
    "next one due.",
    minimum=0,
    group="compaction",
)
