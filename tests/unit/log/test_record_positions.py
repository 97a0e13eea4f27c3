"""Headers of record positions, as Apache Hudi 1.2.0 writes them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from hoodie.format.record_positions import encode_positions
from tests.unit.log.reference import positions_of

#: positions, and the begin of the SHA-256 of the header that LogReaderUtils.encodePositions of Apache Hudi
#: 1.2.0 makes of them
HEADERS = {
    "an array": (range(0, 8192, 2), "965d39e0508829b3"),
    "bits of one more": (range(0, 8194, 2), "3945f1bb09afad4e"),
    "bits of several containers": (range(0, 200000, 3), "82f8b89f5a4a1948"),
    "runs": ([number for number in range(70000) if number % 1000], "1b2fbd76824e161b"),
    "a whole container": (range(65536, 131072), "268ef85bf98178af"),
    "all kinds": (
        [
            *range(10),
            *range(65536, 131072, 2),
            *range(131072, 190000),
            *(200000, 327679, 327680, 2**31 - 1),
        ],
        "07ea75789c2db34f",
    ),
    "three containers, two with runs": ([*range(10), 70000, *range(140000, 140100)], "bc25d8a8ae6c741c"),
    "runs as long as an array": ([0, 1, 2, 5], "490531422003ca9d"),
    "runs shorter than bits": (
        [number for number in range(4 * 2047) if number % 4 < 3],
        "0394770c0b1b38f7",
    ),
    "runs longer than bits": ([number for number in range(4 * 2048) if number % 4 < 3], "015dfe5ea7725f29"),
}


@pytest.mark.parametrize(("positions", "digest"), HEADERS.values(), ids=HEADERS)
def test_headers_are_those_of_apache_hudi(positions: range | list[int], digest: str) -> None:
    text = encode_positions(np.array(positions, np.int32))
    assert positions_of(text) == [*positions]
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize("seed", range(20))
def test_random_positions(seed: int) -> None:
    chance = np.random.default_rng(seed)
    most = int(chance.choice([5, 5000, 70000, 300000, 2**31]))
    count = int(chance.integers(1, min(most, 20000) + 1))
    begins = np.unique(chance.integers(0, most, count))
    positions = np.unique((begins[:, None] + np.arange(chance.integers(1, 9))).ravel())
    positions = positions[positions < 2**31].astype(np.int32)
    assert positions_of(encode_positions(positions)) == positions.tolist()
