"""Thrift's compact protocol, as far as Parquet uses it: structs are read in part, or passed over.

Stdlib only. What is read is taken for forged: Damage is raised for bytes that end too soon, for fields that
are not in ascending order, as every writer has them, and for what is nested too deeply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

TRUE, FALSE, _BYTE, _I64, _DOUBLE, BINARY, LIST, _SET, STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
_MAX_DEPTH = 16

#: the fields that are wanted, those of structs with theirs
Wanted: TypeAlias = "Mapping[int, Wanted | None]"


class Damage(Exception):
    """The bytes are no such struct."""


def struct_at(data: bytes, at: int, wanted: Wanted, depth: int = 0) -> tuple[dict[int, Any], int]:
    """(the wanted fields that are there: numbers, truth values, bytes, structs; where the struct ends)"""
    found: dict[int, Any] = {}
    field = 0
    while True:
        field, kind, at = field_at(data, at, field)
        if not kind:
            return found, at
        if field not in wanted:
            at = skip(data, at, kind, depth)
        elif kind in (TRUE, FALSE):
            found[field] = kind == TRUE
        elif _BYTE < kind <= _I64:
            found[field], at = integer(data, at)
        elif kind == BINARY:
            length, start = varint(data, at)
            at = _within(data, start + length)
            found[field] = data[start:at]
        elif kind == STRUCT and depth < _MAX_DEPTH:
            found[field], at = struct_at(data, at, wanted[field] or {}, depth + 1)
        else:
            raise Damage


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
    count, at = (head >> 4, at + 1) if head < 0xF0 else varint(data, at + 1)
    if count > len(data) - at:  # an item has a byte at least
        raise Damage
    return head & 15, count, at


def skip(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Where a value ends."""
    if kind in (TRUE, FALSE):
        return at
    if _BYTE < kind <= _I64:
        return varint(data, at)[1]
    if kind == BINARY:
        length, at = varint(data, at)
        return _within(data, at + length)
    if kind in (_BYTE, _DOUBLE):
        return _within(data, at + (1 if kind == _BYTE else 8))
    if depth > _MAX_DEPTH:
        raise Damage
    if kind == STRUCT:
        field = 0
        while kind:
            field, kind, at = field_at(data, at, field)
            if kind:
                at = skip(data, at, kind, depth + 1)
        return at
    if kind not in (LIST, _SET):
        raise Damage
    kind, count, at = list_at(data, at)
    if kind in (TRUE, FALSE):
        return _within(data, at + count)
    for _ in range(count):
        at = skip(data, at, kind, depth + 1)
    return at


def integer(data: bytes, at: int) -> tuple[int, int]:
    """(a signed number, where it ends)"""
    number, at = varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(an unsigned number, where it ends)"""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise Damage


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise Damage
    return at
