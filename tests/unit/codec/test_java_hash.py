"""Java's hash codes, and the buckets of Apache Hudi that follow from them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from hoodie.codec.java_hash import list_hashes, text_hashes
from hoodie.codec.xxhash import xxh32
from hoodie.index.bucket import BucketIndex
from hoodie.index.hashed_values import HashedValues, Hashing, HashRule, key_hashes, ring_hashes

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
#: BucketIdentifier.getBucketId of Apache Hudi: record key, hash fields, number of buckets, bucket of 0.15.0
#: and of 1.2.0
BUCKETS = [
    ("k000", "id", 3, 0, 0),
    ("k001", "id", 3, 1, 1),
    ("k002", "id", 3, 2, 2),
    ("a,b", "id", 7, 0, 0),
    ("a:b", "id", 7, 1, 0),
    ("id:1,day:x", "id,day", 8, 0, 0),
    ("id:1,day:x", "id", 8, 0, 0),
    ("id:1,day:x", "day", 8, 7, 7),
    ("id:__null__,day:__empty__", "id,day", 1000, 961, 961),
    ("id:a,b,day:c", "id", 1000, 66, 710),
    ("id:a:b,day:", "id,day", 1000, 464, 464),
    ("2014-10-22 13:50", "id", 1000, 1, 12),
    ("id:1", "id", 1000, 80, 33),
    ("a:b,c", "id", 1000, 130, 87),
    ("a,b:c", "id", 1000, 128, 447),
    ("id:12:30,13:30,day:x", "id", 1000, 477, 477),
    ("id:12:30,13:30,day:x", "id,day", 1000, 907, 907),
    ("id:a,b,day:c", "id,day", 1000, 145, 109),
    ("id:x,day:2014-10-22 13:50,", "id,day", 1000, 662, 304),
    ("id:x,,day:y", "day", 1000, 82, 152),
    ("a:1,b:2", "id", 1000, 1, 285),
    ("id:日,本,day:é", "id,day", 1000, 481, 485),
    ("id:__null__,x,day:__null__", "id", 1000, 81, 698),
    ("a:1", "id,day", 1000, 1, 95),
    (",:", "id", 1000, 31, 453),
    ("day:1:2,id:3", "id", 1000, 82, 82),
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


PLACEHOLDERS = {"__null__": None, "__empty__": ""}


def hashed_before_1(key: str, fields: list[str]) -> list[str | None]:
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
            values.append(PLACEHOLDERS.get(value, value))
    return values


def hashed_since_1(key: str, fields: list[str]) -> list[str | None]:
    """The same of Apache Hudi 1.2.0, which never ends where the last pair is passed over and has colons."""
    if ":" not in key or "," not in key:
        return [key]
    values = [PLACEHOLDERS.get(value, value) for name, value in pairs(key) if name in fields]
    return values or [key]


def pairs(key: str) -> list[tuple[str, str]]:
    """Names and values of a key with a comma and a colon, as 1.2.0 cuts it."""
    found, begin = [], 0
    while begin < len(key):
        first = key.index(":", begin)
        other, comma = key.find(":", first + 1), -1
        while other >= 0 and comma < first:
            comma = key.rfind(",", first, other)
            other = key.find(":", other + 1)
        end = comma if comma > first else len(key)
        found.append((key[begin:first], key[first + 1 : end]))
        begin = end + 1
    return found


def ends_since_1(key: str, fields: list[str]) -> bool:
    """Does Apache Hudi 1.2.0 come to an end with a key."""
    if ":" not in key or "," not in key:
        return True
    name, value = pairs(key)[-1]
    return name in fields or ":" not in value


RULES = {HashRule.BEFORE_1: hashed_before_1, HashRule.SINCE_1: hashed_since_1}


def test_known_texts() -> None:
    found = text_hashes(pa.array([*TEXTS, None])).astype(np.int32)
    assert found.tolist() == [*TEXTS.values(), 0]


def test_known_buckets() -> None:
    for key, fields, buckets, *expected in BUCKETS:
        indexes = (BucketIndex(buckets, tuple(fields.split(",")), Hashing(rule)) for rule in HashRule)
        assert [index.place("p", pa.array([key])).tolist() for index in indexes] == [[n] for n in expected], (
            key
        )


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_and_keys(seed: int) -> None:
    rng = random.Random(seed)
    letters = "abk019_-é日\U0001d11e" + ":," * seed
    texts = ["".join(rng.choices(letters, k=rng.randrange(12))) for _ in range(3000)]
    array = pa.array(["dropped", *texts]).slice(1)
    assert text_hashes(array).tolist() == [java_text(text) for text in texts]
    keys = [f"id:{text},day:{rng.choice(texts)}" if rng.random() < 0.5 else text or "x" for text in texts]
    for fields in (["id"], ["day"], ["id", "day"]):
        found = {rule: [hashed(key, fields) for key in keys] for rule, hashed in RULES.items()}
        others = [
            place for place, values in enumerate(zip(*found.values(), strict=True)) if values[0] != values[1]
        ]
        for rule, lists in found.items():
            given = pa.array(["dropped", *keys]).slice(1)
            assert key_hashes(given, fields, rule).tolist() == list(map(java_list, lists))
            joined = ["".join("null" if value is None else value for value in values) for values in lists]
            assert ring_hashes(given, fields, rule).tolist() == xxh32(pa.array(joined)).tolist()
            assert {*others} <= {*HashedValues.of(given, fields, rule).doubtful.tolist()}


def test_keys_that_both_rules_hash_alike_are_not_doubted() -> None:
    keys = pa.array(["a", "a,b", "id:1,day:x", "id:2014-10-22 13:50,day:13:51", "id:__null__,day:"])
    for rule in HashRule:
        assert HashedValues.of(keys, ["id"], rule).doubtful.tolist() == []


def test_lists() -> None:
    hashes = text_hashes(pa.array(["a", "b", "c"]))
    assert list_hashes(hashes, np.array([0, 1, 1, 3])).tolist() == [
        java_list(["a"]),
        java_list([]),
        java_list(["b", "c"]),
    ]
    assert list_hashes(hashes[:0], np.array([0])).tolist() == []
    assert text_hashes(pa.array([], pa.string())).tolist() == []
