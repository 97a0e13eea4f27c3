"""What the metadata table costs a write, and what it saves: our local engine, in one process, in turns.

`upserts`: the daily upsert again and again into copies of one table, one without a metadata table, the others
with the list of files, and with indexes; compactions and cleans of the metadata table included.

`partitions`: 1,000 rows into ten partitions of tables of ever more partitions, which keep the list of files;
the commits that made them are archived.

`listing`: all files of the largest of these tables, by its folders and by its metadata table.

Calls and bytes do not depend on the machine's load; of seconds, only the ratios of one run say something.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

import hoodie
from hoodie.config.key import Config
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.table import MetadataTable
from hoodie.read.table_view import TableView
from hoodie.storage import FileInfo
from hoodie.table.handle import Table
from tests.support.large_table import OPTIONS, LargeTable

from . import output
from .counting import Cost, cost
from .runner import copy_table
from .scenarios import Late, daily
from .workload import KEY, ORDERING, PARTITION, materialise

NAME = "metadata"
CASES = ("upserts", "partitions", "listing")
DAILY = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.precombine.field": ORDERING,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
}
ENABLE = "hoodie.metadata.enable"
#: the options of each table of `upserts`; the first one is what the others are compared with
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "without": {ENABLE: "false"},
    "files": {ENABLE: "true"},
    "statistics": {ENABLE: "true", "hoodie.metadata.index.column.stats.enable": "true"},
    "record index": {ENABLE: "true", "hoodie.metadata.record.index.enable": "true"},
}
#: what archives the commits that made a large table
SHORT = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
#: partitions that an upsert touches: of ten files of ten rows each
TOUCHED = 10


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", choices=CASES, help="one of them")
    parser.add_argument("--rows", type=int, default=4_000_000, help="of the table of upserts (4,000,000)")
    parser.add_argument("--variants", default=",".join(VARIANTS), help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--sizes", default="20,2000,10000", help="partitions of tables (20,2000,10000)")
    parser.add_argument("--repeat", type=int, default=12, help="turns (12)")
    parser.add_argument("--work", type=Path, help="keep inputs and tables here")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    results = {}
    with output.folder(args.work, NAME) as folder:
        for case in [args.case] if args.case else CASES:
            results[case] = _CASES[case](folder, args)
    output.write({"scenario": NAME, "cpus": os.cpu_count(), "results": results}, args.out)
    return 0


def _turns(repeat: int, runs: Mapping[str, Callable[[], object]]) -> dict[str, list[Cost]]:
    """The costs of each, one after the other; another one begins in each turn."""
    found: dict[str, list[Cost]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(repeat):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            with cost() as each:
                runs[name]()
            found[name].append(each)
            print(f"{name:>14} {each.seconds:8.3f} s {each.cpu_seconds:8.3f} CPU s", file=sys.stderr)
    return found


def _compared(found: Mapping[str, Sequence[Cost]]) -> dict[str, Any]:
    """`ratios` are to the first one: of the medians, and of the sums, which have rare work in them."""
    rows = {
        name: {
            "seconds": [round(each.seconds, 4) for each in costs],
            "cpu_seconds": [round(each.cpu_seconds, 4) for each in costs],
            "storage_calls": [each.storage_calls for each in costs],
            "bytes_read": round(statistics.median(each.bytes_read for each in costs)),
            "bytes_written": round(statistics.median(each.bytes_written for each in costs)),
        }
        for name, costs in found.items()
    }
    first = next(iter(found.values()))
    ratios = {
        name: {
            f"{what} of {field}": round(of(costs, field) / max(of(first, field), 1e-9), 4)
            for field in ("seconds", "cpu_seconds")
            for what, of in (("median", _median), ("sum", _sum))
        }
        for name, costs in found.items()
    }
    return {"measured": rows, "ratios": ratios}


def _median(costs: Sequence[Cost], field: str) -> float:
    return float(statistics.median(getattr(each, field) for each in costs))


def _sum(costs: Sequence[Cost], field: str) -> float:
    return float(sum(getattr(each, field) for each in costs))


def _upserts(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    inputs = materialise(daily(args.rows, Late.RECENT), folder / "data")
    base = folder / "base"
    if not base.exists():
        none = {**DAILY, **VARIANTS["without"]}
        hoodie.write_table(ds.dataset(inputs.base), str(base), operation="bulk_insert", options=none)
    runs: dict[str, Callable[[], object]] = {}
    made: dict[str, float] = {}
    for name in args.variants.split(","):
        table, options = str(folder / name.replace(" ", "-")), {**DAILY, **VARIANTS[name]}
        copy_table(base, Path(table))

        def run(table: str = table, options: Mapping[str, str] = options) -> object:
            return hoodie.write_table(ds.dataset(inputs.upsert), table, options=options)

        with cost() as first:  # makes the metadata table, and warms up
            run()
        made[name] = round(first.seconds, 3)
        runs[name] = run
    return {"rows": args.rows, "first_seconds": made, **_compared(_turns(args.repeat, runs))}


def _large(folder: Path, partitions: int) -> LargeTable:
    """A table of ten files a partition, without the commits that made it, with a list of its files."""
    table = LargeTable(f"{folder}/{partitions}", partitions, commits=max(1, partitions // 1000))
    if not Path(table.path).exists():
        table.make()
        alone = {**OPTIONS, ENABLE: "true", "hoodie.table.services.enabled": "false"}
        for version in range(1, 5):
            hoodie.write_table(table.upsert(range(TOUCHED), version), table.path, options=alone)
        hoodie.clean_table(table.path, options={**OPTIONS, **SHORT, ENABLE: "true"})
        hoodie.archive_table(table.path, options={**OPTIONS, **SHORT, ENABLE: "true"})
    return table


def _partitions(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    runs: dict[str, Callable[[], object]] = {}
    versions = iter(range(100, 1 << 30))
    for size in map(int, args.sizes.split(",")):
        table = _large(folder, size)

        def run(table: LargeTable = table) -> object:
            rows = table.upsert(range(TOUCHED), next(versions))
            options = {**OPTIONS, **SHORT, ENABLE: "true"}
            done = hoodie.write_table(rows, table.path, options=options)
            assert (done.num_updates, done.num_inserts) == (rows.num_rows, 0)
            return done

        for _ in range(2):
            run()
        runs[str(size)] = run
    return _compared(_turns(args.repeat, runs))


def _listing(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    table = _large(folder, max(map(int, args.sizes.split(","))))

    def walk() -> Mapping[str, Sequence[FileInfo]]:
        listing = Table.open(table.path).listing()
        return listing.many(listing.partitions())

    def listed() -> Mapping[str, Sequence[FileInfo]]:
        metadata = MetadataTable.open(Table.open(table.path))
        assert metadata is not None
        listing = MetadataListing(metadata, table.path)
        return listing.many(listing.partitions())

    def view(by_metadata: bool) -> int:
        found = TableView.load(Table.open(table.path), config=Config.of({ENABLE: str(by_metadata).lower()}))
        assert found.metadata_table is by_metadata
        return len(found.slices)

    runs: dict[str, Callable[[], object]] = {
        "walk": walk,
        "metadata table": listed,
        "query by folders": lambda: view(False),
        "query by metadata table": lambda: view(True),
    }
    files = sum(map(len, listed().values()))
    return {"files": files, **_compared(_turns(args.repeat, runs))}


_CASES: Mapping[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "upserts": _upserts,
    "partitions": _partitions,
    "listing": _listing,
}
