"""BUCKET, the simple engine: the hash of its key says in which of a partition's file groups a record is.

As Apache Hudi 0.15.0 (BucketIdentifier, HoodieSimpleBucketIndex): a file id begins with the bucket's number
in eight digits. Apache Hudi 1.x puts keys with a comma in a value, and keys of one field with a colon, into
other buckets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array, pc, whole
from hoodie.codec.hashing import UInt32Array
from hoodie.codec.java_hash import list_hashes, text_hashes
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.format.names import new_file_id
from hoodie.index import PlacingIndex
from hoodie.index.locations import Positions
from hoodie.index.settings import BUCKET_ENGINE, BUCKETS, HASH_FIELDS, INDEX_TYPE, BucketEngine, IndexType
from hoodie.keygen.settings import RECORDKEY_FIELD

_DIGITS = 8
_NUMBERED = re.compile(r"[0-9]{8}-")
#: of a record key of several fields
_FIELDS, _VALUE = ",", ":"
#: what stands for null and "" in such a key, whose hash codes are both 0
_ABSENT = ("__null__", "__empty__")
#: numbers of buckets that are tried for the advice of an error
_TRIED = 4096


@dataclass(frozen=True)
class BucketIndex(PlacingIndex):
    buckets: int
    fields: tuple[str, ...]

    @classmethod
    def make(cls, config: Config) -> BucketIndex:
        if config[BUCKET_ENGINE] is not BucketEngine.SIMPLE:
            engine = config[BUCKET_ENGINE].value
            raise ConfigError(
                f"{BUCKET_ENGINE.name}={engine} is not supported; set it to SIMPLE for a new table, and "
                "write a table of consistent hashing with Apache Hudi",
                value=engine,
            )
        keys = config[RECORDKEY_FIELD]
        fields = config[HASH_FIELDS] or keys
        if keys and (foreign := [name for name in fields if name not in keys]):
            raise ConfigError(
                f"{HASH_FIELDS.name} has {', '.join(foreign)}, not part of the record key {','.join(keys)}; "
                "name fields of the key, or leave it out",
                fields=", ".join(foreign),
            )
        return cls(config[BUCKETS], fields)

    @property
    def persisted(self) -> Mapping[str, str]:
        return {
            INDEX_TYPE.name: IndexType.BUCKET.value,
            BUCKETS.name: str(self.buckets),
            HASH_FIELDS.name: ",".join(self.fields),
        }

    def place(self, partition: str, keys: pa.Array[Any]) -> Positions:
        return (self._hashes(keys) % np.uint32(self.buckets)).astype(np.int32)

    def number(self, partition: str, file_id: str) -> int | None:
        return int(file_id[:_DIGITS]) if _NUMBERED.match(file_id) else None

    def new_file_id(self, partition: str, number: int) -> str:
        return f"{number:0{_DIGITS}d}{new_file_id()[_DIGITS:]}"

    def advice(self, stored: Sequence[tuple[int, pa.Array[Any]]]) -> str:
        known = [(number, self._hashes(keys)) for number, keys in stored]
        for buckets in range(known[0][0] + 1, _TRIED):
            if all((hashes % np.uint32(buckets) == number).all() for number, hashes in known):
                return f"they fit {BUCKETS.name}={buckets}"
        return f"set {BUCKETS.name} and {HASH_FIELDS.name} as when the table was made"

    def _hashes(self, keys: pa.Array[Any]) -> UInt32Array:
        """Without their sign, of which the remainder is the bucket."""
        return key_hashes(keys, self.fields) & np.uint32(0x7FFFFFFF)


def key_hashes(keys: pa.Array[Any], fields: Sequence[str]) -> UInt32Array:
    """`hashCode` of the list of texts that a record key is hashed by: the key, or, where it is one of several
    fields (`a:1,b:2`), the values of `fields`.
    """
    hashes = text_hashes(keys) + np.uint32(31)
    several = np.flatnonzero(pc.match_substring(keys, _VALUE).to_numpy(zero_copy_only=False))
    if len(several):
        hashes[several] = _of_values(keys.take(array(several)), fields)
    return hashes


def _of_values(keys: pa.Array[Any], fields: Sequence[str]) -> UInt32Array:
    """Of keys of several fields: Apache Hudi cuts them at every comma, and what has no colon counts."""
    parts: Any = pc.split_pattern(pc.utf8_rtrim(keys, _FIELDS), _FIELDS)
    pairs: Any = pc.split_pattern(parts.flatten(), _VALUE, max_splits=1)
    texts, sizes = pairs.flatten(), pc.list_value_length(pairs).to_numpy()
    ends = np.cumsum(sizes)
    names, values = texts.take(array(ends - sizes)), texts.take(array(ends - 1))
    named = sizes == 2
    hashes = text_hashes(whole(values))
    hashes[named & _among(values, _ABSENT)] = 0
    kept = ~named | _among(names, fields)
    owners = np.repeat(np.arange(len(keys)), pc.list_value_length(parts).to_numpy())
    counts = np.bincount(owners[kept], minlength=len(keys))
    return list_hashes(hashes[kept], np.concatenate([[0], np.cumsum(counts)]))


def _among(texts: Any, known: Sequence[str]) -> Any:
    return pc.is_in(texts, value_set=array(list(known), pa.string())).to_numpy(zero_copy_only=False)
