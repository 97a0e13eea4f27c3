"""Settings of the indexes."""

from __future__ import annotations

import enum

from hoodie.config.key import (
    Config,
    Key,
    bool_key,
    enum_key,
    fields_key,
    int_key,
    parse_float,
    parse_int,
    str_key,
)


class IndexType(enum.Enum):
    BLOOM = "BLOOM"
    SIMPLE = "SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    INMEMORY = "INMEMORY"
    BUCKET = "BUCKET"
    HBASE = "HBASE"
    RECORD_INDEX = "RECORD_INDEX"
    GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
    RECORD_LEVEL_INDEX = "RECORD_LEVEL_INDEX"


#: those that know one place of a key
RECORD_INDEXES = frozenset(
    {IndexType.RECORD_INDEX, IndexType.GLOBAL_RECORD_LEVEL_INDEX, IndexType.RECORD_LEVEL_INDEX}
)


class ThriftTransport(enum.Enum):
    BUFFERED = "buffered"
    FRAMED = "framed"


class ThriftProtocol(enum.Enum):
    BINARY = "binary"
    COMPACT = "compact"


class BucketEngine(enum.Enum):
    SIMPLE = "SIMPLE"
    CONSISTENT_HASHING = "CONSISTENT_HASHING"


#: a file id begins with the bucket's number in eight digits
_MOST_BUCKETS = 10**8


def _buckets(text: str) -> int:
    count = parse_int(text)
    if not 0 < count <= _MOST_BUCKETS:
        raise ValueError(f"must be from 1 to {_MOST_BUCKETS}")
    return count


def _port(text: str) -> int:
    port = parse_int(text)
    if not 0 < port < 1 << 16:
        raise ValueError("must be from 1 to 65535")
    return port


def _share(text: str) -> float:
    share = parse_float(text)
    if not 0 < share <= 1:
        raise ValueError("must be greater than 0, and at most 1")
    return share


def _own_class(text: str) -> str:
    name = text.strip()
    if ":" not in name:
        raise ValueError(
            "expected a Python class as module:Class; Java classes don't run here, set hoodie.index.type"
        )
    return name


INDEX_TYPE = enum_key(
    "hoodie.index.type",
    IndexType.SIMPLE,
    "How updates find their files: SIMPLE reads the keys of the touched partitions' files, BLOOM prunes "
    "files by key range and bloom filter first; both give the same table. With GLOBAL_SIMPLE and "
    "GLOBAL_BLOOM a key names one record in the whole table: they look into all partitions. BUCKET reads no "
    "keys: the hash of its key says which file group a record is in; a table is made with it, and remembers "
    "it. HBASE asks a table in HBase which file of the whole table may have a key, RECORD_INDEX (also "
    "GLOBAL_RECORD_LEVEL_INDEX) the record index of the metadata table, which "
    "hoodie.metadata.record.index.enable makes, RECORD_LEVEL_INDEX that of each partition, which "
    "hoodie.metadata.record.level.index.enable makes. INMEMORY gives the same table as SIMPLE, and holds the "
    "keys that it has read in the memory of the process, for the writes that follow.",
    group="index",
)
INDEX_MEMORY = int_key(
    "hoodie.memory.index.max.size",
    268435456,
    "Index INMEMORY: bytes of keys, of all tables, that a process holds between its writes. The keys of a "
    "file that does not fit are read by every write, as SIMPLE reads them, with a warning of the result.",
    minimum=0,
    group="memory",
)
INDEX_CLASS: Key[str | None] = Key(
    "hoodie.index.class",
    None,
    "An index of your own, `module:Class`, derived from hoodie.index.Index; it goes before "
    "hoodie.index.type.",
    _own_class,
    group="index",
)
PRUNE_BY_RANGES = bool_key(
    "hoodie.bloom.index.prune.by.ranges",
    True,
    "Skip files whose key range holds none of the incoming keys; pays for keys that grow with time.",
    group="index",
)
BY_METADATA = bool_key(
    "hoodie.bloom.index.use.metadata",
    False,
    "BLOOM and GLOBAL_BLOOM: take key ranges and bloom filters from the indexes column_stats and "
    "bloom_filters of the metadata table, and open no file to leave it out. Files that these do not know are "
    "opened, with a warning.",
    group="index",
)
BUCKETS: Key[int] = Key(
    "hoodie.bucket.index.num.buckets",
    256,
    "Index BUCKET: file groups of a partition. Every write of a table needs the number that it was made "
    "with; tables that are made here remember it. With CONSISTENT_HASHING those of a new partition.",
    _buckets,
    group="index",
)
HASH_FIELDS = fields_key(
    "hoodie.bucket.index.hash.field",
    (),
    "Index BUCKET: the columns of the record key whose values are hashed. Unset: all.",
    group="index",
)
BUCKET_ENGINE = enum_key(
    "hoodie.index.bucket.engine",
    BucketEngine.SIMPLE,
    "Index BUCKET: SIMPLE has a fixed number of buckets; with CONSISTENT_HASHING, for merge-on-read tables, "
    "a clustering splits and merges those of each partition.",
    group="index",
)
_MOVES = (
    "of a record whose partition path has changed: true deletes it where it is stored and inserts it into "
    "its new partition, false updates it where it is stored."
)
BLOOM_MOVES = bool_key(
    "hoodie.bloom.index.update.partition.path", True, f"With GLOBAL_BLOOM, {_MOVES}", group="index"
)
SIMPLE_MOVES = bool_key(
    "hoodie.simple.index.update.partition.path", True, f"With GLOBAL_SIMPLE, {_MOVES}", group="index"
)

RECORD_INDEX_MOVES = bool_key(
    "hoodie.record.index.update.partition.path", False, f"With RECORD_INDEX, {_MOVES}", group="index"
)

_HBASE = "Index HBASE: "
HBASE_HOST = str_key(
    "hoodie.index.hbase.thrift.host",
    None,
    f"{_HBASE}the host of HBase's Thrift server. Apache Hudi's settings of ZooKeeper, "
    "hoodie.index.hbase.zkquorum and its kind, are for HBase's Java client and have no effect here.",
    group="index",
)
HBASE_PORT: Key[int] = Key(
    "hoodie.index.hbase.thrift.port", 9090, f"{_HBASE}the port of that server.", _port, group="index"
)
HBASE_TRANSPORT = enum_key(
    "hoodie.index.hbase.thrift.transport",
    ThriftTransport.BUFFERED,
    f"{_HBASE}how that server was started: framed with -nonblocking, -hsha, -threadedselector or -framed.",
    group="index",
)
HBASE_PROTOCOL = enum_key(
    "hoodie.index.hbase.thrift.protocol",
    ThriftProtocol.BINARY,
    f"{_HBASE}how that server was started: compact with -compact.",
    group="index",
)
HBASE_TABLE = str_key(
    "hoodie.index.hbase.table",
    None,
    f"{_HBASE}the table in HBase, with a column family `_s`; one for each table of Hudi's.",
    group="index",
)
HBASE_GET_BATCH = int_key(
    "hoodie.index.hbase.get.batch.size",
    100,
    f"{_HBASE}rows that one request reads. Not a rate, as in Apache Hudi.",
    minimum=1,
    group="index",
)
HBASE_PUT_BATCH = int_key(
    "hoodie.index.hbase.put.batch.size",
    100,
    f"{_HBASE}rows that one request writes. Not a rate, as in Apache Hudi.",
    minimum=1,
    group="index",
)
HBASE_AUTOCOMPUTE = bool_key(
    "hoodie.index.hbase.put.batch.size.autocompute",
    False,
    f"{_HBASE}write so many rows a second as the settings allow for the region servers of the table, in one "
    "request.",
    group="index",
)
HBASE_MAX_QPS = int_key(
    "hoodie.index.hbase.max.qps.per.region.server",
    1000,
    f"{_HBASE}with autocompute: rows that a region server may be given in a second, by all writers.",
    minimum=1,
    group="index",
)
HBASE_QPS_FRACTION: Key[float] = Key(
    "hoodie.index.hbase.qps.fraction",
    0.5,
    f"{_HBASE}with autocompute: this writer's part of that.",
    _share,
    group="index",
)
HBASE_CONNECT_MS = int_key(
    "hoodie.index.hbase.zk.connection_timeout_ms",
    15_000,
    f"{_HBASE}milliseconds to wait for a connection to the Thrift server.",
    minimum=1,
    group="index",
)
HBASE_REQUEST_MS = int_key(
    "hoodie.index.hbase.zk.session_timeout_ms",
    60_000,
    f"{_HBASE}milliseconds to wait for the answer to a request.",
    minimum=1,
    group="index",
)
HBASE_MOVES = bool_key(
    "hoodie.hbase.index.update.partition.path", False, f"With HBASE, {_MOVES}", group="index"
)
HBASE_ROLLBACK_SYNC = bool_key(
    "hoodie.index.hbase.rollback.sync",
    False,
    f"{_HBASE}when a write is rolled back, take out of HBase what it had entered, for Apache Hudi's writers "
    "and to save space: this scans HBase's table. Writers of this package need it not.",
    group="index",
)


def is_consistent(config: Config) -> bool:
    """Is the index the BUCKET index with hash rings."""
    bucket = config[INDEX_TYPE] is IndexType.BUCKET and not config[INDEX_CLASS]
    return bucket and config[BUCKET_ENGINE] is BucketEngine.CONSISTENT_HASHING
