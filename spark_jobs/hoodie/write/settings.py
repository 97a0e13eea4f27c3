"""Settings of writes, and those that make a table."""

from __future__ import annotations

import enum
import re

from hoodie.config import versions
from hoodie.config.key import (
    Key,
    bool_key,
    enum_key,
    fields_key,
    float_key,
    int_key,
    parse_enum,
    paths_key,
    str_key,
)
from hoodie.format.cdc import LOGGING_MODE, LoggingMode
from hoodie.table import properties
from hoodie.table.properties import TableType


class SortMode(enum.Enum):
    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"

    @property
    def sorts(self) -> bool:
        return self in (SortMode.GLOBAL_SORT, SortMode.PARTITION_SORT)


SORT_MODE = enum_key(
    "hoodie.bulkinsert.sort.mode",
    SortMode.NONE,
    "GLOBAL_SORT: files of a partition hold consecutive key ranges, sorted, so that key-range pruning works; "
    "PARTITION_SORT: every file is sorted; PARTITION_PATH_REPARTITION and NONE: rows as they come. In every "
    "mode the rows of one partition are gathered, so there are few files; in the latter two only if they are "
    "not together already. Also for insert_overwrite.",
)


class Known(enum.Enum):
    """What an insert does with a row whose key the table has."""

    NONE = "none"
    DROP = "drop"
    FAIL = "fail"


DUPLICATE_POLICY = enum_key(
    "hoodie.datasource.insert.dup.policy",
    Known.NONE,
    "insert and bulk_insert, of a row whose key its partition has already: none stores it in addition, drop "
    "leaves it out and counts it (num_dropped), fail refuses the write before anything is written. For an "
    "upsert drop makes it an insert, with a warning, and fail is the same. Overwrites and deletes are not "
    "affected.",
)


class Into(enum.Enum):
    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"


MERGE_INTO_PARTIAL = bool_key(
    "hoodie.spark.sql.merge.into.partial.updates",
    True,
    "MERGE INTO (hoodie.sql) logs updated rows in their changed columns alone, in merge-on-read tables of "
    "versions 8 and 9. false: it logs whole rows.",
)
INSERT_INTO = enum_key(
    "hoodie.spark.sql.insert.into.operation",
    Into.INSERT,
    "The operation of INSERT INTO (hoodie.sql).",
)
DROP_DUPLICATES = bool_key(
    "hoodie.datasource.write.insert.drop.duplicates",
    False,
    "Incoming rows never replace stored ones: the same as the policy drop.",
)
ALLOW_DUPLICATES = bool_key(
    "hoodie.merge.allow.duplicate.on.inserts",
    True,
    "An insert that fills up a small file may store a key there again. false: its rows are merged with the "
    "rows of that file by key; other files are not looked at.",
)
COMBINE_BEFORE_UPSERT = bool_key(
    "hoodie.combine.before.upsert",
    True,
    "De-duplicate the batch before an upsert. false: in a file that is there, the last of a key's rows in "
    "the batch is merged with the stored one, whatever the ordering column says; a new file holds every row "
    "of a new key, so that the key is there twice. Rows for logs are de-duplicated always, as their readers "
    "would do it.",
)
COMBINE_BEFORE_INSERT = bool_key(
    "hoodie.combine.before.insert",
    False,
    "De-duplicate the batch before insert, bulk_insert and insert_overwrite. Unset: where rows whose key is "
    "stored are dropped or refused.",
)
ALLOW_OUT_OF_ORDER = bool_key(
    "hoodie.write.allow.out.of.order",
    False,
    "Let the write of an older data interval of an Airflow task replace what a newer interval has written to "
    "the same partitions, where no ordering column keeps the newer rows.",
    group="merge",
)


class OverwriteMode(enum.Enum):
    STATIC = "STATIC"
    DYNAMIC = "DYNAMIC"


OVERWRITE_MODE: Key[OverwriteMode | None] = Key(
    "hoodie.datasource.overwrite.mode",
    None,
    "What insert_overwrite replaces. DYNAMIC: the partitions that it has rows for. STATIC: those of "
    "hoodie.static.overwrite.partition.paths, or, where none are named, all of the table, as "
    "insert_overwrite_table. Unset: STATIC where partitions are named, else DYNAMIC.",
    parse_enum(OverwriteMode),
)
STATIC_PARTITIONS = paths_key(
    "hoodie.static.overwrite.partition.paths",
    (),
    "Partition paths that insert_overwrite replaces, with rows for them or not. Rows of other partitions are "
    "an error.",
)


def _folder_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text.strip()) or text.strip() == "metadata":
        raise ValueError("expected the name of one folder")
    return text.strip()


TABLE_NAME = str_key(
    "hoodie.table.name", None, "Name of the table; default: the last part of its path.", group="table"
)


CDC_ENABLED = bool_key(
    properties.CDC_ENABLED,
    False,
    "Makes a table that keeps change data: a write logs, beside each base file that it rewrites, which rows "
    "it inserted, updated and deleted there. What the table has is not changed by a write.",
    group="table",
)
CDC_MODE = enum_key(
    LOGGING_MODE,
    LoggingMode.DATA_BEFORE_AFTER,
    "What change data of a new table hold beside the operation: OP_KEY_ONLY the record key, DATA_BEFORE also "
    "the row as it was, DATA_BEFORE_AFTER the row as it was and as it is. The less is logged, the more do "
    "queries of changes read.",
    group="table",
)
DATABASE_NAME = str_key("hoodie.database.name", None, "Database the table belongs to.", group="table")
TABLE_TYPE = enum_key(
    "hoodie.datasource.write.table.type",
    TableType.COPY_ON_WRITE,
    "COPY_ON_WRITE: an update rewrites a file; MERGE_ON_READ: updates are appended to logs, which queries "
    "and compactions merge.",
    aliases=("hoodie.table.type", "hoodie.datasource.write.storage.type"),
    group="table",
)


def _table_version(text: str) -> int:
    for version in versions.VERSIONS.values():
        if text.strip().upper() in (str(version.number), version.name):
            return version.number
    known = ", ".join(map(str, versions.OF_NEW_TABLES))
    raise ValueError(f"expected one of {known} for a new table, or the version that the table has")


TABLE_VERSION: Key[int] = Key(
    "hoodie.write.table.version",
    versions.DEFAULT.number,
    "Version of a new table: 9 or 8 of Apache Hudi 1.x, or 6, which every Apache Hudi since 0.14 reads. A "
    "table keeps its version until it is upgraded or downgraded, and writes refuse one that is not its own.",
    _table_version,
    aliases=("hoodie.table.version",),
    group="table",
)
AUTO_UPGRADE = bool_key(
    "hoodie.write.auto.upgrade",
    False,
    "A write to a table of an earlier version than hoodie.write.table.version upgrades it first, as "
    "`hoodie upgrade` does. Apache Hudi 1.x does so by default.",
    group="table",
)
SKIP_DEFAULT_PARTITION = bool_key(
    "hoodie.skip.default.partition.validation",
    False,
    "Upgrade a table of a version below 5 with a partition `default`, because that is a value of its column. "
    "Apache Hudi before 0.12 put rows without a value there.",
    group="table",
)
ARCHIVE_FOLDER: Key[str] = Key(
    properties.ARCHIVE_FOLDER,
    "archived",
    "Folder of a new table's archived timeline, below .hoodie.",
    _folder_name,
    group="table",
)
PARTITIONS_TO_DELETE = paths_key(
    "hoodie.datasource.write.partitions.to.delete",
    (),
    "Partition paths that delete_partition deletes where its call names none; `*` stands for any text, and "
    "blanks belong to the names between the commas.",
)


class TimelineZone(enum.Enum):
    LOCAL = "LOCAL"
    UTC = "UTC"


TIMELINE_ZONE = enum_key(
    "hoodie.table.timeline.timezone",
    TimelineZone.LOCAL,
    "Time zone of instants of a new table.",
    group="table",
)
_PARALLELISM_DOC = (
    "Tasks that de-duplicate and write. 0: as many as the sizes need; a larger number: an upper bound, as "
    "the number of input partitions is. The files are the same either way. (Apache Hudi writes each file in "
    "a task of its own in any case; its 0, the number of input partitions, is for shuffles that this "
    "package does not have.)"
)
UPSERT_PARALLELISM = int_key("hoodie.upsert.shuffle.parallelism", 0, _PARALLELISM_DOC, minimum=0)
INSERT_PARALLELISM = int_key("hoodie.insert.shuffle.parallelism", 0, _PARALLELISM_DOC, minimum=0)
BULK_PARALLELISM = int_key("hoodie.bulkinsert.shuffle.parallelism", 0, _PARALLELISM_DOC, minimum=0)
DELETE_PARALLELISM = int_key("hoodie.delete.shuffle.parallelism", 0, _PARALLELISM_DOC, minimum=0)


def _queries(text: str) -> tuple[str, ...]:
    return tuple(query.strip() for query in text.split(";") if query.strip())


VALIDATORS = fields_key(
    "hoodie.precommit.validators",
    (),
    "Quality gates of a write: SqlQueryEqualityPreCommitValidator, SqlQueryInequalityPreCommitValidator, "
    "SqlQuerySingleResultPreCommitValidator (Apache Hudi's class names, with their package or without), or "
    "equality, inequality, single. Their queries see the partitions that the write touches, and an answer "
    "that is not the expected one withdraws the write. Spark SQL on Spark, with all rights of its session; "
    "else DuckDB's, which reads nothing but these rows. They are options of a call, never of a table.",
)


def _queries_key(name: str, doc: str) -> Key[tuple[str, ...]]:
    return Key(f"hoodie.precommit.validators.{name}.sql.queries", (), doc, _queries)


EQUALITY = _queries_key(
    "equality",
    "SELECTs, separated by `;`, that must give the same rows before and after the write, in any order; "
    "`<TABLE_NAME>` stands for the table.",
)
INEQUALITY = _queries_key(
    "inequality", "SELECTs, separated by `;`, that must not give the same rows before and after the write."
)
SINGLE = _queries_key(
    "single.value",
    "`SELECT…#expected`, separated by `;`: each gives one value after the write, which must be the expected "
    "one, as a text or as a number.",
)
DRIVER_BYTES = int_key(
    "hoodie.spark.driver.max.bytes",
    64 << 20,
    "With Spark: the driver does the steps of a write of few rows as the local engine does them, without "
    "Spark's tasks, where they read no more bytes of the table's files than this (a file group counts 1 "
    "MiB at least). Rows are few where they are of files or constants, 100,000 at most, and 4 MiB at most "
    "by the size of the files or by Spark's estimate. 0: tasks always do them.",
    minimum=0,
)
SMALL_FILE_LIMIT = int_key(
    "hoodie.parquet.small.file.limit",
    104857600,
    "Base files smaller than this many bytes take inserts before new files are made; 0 turns packing off.",
    minimum=0,
    group="storage",
)
RECORD_SIZE_ESTIMATE = int_key(
    "hoodie.copyonwrite.record.size.estimate",
    1024,
    "Bytes a record is taken to need in a base file until a commit has a better value.",
    minimum=1,
)
RECORD_SIZE_THRESHOLD = float_key(
    "hoodie.record.size.estimation.threshold",
    1.0,
    "The record size is learnt from the newest commit that wrote more than this share of the small-file "
    "limit; where that is 0, from the newest one that wrote rows.",
    minimum=0,
)
AUTO_SPLIT = bool_key(
    "hoodie.copyonwrite.insert.auto.split",
    True,
    "Cut a partition's inserts into new files by the record size; else by the split size.",
)
SMALL_GROUPS = int_key(
    "hoodie.merge.small.file.group.candidates.limit",
    1,
    "Merge-on-read: the number of a partition's smallest base files that take inserts, if they have no "
    "logs; each is rewritten.",
    minimum=0,
)
MAX_AMPLIFICATION = float_key(
    "hoodie.write.max.amplification",
    0.0,
    "The most bytes that a write may write for each byte that it changes, by the estimate of `hoodie "
    "explain`; 0: no limit. A write that needs more is refused before anything is written (`too_costly`). "
    "Into a merge-on-read table it puts inserts into new files instead of small ones, and an inline "
    "compaction is left to another job: its plan is scheduled.",
    minimum=0,
)
SPLIT_SIZE = int_key(
    "hoodie.copyonwrite.insert.split.size", 500000, "Rows of a new file without auto split.", minimum=1
)
