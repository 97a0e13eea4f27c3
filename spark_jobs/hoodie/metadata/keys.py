"""The keys of records about columns and files, and the file groups that hold them (format.md 10.2, 10.3)."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import lru_cache
from typing import Any

import numpy as np

from hoodie.codec.arrays import Ints
from hoodie.codec.java_hash import text_hashes
from hoodie.codec.xxhash import xxh64

#: the partition of a table without any
NOT_PARTITIONED = "."
_SEED = 0xFFFFFFFFDABADABA


def column_key(column: str) -> str:
    """The first part of the keys of a column's statistics; a file's `file_key` follows."""
    return _name_key(column)


def file_key(partition: str, name: str) -> str:
    """Of a file's bloom filter."""
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    return partition_key(partition) + b64encode(digest).decode()


def partition_key(partition: str) -> str:
    """Of a partition, which follows the `column_key` of a column's statistics in it."""
    return _name_key(partition or NOT_PARTITIONED)


@lru_cache(maxsize=1 << 16)
def _name_key(text: str) -> str:
    return b64encode(xxh64(text.encode(), _SEED).to_bytes(8, "big")).decode()


def file_groups(keys: Any, count: int) -> Ints:
    """The number of each key's file group, of `count` that are sorted by their ids."""
    hashes = text_hashes(keys).view(np.int32).astype(np.int64)
    hashes = np.where(hashes == -(1 << 31), hashes, np.abs(hashes))  # as Java's abs of an int
    return np.abs(np.fmod(hashes, count))
