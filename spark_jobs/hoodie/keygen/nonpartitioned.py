"""Any number of key fields, no partitions (Apache Hudi 0.15.0 NonpartitionedKeyGenerator)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.keygen._parts import FieldKeys, key_fields, persist_entries
from hoodie.keygen.settings import CONSISTENT_TIMESTAMP, PARTITIONPATH_FIELD


@dataclass(frozen=True)
class NonpartitionedKeys(FieldKeys):
    java_class = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"

    @classmethod
    def make(cls, config: Config, schema: pa.Schema) -> NonpartitionedKeys:
        fields = config[PARTITIONPATH_FIELD]
        if fields:
            raise ConfigError(
                f"the nonpartitioned key generator ignores {PARTITIONPATH_FIELD.name}={','.join(fields)!r}; "
                "leave it empty or choose another key generator.",
                partitionpath=",".join(fields),
            )
        return cls(
            key_fields(config, schema),
            (),
            config[CONSISTENT_TIMESTAMP],
            persist_entries(cls.java_class, config, ()),
        )
