"""HoodieDeleteRecordList in Avro binary -> columns, many records at once (format.md 8.5; Avro 1.11).

    (records long | records ...)* | 0 long
    record := 1 long | key string | 1 long | partition path string, or 0 long | branch long | ordering value
    several ordering values, in versions 8 and 9 := 1 long | n long | n times (branch, value) | 0 long

The format has no length of a record. So the decoder treats every byte 2 as the possible start of a record,
and computes the end of each of these records, all at once. The real records are the chain that begins at the
first one. The decoder follows the chain by doubling: it computes the records 1, 2, 4, ... places after each
start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.avro_cursor import Cursors, Damage, Nulls, Raw
from hoodie.codec.avro_decode import read_leaf
from hoodie.codec.avro_types import Leaf

Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

#: branches of the union `orderingVal` after null
WRAPPERS: dict[str, Leaf] = {
    "BooleanWrapper": Leaf("boolean", pa.bool_()),
    "IntWrapper": Leaf("int", pa.int32()),
    "LongWrapper": Leaf("long", pa.int64()),
    "FloatWrapper": Leaf("float", pa.float32()),
    "DoubleWrapper": Leaf("double", pa.float64()),
    "BytesWrapper": Leaf("bytes", pa.binary()),
    "StringWrapper": Leaf("string", pa.string()),
    "DateWrapper": Leaf("int", pa.date32()),
    "DecimalWrapper": Leaf("bytes", pa.decimal128(30, 15)),
    "TimeMicrosWrapper": Leaf("long", pa.time64("us")),
    "TimestampMicrosWrapper": Leaf("long", pa.timestamp("us", "UTC")),
}
_NAMES = tuple(WRAPPERS)
#: branches of one of several ordering values
_ITEMS = WRAPPERS | {"LocalDateWrapper": Leaf("int", pa.date32())}
_ITEM_NAMES = tuple(_ITEMS)
#: the branch of several ordering values, ArrayWrapper; more fields than these are not looked for
_ARRAY, _MOST_FIELDS = len(_NAMES) + 1, 32
_TEXT = Leaf("string", pa.string())
#: by branch: bytes of the value, or how its length is found
_VARINT, _SIZED = -1, -2
_KINDS = {
    "boolean": 1,
    "float": 4,
    "double": 8,
    "int": _VARINT,
    "long": _VARINT,
    "bytes": _SIZED,
    "string": _SIZED,
}
_WIDTHS = np.array([0, *(_KINDS[leaf.kind] for leaf in WRAPPERS.values())])
_ITEM_WIDTHS = np.array([0, *(_KINDS[leaf.kind] for leaf in _ITEMS.values())])
_NO_NUMBERS: Places = np.zeros(0, dtype=np.int64)

#: bytes whose records are looked for at a time
_WINDOW = 1 << 18
_LENGTH_BYTES, _LONG_BYTES = 5, 10


@dataclass(frozen=True)
class Columns:
    """Keys, partition paths, and ordering values by wrapper, null where a record has another or none.

    `several` has those of each field, in the order of the fields, of the records that have `fields`.
    """

    keys: pa.Array[Any]
    partitions: pa.Array[Any]
    ordering: dict[str, pa.Array[Any]]
    several: tuple[dict[str, pa.Array[Any]], ...] = ()
    fields: Places = field(default_factory=lambda: _NO_NUMBERS)


def read_records(data: Bytes) -> Columns:
    """The records that fill `data`. Raises Damage when it is torn or not such a list."""
    at, row = 0, 0
    parts = [Columns(pa.array([], pa.string()), pa.array([], pa.string()), {})]
    while True:
        count, at = _number(data, at)
        if count == 0:
            break
        if count < 0:  # such a block says its bytes, too
            _, at = _number(data, at)
        for view, starts, ends in _followed(data, at, abs(count)):
            parts.append(_columns(view, starts, ends, row))
            at, row = at + int(ends[-1]), row + starts.size
    if at != data.size:
        raise Damage(f"{data.size - at} bytes are left over")
    return _together(parts)


def _together(parts: list[Columns]) -> Columns:
    lengths = [len(part.keys) for part in parts]
    most = max(len(part.several) for part in parts)
    return Columns(
        _concat([part.keys for part in parts]),
        _concat([part.partitions for part in parts]),
        _by_name(lengths, [part.ordering for part in parts]),
        tuple(
            _by_name(lengths, [part.several[at] if at < len(part.several) else {} for part in parts])
            for at in range(most)
        ),
        np.concatenate([part.fields for part in parts]),
    )


def _by_name(lengths: list[int], parts: list[dict[str, pa.Array[Any]]]) -> dict[str, pa.Array[Any]]:
    """The values of each wrapper of all parts, null in those that lack it."""
    found: dict[str, pa.Array[Any]] = {}
    for name in sorted({name for part in parts for name in part}, key=_ITEM_NAMES.index):
        nulls: Any = partial(pa.nulls, type=_ITEMS[name].dtype)
        found[name] = _concat(
            [part[name] if name in part else nulls(count) for count, part in zip(lengths, parts, strict=True)]
        )
    return found


def _concat(arrays: list[Any]) -> Any:
    return pa.concat_arrays(arrays)


def _number(data: Bytes, at: int) -> tuple[int, int]:
    """(the long at `at`, the place behind it)"""
    value = 0
    for place, byte in enumerate(data[at : at + _LONG_BYTES].tolist()):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise Damage("the list ends inside a number")


# --- where the records are -----------------------------------------------------------------------------


def _followed(data: Bytes, at: int, count: int) -> Iterator[tuple[Bytes, Places, Places]]:
    """(some bytes, starts and ends in them) of the next `count` records, in order."""
    while count > 0:
        view = data[at : at + _WINDOW]
        starts = np.flatnonzero(view == 2)
        if not starts.size or starts[0] != 0:
            raise Damage("a record has no key")
        ends = _ends(view, starts)
        chain = _chain(starts, ends, count)
        if not chain.size:
            view, ends = _long_record(data, at)
            starts, chain = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        yield view, starts[chain], ends[chain]
        at, count = at + int(ends[chain[-1]]), count - chain.size


def _long_record(data: Bytes, at: int) -> tuple[Bytes, Places]:
    """(some bytes, the end in them) of one record that is longer than the window."""
    window = _WINDOW
    while at + window < data.size:
        window *= 8
        view = data[at : at + window]
        ends = _ends(view, np.zeros(1, dtype=np.int64))
        if ends[0]:
            return view, ends
    raise Damage("a record is torn")


def _chain(starts: Places, ends: Places, most: int) -> Places:
    """Which starts are those of the first records, up to `most`; `ends` are 0 where there is no record."""
    none = starts.size
    place = np.minimum(np.searchsorted(starts, ends), none - 1)
    follows = (starts[place] == ends) & (ends[place] > 0) & (ends > 0)
    jump = np.append(np.where(follows, place, none), none)
    chain = np.zeros(1 if ends[0] else 0, dtype=np.int64)
    while 0 < chain.size < most and chain[-1] != none:
        chain = np.append(chain, jump[chain])
        jump = jump[jump]
    known: Places = chain[chain != none]
    return known[:most]


def _ends(view: Bytes, starts: Places) -> Places:
    """Behind the record at each start; 0 where there is no whole record.

    Behind the view stand bytes that fit nowhere, so that what runs over its end is no record.
    """
    size = view.size
    padded = np.full(size + _LONG_BYTES, 0xFF, dtype=np.uint8)
    padded[:size] = view
    at, fine = _behind_text(padded, starts + 1, size)
    text = padded[at] == 2
    fine &= text | (padded[at] == 0)
    at = np.minimum(at + 1, size)
    _put(at, fine, np.flatnonzero(text), padded, size, _behind_text)
    several = np.flatnonzero(padded[at] == 2 * _ARRAY)
    if several.size:
        at[several], whole = _behind_several(padded, at[several] + 1, size)
        fine[several] &= whole
        one = np.delete(np.arange(at.size), several)
        at[one], fine[one] = _behind_value(padded, at[one], fine[one], size, _WIDTHS)
    else:
        at, fine = _behind_value(padded, at, fine, size, _WIDTHS)
    return np.where(fine & (at <= size), at, 0)


def _behind_value(padded: Bytes, at: Places, fine: Bools, size: int, widths: Places) -> tuple[Places, Bools]:
    """As `_behind_text`, for a union's branch and its value."""
    branch = padded[at]
    fine = fine & (branch & 1 == 0) & (branch < 2 * widths.size)
    at = np.minimum(at + 1, size)
    width = widths[np.where(fine, branch >> 1, 0)]
    _put(at, fine, np.flatnonzero(width == _VARINT), padded, size, _behind_number)
    _put(at, fine, np.flatnonzero(width == _SIZED), padded, size, _behind_text)
    at = at + np.maximum(width, 0)
    return np.minimum(at, size), fine & (at <= size)


def _behind_several(padded: Bytes, at: Places, size: int) -> tuple[Places, Bools]:
    """As `_behind_text`, for the values in an ArrayWrapper: one block of them, as Apache Hudi writes it."""
    at = np.minimum(at, size)
    count = padded[np.minimum(at + 1, size)]
    fine = (padded[at] == 2) & (count & 1 == 0) & (count > 0) & (count <= 2 * _MOST_FIELDS)
    left = np.where(fine, count >> 1, 0).astype(np.int64)
    at = np.minimum(at + 2, size)
    while (some := np.flatnonzero(left)).size:
        at[some], fine[some] = _behind_value(padded, at[some], fine[some], size, _ITEM_WIDTHS)
        left[some] = np.where(fine[some], left[some] - 1, 0)
    return np.minimum(at + 1, size), fine & (padded[at] == 0)


def _put(at: Places, fine: Bools, chosen: Places, padded: Bytes, size: int, behind: _Behind) -> None:
    """Move some of the places behind their value."""
    at[chosen], whole = behind(padded, at[chosen], size)
    fine[chosen] &= whole


def _behind_text(padded: Bytes, at: Places, size: int) -> tuple[Places, Bools]:
    """(places behind the texts at `at`, at most `size`; whether they are whole)"""
    first = padded[at]
    length = first.astype(np.int64)
    whole = first & 1 == 0
    behind = at + 1
    long = np.flatnonzero(first >= 0x80)
    if long.size:
        some = padded[at[long, None] + np.arange(_LENGTH_BYTES)]
        on = some >= 0x80
        last = np.argmin(on, axis=1)
        groups = (some & 0x7F).astype(np.int64) << np.arange(0, 7 * _LENGTH_BYTES, 7)
        length[long] = np.where(np.arange(_LENGTH_BYTES) <= last[:, None], groups, 0).sum(axis=1)
        whole[long] &= ~on.all(axis=1)
        behind[long] += last
    behind += length >> 1
    return np.minimum(behind, size), whole & (behind <= size)


def _behind_number(padded: Bytes, at: Places, size: int) -> tuple[Places, Bools]:
    """As `_behind_text`, for ints and longs."""
    first = padded[at]
    behind, whole = at + 1, first < 0x80
    long = np.flatnonzero(~whole)
    if long.size:
        on = padded[at[long, None] + np.arange(_LONG_BYTES)] >= 0x80
        behind[long] += np.argmin(on, axis=1)
        whole[long] = ~on.all(axis=1)
    return np.minimum(behind, size), whole & (behind <= size)


_Behind: TypeAlias = Callable[[Bytes, Places, int], tuple[Places, Bools]]


# --- what is in them -----------------------------------------------------------------------------------


def _columns(view: Bytes, starts: Places, ends: Places, row: int) -> Columns:
    raw = Raw(view[: int(ends[-1])])
    cursors = Cursors(raw, starts + 1, ends, np.arange(row, row + starts.size))
    keys = read_leaf(_TEXT, cursors, None)
    has_partition = cursors.shorts() == 1
    partitions = read_leaf(_TEXT, cursors, None if has_partition.all() else Nulls(has_partition))
    branch = cursors.shorts()
    arrays = np.flatnonzero(branch == _ARRAY)
    fields = np.zeros(starts.size, dtype=np.int64)
    several = _several(cursors, arrays, fields) if arrays.size else ()
    branch[arrays] = 0
    return Columns(keys, partitions, _values(cursors, branch), several, fields)


def _values(cursors: Cursors, branch: Places) -> dict[str, pa.Array[Any]]:
    """The values at the places by their branches, 0 for none; moves behind them."""
    found: dict[str, pa.Array[Any]] = {}
    for number in np.unique(branch[branch > 0]).tolist():
        index = np.flatnonzero(branch == number)
        part = cursors.part(index)
        name = _ITEM_NAMES[number - 1]
        values: Any = read_leaf(_ITEMS[name], part, None)
        found[name] = _spread(values, index, branch.size)
        cursors.put(index, part)
    return found


def _several(cursors: Cursors, arrays: Places, fields: Places) -> tuple[dict[str, pa.Array[Any]], ...]:
    """The values of each field, and in `fields` how many a record has."""
    cursors = cursors.part(arrays)
    cursors.shorts()
    fields[arrays] = counts = cursors.shorts()
    found = []
    for at in range(int(counts.max())):
        index = np.flatnonzero(counts > at)
        part = cursors.part(index)
        values = _values(part, part.shorts())
        cursors.put(index, part)
        found.append({name: _spread(each, arrays[index], fields.size) for name, each in values.items()})
    return tuple(found)


def _spread(values: Any, index: Places, count: int) -> Any:
    """The values at these of `count` places, null at the others."""
    if index.size == count:
        return values
    places, none = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_)
    places[index], none[index] = np.arange(index.size), False
    return values.take(pa.array(places, mask=none))
