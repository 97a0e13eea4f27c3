"""Any number of key fields; partition fields each `column:SIMPLE` or `column:TIMESTAMP`.

Apache Hudi 0.15.0 CustomKeyGenerator. A table of version 6 remembers bare column names only, so the types
have to be given with every write.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.keygen._parts import FieldKeys, Part, ValuePart, key_fields, persist_entries
from hoodie.keygen._time_part import TimePart, timebased_entries
from hoodie.keygen.settings import CONSISTENT_TIMESTAMP, PARTITIONPATH_FIELD


@dataclass(frozen=True)
class CustomKeys(FieldKeys):
    java_class = "org.apache.hudi.keygen.CustomKeyGenerator"

    @classmethod
    def make(cls, config: Config, schema: pa.Schema) -> CustomKeys:
        parts = tuple(_part(spec, config, schema) for spec in config[PARTITIONPATH_FIELD])
        timed = any(isinstance(part, TimePart) for part in parts)
        persist = persist_entries(cls.java_class, config, [part.name for part in parts])
        return cls(
            key_fields(config, schema),
            parts,
            config[CONSISTENT_TIMESTAMP],
            persist + (timebased_entries(config) if timed else ()),
        )


def _part(spec: str, config: Config, schema: pa.Schema) -> Part:
    name, _, kind = spec.partition(":")
    if kind.upper() == "SIMPLE":
        return ValuePart.of(name, config, schema)
    if kind.upper() == "TIMESTAMP":
        return TimePart.of(name, config, schema)
    raise ConfigError(
        f"{PARTITIONPATH_FIELD.name}: {spec!r} has no type; with the custom key generator write "
        f"{name}:SIMPLE or {name}:TIMESTAMP.",
        value=spec,
    )
