"""Content of DELETE blocks: keys to delete, each with an ordering value or none (format.md 8.5).

    3 int32 | length int32 | Avro binary of HoodieDeleteRecordList

An ordering value is stored in the wrapper of the Java class that Apache Hudi 0.15.0 takes from the ordering
column (HoodieAvroUtils.wrapValueIntoAvro): long and timestamp in LongWrapper, since Hudi compares a timestamp
as the stored number, date in DateWrapper, and so on. IntWrapper 0 is its "no ordering value": such a delete
wins always. Several ordering values, in tables of versions 8 and 9, are in an ArrayWrapper of wrappers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.arrays import whole
from hoodie.codec.avro_cursor import Damage
from hoodie.errors import InputError, TableError
from hoodie.format.evolution import read_as
from hoodie.format.log_delete_rows import WRAPPERS, Columns, read_records

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

CONTENT_VERSION = 3
#: serialised Java objects (Kryo), by Apache Hudi before 0.14
_KRYO_VERSIONS = (1, 2)
_HEAD = struct.Struct(">ii")

_BRANCHES = {name: number for number, name in enumerate(WRAPPERS, 1)}
#: each is read as any later one
_NUMBERS = (pa.int32(), pa.int64(), pa.float32(), pa.float64())


@dataclass(frozen=True)
class DeleteRecords:
    """Keys and partition paths (string) with ordering values, in the block's order.

    A null ordering value, or no array at all, is a delete without one: it wins always.
    """

    keys: pa.Array[Any]
    partitions: pa.Array[Any]
    ordering: pa.Array[Any] | None = None

    def __len__(self) -> int:
        return len(self.keys)


def read_delete_block(content: Any, ordering_type: pa.DataType | None = None) -> DeleteRecords:
    """The records in the content of a DELETE block.

    With `ordering_type`, the type of the table's ordering column, ordering values have that type, and a value
    that can't have been of this column is null: Apache Hudi lets such a delete win, too. Without it they have
    the type of their wrapper; where wrappers differ, the widest number, else text. Several ordering values
    are a struct. Their type has to be one, and single values are null then. TableError for content that is
    damaged or older than Apache Hudi 0.14.
    """
    view = memoryview(content).cast("B")
    if len(view) < _HEAD.size:
        raise _damaged(f"{len(view)} bytes")
    version, length = _HEAD.unpack_from(view)
    if version in _KRYO_VERSIONS:
        raise TableError(
            f"a delete block has content version {version}: serialised Java objects, which only Apache Hudi "
            "itself can read; compact the table with Apache Hudi first",
            version=version,
        )
    if version != CONTENT_VERSION:
        raise _damaged(f"content version {version}, known are 1 to {CONTENT_VERSION}")
    if length != len(view) - _HEAD.size:
        raise _damaged(f"{length} bytes of records, {len(view) - _HEAD.size} are there")
    try:
        records = read_records(np.frombuffer(view, np.uint8)[_HEAD.size :])
    except Damage as error:
        raise _damaged(error.why) from None
    several = records.several and (ordering_type is None or isinstance(ordering_type, pa.StructType))
    ordering = (
        _unwrap_several(records, ordering_type) if several else _unwrap(records.ordering, ordering_type)
    )
    return DeleteRecords(records.keys, records.partitions, ordering)


def encode_delete_block(records: DeleteRecords) -> bytes:
    """The content of a DELETE block. InputError for null keys and ordering values that Hudi can't hold."""
    count, keys, partitions = len(records), _plain(records.keys), _plain(records.partitions)
    if keys.null_count or partitions.null_count:
        raise InputError("a delete needs a record key and a partition path; at least one is null")
    if not count:
        return _HEAD.pack(CONTENT_VERSION, 1) + b"\x00"
    some = _scalar(b"\x02")
    rows = _join(some, *_sized(keys), some, *_sized(partitions), _wrap(records.ordering))
    body = _varint(count) + _bytes(rows) + b"\x00"
    return _HEAD.pack(CONTENT_VERSION, len(body)) + body


# --- decoding ------------------------------------------------------------------------------------------


def _unwrap_several(records: Columns, target: pa.DataType | None) -> pa.Array[Any] | None:
    """A struct of the values of each field, null for records that have not as many values as the struct.

    In it the int 0 is a value of a column of ints, and no value of others.
    """
    count, fields = len(records.keys), records.fields
    if target is None:
        kinds: list[pa.DataType | None] = [None] * len(records.several)
    else:
        assert isinstance(target, pa.StructType)
        kinds = [child.type for child in target]
    columns: list[Any] = []
    for number, kind in enumerate(kinds):
        wrapped = records.several[number] if number < len(records.several) else {}
        values = _unwrap(wrapped, kind, zero=kind is None or kind == pa.int32())
        empty: Any = pa.nulls
        columns.append(empty(count, kind or pa.null()) if values is None else values)
    names = [str(number) for number in range(len(columns))]
    made: Any = pa.StructArray.from_arrays(columns, names=names, mask=pa.array(fields != len(columns)))
    return None if made.null_count == count else made


def _unwrap(
    wrapped: Mapping[str, Any], target: pa.DataType | None, zero: bool = False
) -> pa.Array[Any] | None:
    """With `zero`, the int 0 is a value."""
    if isinstance(target, pa.StructType):
        return None
    found: list[Any] = []
    for name, values in wrapped.items():
        if name == "IntWrapper" and not zero:
            values = pc.if_else(pc.equal(values, 0), pa.scalar(None, pa.int32()), values)
        if values.null_count < len(values):
            found.append(values)
    if not found:
        return None
    kinds = {values.type for values in found}
    if target is None:
        target = _common(kinds)
    converted = [_as(values, target) for values in found]
    known = [values for values in converted if values is not None]
    return pc.coalesce(*known) if known else None


def _common(kinds: set[pa.DataType]) -> pa.DataType:
    if len(kinds) == 1:
        return kinds.pop()
    return max(kinds, key=_NUMBERS.index) if kinds <= set(_NUMBERS) else pa.string()


def _as(values: Any, target: pa.DataType) -> Any:
    """Values of one wrapper in the type of the ordering column; None when the column can't have held them."""
    source = values.type
    types = pa.types
    stored = types.is_timestamp(target) and (source == pa.int64() or types.is_timestamp(source))
    days = types.is_date32(target) and source == pa.int32()
    try:
        if stored or days or (types.is_decimal(target) and types.is_decimal(source)):
            return values.cast(target)
        return read_as(pa.table({"value": values}), pa.schema([("value", target)])).column(0).combine_chunks()
    except (pa.ArrowInvalid, InputError):
        return None


def _damaged(why: str) -> TableError:
    return TableError(f"the content of a delete block is damaged ({why}); restore the log file from a copy")


# --- encoding: every part of a record is a large_binary array or scalar, joined row by row -----------------


def _plain(values: Any) -> Any:
    """As one array without dictionary: columns of a table are taken, too."""
    one: Any = whole(values)
    return one.dictionary_decode() if pa.types.is_dictionary(one.type) else one


def _wrap(ordering: Any) -> Any:
    """Union branch and value of every ordering value."""
    none = _scalar(_varint(_BRANCHES["IntWrapper"]) + _varint(0))
    if ordering is None:
        return none
    values = _plain(ordering)
    if pa.types.is_struct(values.type):
        fields = values.flatten()
        head = _scalar(_varint(len(WRAPPERS) + 1) + _varint(1) + _varint(len(fields)))
        parts = (head, *(part for field in fields for part in _wrapper(field)), _scalar(_varint(0)))
    else:
        parts = _wrapper(values)
    return pc.if_else(values.is_valid(), _join(*parts), none)


def _wrapper(values: Any) -> tuple[Any, ...]:
    """The union's branch for values of this type and their bytes; bytes of null values are undefined."""
    name, parts = _content(values)
    return _scalar(_varint(_BRANCHES[name])), *parts


def _content(values: Any) -> tuple[str, tuple[Any, ...]]:
    """The wrapper for values of this type, and their bytes."""
    dtype, types = values.type, pa.types
    if types.is_string(dtype) or types.is_large_string(dtype):
        return "StringWrapper", _sized(values.fill_null(""))
    if types.is_binary(dtype) or types.is_large_binary(dtype):
        return "BytesWrapper", _sized(values.fill_null(b""))
    if types.is_decimal(dtype):
        return "DecimalWrapper", _sized(_decimal_bytes(values))
    if types.is_boolean(dtype):
        return "BooleanWrapper", (_fixed(_numpy(values, pa.uint8())),)
    if types.is_float64(dtype) or types.is_float32(dtype):
        name = "DoubleWrapper" if types.is_float64(dtype) else "FloatWrapper"
        return name, (_fixed(_numpy(values, dtype)),)
    if types.is_int32(dtype) or types.is_date32(dtype):
        name = "DateWrapper" if types.is_date32(dtype) else "IntWrapper"
        return name, (_varints(_numpy(values, pa.int32())),)
    if types.is_int64(dtype) or types.is_timestamp(dtype):
        return "LongWrapper", (_varints(_numpy(values, pa.int64())),)
    raise InputError(
        f"ordering values of type {dtype} can't be written into a delete block; order by a number, a text, a "
        "date or a timestamp"
    )


def _numpy(values: Any, dtype: pa.DataType) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = pc.fill_null(values.cast(dtype), 0).to_numpy(zero_copy_only=False)
    return numbers


def _decimal_bytes(values: Any) -> Any:
    """Unscaled values at the wrapper's scale: big-endian, two's complement, as short as they can be."""
    held = WRAPPERS["DecimalWrapper"].dtype
    try:
        scaled = values.cast(held).fill_null(0)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"an ordering value does not fit a delete block ({error}): Apache Hudi holds 15 digits before "
            "and 15 after the point; order by another column"
        ) from None
    raw = np.frombuffer(scaled.buffers()[1], dtype=np.uint8).reshape(-1, 16)
    big = raw[scaled.offset : scaled.offset + len(scaled), ::-1]
    # a byte is needed from the first on whose bits, the sign bit before it included, are not all the sign
    sign = np.where(big[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    tops = np.concatenate([big[:, 1:] & 0x80, sign[:, :1] ^ 0x80], axis=1)
    idle = (big == sign) & (tops == (sign & 0x80))
    return _ragged(big, ~np.logical_and.accumulate(idle, axis=1))


def _sized(values: Any) -> tuple[Any, Any]:
    """Avro's strings and bytes: length, then the value."""
    data = values.cast(pa.large_binary())
    return _varints(pc.binary_length(data).to_numpy(zero_copy_only=False)), data


def _fixed(numbers: npt.NDArray[Any]) -> Any:
    """Little-endian numbers of one width."""
    little = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    rows: npt.NDArray[np.uint8] = little.view(np.uint8).reshape(len(numbers), -1)
    return _ragged(rows, np.ones(rows.shape, dtype=np.bool_))


def _varint(number: int) -> bytes:
    return _bytes(_varints(np.array([number])))


def _varints(numbers: npt.NDArray[Any]) -> Any:
    """Avro's int and long: zigzag, seven bits a byte."""
    signed = numbers.astype(np.int64)
    left = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    width = max(1, -(-int(left.max()).bit_length() // 7))
    rest = left[:, None] >> np.arange(0, 7 * width, 7, dtype=np.uint64)
    more = np.zeros(rest.shape, dtype=np.bool_)
    more[:, :-1] = rest[:, 1:] > 0
    matrix: npt.NDArray[np.uint8] = (rest & 0x7F).astype(np.uint8) | more * np.uint8(0x80)
    used = np.ones(rest.shape, dtype=np.bool_)
    used[:, 1:] = more[:, :-1]
    return _ragged(matrix, used)


def _ragged(matrix: npt.NDArray[np.uint8], used: npt.NDArray[np.bool_]) -> Any:
    """The used bytes of every row."""
    ends = np.cumsum(used.sum(axis=1, dtype=np.int64))
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    buffers = [None, *map(_buffer, (offsets, matrix[used]))]
    return pa.Array.from_buffers(pa.large_binary(), len(matrix), buffers)


def _buffer(numbers: Any) -> pa.Buffer:
    return pa.py_buffer(numbers)


def _join(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, _scalar(b""))


def _bytes(values: Any) -> bytes:
    """All values, one after the other; `values` is no slice."""
    return bytes(values.buffers()[2])[: pc.sum(pc.binary_length(values)).as_py()]


def _scalar(value: bytes) -> Any:
    return pa.scalar(value, pa.large_binary())
