"""Avro files of other tools as Arrow batches, one a block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from hoodie.codec.avro import block_records
from hoodie.codec.avro_blocks import AvroFile
from hoodie.codec.avro_container import parsed_schema
from hoodie.errors import HoodieError
from hoodie.format.schema import from_avro

#: what the numbers of these types are in the file
_STORED: dict[pa.DataType, pa.DataType] = {
    pa.date32(): pa.int32(),
    pa.time32("ms"): pa.int32(),
    pa.time64("us"): pa.int64(),
}


def avro_schema(source: Any) -> pa.Schema:
    """Of an opened file. Raises ValueError for what is none, or has types that no table column has."""
    return _schema(AvroFile(source).schema)


def avro_batches(source: Any) -> Iterator[pa.RecordBatch]:
    """The records of an opened file in its schema. Raises ValueError and Arrow's errors for a damaged one."""
    file = AvroFile(source)
    schema = _schema(file.schema)
    text = json.dumps(_plain(parsed_schema(file.schema)))
    target: Any = pa.struct([*schema])
    raw = _raw(target)
    for block in file.blocks():
        if block.records:
            values: Any = pa.array(block_records(text, block), raw).cast(target)
            yield pa.RecordBatch.from_struct_array(values)


def _schema(text: str) -> pa.Schema:
    avro = parsed_schema(text)
    if not isinstance(avro, dict) or avro.get("type") != "record":
        raise ValueError("its schema is not that of a record")
    try:
        return from_avro(text)
    except HoodieError as error:
        raise ValueError(error.message) from error


def _plain(avro: Any) -> Any:
    """The schema, in which what stands for a time or a UUID is the number or text that it is in the file:
    Python's times have fewer years than these numbers.
    """
    if isinstance(avro, list):
        return [_plain(item) for item in avro]
    if not isinstance(avro, dict):
        return avro
    return {
        name: value if name in ("default", "symbols", "aliases", "doc") else _plain(value)
        for name, value in avro.items()
        if name != "logicalType" or value == "decimal"
    }


def _raw(dtype: Any) -> Any:
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_raw(field.type)) for field in dtype])
    if pa.types.is_map(dtype):
        return _map(dtype.key_type, dtype.item_field.with_type(_raw(dtype.item_type)))
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_raw(dtype.value_type)))
    return pa.int64() if pa.types.is_timestamp(dtype) else _STORED.get(dtype, dtype)


def _map(key: Any, item: Any) -> pa.DataType:  # the stubs know types only
    return pa.map_(key, item)
