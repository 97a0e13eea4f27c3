"""Settings of the indexes."""

from __future__ import annotations

import enum

from hoodie.config.key import bool_key, enum_key


class IndexType(enum.Enum):
    BLOOM = "BLOOM"
    SIMPLE = "SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    INMEMORY = "INMEMORY"
    BUCKET = "BUCKET"
    HBASE = "HBASE"
    RECORD_INDEX = "RECORD_INDEX"


INDEX_TYPE = enum_key(
    "hoodie.index.type",
    IndexType.SIMPLE,
    "How updates find their files: SIMPLE reads the keys of the touched partitions' files, BLOOM prunes "
    "files by key range and bloom filter first. Both give the same table.",
    group="index",
)
PRUNE_BY_RANGES = bool_key(
    "hoodie.bloom.index.prune.by.ranges",
    True,
    "Skip files whose key range holds none of the incoming keys; pays for keys that grow with time.",
    group="index",
)
