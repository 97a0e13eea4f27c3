"""XXH64 gives the numbers of the reference implementation, and of keys that Apache Hudi wrote."""

from __future__ import annotations

import pytest

from hoodie.codec.xxhash import xxh64
from hoodie.metadata.keys import column_key, file_key


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_known_hashes(data: bytes, seed: int, expected: int) -> None:
    assert xxh64(data, seed) == expected


def test_keys_of_a_metadata_table() -> None:
    assert column_key("part") == "+WGrmgkN3io="
    name = "7dbb776b-7d61-4891-91b3-5fc639dcb3b9-0_1-308-370_20261120235340750.parquet"
    assert file_key("p0", name) == "Z+KNMU8CLlo=WuTl0dQi+Dm5qL+EyJYlFQ=="
