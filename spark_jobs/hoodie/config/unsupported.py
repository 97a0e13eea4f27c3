"""Settings of Apache Hudi that are refused, because ignoring them would lose rows, files, safety, or what
other systems get; and those that make a table, which new tables have one value of only.

A value that asks for what is done here anyway is accepted without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.config.versions import EARLIEST


@dataclass(frozen=True)
class Unsupported:
    """`accepted`: values that ask for what is done here, in lower case; nothing at all is another.
    `instead`: why others are refused, and what to do. `stored_as`: the property of hoodie.properties that
    persists it; such a setting is judged where the table is known, as its value may be that of the table.
    """

    accepted: tuple[str, ...]
    instead: str
    stored_as: str = ""

    def accepts(self, text: str) -> bool:
        return text.strip().lower() in ("", *self.accepted)

    def same(self, asked: str, stored: str | None) -> bool:
        """Does the setting ask for what the table has."""
        if stored is None or self.accepts(stored):
            return self.accepts(asked)
        return asked.strip().lower() == stored.strip().lower()


_EVENT_TIME = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_AVRO_MERGER = "org.apache.hudi.common.model.hoodieavrorecordmerger"
_MERGE = "rows merge as hoodie.record.merge.mode or hoodie.datasource.write.payload.class says"
_ARGUMENT = "options of a query are its arguments; pass "
_INDEXES = "indexes of columns are made by hoodie index create, or CREATE INDEX; leave it out"
_OWN_CODE = "Java classes don't run here"

#: name: (accepted values, why not others and what instead)
_CHANGES_ROWS: dict[str, tuple[tuple[str, ...], str]] = {
    "hoodie.allow.operation.metadata.field": (("false",), "rows don't keep the operation that made them"),
    "hoodie.avro.schema": ((), "the schema is that of the rows; cast them before the write"),
    "hoodie.avro.schema.external.transformation": (("false",), "cast the rows before the write"),
    "hoodie.avro.schema.externalTransformation": (("false",), "cast the rows before the write"),
    "hoodie.bulkinsert.overwrite.operation.type": ((), "call insert_overwrite or insert_overwrite_table"),
    "hoodie.bucket.index.partition.expressions": (
        (),
        "all partitions of a table have one number of buckets here, whatever its version; set "
        "hoodie.bucket.index.num.buckets, or, with hoodie.index.bucket.engine=CONSISTENT_HASHING, have a "
        "clustering split large buckets",
    ),
    "hoodie.combine.before.delete": (
        ("true", "false"),
        "expected true or false; a key is deleted once, and counted once, either way",
    ),
    "hoodie.datasource.write.reconcile.schema": (
        ("false",),
        "set hoodie.write.set.null.for.missing.columns=true for rows that lack columns",
    ),
    "hoodie.datasource.write.record.merger.impls": ((_AVRO_MERGER,), _MERGE),
    "hoodie.datasource.write.record.merger.strategy": ((_EVENT_TIME,), _MERGE),
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": (
        ("false",),
        "columns are never dropped; hoodie.write.set.null.for.missing.columns=true fills them",
    ),
    "hoodie.datasource.write.secondarykey.column": ((), _INDEXES),
    "hoodie.deltastreamer.keygen.datetime.parser.class": (
        ("org.apache.hudi.keygen.parser.hoodiedatetimeparser",),
        f"{_OWN_CODE}; parse the column before the write",
    ),
    "hoodie.errortable.enable": (
        ("false",),
        "rows that can't be written are an error; filter them before, or ingest their files",
    ),
    "hoodie.keygen.datetime.parser.class": (
        ("org.apache.hudi.keygen.parser.hoodiedatetimeparser",),
        f"{_OWN_CODE}; parse the column before the write",
    ),
    "hoodie.payload.update.on.same.ordering.field": (
        ("true",),
        "of equal ordering values the new row wins",
    ),
    "hoodie.sql.insert.mode": (
        ("non-strict",),
        "INSERT INTO goes by hoodie.spark.sql.insert.into.operation=upsert, or for strict by "
        "hoodie.datasource.insert.dup.policy=fail",
    ),
    "hoodie.storage.layout.partitioner.class": ((), _OWN_CODE),
    "hoodie.storage.layout.type": (("default",), "hoodie.index.type=BUCKET alone brings the BUCKET layout"),
    "hoodie.write.partial.update.schema": ((), "bring whole rows, or choose a payload of partial updates"),
    "hoodie.write.partial.update.unavailable.value": ((), "choose a payload of partial updates"),
    "hoodie.write.record.merge.custom.implementation.classes": ((_AVRO_MERGER,), _MERGE),
    "hoodie.write.record.merge.strategy.id": ((_EVENT_TIME,), _MERGE),
    "hoodie.write.schema": ((), "the schema is that of the rows; cast them before the write"),
}

_CHANGES_ANSWERS: dict[str, tuple[tuple[str, ...], str]] = {
    "hoodie.datasource.merge.type": (
        ("payload_combine",),
        "logs are always merged; a read_optimized query leaves them out",
    ),
    "hoodie.datasource.query.type": (("snapshot",), f"{_ARGUMENT}query=…"),
    "hoodie.datasource.read.begin.instanttime": ((), f"{_ARGUMENT}begin=…"),
    "hoodie.datasource.read.end.instanttime": ((), f"{_ARGUMENT}end=…"),
    "hoodie.datasource.read.incr.filters": ((), f"{_ARGUMENT}where=…"),
    "hoodie.datasource.read.incr.path.glob": ((), f"{_ARGUMENT}where=… on the partition columns"),
    "hoodie.datasource.read.paths": ((), "a query is of one table, whose path is its first argument"),
    "hoodie.datasource.read.schema.use.end.instanttime": (
        ("false",),
        "an incremental query has the table's newest columns; choose columns=…",
    ),
    "hoodie.datasource.view.type": (("snapshot",), f"{_ARGUMENT}query=…"),
    "hoodie.query.as.ro.table": (("false",), f"{_ARGUMENT}query='read_optimized'"),
    "hoodie.realtime.merge.skip": (("false",), f"{_ARGUMENT}query='read_optimized'"),
}

_CHANGES_SAFETY: dict[str, tuple[tuple[str, ...], str]] = {
    "hoodie.allow.empty.commit": (
        ("true",),
        "a write without rows makes a commit, which others wait for; skip the write where there are none",
    ),
    "hoodie.auto.commit": (("true",), "a write commits itself"),
    "hoodie.assume.date.partitioning": (("false",), "partitions are found by their metadata files"),
    "hoodie.clean.failed.writes.policy": (
        ("eager", "lazy"),
        "the next write rolls back what failed, once its heartbeat has ended",
    ),
    "hoodie.clean.partition.filter.regex": ((), "all partitions are cleaned; switch the cleaner off"),
    "hoodie.clean.partition.filter.selected": ((), "all partitions are cleaned; switch the cleaner off"),
    "hoodie.cleaner.partition.filter.regex": ((), "all partitions are cleaned; switch the cleaner off"),
    "hoodie.cleaner.partition.filter.selected": ((), "all partitions are cleaned; switch the cleaner off"),
    "hoodie.cleaner.policy.failed.writes": (
        ("eager", "lazy"),
        "the next write rolls back what failed, once its heartbeat has ended",
    ),
    "hoodie.index.hbase.security.authentication": (
        ("simple",),
        "the Thrift server is asked without Kerberos; leave it out",
    ),
    "hoodie.metaserver.enabled": (("false",), "the timeline is read from the table's storage"),
    "hoodie.partition.ttl.inline": (("false",), "run `hoodie expire-partitions` after the writes"),
    "hoodie.partition.ttl.strategy.class": ((), "name it by hoodie.partition.ttl.management.strategy.type"),
    "hoodie.precommit.validators.failure.policy": (("fail",), "what a validator refuses is not committed"),
    "hoodie.prewrite.validators": ((), f"{_OWN_CODE}; check the rows in a task before the write"),
    "hoodie.rollback.instant.backup.enabled": (
        ("false",),
        "instants that are rolled back are deleted; copy them before",
    ),
    "hoodie.write.concurrency.early.conflict.detection.strategy": (
        ("org.apache.hudi.table.marker.simpledirectmarkerbaseddetectionstrategy",),
        "conflicts are detected early by direct markers, as SimpleDirectMarkerBasedDetectionStrategy does; "
        "leave it out",
    ),
    "hoodie.write.lock.conflict.resolution.strategy": (
        (
            "org.apache.hudi.client.transaction.simpleconcurrentfilewritesconflictresolutionstrategy",
            "org.apache.hudi.client.transaction.bucketindexconcurrentfilewritesconflictresolutionstrategy",
        ),
        "the first of two writers that change one file group wins, as with "
        "SimpleConcurrentFileWritesConflictResolutionStrategy; leave it out",
    ),
}

_CHANGES_WHAT_OTHERS_SEE: dict[str, tuple[tuple[str, ...], str]] = {
    "hoodie.avro.write.support.class": (("org.apache.hudi.avro.hoodieavrowritesupport",), _OWN_CODE),
    "hoodie.client.init.callback.classes": ((), f"{_OWN_CODE}; run what they do in a task of its own"),
    "hoodie.compact.merge.handle.class": (
        ("org.apache.hudi.io.filegroupreaderbasedmergehandle",),
        _OWN_CODE,
    ),
    "hoodie.datasource.hive_sync.assume_date_partitioning": (
        ("false",),
        "partitions are found by their metadata files",
    ),
    "hoodie.datasource.hive_sync.base_file_format": (("parquet",), "base files are Parquet"),
    "hoodie.datasource.hive_sync.bucket_sync": (("false",), "entries have no buckets of Hive's"),
    "hoodie.datasource.hive_sync.bucket_sync_spec": ((), "entries have no buckets of Hive's"),
    "hoodie.datasource.hive_sync.create_managed_table": (
        ("false",),
        "Hive would delete the files with the entry; entries are external tables",
    ),
    "hoodie.datasource.hive_sync.mode": (
        ("hms",),
        "sync speaks with the metastore itself; expected hms",
    ),
    "hoodie.datasource.hive_sync.recreate_table_on_error": (
        ("false",),
        "an entry is never dropped; drop it by hand, and sync again",
    ),
    "hoodie.datasource.hive_sync.use_jdbc": (
        ("false",),
        "sync speaks with the metastore itself, not by JDBC; leave it out",
    ),
    "hoodie.datasource.hive_sync.use_pre_apache_input_format": (
        ("false",),
        "entries have the input formats of org.apache.hudi",
    ),
    "hoodie.datasource.hive_sync.use_spark_catalog": (("false",), "set hoodie.datasource.hive_sync.mode=hms"),
    "hoodie.io.factory.class": (
        (
            "org.apache.hudi.io.hadoop.hoodiehadoopiofactory",
            "org.apache.hudi.io.storage.hadoop.hoodiehadoopiofactory",
        ),
        _OWN_CODE,
    ),
    "hoodie.meta.sync.no_partition_metadata": (("false",), "partitions are found by their metadata files"),
    "hoodie.meta.sync.touch.partitions.enabled": (("false",), "a partition without a change stays as it is"),
    "hoodie.meta_sync.global.replicate.timestamp": ((), "sync each metastore by itself"),
    "hoodie.metadata.index.bloom.filter.column.list": (
        (),
        "bloom filters are of the record key; leave it out",
    ),
    "hoodie.parquet.spark.row.write.support.class": (
        ("org.apache.hudi.io.storage.row.hoodierowparquetwritesupport",),
        _OWN_CODE,
    ),
    "hoodie.parquet.write.config.injector.class": (
        (),
        f"{_OWN_CODE}, and files are not encrypted; encrypt the storage",
    ),
    "hoodie.storage.class": (("org.apache.hudi.storage.hadoop.hoodiehadoopstorage",), _OWN_CODE),
    "hoodie.write.concat.handle.class": (("org.apache.hudi.io.hoodieconcathandle",), _OWN_CODE),
    "hoodie.write.merge.handle.class": (
        ("org.apache.hudi.io.filegroupreaderbasedmergehandle",),
        _OWN_CODE,
    ),
    "hoodie.write.rolling.metadata.keys": (
        (),
        "commits carry no metadata of earlier ones, so that later writers of Apache Hudi would not find it; "
        "leave it out",
    ),
}

_FORMAT = "base files are Parquet"
_VERSION = "set hoodie.write.table.version for a new table, and change that of a table by hoodie upgrade"
_FOLLOWS = f"it follows from the table version; {_VERSION}"
#: name: (accepted values, why not others and what instead, property where it is not the name)
_MAKES_TABLES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "hoodie.base.file.format": (("parquet",), _FORMAT, "hoodie.table.base.file.format"),
    "hoodie.bootstrap.base.path": ((), "bootstrap the table with Apache Hudi, or write the rows", ""),
    "hoodie.compaction.record.merger.strategy": ((_EVENT_TIME,), _MERGE, ""),
    "hoodie.datasource.write.drop.partition.columns": (
        ("false",),
        "base files hold the partition columns, too; leave it out",
        "",
    ),
    "hoodie.datasource.write.slash.separated.date.partitioning": (
        ("false",),
        "use the timestamp key generator with the output format yyyy/MM/dd",
        "",
    ),
    "hoodie.partition.metafile.use.base.format": (("false",), "partition metadata is text", ""),
    "hoodie.populate.meta.fields": (("true",), "updates and incremental queries need the meta columns", ""),
    "hoodie.record.merge.strategy.id": (
        (_EVENT_TIME,),
        _MERGE,
        "hoodie.compaction.record.merger.strategy",
    ),
    "hoodie.table.base.file.format": (("parquet",), _FORMAT, ""),
    "hoodie.table.checksum": ((), "it is computed from the table's name; leave it out", ""),
    "hoodie.table.create.schema": ((), "the schema is that of the first rows; leave it out", ""),
    "hoodie.table.format": (("native",), "tables have Apache Hudi's own format", ""),
    "hoodie.table.index.defs.path": ((), _INDEXES, ""),
    "hoodie.table.initial.version": (
        (str(EARLIEST.number), EARLIEST.name.lower()),
        f"a new table has its own version there; {_VERSION}",
        "",
    ),
    "hoodie.table.legacy.payload.class": ((), "set hoodie.datasource.write.payload.class", ""),
    "hoodie.table.log.file.format": (("hoodie_log",), "logs are Apache Hudi's", ""),
    "hoodie.table.metadata.partitions": ((), "there is no metadata table; leave it out", ""),
    "hoodie.table.metadata.partitions.inflight": ((), "there is no metadata table; leave it out", ""),
    "hoodie.table.multiple.base.file.formats.enable": (("false",), _FORMAT, ""),
    "hoodie.table.partial.update.mode": ((), "choose a payload of partial updates", ""),
    "hoodie.table.ro.file.format": (("parquet",), _FORMAT, "hoodie.table.base.file.format"),
    "hoodie.table.rt.file.format": (
        ("hoodie_log",),
        "logs are Apache Hudi's",
        "hoodie.table.log.file.format",
    ),
    "hoodie.table.secondary.indexes.metadata": ((), _INDEXES, ""),
    "hoodie.timeline.history.path": (("history",), _FOLLOWS, ""),
    "hoodie.timeline.layout.version": ((str(EARLIEST.layout.value),), _FOLLOWS, ""),
    "hoodie.timeline.path": (("timeline",), _FOLLOWS, ""),
}

UNSUPPORTED: Mapping[str, Unsupported] = {
    name: Unsupported(accepted, instead)
    for rules in (_CHANGES_ROWS, _CHANGES_ANSWERS, _CHANGES_SAFETY, _CHANGES_WHAT_OTHERS_SEE)
    for name, (accepted, instead) in rules.items()
} | {
    name: Unsupported(accepted, instead, stored_as or name)
    for name, (accepted, instead, stored_as) in _MAKES_TABLES.items()
}

#: checked elsewhere, or true of every write: no word about them
SILENT = frozenset(
    {
        "hoodie.avro.schema.validate",
        "hoodie.datasource.write.operation",
    }
)


def refused(name: str, text: str) -> str | None:
    """Why the setting is refused whatever table it is for; None when it isn't."""
    rule = UNSUPPORTED.get(name)
    if rule is None or rule.stored_as or rule.accepts(text):
        return None
    return f"{name}={text!r} is not supported: {rule.instead}"
