"""What of a record key the BUCKET index hashes, and its hashes.

As Apache Hudi 0.15.0 and 1.2.0 (BucketIdentifier, ConsistentBucketIdentifier, and
KeyGenUtils.extractRecordKeysByFields, which all of 1.x have so). Both take the key, or, where it looks like
one of several fields (`a:1,b:2`), the values of some fields. They differ in keys with a colon and without a
comma, in values with commas, and in keys without the fields.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Ints, array, pc, whole
from hoodie.codec.hashing import UInt32Array
from hoodie.codec.java_hash import list_hashes, text_hashes
from hoodie.codec.xxhash import xxh32
from hoodie.config import versions
from hoodie.config.key import Config
from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError
from hoodie.index.settings import BUCKET_ENGINE, BUCKETS, HASH_FIELDS, INDEX_TYPE, BucketEngine, IndexType
from hoodie.keygen.settings import RECORDKEY_FIELD
from hoodie.table.properties import INITIAL_VERSION, VERSION

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


class HashRule(enum.Enum):
    """The Apache Hudi that takes keys apart so."""

    BEFORE_1 = "0.15.0"
    SINCE_1 = "1.x"

    @property
    def other(self) -> HashRule:
        return HashRule.SINCE_1 if self is HashRule.BEFORE_1 else HashRule.BEFORE_1


@dataclass(frozen=True)
class Hashing:
    """How the keys of a table are hashed. `rule` is that of new keys; `either`: stored keys may have been
    hashed by the other rule.
    """

    rule: HashRule = HashRule.BEFORE_1
    either: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Hashing:
        """By the versions that a table has and had. Apache Hudi 1.x hashes its own way in tables of version
        6, too, and nothing there says which writer it was.
        """
        later = _is_later(properties.get(VERSION, ""))
        born_later = later and _is_later(properties.get(INITIAL_VERSION, ""))
        return cls(HashRule.SINCE_1 if later else HashRule.BEFORE_1, not born_later)


def _is_later(version: str) -> bool:
    known = {str(number): number for number in versions.VERSIONS}
    return version in known and not versions.is_of_layout(known[version], LayoutVersion.ONE)


@dataclass(frozen=True)
class HashedValues:
    """Record keys, and of those at the places `several` the values that are hashed in their stead: those of
    the i-th one begin at `offsets[i]`. A value may be null. `doubtful`: the places of keys of which the other
    rule may hash something else.
    """

    keys: pa.Array[Any]
    several: Ints
    values: pa.Array[Any]
    offsets: Ints
    doubtful: Ints

    @classmethod
    def of(cls, keys: pa.Array[Any], fields: Sequence[str], rule: HashRule) -> HashedValues:
        named = _has(keys, _VALUE)
        if not named.any():
            none = np.empty(0, dtype=np.int64)
            return cls(keys, none, array([], pa.string()), np.zeros(1, dtype=np.int64), none)
        since_1 = rule is HashRule.SINCE_1
        places = np.flatnonzero(named & _has(keys, _FIELDS) if since_1 else named)
        cut = _Cut.since_1(keys.take(array(places))) if since_1 else _Cut.before_1(keys.take(array(places)))
        values, counts = cut.values(fields, rule)
        alike = cut.regular & (counts > 0) & any(fields)
        if since_1:
            named[places[alike]] = False
            places, counts, doubtful = places[counts > 0], counts[counts > 0], np.flatnonzero(named)
        else:
            doubtful = places[~alike]
        return cls(keys, places, values, np.concatenate([[0], np.cumsum(counts)]), doubtful)

    def of_doubtful(self, fields: Sequence[str], rule: HashRule) -> HashedValues:
        """Of the doubtful keys, by a rule."""
        return HashedValues.of(self.keys.take(array(self.doubtful)), fields, rule)

    def list_hashes(self) -> UInt32Array:
        """Of numbered buckets: `hashCode` of the list of texts that are hashed."""
        hashes = text_hashes(self.keys) + np.uint32(31)
        if len(self.several):
            hashes[self.several] = list_hashes(text_hashes(self.values), self.offsets)
        return hashes

    def joined_hashes(self) -> UInt32Array:
        """Of hash rings: XXH32 of the same texts, joined."""
        hashes = xxh32(self.keys)
        if len(self.several):
            texts = pc.fill_null(self.values, _JOINED_NULL)
            lists = pa.ListArray.from_arrays(array(self.offsets, pa.int32()), texts)
            hashes[self.several] = xxh32(pc.binary_join(lists, ""))
        return hashes


@dataclass(frozen=True)
class _Cut:
    """Keys that are cut into `parts`, name and value or one text; `owners` has the key of each. `regular`:
    keys that both rules cut so.
    """

    parts: Any
    owners: Ints
    regular: Bools

    @classmethod
    def before_1(cls, keys: pa.Array[Any]) -> _Cut:
        """At every comma, those at the end left out; what has no colon is a value."""
        trimmed = pc.utf8_rtrim(keys, _FIELDS)
        pieces: Any = pc.split_pattern(trimmed, _FIELDS)
        counts = pc.list_value_length(pieces).to_numpy()
        parts: Any = pc.split_pattern(pieces.flatten(), _VALUE, max_splits=1)
        owners = np.repeat(np.arange(len(keys)), counts)
        regular = (counts > 1) & np.asarray(pc.equal(pc.binary_length(keys), pc.binary_length(trimmed)))
        regular[owners[pc.list_value_length(parts).to_numpy() == 1]] = False
        return cls(parts, owners, regular)

    @classmethod
    def since_1(cls, keys: pa.Array[Any]) -> _Cut:
        """At the last comma before a colon that follows another colon: other commas and colons belong to a
        value, or to the first name. All keys have a comma and a colon.
        """
        pieces: Any = pc.split_pattern(keys, _FIELDS)
        texts, counts = pieces.flatten(), pc.list_value_length(pieces).to_numpy()
        owners, named = np.repeat(np.arange(len(keys)), counts), _has(texts, _VALUE)
        regular = np.ones(len(keys), dtype=np.bool_)
        if not named.all():
            regular[owners[~named]] = False
            starts = np.cumsum(counts) - counts
            before: Ints = np.cumsum(named) - named
            begins = named & (before > before[starts][owners])
            begins[starts] = True
            offsets = np.append(np.flatnonzero(begins), len(begins))
            joined = pa.ListArray.from_arrays(array(offsets, pa.int32()), whole(texts))
            texts, owners = pc.binary_join(joined, _FIELDS), owners[begins]
        return cls(pc.split_pattern(texts, _VALUE, max_splits=1), owners, regular)

    def values(self, fields: Sequence[str], rule: HashRule) -> tuple[pa.Array[Any], Ints]:
        """(values of the fields, how many each key has)."""
        texts, sizes = self.parts.flatten(), pc.list_value_length(self.parts).to_numpy()
        ends = np.cumsum(sizes)
        names, values = texts.take(array(ends - sizes)), texts.take(array(ends - 1))
        named = sizes == 2
        nothing, empty = (array(named & _among(values, (text,))) for text in (_NULL, _EMPTY))
        values = pc.if_else(nothing, pa.scalar(None, pa.string()), pc.if_else(empty, "", values))
        kept = ~named | _among(names, fields)
        if rule is HashRule.SINCE_1 and not any(fields):
            kept[:] = True
        counts = np.bincount(self.owners[kept], minlength=len(self.regular))
        return whole(values.filter(array(kept))), counts


def key_hashes(keys: pa.Array[Any], fields: Sequence[str], rule: HashRule = HashRule.BEFORE_1) -> UInt32Array:
    """`HashedValues.list_hashes` of record keys."""
    return HashedValues.of(keys, fields, rule).list_hashes()


def ring_hashes(
    keys: pa.Array[Any], fields: Sequence[str], rule: HashRule = HashRule.BEFORE_1
) -> UInt32Array:
    """`HashedValues.joined_hashes` of record keys."""
    return HashedValues.of(keys, fields, rule).joined_hashes()


def _has(texts: Any, mark: str) -> Bools:
    found: Bools = np.array(pc.match_substring(texts, mark).to_numpy(zero_copy_only=False))
    return found


def _among(texts: Any, known: Sequence[str]) -> Any:
    return pc.is_in(texts, value_set=array(list(known), pa.string())).to_numpy(zero_copy_only=False)
