"""Indexes of HFiles (format.md 9.4): where blocks lie, and the key that each begins with.

    root, meta      per block: offset int64 | stored int32 | length of the key, Hadoop's vint | key
    leaf,           blocks int32 | place of each entry behind these, and their end, int32 each | per block:
    intermediate    offset int64 | stored int32 | key

The trailer counts the entries of the root and of the meta index. Keys are those of cells (of meta blocks:
their names). Of more than one level, the root lists indexes: the leaf indexes list data blocks.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hoodie.format.hfile_block import Damage
from hoodie.format.hfile_cells import full_key, row_of

_ENTRY = struct.Struct(">qi")
_INT = struct.Struct(">i")
#: what HBase adds to a root above others: offset, size and entry of the middle key
_MIDDLE = 16


@dataclass(frozen=True)
class IndexEntry:
    """A block; the keys in it are not before `key`, which may be a shortened one."""

    offset: int
    stored: int
    key: bytes


def decode_root(content: bytes, count: int, levels: int) -> list[IndexEntry]:
    """Raises Damage, as all of these."""
    entries, at = _listed(content, count, row_of)
    if len(content) - at not in ((0,) if levels == 1 else (0, _MIDDLE)):
        raise Damage(f"an index has more than its {count} entries")
    return _sorted(entries)


def decode_meta(content: bytes, count: int) -> list[IndexEntry]:
    entries, at = _listed(content, count, bytes)
    if at != len(content):
        raise Damage(f"the index of meta blocks has more than its {count} entries")
    return entries


def decode_leaf(content: bytes, place: int) -> list[IndexEntry]:
    """A leaf or an intermediate index; `place` is its block's, for errors."""
    count = _INT.unpack_from(content)[0] if len(content) >= _INT.size else -1
    begin = _INT.size * (count + 2)
    if not 0 < count <= len(content) // _ENTRY.size or begin > len(content):
        raise Damage(f"the index at {place} has no {count} entries")
    bounds = [begin + bound for (bound,) in _INT.iter_unpack(content[_INT.size : begin])]
    if bounds[0] != begin or bounds[-1] != len(content):
        raise Damage(f"the index at {place} has other entries than it lists")
    entries = []
    for start, end in itertools.pairwise(bounds):
        if end - start < _ENTRY.size:
            raise Damage(f"the index at {place} has other entries than it lists")
        offset, stored = _ENTRY.unpack_from(content, start)
        entries.append(IndexEntry(offset, stored, row_of(content[start + _ENTRY.size : end])))
    return _sorted(entries)


def encode_root(entries: Iterable[IndexEntry]) -> bytes:
    return b"".join(_encoded(entry, full_key(entry.key)) for entry in entries)


def encode_meta(entries: Iterable[IndexEntry]) -> bytes:
    return b"".join(_encoded(entry, entry.key) for entry in entries)


def encode_leaf(entries: Sequence[IndexEntry]) -> bytes:
    parts = [_ENTRY.pack(entry.offset, entry.stored) + full_key(entry.key) for entry in entries]
    bounds = [0]
    for part in parts:
        bounds.append(bounds[-1] + len(part))
    return b"".join([struct.pack(f">{len(bounds) + 1}i", len(parts), *bounds), *parts])


def _encoded(entry: IndexEntry, key: bytes) -> bytes:
    return _ENTRY.pack(entry.offset, entry.stored) + _vint(len(key)) + key


def _listed(content: bytes, count: int, key_of: Callable[[bytes], bytes]) -> tuple[list[IndexEntry], int]:
    """(so many entries, where they end)"""
    if not 0 <= count <= len(content) // _ENTRY.size:
        raise Damage(f"an index of {len(content)} bytes has no {count} entries")
    entries, at = [], 0
    for _ in range(count):
        if at + _ENTRY.size > len(content):
            raise Damage("an index is cut")
        offset, stored = _ENTRY.unpack_from(content, at)
        length, at = _read_vint(content, at + _ENTRY.size)
        if not 0 <= length <= len(content) - at:
            raise Damage("a key of an index is cut")
        entries.append(IndexEntry(offset, stored, key_of(content[at : at + length])))
        at += length
    return entries, at


def _sorted(entries: list[IndexEntry]) -> list[IndexEntry]:
    for one, other in itertools.pairwise(entries):
        if other.key <= one.key or other.offset < one.offset + one.stored:
            raise Damage(f"an index is not sorted at {other.key!r}")
    return entries


def _vint(number: int) -> bytes:
    """As Hadoop writes a number that is not negative."""
    if number < 128:
        return bytes([number])
    size = -(-number.bit_length() // 8)
    return bytes([144 - size]) + number.to_bytes(size, "big")


def _read_vint(data: bytes, at: int) -> tuple[int, int]:
    """(a number, where it ends); -1 for a negative one"""
    if at >= len(data):
        raise Damage("a number is cut")
    first = data[at] - 256 if data[at] > 127 else data[at]
    if first >= -112:
        return first, at + 1
    if first < -120:
        return -1, at
    end = at + 1 - 112 - first
    if end > len(data):
        raise Damage("a number is cut")
    return int.from_bytes(data[at + 1 : end], "big"), end
