"""Settings of the metadata table."""

from __future__ import annotations

from hoodie.config.key import Key, fields_key, float_key, int_key, parse_bool, str_key

METADATA_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.enable",
    True,
    "Writes and services keep a metadata table that is there up to date. Left out: a table without commits "
    "gets one, with the list of its files, other tables stay without. Given as true: those that have none "
    "get one, too; false: it is removed. Queries read the table's files, and statistics of them, from a "
    "metadata table that is there, unless it is false: then they list folders.",
    parse_bool,
    group="table",
)
COMPACT_AFTER = int_key(
    "hoodie.metadata.compact.max.delta.commits",
    10,
    "Commits after which the next write compacts the metadata table, where none is pending.",
    minimum=1,
    group="table",
)
_ASKED = (
    "true: writes and services keep it, and make it where it is not there; false: they drop it; unset: they "
    "keep what is there."
)
COLUMN_STATS_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.index.column.stats.enable",
    None,
    f"Statistics of columns, by which queries leave out files, as an index of the metadata table. {_ASKED}",
    parse_bool,
    group="table",
)
COLUMN_STATS_COLUMNS = fields_key(
    "hoodie.metadata.index.column.stats.column.list",
    (),
    "Columns with statistics, by commas; parts of structs with dots. Unset: all columns but nested ones, of "
    "tables of versions 8 and 9 the first 32. Apache Hudi's queries of version 6 have to be given the same "
    "list. Tables of versions 8 and 9 store it when the index is made, and keep it.",
    group="table",
)
COLUMN_STATS_GROUPS = int_key(
    "hoodie.metadata.index.column.stats.file.group.count",
    2,
    "File groups of the index of column statistics, when it is made.",
    minimum=1,
    group="table",
)
PARTITION_STATS_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.index.partition.stats.enable",
    None,
    "Statistics of columns of each partition, by which queries leave out partitions, as an index of the "
    "metadata table. Of partitioned tables of versions 8 and 9, and made of column_stats, without which "
    "there is none. true: writes and services keep it, and make it where it is not there; false: they drop "
    "it; unset: as hoodie.metadata.index.column.stats.enable, which alone decides in Apache Hudi 1.2.0.",
    parse_bool,
    group="table",
)
PARTITION_STATS_GROUPS = int_key(
    "hoodie.metadata.index.partition.stats.file.group.count",
    1,
    "File groups of the index of statistics of partitions, when it is made.",
    minimum=1,
    group="table",
)
EXPRESSION_INDEX_GROUPS = int_key(
    "hoodie.metadata.index.expression.file.group.count",
    2,
    "File groups of an index of an expression, when it is made.",
    minimum=1,
    group="table",
)
BLOOM_FILTER_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.index.bloom.filter.enable",
    None,
    f"Bloom filters of the record keys of base files as an index of the metadata table. {_ASKED}",
    parse_bool,
    group="table",
)
BLOOM_FILTER_GROUPS = int_key(
    "hoodie.metadata.index.bloom.filter.file.group.count",
    4,
    "File groups of the index of bloom filters, when it is made.",
    minimum=1,
    group="table",
)
RECORD_INDEX_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.record.index.enable",
    None,
    "true: writes keep a record index in the metadata table, the file group of every record by its key, and "
    "make one where there is none. hoodie.index.type=RECORD_INDEX needs it. false: it is removed. Otherwise "
    "one that is there is kept.",
    parse_bool,
    aliases=("hoodie.metadata.global.record.level.index.enable",),
    group="table",
)
PARTITIONED_RECORD_INDEX_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.record.level.index.enable",
    None,
    "Of tables of versions 8 and 9. true: writes keep a record index of each partition in the metadata "
    "table, by which a key may be in several partitions, and make one where there is none. "
    "hoodie.index.type=RECORD_LEVEL_INDEX needs it. A table has this one or that of all partitions: what is "
    "asked for replaces the other one. false: it is removed. Otherwise one that is there is kept.",
    parse_bool,
    group="table",
)
_RECORD_INDEX = "Record index, when it is made: "
RECORD_INDEX_MIN_GROUPS = int_key(
    "hoodie.metadata.record.index.min.filegroup.count",
    10,
    f"{_RECORD_INDEX}the least number of its file groups.",
    aliases=("hoodie.metadata.global.record.level.index.min.filegroup.count",),
    minimum=1,
    group="table",
)
RECORD_INDEX_MAX_GROUPS = int_key(
    "hoodie.metadata.record.index.max.filegroup.count",
    10_000,
    f"{_RECORD_INDEX}the greatest number of its file groups.",
    aliases=("hoodie.metadata.global.record.level.index.max.filegroup.count",),
    minimum=1,
    group="table",
)
RECORD_INDEX_GROUP_BYTES = int_key(
    "hoodie.metadata.record.index.max.filegroup.size",
    1 << 30,
    f"{_RECORD_INDEX}bytes that a file group may come to; a record is taken for 48.",
    minimum=48,
    group="table",
)
RECORD_INDEX_GROWTH = float_key(
    "hoodie.metadata.record.index.growth.factor",
    2.0,
    f"{_RECORD_INDEX}how many times its records the table may come to have.",
    minimum=0.0,
    group="table",
)
_PARTITIONED = "Record index of each partition: "
PARTITIONED_RECORD_INDEX_MIN_GROUPS = int_key(
    "hoodie.metadata.record.level.index.min.filegroup.count",
    1,
    f"{_PARTITIONED}the least number of file groups of a partition, and that of new ones.",
    aliases=("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
    minimum=1,
    group="table",
)
PARTITIONED_RECORD_INDEX_MAX_GROUPS = int_key(
    "hoodie.metadata.record.level.index.max.filegroup.count",
    10,
    f"{_PARTITIONED}the greatest number of file groups of a partition.",
    aliases=("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
    minimum=1,
    group="table",
)
_DEFINED = "Of an index that `hoodie index create` or a write makes in a table of version 8 or 9: "
INDEX_NAME = str_key(
    "hoodie.index.name", None, f"{_DEFINED}its name. Unset: that of its column.", group="table"
)
SECONDARY_INDEX_COLUMN = str_key(
    "hoodie.metadata.index.secondary.column",
    None,
    f"{_DEFINED}the column of a secondary index.",
    group="table",
)
EXPRESSION_INDEX_COLUMN = str_key(
    "hoodie.metadata.index.expression.column",
    None,
    f"{_DEFINED}the column of an index of an expression.",
    group="table",
)
EXPRESSION_INDEX_TYPE = str_key(
    "hoodie.expression.index.type",
    "COLUMN_STATS",
    f"{_DEFINED}what it has of the results of the expression, COLUMN_STATS or BLOOM_FILTERS.",
    group="table",
)
EXPRESSION_INDEX_OPTIONS = str_key(
    "hoodie.metadata.index.expression.options",
    None,
    f"{_DEFINED}the function, and its options, such as expr='substring',pos='1',len='3'.",
    group="table",
)
