"""Indexes: which base file does a record live in. Base class and registry.

`tag` is called on executors, once for a partition and a chunk of keys; the files are the partition's
latest committed base files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError
from hoodie.index.settings import INDEX_CLASS, INDEX_TYPE, IndexType

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.index.tags import Tags
    from hoodie.storage import Storage
    from hoodie.table.view import BaseFile


class Index(ABC):
    """Picklable. A caller's own class is called with the keyword argument `config`."""

    @abstractmethod
    def tag(self, storage: Storage, files: Sequence[BaseFile], keys: pa.Array[Any]) -> Tags:
        """Where the keys, which are distinct, are stored; of several files that have a key, the last one."""


INDEXES = Plugins(
    kind="index",
    base=Index,  # type: ignore[type-abstract]
    places={
        IndexType.BLOOM.value: "hoodie.index.bloom:BloomIndex",
        IndexType.SIMPLE.value: "hoodie.index.simple:SimpleIndex",
    },
)


def index_for(config: Config) -> Index:
    """Raises ConfigError for index types that are not there yet."""
    if config[INDEX_CLASS]:
        return INDEXES.load(INDEX_CLASS.name, str(config[INDEX_CLASS]))(config=config)
    kind = config[INDEX_TYPE].value
    if kind not in INDEXES.places:
        raise ConfigError(
            f"{INDEX_TYPE.name}={kind} is not supported yet; set it to SIMPLE or BLOOM", value=kind
        )
    return INDEXES.load(INDEX_TYPE.name, kind)(config=config)
