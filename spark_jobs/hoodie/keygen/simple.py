"""One key field, one partition field (Apache Hudi 0.15.0 SimpleKeyGenerator)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.keygen._parts import FieldKeys, ValuePart, key_fields, only_one, persist_entries
from hoodie.keygen.settings import CONSISTENT_TIMESTAMP


@dataclass(frozen=True)
class SimpleKeys(FieldKeys):
    java_class = "org.apache.hudi.keygen.SimpleKeyGenerator"

    @classmethod
    def make(cls, config: Config, schema: pa.Schema) -> SimpleKeys:
        field = only_one(config, "simple")
        return cls(
            key_fields(config, schema),
            (ValuePart.of(field, config, schema),),
            config[CONSISTENT_TIMESTAMP],
            persist_entries(cls.java_class, config, (field,)),
        )
