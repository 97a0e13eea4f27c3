"""Settings of syncs with catalogs; names and defaults are Apache Hudi's, except the time-out."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from hoodie.config.key import Key, bool_key, enum_key, fields_key, int_key, parse_bool, parse_int, str_key


def _properties(text: str) -> Mapping[str, str]:
    """Lines `key=value`."""
    found = {}
    for line in filter(str.strip, text.split("\n")):
        name, _, value = line.partition("=")
        if not name.strip() or "=" in value:
            raise ValueError(f"{line.strip()!r} is no line `key=value`")
        found[name.strip()] = value.strip()
    return found


class Tool(enum.Enum):
    """The catalogs; each is also named by the class of Apache Hudi that syncs with it."""

    HIVE = "hive"
    GLUE = "glue"


_TOOLS = {
    "org.apache.hudi.hive.hivesynctool": Tool.HIVE,
    "org.apache.hudi.aws.sync.awsgluecatalogsynctool": Tool.GLUE,
}


def _tool(text: str) -> Tool:
    name = text.strip().lower()
    try:
        return _TOOLS.get(name) or Tool(name)
    except ValueError:
        raise ValueError(
            "expected one catalog, hive or glue, or Apache Hudi's HiveSyncTool or AwsGlueCatalogSyncTool "
            "with its package; run other tools in a task after the write"
        ) from None


def _no_indexes(text: str) -> bool:
    if parse_bool(text):
        raise ValueError("a sync makes no indexes of partitions in AWS Glue; make them there, they stay")
    return False


def _segments(text: str) -> int:
    value = parse_int(text)
    if not 1 <= value <= 10:
        raise ValueError("must be between 1 and 10")
    return value


class Strategy(enum.Enum):
    ALL = "ALL"
    RO = "RO"
    RT = "RT"


HIVE_SYNC = bool_key(
    "hoodie.datasource.hive_sync.enable",
    False,
    "Sync the table with Hive's metastore after every commit of a write. The commit stays, whatever becomes "
    "of the sync.",
    group="sync",
)
META_SYNC = bool_key(
    "hoodie.datasource.meta.sync.enable",
    False,
    "Sync the table after every commit of a write with the catalog that hoodie.meta.sync.client.tool.class "
    "names. The commit stays, whatever becomes of the sync.",
    group="sync",
)
TOOL: Key[Tool] = Key(
    "hoodie.meta.sync.client.tool.class",
    Tool.HIVE,
    "The catalog: hive, Hive's metastore, or glue, AWS Glue's; also by the names of Apache Hudi's classes, "
    "org.apache.hudi.hive.HiveSyncTool and org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool.",
    _tool,
    group="sync",
)
URIS: Key[str] = Key(
    "hoodie.datasource.hive_sync.metastore.uris",
    "thrift://localhost:9083",
    "Servers of the metastore, `thrift://host:9083`, several with commas: the first that answers is used.",
    str.strip,
    group="sync",
)
DATABASE = str_key(
    "hoodie.datasource.hive_sync.database",
    None,
    "The database of the entries; that of the table's properties by default, else `default`.",
    group="sync",
)
TABLE = str_key(
    "hoodie.datasource.hive_sync.table",
    None,
    "The name of the entries; the table's by default.",
    group="sync",
)
CREATE_DATABASE = bool_key(
    "hoodie.datasource.hive_sync.auto_create_database",
    True,
    "Create the database where it is not there.",
    group="sync",
)
IGNORE_EXCEPTIONS = bool_key(
    "hoodie.datasource.hive_sync.ignore_exceptions",
    False,
    "A sync that fails: true, a warning; false, an error. After a commit that error has the code `service`: "
    "the rows are committed, and the next sync mends the entries.",
    group="sync",
)
SKIP_RO_SUFFIX = bool_key(
    "hoodie.datasource.hive_sync.skip_ro_suffix",
    False,
    "The read-optimized entry of a merge-on-read table has the table's name, without `_ro`; there is no "
    "entry of that name for the snapshot then.",
    group="sync",
)
STRATEGY = enum_key(
    "hoodie.datasource.hive_sync.table.strategy",
    Strategy.ALL,
    "Entries of a merge-on-read table: ALL, `<table>_ro`, `<table>_rt` and, for the snapshot, `<table>`; RO "
    "or RT, `<table>` alone, read-optimized or the snapshot.",
    group="sync",
)
SNAPSHOT_BY_NAME = bool_key(
    "hoodie.meta.sync.sync_snapshot_with_table_name",
    True,
    "With the strategy ALL a merge-on-read table has an entry `<table>` for the snapshot, too.",
    group="sync",
)
TIMESTAMPS = bool_key(
    "hoodie.datasource.hive_sync.support_timestamp",
    False,
    "Columns of timestamps have Hive's type timestamp; false: bigint.",
    group="sync",
)
COMMENTS = bool_key(
    "hoodie.datasource.hive_sync.sync_comment",
    False,
    "Comments of columns are those of the table's schema; false: the metastore's stay.",
    group="sync",
)
OMIT_META = bool_key(
    "hoodie.datasource.hive_sync.omit_metadata_fields",
    False,
    "Leave the columns `_hoodie_…` out.",
    group="sync",
)
TABLE_PROPERTIES: Key[Mapping[str, str]] = Key(
    "hoodie.datasource.hive_sync.table_properties",
    {},
    "More table properties, a line `key=value` each.",
    _properties,
    group="sync",
)
SERDE_PROPERTIES: Key[Mapping[str, str]] = Key(
    "hoodie.datasource.hive_sync.serde_properties",
    {},
    "More properties of the serde, a line `key=value` each.",
    _properties,
    group="sync",
)
AS_DATASOURCE = bool_key(
    "hoodie.datasource.hive_sync.sync_as_datasource",
    True,
    "Spark reads the entries by Apache Hudi's own source: they have `spark.sql.sources.*` properties.",
    group="sync",
)
SPARK_VERSION = str_key(
    "hoodie.meta_sync.spark.version",
    None,
    "The property `spark.sql.create.version` of the entries.",
    group="sync",
)
SCHEMA_LENGTH = int_key(
    "hoodie.datasource.hive_sync.schema_string_length_thresh",
    4000,
    "Characters of Spark's schema in one table property; a longer one has several.",
    minimum=1,
    group="sync",
)
PARTITION_FIELDS = fields_key(
    "hoodie.datasource.hive_sync.partition_fields",
    (),
    "The partition columns of the entries; those of the table by default.",
    group="sync",
)
EXTRACTOR: Key[str | None] = Key(
    "hoodie.datasource.hive_sync.partition_extractor_class",
    None,
    "How values of partition columns follow from a path: one of Apache Hudi's classes, with or without its "
    "package. By default MultiPartKeysValueExtractor for several columns, HiveStylePartitionValueExtractor "
    "or SinglePartPartitionValueExtractor for one, NonPartitionedExtractor for none.",
    str.strip,
    group="sync",
)
DECODE: Key[bool | None] = Key(
    "hoodie.meta.sync.decode_partition",
    None,
    "URL-decode values of partition columns; by default where the table encodes its partition paths.",
    parse_bool,
    group="sync",
)
BATCH = int_key(
    "hoodie.datasource.hive_sync.batch_num",
    1000,
    "Partitions in one request; AWS Glue takes no more than 100, and 25 that are dropped.",
    minimum=1,
    group="sync",
)
INCREMENTAL = bool_key(
    "hoodie.meta.sync.incremental",
    True,
    "Compare the partitions of the commits since the last sync, where the timeline still has them; false: "
    "all partitions.",
    group="sync",
)
CONDITIONAL = bool_key(
    "hoodie.datasource.meta_sync.condition.sync",
    False,
    "Note the newest commit in the entries only when something else of them changes.",
    group="sync",
)
LOCATION = str_key(
    "hoodie.datasource.meta.sync.base.path",
    None,
    "The path that the entries have, such as s3a://bucket/orders for readers that know the table's folder "
    "by another scheme; the table's own by default.",
    group="sync",
)
ANSWER_MS = int_key(
    "hoodie.meta.sync.answer.timeout.ms",
    120_000,
    "Milliseconds to wait for one answer of the metastore, with AWS Glue for all tries of one request. New "
    "columns of a table with many partitions take a metastore long.",
    minimum=100,
    group="sync",
)
GLUE_REGION = str_key(
    "hoodie.aws.glue.region",
    None,
    "The region of AWS Glue. By default that of AWS_REGION, AWS_DEFAULT_REGION or the profile.",
    group="sync",
)
GLUE_ENDPOINT = str_key(
    "hoodie.aws.glue.endpoint",
    None,
    "The address of AWS Glue; that of the region by default.",
    group="sync",
)
GLUE_CATALOG = str_key(
    "hoodie.datasource.meta.sync.glue.catalogId",
    None,
    "The account whose catalog of AWS Glue is synced; that of the credentials by default.",
    group="sync",
)
GLUE_SKIP_ARCHIVE = bool_key(
    "hoodie.datasource.meta.sync.glue.skip_table_archive",
    True,
    "AWS Glue keeps no version of an entry that is changed.",
    group="sync",
)
GLUE_LISTING = bool_key(
    "hoodie.datasource.meta.sync.glue.metadata_file_listing",
    False,
    "Athena lists partitions and files by the metadata table: the property `hudi.metadata-listing-enabled` "
    "of entries in AWS Glue.",
    group="sync",
)
GLUE_INDEXES: Key[bool] = Key(
    "hoodie.datasource.meta.sync.glue.partition_index_fields.enable",
    False,
    "false: indexes of partitions in AWS Glue stay as they are. (Apache Hudi makes them, too.)",
    _no_indexes,
    group="sync",
)
GLUE_ALL_READS: Key[int] = Key(
    "hoodie.datasource.meta.sync.glue.all_partitions_read_parallelism",
    1,
    "Requests to AWS Glue at once that list all partitions, 1 to 10.",
    _segments,
    group="sync",
)
GLUE_READS = int_key(
    "hoodie.datasource.meta.sync.glue.changed_partitions_read_parallelism",
    1,
    "Requests to AWS Glue at once that look partitions up.",
    minimum=1,
    group="sync",
)
GLUE_CHANGES = int_key(
    "hoodie.datasource.meta.sync.glue.partition_change_parallelism",
    1,
    "Requests to AWS Glue at once that add, move or drop partitions.",
    minimum=1,
    group="sync",
)
