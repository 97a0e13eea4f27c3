"""Protocol Buffers, as far as HFiles have them: messages of numbers and bytes. Stdlib only.

Unsigned numbers have 7 bits a byte, the lowest first, as in Thrift. The bytes are untrusted: the reader
raises Damage for bytes that end too soon.
"""

from __future__ import annotations

from collections.abc import Iterator


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


_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_WIDTHS = {_EIGHT: 8, _FOUR: 4}


def read_delimited(data: bytes, at: int) -> bytes:
    """The message at `at`, which begins with its length."""
    length, at = read_varint(data, at)
    if length > len(data) - at:
        raise Damage("a message is cut")
    return data[at : at + length]


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field, number or bytes) in the message's order."""
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            number, at = read_varint(message, at)
            yield tag >> 3, number
            continue
        if kind == _BYTES:
            length, at = read_varint(message, at)
        elif kind in _WIDTHS:
            length = _WIDTHS[kind]
        else:
            raise Damage(f"a message has a field of kind {kind}")
        if length > len(message) - at:
            raise Damage("a message is cut")
        yield tag >> 3, message[at : at + length]
        at += length


def varint(number: int) -> bytes:
    """A number of at most 64 bits; a negative one counts from 2^64."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3 | _VARINT) + varint(value)
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def delimited(message: bytes) -> bytes:
    """The message behind its length."""
    return varint(len(message)) + message
