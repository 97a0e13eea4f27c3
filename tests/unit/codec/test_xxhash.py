"""XXH32 of arrays: the values of the specification's own implementation, and texts of every length."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from hoodie.codec.xxhash import xxh32

#: of the reference implementation, seed 0
KNOWN = {
    "": 0x02CC5D05,
    "a": 0x550D7456,
    "abc": 0x32D153FF,
    "Nobody inspects the spammish repetition": 0xE2293B2F,
}
P1, P2, P3, P4, P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def plain(data: bytes) -> int:
    """A text at a time, as the specification says it."""

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> 32 - by) & 0xFFFFFFFF

    def word(place: int) -> int:
        return int.from_bytes(data[place : place + 4], "little")

    place, value = 0, P5
    if len(data) >= 16:
        lanes = [(P1 + P2) % 2**32, P2, 0, -P1 % 2**32]
        while place + 16 <= len(data):
            lanes = [
                rotated((lane + word(place + 4 * number) * P2) % 2**32, 13) * P1 % 2**32
                for number, lane in enumerate(lanes)
            ]
            place += 16
        value = sum(rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    value = (value + len(data)) % 2**32
    while place + 4 <= len(data):
        value = rotated((value + word(place) * P3) % 2**32, 17) * P4 % 2**32
        place += 4
    for byte in data[place:]:
        value = rotated((value + byte * P5) % 2**32, 11) * P1 % 2**32
    value = (value ^ value >> 15) * P2 % 2**32
    value = (value ^ value >> 13) * P3 % 2**32
    return value ^ value >> 16


def test_known_values() -> None:
    assert xxh32(pa.array(list(KNOWN))).tolist() == list(KNOWN.values())
    assert [plain(text.encode()) for text in KNOWN] == list(KNOWN.values())
    assert xxh32(pa.array([], pa.string())).tolist() == []


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_texts_of_every_length(kind: pa.DataType) -> None:
    rng = random.Random(3)
    letters = "abkz019_:,é日\U0001d11e"
    texts = ["".join(rng.choices(letters, k=rng.randrange(40))) for _ in range(500)]
    values: list[str | bytes] = [text.encode() if kind == pa.binary() else text for text in texts]
    array = pa.array(values, kind).slice(3)
    assert xxh32(array).tolist() == [plain(text.encode()) for text in texts[3:]]
