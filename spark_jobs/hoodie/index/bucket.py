"""BUCKET, the simple engine: the hash of its key says in which of a partition's file groups a record is.

As Apache Hudi 0.15.0 (BucketIdentifier, HoodieSimpleBucketIndex): a file id begins with the bucket's number
in eight digits. Non-blocking writers give a new bucket one file id, of zeros (Apache Hudi 1.2.0
BucketIdentifier.newBucketFileIdForNBCC).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.hashing import UInt32Array
from hoodie.concurrency.settings import CONCURRENCY_MODE, ConcurrencyMode
from hoodie.config.key import Config
from hoodie.format.names import SHARED_BUCKET, new_file_id
from hoodie.index.hashed import HashedIndex
from hoodie.index.hashed_values import HashedValues, hash_fields, remembered
from hoodie.index.locations import Positions
from hoodie.index.settings import BUCKETS, HASH_FIELDS, BucketEngine

_DIGITS = 8
_NUMBERED = re.compile(r"[0-9]{8}-")
#: numbers of buckets that are tried for the advice of an error
_TRIED = 4096


@dataclass(frozen=True)
class BucketIndex(HashedIndex):
    shared: bool = False

    @classmethod
    def make(cls, config: Config) -> BucketIndex:
        shared = config[CONCURRENCY_MODE] is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
        return cls(config[BUCKETS], hash_fields(config), shared=shared)

    @property
    def persisted(self) -> Mapping[str, str]:
        return remembered(BucketEngine.SIMPLE, self.buckets, self.fields)

    def number(self, partition: str, file_id: str) -> int | None:
        return int(file_id[:_DIGITS]) if _NUMBERED.match(file_id) else None

    def new_file_id(self, partition: str, number: int) -> str:
        return f"{number:0{_DIGITS}d}{SHARED_BUCKET if self.shared else new_file_id()[_DIGITS:]}"

    def advice(self, stored: Sequence[tuple[int, pa.Array[Any]]]) -> str:
        rules = [self.hashing.rule, *([self.hashing.rule.other] if self.hashing.either else [])]
        known = [
            (number, [_unsigned(HashedValues.of(keys, self.fields, rule)) for rule in rules])
            for number, keys in stored
        ]
        for buckets in range(stored[0][0] + 1, _TRIED):
            fits = (
                np.any([found % np.uint32(buckets) == number for found in hashes], axis=0)
                for number, hashes in known
            )
            if all(fit.all() for fit in fits):
                return f"they fit {BUCKETS.name}={buckets}"
        return f"set {BUCKETS.name} and {HASH_FIELDS.name} as when the table was made"

    def _numbers(self, partition: str, hashed: HashedValues) -> Positions:
        return (_unsigned(hashed) % np.uint32(self.buckets)).astype(np.int32)


def _unsigned(hashed: HashedValues) -> UInt32Array:
    """The hashes without their sign, of which the remainder is the bucket."""
    return hashed.list_hashes() & np.uint32(0x7FFFFFFF)
