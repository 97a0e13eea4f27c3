"""What of a record key the BUCKET index hashes, and its hashes (Apache Hudi 0.15.0: BucketIdentifier,
ConsistentBucketIdentifier, KeyGenUtils).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Ints, array, pc, whole
from hoodie.codec.hashing import UInt32Array
from hoodie.codec.java_hash import list_hashes, text_hashes
from hoodie.codec.xxhash import xxh32
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.index.settings import BUCKET_ENGINE, BUCKETS, HASH_FIELDS, INDEX_TYPE, BucketEngine, IndexType
from hoodie.keygen.settings import RECORDKEY_FIELD

#: of a record key of several fields (`a:1,b:2`)
_FIELDS, _VALUE = ",", ":"
_NULL, _EMPTY = "__null__", "__empty__"
#: what Java makes of a null when it joins texts
_JOINED_NULL = "null"


def hash_fields(config: Config) -> tuple[str, ...]:
    """The fields of the record key whose values are hashed. Raises ConfigError for others."""
    keys = config[RECORDKEY_FIELD]
    fields: tuple[str, ...] = config[HASH_FIELDS] or keys
    if keys and (foreign := [name for name in fields if name not in keys]):
        raise ConfigError(
            f"{HASH_FIELDS.name} has {', '.join(foreign)}, not part of the record key {','.join(keys)}; "
            "name fields of the key, or leave it out",
            fields=", ".join(foreign),
        )
    return fields


def remembered(engine: BucketEngine, buckets: int, fields: Sequence[str]) -> Mapping[str, str]:
    """The properties by which a table that is made with the index remembers it."""
    other = {} if engine is BucketEngine.SIMPLE else {BUCKET_ENGINE.name: engine.value}
    return {
        INDEX_TYPE.name: IndexType.BUCKET.value,
        **other,
        BUCKETS.name: str(buckets),
        HASH_FIELDS.name: ",".join(fields),
    }


def key_hashes(keys: pa.Array[Any], fields: Sequence[str]) -> UInt32Array:
    """Of numbered buckets: `hashCode` of the list of texts that a record key is hashed by: the key, or, where
    it is one of several fields (`a:1,b:2`), the values of `fields`.
    """
    hashes = text_hashes(keys) + np.uint32(31)
    several = _of_several_fields(keys)
    if len(several):
        values, offsets = _values(keys.take(array(several)), fields)
        hashes[several] = list_hashes(text_hashes(values), offsets)
    return hashes


def ring_hashes(keys: pa.Array[Any], fields: Sequence[str]) -> UInt32Array:
    """Of hash rings: XXH32 of the same texts, joined."""
    hashes = xxh32(keys)
    several = _of_several_fields(keys)
    if len(several):
        values, offsets = _values(keys.take(array(several)), fields)
        lists = pa.ListArray.from_arrays(array(offsets, pa.int32()), pc.fill_null(values, _JOINED_NULL))
        hashes[several] = xxh32(pc.binary_join(lists, ""))
    return hashes


def _of_several_fields(keys: pa.Array[Any]) -> Ints:
    """The places of record keys that Apache Hudi takes for those of several fields."""
    return np.flatnonzero(pc.match_substring(keys, _VALUE).to_numpy(zero_copy_only=False))


def _values(keys: pa.Array[Any], fields: Sequence[str]) -> tuple[pa.Array[Any], Ints]:
    """(values of `fields` in keys of several fields, where those of each key begin). Apache Hudi cuts keys at
    every comma, and what has no colon counts. A value may be null.
    """
    parts: Any = pc.split_pattern(pc.utf8_rtrim(keys, _FIELDS), _FIELDS)
    pairs: Any = pc.split_pattern(parts.flatten(), _VALUE, max_splits=1)
    texts, sizes = pairs.flatten(), pc.list_value_length(pairs).to_numpy()
    ends = np.cumsum(sizes)
    names, values = texts.take(array(ends - sizes)), texts.take(array(ends - 1))
    named = sizes == 2
    nothing, empty = (array(named & _among(values, (text,))) for text in (_NULL, _EMPTY))
    values = pc.if_else(nothing, pa.scalar(None, pa.string()), pc.if_else(empty, "", values))
    kept = ~named | _among(names, fields)
    owners = np.repeat(np.arange(len(keys)), pc.list_value_length(parts).to_numpy())
    counts = np.bincount(owners[kept], minlength=len(keys))
    return whole(values.filter(array(kept))), np.concatenate([[0], np.cumsum(counts)])


def _among(texts: Any, known: Sequence[str]) -> Any:
    return pc.is_in(texts, value_set=array(list(known), pa.string())).to_numpy(zero_copy_only=False)
