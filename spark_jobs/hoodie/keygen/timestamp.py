"""One key field; the partition is a point in time (Apache Hudi 0.15.0 TimestampBasedKeyGenerator)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.keygen._parts import FieldKeys, key_fields, only_one, persist_entries
from hoodie.keygen._time_part import TimePart, timebased_entries
from hoodie.keygen.settings import CONSISTENT_TIMESTAMP


@dataclass(frozen=True)
class TimestampKeys(FieldKeys):
    java_class = "org.apache.hudi.keygen.TimestampBasedKeyGenerator"

    @classmethod
    def make(cls, config: Config, schema: pa.Schema) -> TimestampKeys:
        field = only_one(config, "timestamp")
        return cls(
            key_fields(config, schema),
            (TimePart.of(field, config, schema),),
            config[CONSISTENT_TIMESTAMP],
            persist_entries(cls.java_class, config, (field,)) + timebased_entries(config),
        )
