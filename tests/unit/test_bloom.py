"""Bloom filters and key ranges against format.md section 7, real Hudi footers and a one-by-one reference."""

from __future__ import annotations

import base64
import itertools
import math
import random
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.codec.hashing import MurmurKeys, murmur
from hoodie.errors import ConfigError, InputError, TableError
from hoodie.format import bloom as bloom_module
from hoodie.format import bloom_size
from hoodie.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_TYPE_KEY,
    BloomFilter,
    BloomSize,
    KeyHashes,
)
from hoodie.format.bloom_size import FilterSettings, SizedFilter
from hoodie.format.key_range import MAX_KEY_KEY, MIN_KEY_KEY, in_range, java_max, java_min, key_range
from hoodie.format.settings import BloomType
from tests.support.properties import examples

# ---- reference: one key, one bit at a time, as Java does it


def slow_murmur(data: bytes, seed: int) -> int:
    """Return the Java int of Apache Hudi 0.15.0 MurmurHash.hash."""
    mask, mul = 0xFFFFFFFF, 0x5BD1E995
    h = (seed ^ len(data)) & mask
    full = len(data) // 4 * 4
    for at in range(0, full, 4):
        k = int.from_bytes(data[at : at + 4], "little") * mul & mask
        k = (k ^ k >> 24) * mul & mask
        h = (h * mul & mask) ^ k
    left = len(data) - full
    for back in range(left, 0, -1):
        h ^= int.from_bytes(data[-back : len(data) - back + 1], "big", signed=True) << 8 * (back - 1) & mask
    if left:
        h = h * mul & mask
    h = (h ^ h >> 13) * mul & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


class SlowFilter:
    def __init__(self, n: int, fpp: float, maximum: int | None) -> None:
        self.n, self.maximum = n, maximum
        self.m = math.ceil(n * (-math.log(fpp) / (math.log(2) * math.log(2))))
        self.k = math.ceil(math.log(2) * self.m / n)
        self.rows = [bytearray((self.m + 7) // 8)]
        self.current, self.reached, self.turn = 0, False, 0

    def positions(self, key: bytes) -> list[int]:
        found, h = [], 0
        for _ in range(self.k):
            h = slow_murmur(key, h)
            found.append(int(math.fmod(abs(h), self.m)))
        return found

    def add(self, key: str) -> None:
        row = self.rows[-1]
        if self.maximum is None:
            pass
        elif self.reached:
            row = self.rows[self.turn % len(self.rows)]
            self.turn += 1
        elif self.current >= self.n and len(self.rows) * self.n < self.maximum:
            row = bytearray(len(row))
            self.rows.append(row)
            self.current = 0
        elif self.current >= self.n:
            self.reached = True
            row = self.rows[0]
        for at in self.positions(key.encode()):
            row[at >> 3] |= 1 << (at & 7)
        self.current += 1

    def has(self, key: str) -> bool:
        at = self.positions(key.encode())
        return any(all(row[i >> 3] >> (i & 7) & 1 for i in at) for row in self.rows)

    def text(self) -> str:
        header = struct.pack(">iiBi", -1, self.k, 1, self.m)
        if self.maximum is None:
            raw = header + self.rows[0]
        else:
            raw = header + struct.pack(">iii", self.n, self.current, len(self.rows))
            raw += b"".join(header + bytes(row) for row in self.rows)
        return base64.b64encode(raw).decode()


def slow(keys: list[str], n: int, fpp: float, maximum: int | None) -> SlowFilter:
    reference = SlowFilter(n, fpp, maximum)
    for key in keys:
        reference.add(key)
    return reference


def strings(keys: list[str]) -> pa.Array[Any]:
    return pa.array(keys, pa.string())


def simple(n: int, fpp: float) -> BloomFilter:
    return BloomFilter.create(n, fpp, BloomType.SIMPLE)


def numbered(start: int, stop: int) -> list[str]:
    return [f"id:k{i:07d}" for i in range(start, stop)]


# ---- hashing

key_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
key_lists = st.lists(key_texts, max_size=60)


@given(st.lists(st.binary(max_size=37), max_size=40), st.integers(-(2**31), 2**31 - 1), st.booleans())
def test_murmur_equals_java(values: list[bytes], seed: int, large: bool) -> None:
    array = pa.array(values, pa.large_binary() if large else pa.binary())
    assert murmur(array, seed).tolist() == [slow_murmur(value, seed) for value in values]


@given(st.lists(st.binary(min_size=7, max_size=7), min_size=3), st.integers(1, 2))
def test_murmur_of_a_slice(values: list[bytes], start: int) -> None:
    sliced = pa.array([b"x" * 5, *values]).slice(start + 1, 2)
    assert murmur(sliced).tolist() == [slow_murmur(value, 0) for value in values[start : start + 2]]


def test_murmur_published_value() -> None:
    assert murmur(strings(["k004"])).tolist() == [-57663136]


def test_murmur_of_keys_longer_than_sixteen_bits_can_say() -> None:
    values = [b"a" * 70_001, b"bc", b"d" * 65_536]
    assert murmur(pa.array(values), 5).tolist() == [slow_murmur(value, 5) for value in values]


@pytest.mark.parametrize(
    "lengths",
    [[5000], [5001, 5001], [4003] * 9, [300] * 7 + [301], [260] * 8 + [5] * 100, [1, 7, 5000, 5003, 2, 9000]],
)
def test_murmur_of_few_very_long_keys(lengths: list[int]) -> None:
    chance = random.Random(len(lengths))
    values = [chance.randbytes(length) for length in lengths]
    assert murmur(pa.array(values), 7).tolist() == [slow_murmur(value, 7) for value in values]
    keys = MurmurKeys.of(pa.array(values))
    seeds = np.arange(len(keys), dtype=np.uint32)
    hashes = keys.hash(seeds)
    for start in range(len(keys)):
        part = slice(start, start + 3)
        assert keys.slice(start, start + 3).hash(seeds[part]).tolist() == hashes[part].tolist()
    some = np.arange(0, len(keys), 2)
    assert keys.take(some).hash(seeds[some]).tolist() == hashes[some].tolist()


def test_hashing_refuses_nulls_and_numbers() -> None:
    with pytest.raises(InputError, match="1 of 2 keys are null"):
        MurmurKeys.of(pa.array(["a", None]))
    with pytest.raises(InputError, match="int64"):
        MurmurKeys.of(pa.array([1]))


def test_positions_of_the_extreme_hashes() -> None:
    hashes = np.array([0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0], np.uint32)
    for m in (1, 39, 2587966, 2**31 - 1):
        expected = [int(math.fmod(abs(h), m)) for h in (-(2**31), 2**31 - 1, -1, 0)]
        assert BloomSize(m, 1).positions(hashes).tolist() == expected


# ---- filters


@pytest.mark.parametrize(
    ("key", "n", "fpp", "text"),
    [
        ("id:k001,i:1", 4, 0.01, "/////wAAAAcBAAAAJ8CMAIAA"),
        ("id:k003,i:3", 4, 0.01, "/////wAAAAcBAAAAJwAEggA5"),
        ("id:k000,i:0", 4, 0.01, "/////wAAAAcBAAAAJwCAAAgd"),
        ("id:k002,i:2", 4, 0.01, "/////wAAAAcBAAAAJzBBAEBQ"),
        ("k004", 10, 0.1, "/////wAAAAQBAAAAMCAAAYAABA=="),
        ("a", 10, 0.1, "/////wAAAAQBAAAAMCAABABAQA=="),
        ("hello world", 10, 0.1, "/////wAAAAQBAAAAMAEAAABkAA=="),
        ("é", 10, 0.1, "/////wAAAAQBAAAAMAQgAAEgAA=="),
    ],
)
def test_simple_vectors(key: str, n: int, fpp: float, text: str) -> None:
    bloom = simple(n, fpp)
    bloom.add(strings([key]))
    assert bloom.to_string() == text
    assert BloomFilter.from_string(text, None).any_might_contain(strings([key]))


def test_default_dynamic_vector() -> None:
    bloom = BloomFilter.create()
    bloom.add(strings(["k004", "k002", "k008", "k000", "k006"]))
    text = bloom.to_string()
    assert text.startswith("/////wAAAB4BACd9PgAA6mAAAAAFAAAAAf////8AAAAeAQAnfT4AAAAA")
    assert len(base64.b64decode(text)) == 323_534
    assert (bloom.size.m, bloom.size.k) == (2_587_966, 30)


@settings(max_examples=examples(150), deadline=None)
@given(
    keys=key_lists,
    others=key_lists,
    cuts=st.lists(st.integers(0, 60), max_size=3),
    n=st.integers(1, 25),
    fpp=st.floats(1e-6, 0.5),
    maximum=st.one_of(st.none(), st.integers(0, 60)),
    reload=st.booleans(),
)
def test_equals_one_by_one_insertion(
    keys: list[str], others: list[str], cuts: list[int], n: int, fpp: float, maximum: int | None, reload: bool
) -> None:
    reference = slow(keys, n, fpp, maximum)
    kind = BloomType.SIMPLE if maximum is None else BloomType.DYNAMIC_V0
    bloom = BloomFilter.create(n, fpp, kind, maximum or 0)
    bounds = sorted({0, len(keys), *(min(cut, len(keys)) for cut in cuts)})
    for start, stop in itertools.pairwise(bounds):
        bloom.add(strings(keys).slice(start, stop - start))
        if reload:
            bloom = BloomFilter.from_string(bloom.to_string(), kind.value, maximum or 0)
    assert bloom.to_string() == reference.text()
    asked = keys + others
    expected = [reference.has(key) for key in asked]
    assert bloom.might_contain(strings(asked)).tolist() == expected
    read = BloomFilter.from_string(reference.text().encode(), kind.value)
    hashes = KeyHashes(strings(asked))
    assert read.might_contain(hashes).tolist() == expected
    assert read.any_might_contain(hashes) == any(expected)
    assert read.to_string() == reference.text()


def test_growth_in_large_adds() -> None:
    """Rows fill in the middle of prepared parts, keys have many lengths, and the round robin follows."""
    keys = [f"{'x' * (i % 23)}{i}" for i in range(2_500)]
    reference = slow(keys, 400, 0.05, 1_000)
    bloom = BloomFilter.create(400, 0.05, max_entries=1_000)
    bloom.add(strings(keys))
    assert len(reference.rows) == bloom.rows == 3
    assert bloom.to_string() == reference.text()
    assert bloom.might_contain(strings(keys)).all()


def test_a_large_add_equals_small_ones() -> None:
    """More keys than one prepared part, against adds that set single bits in packed rows."""
    keys = pa.array([f"{i:0{6 + i % 3}d}" for i in range(70_000)])
    once = BloomFilter.create(30_000, 0.2, max_entries=50_000)
    once.add(keys)
    often = BloomFilter.create(30_000, 0.2, max_entries=50_000)
    for start in range(0, len(keys), 350):
        often.add(keys.slice(start, 350))
        often.to_string()
    assert once.rows == 2
    assert once.to_string() == often.to_string()
    assert once.might_contain(keys).all()


def test_kinds_of_arrays_give_the_same_filter() -> None:
    keys = ["k1", "kk22", "é", "k1", "日本語"]
    arrays: list[Any] = [
        strings(keys),
        pa.array(keys, pa.large_string()),
        pa.array([key.encode() for key in keys], pa.binary()),
        pa.array([key.encode() for key in keys], pa.large_binary()),
        strings(["skipped", *keys]).slice(1),
        strings(keys).dictionary_encode(),
        pa.chunked_array([strings(keys[:2]), strings([]), strings(keys[2:])]),
        pa.chunked_array([strings(keys)]),
        pa.chunked_array([strings(keys).dictionary_encode()]),
    ]
    texts = []
    for array in arrays:
        bloom = simple(10, 0.01)
        bloom.add(array)
        assert bloom.might_contain(array).all()
        texts.append(bloom.to_string())
    assert set(texts) == {slow(keys, 10, 0.01, None).text()}


@pytest.mark.parametrize("keys", [["12345678"], ["1234567"], ["12345678", "12345678"], ["1", "12345678"]])
def test_keys_are_left_alone(keys: list[str]) -> None:
    array = strings(keys)
    bloom = BloomFilter.create(10, 0.01)
    bloom.add(array)
    assert bloom.might_contain(array).all()
    key_range(array)
    in_range(array, "1", "\U0001f600")
    assert array.to_pylist() == keys


def test_nothing_to_add_or_ask() -> None:
    bloom = BloomFilter.create()
    bloom.add(strings([]))
    bloom.add(pa.chunked_array([], pa.string()))
    assert bloom.to_string() == BloomFilter.create().to_string()
    assert bloom.might_contain(strings([])).tolist() == []
    assert not bloom.any_might_contain(strings([]))
    assert not bloom.any_might_contain(strings(["a"]))


def test_bad_keys_leave_the_filter_as_it_was() -> None:
    bloom = BloomFilter.create(10, 0.1)
    before = bloom.to_string()
    wrong: list[tuple[list[Any], str]] = [
        (["a", None], "1 of 2 record keys are null"),
        (["a", ""], "empty string"),
    ]
    for keys, message in wrong:
        with pytest.raises(InputError, match=message):
            bloom.add(pa.array(keys))
        with pytest.raises(InputError, match=message):
            KeyHashes(pa.array(keys))
    with pytest.raises(InputError, match="double"):
        bloom.add(pa.array([1.5]))
    assert bloom.to_string() == before


def test_copies_go_their_own_way() -> None:
    for text in (None, slow(["a"], 50, 0.01, 100).text()):
        bloom = BloomFilter.from_string(text, "DYNAMIC_V0") if text else BloomFilter.create(50, 0.01)
        bloom.add(strings(numbered(0, 20)))
        before = bloom.to_string()
        twin = bloom.copy()
        twin.add(strings(["new"]))
        assert bloom.to_string() == before != twin.to_string()
        bloom.add(strings(["new"]))
        assert bloom.to_string() == twin.to_string()
        assert twin.might_contain(strings([*numbered(0, 20), "new"])).all()


def test_the_next_version_continues_the_previous_one() -> None:
    keys = numbered(0, 170)
    previous = slow(keys[:130], 40, 1e-3, 100)
    bloom = BloomFilter.from_string(previous.text(), "DYNAMIC_V0", max_entries=100)
    bloom.add(strings(keys[130:]))
    assert bloom.to_string() == slow(keys, 40, 1e-3, 100).text()


def test_shared_hashes_over_filters_of_different_sizes() -> None:
    """Several blocks; survivors leave the shared rounds early in sparse filters, never in full ones."""
    keys = numbered(0, 4_000)
    hashes = KeyHashes(strings(keys))
    for start, stop, n, fpp in [
        (0, 30, 60, 1e-9),
        (100, 900, 800, 1e-6),
        (0, 4_000, 4_000, 0.01),
        (9_000, 9_001, 1, 0.4),
    ]:
        bloom = BloomFilter.create(n, fpp)
        bloom.add(strings(numbered(start, stop)))
        bare = BloomFilter.from_string(bloom.to_string(), "DYNAMIC_V0")
        found = bare.might_contain(hashes)
        assert found.tolist() == bloom.might_contain(strings(keys)).tolist()
        assert found[start:stop].all()
        sample = slice(0, 4_000, 97)
        reference = slow(numbered(start, stop), n, fpp, 100_000)
        assert found[sample].tolist() == [reference.has(key) for key in keys[sample]]


def test_only_some_keys_are_asked() -> None:
    bloom = BloomFilter.create(100, 1e-9)
    bloom.add(
        strings(
            numbered(
                0,
                3_000,
            )
        )
    )
    hashes = KeyHashes(strings([key * (1 + i % 3) for i, key in enumerate(numbered(0, 3_000))]))
    everywhere = bloom.might_contain(hashes)
    where = np.arange(3_000) % 7 == 0
    assert bloom.might_contain(hashes, where).tolist() == (everywhere & where).tolist()
    assert bloom.any_might_contain(hashes, where)
    assert not bloom.any_might_contain(hashes, np.zeros(3_000, np.bool_))
    assert not bloom.any_might_contain(hashes, ~everywhere)


def test_a_single_hit_in_the_last_block_is_found() -> None:
    keys = strings(numbered(0, 5_000))
    bloom = BloomFilter.create(100, 1e-9)
    bloom.add(keys.slice(4_999))
    assert bloom.any_might_contain(keys)
    assert np.flatnonzero(bloom.might_contain(keys)).tolist() == [4_999]


def test_threads_share_hashes() -> None:
    keys = strings(numbered(0, 3_000))
    filters = []
    for i in range(12):
        bloom = BloomFilter.create(300, 1e-9)
        bloom.add(keys.slice(i * 250, 250))
        filters.append(bloom)
    hashes = KeyHashes(keys)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda bloom: bloom.might_contain(hashes), filters))
    for i, hits in enumerate(found):
        assert np.flatnonzero(hits).tolist() == list(range(i * 250, i * 250 + 250))


def test_types_and_sizes() -> None:
    assert BloomType.of(None) is BloomType.SIMPLE
    assert BloomType.of("dynamic_v0") is BloomType.DYNAMIC_V0
    with pytest.raises(ConfigError, match=r"'DYNAMIC_V9'.*SIMPLE, DYNAMIC_V0"):
        BloomType.of("DYNAMIC_V9")
    for n, fpp in [(0, 0.1), (10, 0.0), (10, 1.0), (10, 1.5), (2**31, 1e-9)]:
        with pytest.raises(ConfigError, match=str(n)):
            BloomFilter.create(n, fpp)


GOOD = slow(["a", "b"], 10, 0.01, 100).text()


@pytest.mark.parametrize(
    ("text", "type_code"),
    [
        ("", None),
        ("????", None),
        ("é" * 40, None),
        (GOOD[:-4], "DYNAMIC_V0"),
        (GOOD + "AAAA", "DYNAMIC_V0"),
        (GOOD, None),
        (base64.b64encode(struct.pack(">iii", 7, 39, 0)).decode(), None),
        (base64.b64encode(struct.pack(">iiBi", -1, 7, 0, 8) + b"\0").decode(), None),
        (base64.b64encode(struct.pack(">iiBi", -1, 0, 1, 8) + b"\0").decode(), None),
        (base64.b64encode(struct.pack(">iiBiiii", -1, 1, 1, 8, 10, 0, -1)).decode(), "DYNAMIC_V0"),
    ],
)
def test_damaged_texts(text: str, type_code: str | None) -> None:
    with pytest.raises(TableError, match="damaged"):
        BloomFilter.from_string(text, type_code)


def test_damage_between_the_headers_never_hides_a_key() -> None:
    keys = strings(numbered(0, 10))
    bloom = simple(100, 0.01)
    bloom.add(keys)
    text = bloom.to_string()
    hurt = BloomFilter.from_string(text[:60] + "!!!!" + text[64:], None)
    assert hurt.might_contain(keys).all()
    with pytest.raises(TableError, match="damaged"):
        hurt.add(keys)


# ---- ranges


def java_key(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


tricky = st.text(
    st.one_of(
        st.sampled_from("a\x7f\u0080\u07ff\ud7ff\ue000\ufffd\uffff\U00010000\U0010ffff"),
        st.characters(exclude_categories=["Cs"]),
    ),
    min_size=1,
    max_size=5,
)


@given(st.lists(tricky, min_size=1), st.booleans())
def test_key_range_in_java_order(keys: list[str], chunked: bool) -> None:
    array: Any = strings(["\U0010ffff\uffff", *keys]).slice(1)
    if chunked:
        array = pa.chunked_array([array.slice(0, 1), array.slice(1)])
    ordered = sorted(keys, key=java_key)
    assert key_range(array) == (ordered[0], ordered[-1])
    assert (java_min(keys[0], keys[-1]), java_max(keys[0], keys[-1])) == tuple(
        sorted([keys[0], keys[-1]], key=java_key)
    )


@given(st.lists(tricky), st.one_of(st.none(), tricky), st.one_of(st.none(), tricky), st.booleans())
def test_in_range_in_java_or_byte_order(
    keys: list[str], low: str | None, high: str | None, binary: bool
) -> None:
    def within(key: str, order: Any) -> bool:
        after = low is None or order(low) <= order(key)
        return after and (high is None or order(key) <= order(high))

    array = pa.array([key.encode() for key in keys], pa.binary()) if binary else strings(keys)
    expected = [within(key, java_key) or within(key, str.encode) for key in keys]
    assert in_range(array, low, high).tolist() == expected


def test_ranges_where_the_orders_differ() -> None:
    keys = strings(["\U0001f600", "\uff21"])
    assert key_range(keys) == ("\U0001f600", "\uff21")
    assert in_range(keys, "\U0001f600", "\uff21").all()
    assert in_range(keys, "\uff21", "\U0001f600").all()
    with pytest.raises(InputError, match="no record keys"):
        key_range(strings([]))


# ---- real Hudi


@pytest.mark.parametrize(
    ("table", "entries", "fpp"),
    [
        ("cow_types", 60_000, 1e-9),
        ("cow_nonpart", 2_000, 1e-9),
        ("cow_hive_urlenc", 2_000, 1e-9),
        ("cow_bulk_insert_row", 2_000, 1e-9),
        ("idx_bloom", 2_000, 1e-9),
        ("idx_bucket", 2_000, 1e-9),
        ("mor_compacted", 60_000, 1e-9),
    ],
)
def test_footers_of_real_hudi(golden_tables: Path, table: str, entries: int, fpp: float) -> None:
    compared = 0
    for path in sorted((golden_tables / "0.15.0-v6" / table / "table").rglob("*.parquet")):
        if ".hoodie" in path.parts or not path.stat().st_size:
            continue
        file = pq.ParquetFile(path)
        footer = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
        keys = file.read(["_hoodie_record_key"]).column(0)
        assert key_range(keys) == (footer[MIN_KEY_KEY], footer[MAX_KEY_KEY])
        text = footer[BLOOM_FILTER_KEY]
        real = BloomFilter.from_string(text, footer[BLOOM_TYPE_KEY])
        assert real.might_contain(keys).all()
        if real.num_entries != entries:
            continue
        ours = BloomFilter.create(entries, fpp, BloomType.of(footer[BLOOM_TYPE_KEY]))
        ours.add(keys)
        assert ours.to_string() == text, path.name
        compared += 1
    assert compared


# ---- filters sized by their files


def sized(kind: BloomType, fpp: float = 1e-9, most: int | None = None) -> FilterSettings:
    return FilterSettings(None, fpp, kind, most)


def some_keys(start: int, stop: int) -> pa.Array[Any]:
    return pa.array([f"key-{number:07d}" for number in range(start, stop)])


def stored(made: BloomFilter | SizedFilter) -> BloomFilter:
    return BloomFilter.from_string(made.to_string(), made.type.value)


@pytest.mark.parametrize("kind", list(BloomType))
@pytest.mark.parametrize("count", [1, 100, 101, 5_000, 120_000])
def test_a_filter_is_sized_by_its_keys_and_keeps_its_rate(kind: BloomType, count: int) -> None:
    """A hundredth, which a sample can show; also beyond the keys that dynamic filters of Hudi are for."""
    made = sized(kind, 0.01).new()
    for start in range(0, count, 997):
        made.add(some_keys(start, min(count, start + 997)))
    found = stored(made)
    assert found.might_contain(some_keys(0, count)).all()
    assert found.might_contain(some_keys(1_000_000, 1_100_000)).mean() < 0.012
    assert found.rows == 1
    bits = 10 * max(100, count * 9 // 8)
    assert len(made.to_string()) <= 60 + bits / 6


@pytest.mark.parametrize("kind", list(BloomType))
def test_keys_of_a_filter_are_folded_where_they_take_too_much_memory(
    monkeypatch: pytest.MonkeyPatch, kind: BloomType
) -> None:
    """The bits are those of a filter that had its size from the start."""
    monkeypatch.setattr(bloom_size, "MOST_BITS", 1 << 18)
    monkeypatch.setattr(bloom_size, "HELD_BYTES", 10_000)
    made = sized(kind).new()
    for start in range(0, 2_000, 100):
        made.add(some_keys(start, start + 100))
    found = stored(made)
    assert found.size.m == 1 << 17, "the least part of MOST_BITS that 2,250 keys need"
    fresh = BloomFilter(kind, found.size, found.num_entries, found.num_entries, 0, 1)
    fresh.add(some_keys(0, 2_000))
    assert fresh.to_string() == made.to_string()


@pytest.mark.parametrize("kind", list(BloomType))
def test_a_filter_is_continued_while_it_has_room(kind: BloomType) -> None:
    asked: list[int] = []

    def again() -> list[pa.Array[Any]]:
        asked.append(1)
        return [some_keys(0, 600), some_keys(600, 1_000)]

    settings = sized(kind)
    first = settings.new()
    first.add(some_keys(0, 1_000))
    second = settings.continued(stored(first), 1_000, again)
    assert second is not None
    second.add(some_keys(1_000, 1_060))
    found = stored(second)
    assert (asked, found.size) == ([], stored(first).size)
    assert found.might_contain(some_keys(0, 1_060)).all()
    third = settings.continued(stored(first), 1_000, again)
    assert third is not None
    third.add(some_keys(1_000, 1_060))
    third.add(some_keys(1_060, 3_000))
    found = stored(third)
    assert asked == [1]
    assert found.might_contain(some_keys(0, 3_000)).all()
    assert found.size == BloomSize.quick(3_375, 1e-9)


@pytest.mark.parametrize(
    ("known", "rows"),
    [
        pytest.param(BloomFilter.create(60_000, 1e-9), 40, id="far too large"),
        pytest.param(BloomFilter.create(60_000, 1e-9), 60_100, id="too small"),
        pytest.param(BloomFilter.create(1_000, 0.1), 900, id="of a worse rate"),
        pytest.param(BloomFilter.create(1_000, 1e-9, BloomType.SIMPLE), 1_001, id="too small, SIMPLE"),
    ],
)
def test_a_filter_of_another_size_is_made_again(known: BloomFilter, rows: int) -> None:
    assert sized(BloomType.DYNAMIC_V0).continued(known, rows, list) is None


def test_a_filter_for_some_more_keys_than_a_file_has_is_continued() -> None:
    known = BloomFilter.create(60_000, 1e-9)
    assert sized(BloomType.DYNAMIC_V0).continued(known, 50_000, list) is not None


def test_the_most_entries_of_dynamic_filters_bound_those_sized_by_files() -> None:
    for kind, entries in ((BloomType.DYNAMIC_V0, 500), (BloomType.SIMPLE, 2_250)):
        made = sized(kind, most=500).new()
        made.add(some_keys(0, 2_000))
        found = stored(made)
        assert found.size == BloomSize.quick(entries, 1e-9)
        assert found.might_contain(some_keys(0, 2_000)).all()
        assert sized(kind, most=500).continued(found, 2_000, list) is not None


@pytest.mark.parametrize("fpp", [0.5, 0.25, 0.1, 1e-3, 1e-9, 1e-30])
@pytest.mark.parametrize("entries", [1, 7, 100, 60_000])
def test_two_thirds_of_the_rounds_take_few_more_bits(fpp: float, entries: int) -> None:
    least, size = BloomSize.of(entries, fpp), BloomSize.quick(entries, fpp)
    assert size.entries(fpp) >= entries
    assert size.m <= math.ceil(least.m * 1.08) + 1
    assert size.k <= least.k


def test_a_filter_sized_by_its_file_needs_a_rate() -> None:
    for fpp in (0.0, 1.0, 2.0, float("nan")):
        with pytest.raises(ConfigError, match="between 0 and 1"):
            sized(BloomType.SIMPLE, fpp).new()


def test_a_sized_filter_refuses_a_key_without_text() -> None:
    made = sized(BloomType.DYNAMIC_V0).new()
    for keys in (pa.array(["a", None]), pa.array(["a", ""])):
        with pytest.raises(InputError):
            made.add(keys)
    assert not stored(made).might_contain(pa.array(["a"])).any()


def test_bits_of_a_row_too_large_for_bytes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = some_keys(0, 5_000)
    first, second = BloomFilter.create(5_000, 1e-3), BloomFilter.create(5_000, 1e-3)
    first.add(keys)
    monkeypatch.setattr(bloom_module, "_MOST_FLAGS", 0)
    second.add(keys)
    assert first.to_string() == second.to_string()
