"""Upserts that one process repeats, with the index SIMPLE and with INMEMORY in turns, by the local engine.

Both write the same batches, to tables of their own. The first upsert of each is apart, as INMEMORY reads the
keys of the files then. Ratios are those of medians of the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hoodie
from hoodie.index.in_memory.memory import key_memory

from . import output
from .counting import Cost, cost

NAME = "repeated"
INDEXES = ("SIMPLE", "INMEMORY")
DATA = ["id", "ts", "amount", "note"]
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.precombine.field": "ts",
}


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 where the two tables differ."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table (1,000,000)")
    parser.add_argument("--batch", type=int, default=10_000, help="rows of an upsert, all over it (10,000)")
    parser.add_argument("--repeat", type=int, default=20, help="upserts of each index (20)")
    parser.add_argument("--keys", choices=("uuid", "number"), default="uuid", help="kind of record keys")
    parser.add_argument("--type", default="MERGE_ON_READ", help="of the tables (MERGE_ON_READ)")
    parser.add_argument("--work", type=Path, help="keep the tables here")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    keys = _keys(args.rows, args.keys)
    options = {**OPTIONS, "hoodie.datasource.write.table.type": args.type}
    rng, spent = np.random.default_rng(7), dict[str, list[Cost]]()
    with output.folder(args.work, NAME) as folder:
        tables = {index: str(folder / index) for index in INDEXES}
        for table in tables.values():
            hoodie.write_table(_rows(keys, 1), table, operation="bulk_insert", options=options)
        for number in range(args.repeat):
            some = np.sort(rng.choice(args.rows, args.batch, replace=False))
            batch = _rows(keys.take(pa.array(some)), number + 2)
            for index, table in tables.items():
                with cost() as found:
                    done = hoodie.write_table(batch, table, options={**options, "hoodie.index.type": index})
                assert done.num_updates == args.batch, done
                spent.setdefault(index, []).append(found)
        simple, held = (hoodie.read_table(table).select(DATA).sort_by("id") for table in tables.values())
        equal = simple.equals(held)
    result = _result(spent, args.rows)
    print(*result["ratios"].items(), f"{result['bytes_per_key']:.1f} bytes a key", file=sys.stderr)
    head = {name: getattr(args, name) for name in ("rows", "batch", "repeat", "keys", "type")}
    output.write({"scenario": NAME, **head, "cpus": os.cpu_count(), "rows_equal": equal, **result}, args.out)
    return int(not equal)


def _result(spent: Mapping[str, list[Cost]], rows: int) -> dict[str, Any]:
    medians = {
        index: {
            "seconds": statistics.median(found.seconds for found in costs[1:]),
            "cpu_seconds": statistics.median(found.cpu_seconds for found in costs[1:]),
        }
        for index, costs in spent.items()
    }
    simple, held = (medians[index] for index in INDEXES)
    return {
        "first": {index: costs[0].to_dict() for index, costs in spent.items()},
        "medians": medians,
        "ratios": {name: round(simple[name] / held[name], 2) for name in held},
        "bytes_per_key": key_memory().nbytes / rows,
    }


def _keys(count: int, kind: str) -> pa.Array[Any]:
    if kind == "number":
        return pa.array([f"order-{number:012d}" for number in range(count)])
    return pa.array([str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(count)])


def _rows(keys: pa.Array[Any], version: int) -> pa.Table:
    """Rows of the version, with an amount and a text."""
    rng, count = np.random.default_rng(version), len(keys)
    return pa.table(
        {
            "id": keys,
            "ts": pa.array(np.full(count, version, dtype=np.int64)),
            "amount": pa.array(rng.random(count)),
            "note": pa.array([f"note {number} of {version}" for number in rng.integers(0, 977, count)]),
        }
    )
