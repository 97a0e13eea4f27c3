"""Settings of the indexes."""

from __future__ import annotations

import enum

from hoodie.config.key import Key, bool_key, enum_key


class IndexType(enum.Enum):
    BLOOM = "BLOOM"
    SIMPLE = "SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    INMEMORY = "INMEMORY"
    BUCKET = "BUCKET"
    HBASE = "HBASE"
    RECORD_INDEX = "RECORD_INDEX"


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
    "files by key range and bloom filter first. Both give the same table.",
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
