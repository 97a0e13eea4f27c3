"""What each index reads to find where the keys of an upsert are: the daily upsert by the local engine, one of
each index, on tables of their own. Counts, which do not depend on the machine's load.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.dataset as ds

import hoodie
from hoodie.format.base_file import BaseFileReader
from hoodie.index.locations import KeySearch

from . import output
from .counting import cost
from .metadata import DAILY
from .scenarios import Late, daily
from .workload import Workload, materialise

NAME, ROWS = "tagging", 400_000
_BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
INDEXES: Mapping[str, Mapping[str, str]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "BUCKET": _BUCKET,
    "BUCKET, CONSISTENT_HASHING": {
        **_BUCKET,
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    },
}


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 where BUCKET looked for a key."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"of the table ({ROWS:,})")
    parser.add_argument("--work", type=Path, help="keep inputs and tables here")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    results: list[dict[str, Any]] = []
    with output.folder(args.work, NAME) as folder:
        inputs = materialise(daily(args.rows, Late.RECENT), folder / "data")
        for number, (name, options) in enumerate(INDEXES.items()):
            table, settings = str(folder / f"t{number}"), {**DAILY, **options}
            hoodie.write_table(ds.dataset(inputs.base), table, operation="bulk_insert", options=settings)
            with looks() as found, cost() as spent:
                done = hoodie.write_table(ds.dataset(inputs.upsert), table, options=settings)
            assert done.num_updates == _updates(inputs.workload, options), done
            row: dict[str, Any] = {
                "index": name,
                **found,
                "seconds": spent.seconds,
                "bytes_read": spent.bytes_read,
            }
            results.append(row)
            print(*row.values(), file=sys.stderr)
    output.write({"scenario": NAME, "rows": args.rows, "cpus": os.cpu_count(), "results": results}, args.out)
    return any(row["files_searched"] for row in results if "BUCKET" in row["index"])


def _updates(workload: Workload, options: Mapping[str, str]) -> int:
    """Buckets that have log files count the late rows, too: nothing looks for their keys."""
    logged = options.get("hoodie.datasource.write.table.type") == "MERGE_ON_READ"
    return workload.updates + (workload.late if logged else 0)


@contextmanager
def looks() -> Iterator[dict[str, int]]:
    """Counts of files that were searched for keys, and bytes of their key columns."""
    found = {"files_searched": 0, "key_bytes": 0}
    look = KeySearch.look

    def counting(search: KeySearch, reader: BaseFileReader, number: int) -> Any:
        found["files_searched"] += 1
        found["key_bytes"] += reader.key_column_bytes()
        return look(search, reader, number)

    with mock.patch.object(KeySearch, "look", counting):
        yield found
