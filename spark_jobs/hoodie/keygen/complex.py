"""Any number of key and partition fields (Apache Hudi 0.15.0 ComplexKeyGenerator).

With a single key field the key is its bare value, as 0.15.0 writes it on upsert and insert, or the field's
name and the value (NEW_ENCODING).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodie.codec.arrays import column, pc
from hoodie.config.key import Config
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.keygen._parts import FieldKeys, ValuePart, key_fields, persist_entries
from hoodie.keygen._text import texts
from hoodie.keygen.settings import CONSISTENT_TIMESTAMP, NEW_ENCODING, PARTITIONPATH_FIELD


def stored_forms(rows: pa.RecordBatch, field: str, config: Config) -> set[bool]:
    """Of rows of a file, those forms that their keys of this one field have: True for the value alone, False
    for that with the field's name.
    """
    keys = rows.column(RECORD_KEY)
    bare = texts(column(rows, field), consistent_timestamps=config[CONSISTENT_TIMESTAMP])
    named = pc.binary_join_element_wise(pa.scalar(f"{field}:"), bare, "")
    forms = ((True, bare), (False, named))
    return {form for form, expected in forms if pc.any(pc.equal(keys, expected)).as_py()}


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
            named=config[NEW_ENCODING] is False,
        )
