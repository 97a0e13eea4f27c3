"""Indexes: which base file does a record live in. Protocol and registry.

`tag` is called on executors, once for a partition and a chunk of keys; the files are the partition's
latest committed base files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.index.settings import INDEX_TYPE, IndexType

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.index.tags import Tags
    from hoodie.storage import Storage
    from hoodie.table.view import BaseFile


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
