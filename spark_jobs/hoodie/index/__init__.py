"""Indexes: which base file does a record live in.

`tag` is called on executors, once for a partition and a chunk of keys; the files are the partition's
latest committed base files. The folder is the registry: one module adds one index.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.config.key import Config, enum_key
from hoodie.errors import ConfigError
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.storage import Storage
from hoodie.table.view import BaseFile

Positions = npt.NDArray[np.int32]

#: `Tags.rows` of a key that is not stored, and of one that a file holds more than once
NOWHERE, REPEATED = -1, -2


@dataclass(frozen=True)
class Tags:
    """Where distinct keys are stored: `files` holds positions in the list of files (-1: in none), `rows` the
    key's row in that file (NOWHERE: in none, REPEATED: in several rows, which must be looked up again)."""

    files: Positions
    rows: Positions

    @classmethod
    def of(cls, count: int) -> Tags:
        return cls(np.full(count, NOWHERE, dtype=np.int32), np.full(count, NOWHERE, dtype=np.int32))


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

#: a key column larger than this (bytes, uncompressed) is looked at in batches
_WHOLE_COLUMN_BYTES = 64 << 20


class Index(Protocol):
    """Picklable; the keys are distinct. Of several files that have a key, `tag` names the last one."""

    def tag(self, storage: Storage, files: Sequence[BaseFile], keys: pa.Array[Any]) -> Tags: ...


def index_for(config: Config) -> Index:
    """Raises ConfigError for index types that are not there yet."""
    kind = config[INDEX_TYPE]
    if kind is IndexType.SIMPLE:
        from hoodie.index.simple import SimpleIndex

        return SimpleIndex()
    if kind is IndexType.BLOOM:
        from hoodie.index.bloom import BloomIndex

        return BloomIndex.of(config)
    raise ConfigError(
        f"{INDEX_TYPE.name}={kind.value} is not supported yet; set it to SIMPLE or BLOOM", value=kind.value
    )


def mark_found(reader: BaseFileReader, keys: pa.Array[Any], tags: Tags, position: int) -> None:
    """Exact look into one file: tag the keys that are in it. `keys` are distinct.

    Memory: the file's key column up to 64 MiB, else one batch of it.
    """
    step = READ_BATCH_ROWS if reader.key_column_bytes() > _WHOLE_COLUMN_BYTES else None
    start = 0
    for stored in reader.record_keys(step):
        hits: Any = pc.index_in(stored, value_set=keys)
        places: Positions = hits.fill_null(NOWHERE).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(places != NOWHERE)
        found = places[rows]
        again = tags.files[found] == position
        tags.files[found] = position
        tags.rows[found] = start + rows
        again |= tags.rows[found] != start + rows
        tags.rows[found[again]] = REPEATED
        start += len(stored)
