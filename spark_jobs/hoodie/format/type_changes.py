"""Type changes that schema-on-read evolution allows beyond widening (Apache Hudi 0.15.0 SchemaChangeUtils).

Values change as in HoodieAvroUtils.rewriteRecordWithNewSchema: a number's or a text's decimal digits are
rounded half up to the new scale.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: holds every number that a table's decimal may be made of, before it is rounded
_WIDEST = pa.decimal256(76, 38)


def changes(source: pa.DataType, target: pa.DataType) -> bool:
    """Is this one of the changes that `changed` knows."""
    if pa.types.is_decimal(target):
        numbers = pa.types.is_integer(source) or pa.types.is_floating(source)
        return numbers or pa.types.is_string(source) or pa.types.is_decimal(source)
    if target == pa.string():
        return pa.types.is_decimal(source) or pa.types.is_date32(source)
    return pa.types.is_string(source) and (target == pa.date32() or target == pa.binary())


def changed(values: Any, target: pa.DataType) -> Any:
    """Values of a source type that `changes`; floats are given as texts. ArrowInvalid where one can't be."""
    source = values.type
    if not pa.types.is_decimal(target) or pa.types.is_decimal(source):
        return values.cast(target)
    exact = values.cast(pa.string()).cast(_WIDEST)
    return pc.round(exact, ndigits=target.scale, round_mode="half_towards_infinity").cast(target)
