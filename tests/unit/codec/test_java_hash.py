"""Java's hash codes, and the buckets of Apache Hudi that follow from them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from hoodie.codec.java_hash import list_hashes, text_hashes
from hoodie.index.bucket import BucketIndex
from hoodie.index.hashed_values import key_hashes

#: String.hashCode of the JDK
TEXTS = {
    "": 0,
    "a": 97,
    "abc": 96354,
    "hello": 99162322,
    "polygenelubricants": -(2**31),
    "日本": 835047,
    "\U0001d11e": 1772394,
}
#: BucketIdentifier.getBucketId of Apache Hudi 0.15.0: record key, hash fields, number of buckets, bucket
BUCKETS = [
    ("k000", "id", 3, 0),
    ("k001", "id", 3, 1),
    ("k002", "id", 3, 2),
    ("a,b", "id", 7, 0),
    ("a:b", "id", 7, 1),
    ("id:1,day:x", "id,day", 8, 0),
    ("id:1,day:x", "id", 8, 0),
    ("id:1,day:x", "day", 8, 7),
    ("id:__null__,day:__empty__", "id,day", 1000, 961),
    ("id:a,b,day:c", "id", 1000, 66),
    ("id:a:b,day:", "id,day", 1000, 464),
]


def java_text(text: str) -> int:
    value, units = 0, text.encode("utf-16-le")
    for place in range(0, len(units), 2):
        value = (31 * value + units[place] + 256 * units[place + 1]) % 2**32
    return value


def java_list(values: list[str | None]) -> int:
    value = 1
    for item in values:
        value = (31 * value + (0 if item is None else java_text(item))) % 2**32
    return value


def hashed_values(key: str, fields: list[str]) -> list[str | None]:
    """KeyGenUtils.extractRecordKeysByFields of Apache Hudi 0.15.0, a key at a time."""
    if ":" not in key:
        return [key]
    parts = key.split(",")
    while parts and not parts[-1]:
        parts.pop()
    values: list[str | None] = []
    for part in parts:
        name, colon, value = part.partition(":")
        if not colon:
            values.append(name)
        elif name in fields:
            values.append({"__null__": None, "__empty__": ""}.get(value, value))
    return values


def test_known_texts() -> None:
    found = text_hashes(pa.array([*TEXTS, None])).astype(np.int32)
    assert found.tolist() == [*TEXTS.values(), 0]


def test_known_buckets() -> None:
    for key, fields, buckets, expected in BUCKETS:
        index = BucketIndex(buckets, tuple(fields.split(",")))
        assert index.place("p", pa.array([key])).tolist() == [expected], key


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_and_keys(seed: int) -> None:
    rng = random.Random(seed)
    letters = "abk019_-é日\U0001d11e" + ":," * seed
    texts = ["".join(rng.choices(letters, k=rng.randrange(12))) for _ in range(3000)]
    array = pa.array(["dropped", *texts]).slice(1)
    assert text_hashes(array).tolist() == [java_text(text) for text in texts]
    keys = [f"id:{text},day:{rng.choice(texts)}" if rng.random() < 0.5 else text or "x" for text in texts]
    for fields in (["id"], ["day"], ["id", "day"]):
        expected = [java_list(hashed_values(key, fields)) for key in keys]
        assert key_hashes(pa.array(keys), fields).tolist() == expected


def test_lists() -> None:
    hashes = text_hashes(pa.array(["a", "b", "c"]))
    assert list_hashes(hashes, np.array([0, 1, 1, 3])).tolist() == [
        java_list(["a"]),
        java_list([]),
        java_list(["b", "c"]),
    ]
    assert list_hashes(hashes[:0], np.array([0])).tolist() == []
    assert text_hashes(pa.array([], pa.string())).tolist() == []
