"""Thrift's compact protocol: values of every kind are passed over to their very end, or are damage."""

from __future__ import annotations

import pytest

from hoodie.codec.thrift import Damage, skip, struct_at

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12

#: kind and bytes of values
VALUES = [
    (BYTE, b"\x07"),
    (I16, b"\x02"),
    (I32, b"\x80\x01"),
    (I64, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    (DOUBLE, b"\0" * 8),
    (BINARY, b"\x03abc"),
    (BINARY, b"\x80\x01" + b"x" * 128),
    (LIST, b"\x13" + b"\x07"),
    (LIST, b"\x25" + b"\x02\x80\x01"),
    (LIST, b"\x31" + b"\x01\x02\x01"),
    (LIST, b"\xf8\x10" + b"\x01y" * 16),
    (SET, b"\x17" + b"\0" * 8),
    (STRUCT, b"\0"),
    (STRUCT, b"\x13\x07\x15\x04\0"),
    (STRUCT, b"\x11\x12\x1c\x18\x01z\0\0"),
    (STRUCT, b"\x05\x28\x02\0"),
]


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_is_passed_over_to_its_end(kind: int, value: bytes) -> None:
    assert skip(value, 0, kind) == len(value)
    assert skip(b"\xff" + value + b"\x15\x02\0", 1, kind) == 1 + len(value)


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_that_ends_too_soon_is_damage(kind: int, value: bytes) -> None:
    for end in range(len(value)):
        with pytest.raises(Damage):
            skip(value[:end], 0, kind)


@pytest.mark.parametrize("kind", [0, 11, 13, 15])
def test_a_kind_that_parquet_has_not_is_damage(kind: int) -> None:
    with pytest.raises(Damage):
        skip(b"\0" * 20, 0, kind)


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_fields_behind_one_that_is_not_wanted_are_found(kind: int, value: bytes) -> None:
    """As field 1, before a number and a truth value, which is in its field's head."""
    data = bytes([0x10 | kind]) + value + b"\x15\x54\x11\x12\0"
    assert struct_at(data, 0, {2: None, 3: None, 4: None}) == ({2: 42, 3: True, 4: False}, len(data))


def test_structs_in_structs_end_somewhere() -> None:
    for levels, damage in ((10, False), (40, True)):
        data = b"\x1c" * levels + b"\0" * (levels + 1)
        if damage:
            with pytest.raises(Damage):
                skip(data, 0, STRUCT)
        else:
            assert skip(data, 0, STRUCT) == len(data)


@pytest.mark.parametrize("field", [b"\x05\x02\x02" + b"\x05\x02\x02", b"\x15\x02\x05\x00\x02"])
def test_fields_that_do_not_ascend_are_damage(field: bytes) -> None:
    with pytest.raises(Damage):
        skip(field + b"\0", 0, STRUCT)
    with pytest.raises(Damage):
        struct_at(field + b"\0", 0, {7: None})
