"""Indexes: which base file does a record live in.

`tag` is called on executors, once for a partition and a chunk of keys; the files are the partition's
latest committed base files. The folder is the registry: one module adds one index.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
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
    """Picklable; `tag` answers, for each distinct key, the position in `files` or -1."""

    def tag(self, storage: Storage, files: Sequence[BaseFile], keys: pa.Array[Any]) -> Positions: ...


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


def mark_found(reader: BaseFileReader, keys: pa.Array[Any], found: Positions, position: int) -> None:
    """Exact look into one file: keys that are in it get `position`. `keys` are distinct.

    The smaller side is hashed. Memory: the file's key column up to 64 MiB, else one batch of it.
    """
    if reader.key_column_bytes() > _WHOLE_COLUMN_BYTES:
        for part in reader.record_keys(READ_BATCH_ROWS):
            _mark(part, keys, found, position)
    else:
        for part in reader.record_keys():
            _mark(part, keys, found, position)


def _mark(
    stored: pa.Array[Any] | pa.ChunkedArray[Any], keys: pa.Array[Any], found: Positions, position: int
) -> None:
    if len(stored) <= 2 * len(keys):
        if isinstance(stored, pa.ChunkedArray):
            stored = stored.combine_chunks()
        present = pc.is_in(keys, value_set=stored).to_numpy(zero_copy_only=False)
        found[present] = position
    else:
        places: Any = pc.index_in(stored, value_set=keys)
        found[places.drop_null().to_numpy()] = position
