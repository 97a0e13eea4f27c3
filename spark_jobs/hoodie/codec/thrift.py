"""Thrift's compact protocol, as far as Parquet uses it: structs are read in part, or passed over.

Stdlib only. What is read is taken for forged: Damage is raised for bytes that end too soon, for fields that
are not in ascending order, as every writer has them, and for what is nested too deeply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from hoodie.codec.protobuf import Damage as Damage
from hoodie.codec.protobuf import read_varint

TRUE, FALSE, _BYTE, _I64, _DOUBLE, BINARY, LIST, _SET, STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
_MAX_DEPTH = 16

#: the fields that are wanted, those of structs with theirs
Wanted: TypeAlias = "Mapping[int, Wanted | None]"


def struct_at(data: bytes, at: int, wanted: Wanted, depth: int = 0) -> tuple[dict[int, Any], int]:
    """(the wanted fields that are there: numbers, truth values, bytes, structs; where the struct ends)"""
    try:
        return _struct(data, at, wanted, depth)
    except IndexError:
        raise Damage from None


def begin_of(data: bytes, at: int, wanted: Wanted) -> dict[int, Any]:
    """As `struct_at`, of a struct that was passed over before: no further than the wanted fields."""
    try:
        return _struct(data, at, wanted, 0, max(wanted))[0]
    except IndexError:
        raise Damage from None


def _struct(
    data: bytes, at: int, wanted: Wanted, depth: int, last_wanted: int = 1 << 30
) -> tuple[dict[int, Any], int]:
    """As `struct_at`; IndexError where the bytes end too soon."""
    found: dict[int, Any] = {}
    field = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            field += head >> 4
        else:
            last = field
            field, at = integer(data, at)
            if field <= last:
                raise Damage
        if field not in wanted:
            if field > last_wanted:
                break
            at = _behind(data, at, kind, depth + 1)
        elif _BYTE < kind <= _I64:
            number = data[at]
            at += 1
            if number > 127:
                number, at = read_varint(data, at - 1)
            found[field] = (number >> 1) ^ -(number & 1)
        elif kind in (TRUE, FALSE):
            found[field] = kind == TRUE
        elif kind == BINARY:
            length, start = read_varint(data, at)
            at = _within(data, start + length)
            found[field] = data[start:at]
        elif kind == STRUCT and depth < _MAX_DEPTH:
            found[field], at = _struct(data, at, wanted[field] or {}, depth + 1)
        else:
            raise Damage
    return found, at + 1


def field_at(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """(field number, kind of its value, where that begins); kind 0 is the end of the struct"""
    if at >= len(data):
        raise Damage
    head = data[at]
    if not head:
        return last, 0, at + 1
    if head >> 4:
        return last + (head >> 4), head & 15, at + 1
    field, at = integer(data, at + 1)
    if field <= last:
        raise Damage
    return field, head & 15, at


def list_at(data: bytes, at: int) -> tuple[int, int, int]:
    """(kind of the items, how many, where they begin)"""
    if at >= len(data):
        raise Damage
    head = data[at]
    count, at = (head >> 4, at + 1) if head < 0xF0 else read_varint(data, at + 1)
    if count > len(data) - at:  # an item has a byte at least
        raise Damage
    return head & 15, count, at


def skip(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Where a value ends."""
    try:
        return _within(data, _behind(data, at, kind, depth))
    except IndexError:
        raise Damage from None


def _behind(data: bytes, at: int, kind: int, depth: int) -> int:
    """As `skip`; raises IndexError or gives a place beyond the end where the bytes end too soon.

    Footers are mostly passed over, so that numbers and fields are not left to functions here.
    """
    if kind in (TRUE, FALSE):
        return at
    if _BYTE < kind <= _I64:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == BINARY:
        length, at = read_varint(data, at)
        return at + length
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    if depth > _MAX_DEPTH:
        raise Damage
    if kind == STRUCT:
        field = 0
        while head := data[at]:
            at += 1
            kind = head & 15
            if head > 15:
                field += head >> 4
            else:
                last = field
                field, at = integer(data, at)
                if field <= last:
                    raise Damage
            if _BYTE < kind <= _I64:
                while data[at] > 127:
                    at += 1
                at += 1
            elif kind == BINARY and data[at] < 128:
                at += 1 + data[at]
            else:
                at = _behind(data, at, kind, depth + 1)
        return at + 1
    if kind not in (LIST, _SET):
        raise Damage
    kind, count, at = list_at(data, at)
    if kind in (TRUE, FALSE):
        return at + count
    for _ in range(count):
        if _BYTE < kind <= _I64 and data[at] < 128:
            at += 1
        elif kind == BINARY and data[at] < 128:
            at += 1 + data[at]
        else:
            at = _behind(data, at, kind, depth + 1)
    return at


def integer(data: bytes, at: int) -> tuple[int, int]:
    """(a signed number, where it ends)"""
    if at < len(data) and (number := data[at]) < 128:
        return (number >> 1) ^ -(number & 1), at + 1
    number, at = read_varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise Damage
    return at
