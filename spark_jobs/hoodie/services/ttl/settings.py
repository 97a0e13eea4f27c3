"""Settings of the time to live of partitions."""

from __future__ import annotations

import enum

from hoodie.config.key import enum_key, int_key, paths_key


class Strategy(enum.Enum):
    KEEP_BY_TIME = "KEEP_BY_TIME"
    KEEP_BY_CREATION_TIME = "KEEP_BY_CREATION_TIME"


DAYS = int_key(
    "hoodie.partition.ttl.strategy.days.retain",
    -1,
    "Days that a partition lives; `hoodie expire-partitions` without it is an error.",
    group="ttl",
)
STRATEGY = enum_key(
    "hoodie.partition.ttl.management.strategy.type",
    Strategy.KEEP_BY_TIME,
    "What the days are counted from: the last write to the partition, compactions and clusterings included, "
    "or its creation.",
    group="ttl",
)
SELECTED = paths_key(
    "hoodie.partition.ttl.strategy.partition.selected",
    (),
    "Partition paths, separated by commas, that live as long; others live forever. Unset: all partitions.",
    group="ttl",
)
MAX_PARTITIONS = int_key(
    "hoodie.partition.ttl.strategy.max.delete.partitions",
    1000,
    "Partitions that one run deletes at most, the oldest first.",
    minimum=1,
    group="ttl",
)
