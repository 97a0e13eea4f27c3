"""Bloom filters sized by their files beside filters for Apache Hudi's default of 60,000 keys.

Each is made of the same keys, in turns, on one core. `bytes` are those of the footer text; `false_positives`
those of 100,000 keys that the file lacks; `cpu_ratio` is the CPU time of the sized filter to that of the
other, the median of the turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.format.bloom import BloomFilter
from hoodie.format.bloom_size import FilterSettings
from hoodie.format.settings import BLOOM_FPP, BloomType

from . import output

NAME = "filters"
HUDI_ENTRIES = 60_000
_ROWS = (10, 1_000, 60_000, 200_000, 1_000_000)
_ABSENT = 100_000
#: keys that a writer adds at a time, and those of the files that are made in one turn
_PIECE, _KEYS_A_TURN = 65_536, 1_000


def main(arguments: list[str]) -> int:
    """Print the measurement as JSON, and a table."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=_ROWS, help="rows of the files")
    parser.add_argument("--repeat", type=int, default=5, help="turns (5)")
    parser.add_argument("--out", type=Path, help="file for the JSON (default: stdout)")
    args = parser.parse_args(arguments)
    cases = [case(rows, kind, args.repeat) for rows in args.rows for kind in BloomType]
    output.write({"scenario": NAME, "fpp": BLOOM_FPP.default, "cases": cases}, args.out)
    print(
        "| rows | type | bytes | false positives of 100,000 | CPU |\n|---|---|---|---|---|", file=sys.stderr
    )
    for one in cases:
        sizes, wrong = one["bytes"], one["false_positives"]
        cells = [
            f"{one['rows']:,}",
            f"`{one['type']}`",
            f"{sizes['hudi']:,} → {sizes['sized']:,}",
            f"{wrong['hudi']:,} → {wrong['sized']:,}",
            f"{one['cpu_ratio']:.2f}",
        ]
        print(f"| {' | '.join(cells)} |", file=sys.stderr)
    return 0


def case(rows: int, kind: BloomType, repeat: int) -> dict[str, Any]:
    fpp = BLOOM_FPP.default
    ways = {
        "hudi": FilterSettings(HUDI_ENTRIES, fpp, kind, None),
        "sized": FilterSettings(None, fpp, kind, None),
    }
    keys, absent = named("key", rows), named("absent", _ABSENT)
    ratios, texts = [], dict[str, str]()
    for _ in range(repeat):
        took = {}
        for name, settings in ways.items():
            begun = time.process_time()
            for _ in range(max(1, _KEYS_A_TURN // rows)):
                texts[name] = made(settings, keys)
            took[name] = time.process_time() - begun
        ratios.append(took["sized"] / took["hudi"])
    filters = {name: BloomFilter.from_string(text, kind.value) for name, text in texts.items()}
    assert all(found.might_contain(keys).all() for found in filters.values())
    return {
        "rows": rows,
        "type": kind.value,
        "bytes": {name: len(text) for name, text in texts.items()},
        "false_positives": {name: int(found.might_contain(absent).sum()) for name, found in filters.items()},
        "cpu_ratio": round(statistics.median(ratios), 2),
    }


def made(settings: FilterSettings, keys: pa.Array[Any]) -> str:
    empty = settings.new()
    for start in range(0, len(keys), _PIECE):
        empty.add(keys.slice(start, _PIECE))
    return empty.to_string()


def named(prefix: str, count: int) -> pa.Array[Any]:
    """Keys of 17 to 20 bytes."""
    numbers = pa.array(np.arange(10**12, 10**12 + count)).cast(pa.string())
    join: Any = pc.binary_join_element_wise
    found: pa.Array[Any] = join(prefix, numbers, "-")
    return found
