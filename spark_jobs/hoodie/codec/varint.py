"""Unsigned numbers in 7 bits a byte, the lowest first, as Thrift and Protocol Buffers have them.

Stdlib only. What is read is taken for forged.
"""

from __future__ import annotations


class Damage(Exception):
    """The bytes are no such number, struct or message."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(a number of at most ten bytes, where it ends); raises Damage."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Damage("a number is cut")
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise Damage("a number is too long")
