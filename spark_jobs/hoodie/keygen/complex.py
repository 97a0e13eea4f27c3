"""Any number of key and partition fields (Apache Hudi 0.15.0 ComplexKeyGenerator).

With a single key field the key is its bare value, as 0.15.0 writes it on upsert and insert.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.keygen._parts import FieldKeys, ValuePart, key_fields, persist_entries
from hoodie.keygen.settings import CONSISTENT_TIMESTAMP, PARTITIONPATH_FIELD


@dataclass(frozen=True)
class ComplexKeys(FieldKeys):
    java_class = "org.apache.hudi.keygen.ComplexKeyGenerator"

    @classmethod
    def make(cls, config: Config, schema: pa.Schema) -> ComplexKeys:
        fields = config[PARTITIONPATH_FIELD]
        return cls(
            key_fields(config, schema),
            tuple(ValuePart.of(field, config, schema) for field in fields),
            config[CONSISTENT_TIMESTAMP],
            persist_entries(cls.java_class, config, fields),
        )
