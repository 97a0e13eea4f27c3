"""Settings of queries, and of the memory that merges take."""

from __future__ import annotations

import enum

from hoodie.config.key import bool_key, enum_key, int_key, str_key

FROM_PATH = bool_key(
    "hoodie.datasource.read.extract.partition.values.from.path",
    False,
    "Take the values of all partition columns from the partition path. Without it only those columns are "
    "read from the path whose values it holds unchanged (simple and complex keys; text, whole numbers, "
    "dates, booleans), and those that no file holds.",
    group="read",
)


class IncrementalFormat(enum.Enum):
    LATEST_STATE = "latest_state"
    CDC = "cdc"


INCREMENTAL_FORMAT = enum_key(
    "hoodie.datasource.query.incremental.format",
    IncrementalFormat.LATEST_STATE,
    "What an incremental query answers: latest_state, the rows that were written, as they are at its end; or "
    "cdc, every change as a row of its own, op (i, u or d), ts_ms (the commit's instant), and the row before "
    "and after it as JSON, of a table that keeps a change log (hoodie.table.cdc.enabled).",
    group="read",
)


class Holes(enum.Enum):
    FAIL = "FAIL"
    BLOCK = "BLOCK"


HOLES_POLICY = enum_key(
    "hoodie.read.timeline.holes.resolution.policy",
    Holes.FAIL,
    "What incremental and time travel queries do when a write that began earlier than a completed commit is "
    "still in flight, so that its rows may come later: FAIL with an error, or BLOCK: show nothing from there "
    "on.",
    group="read",
)


class Reader(enum.Enum):
    AUTO = "AUTO"
    SPARK = "SPARK"
    ARROW = "ARROW"


READER = enum_key(
    "hoodie.read.spark.reader",
    Reader.AUTO,
    "Who reads base files of a table on an object store in a session of Spark: SPARK, its own Parquet reader "
    "by the session's file system (s3a:// and its settings), which pushes more filters down; ARROW, Python "
    "tasks, which need no jars; AUTO: Spark's where the session has the file system, else ARROW. Slices with "
    "logs are always read by Python tasks, files of a local table by Spark.",
    group="read",
)
MERGE_BUDGET = int_key(
    "hoodie.memory.merge.max.size",
    1073741824,
    "Bytes of rows that one task holds in memory while it merges them with those of a file; more is spilled. "
    "On the local engine, whose tasks share a process: that a write holds, staged rows and those of all "
    "tasks, of which fewer run at once where it is little.",
    minimum=1 << 16,
    group="memory",
)
SPILL_PATH = str_key(
    "hoodie.memory.spillable.map.path",
    None,
    "Folder for spilled rows; default: the system's folder for temporary files.",
    group="memory",
)
VERIFY_FILES = bool_key(
    "hoodie.read.verify.files",
    True,
    "Compare the files that a query is going to read with the commits of the active timeline, and fail "
    "where one is missing or has lost bytes; false reads what is left.",
    group="read",
)
DATA_SKIPPING = bool_key(
    "hoodie.enable.data.skipping",
    True,
    "Leave out files that the indexes in the table's metadata table rule out.",
    group="read",
)
RECORD_INDEX = bool_key(
    "hoodie.read.record.index",
    False,
    "Take the file groups of the keys that a snapshot query names from the record index of the table's "
    "metadata table. It knows one place of a key: leave this off where a key may be stored several times, as "
    "inserts do.",
    group="read",
)
VERIFY_WRITTEN = bool_key(
    "hoodie.write.verify.files",
    True,
    "Compare the latest files of the partitions that rows go to with the commits of the active timeline, "
    "and refuse the write where one is missing: its rows would be lost for good, or stored twice. false "
    "writes on top of what is left.",
)
