"""Settings of the indexes."""

from __future__ import annotations

import enum

from hoodie.config.key import Key, bool_key, enum_key, fields_key, parse_int


class IndexType(enum.Enum):
    BLOOM = "BLOOM"
    SIMPLE = "SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    INMEMORY = "INMEMORY"
    BUCKET = "BUCKET"
    HBASE = "HBASE"
    RECORD_INDEX = "RECORD_INDEX"


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
    "it.",
    group="index",
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
BUCKETS: Key[int] = Key(
    "hoodie.bucket.index.num.buckets",
    256,
    "Index BUCKET: file groups of a partition. Every write of a table needs the number that it was made "
    "with; tables that are made here remember it.",
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
    "Index BUCKET: how buckets are numbered; CONSISTENT_HASHING is refused.",
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
