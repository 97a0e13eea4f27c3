"""What queries with predicates look at: folders listed, files left, their row groups left, bytes read.

A table of 60 days in four regions, one file of several row groups in each partition; a second commit wrote
those of the last region again. Counts, which do not depend on the machine's load. Prints JSON.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from hoodie.read import duckdb_predicate, pruning
from hoodie.read.table_view import TableView
from hoodie.table.handle import Table
from tests.support.requests import counted

from . import output
from .counting import io_bytes

NAME, ROWS = "pruning", 4_000
DAYS, REGIONS = 60, ("eu", "na", "sa", "us")
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.datasource.write.partitionpath.field": "day,region",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.table.name": "pruning",
    "hoodie.parquet.block.size": str(64 << 10),
}
PREDICATES = (
    "true",
    "day = '2024-02-01'",
    "day = '2024-01-05' OR day = '2024-02-05' AND region = 'eu'",
    "NOT (day < '2024-02-20')",
    "date_trunc('month', day) = '2024-02-01' AND region LIKE 'e%'",
    "year(day) = 2023",
    "region IN ('eu', 'sa') AND CAST(day AS DATE) BETWEEN '2024-01-10' AND '2024-01-12'",
    "_hoodie_commit_time > '{first}'",
    "name LIKE 'k0000%'",
    "n < 100 OR region = 'us' AND day = '2024-01-01'",
)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of a partition ({ROWS})")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hoodie-pruning-") as folder:
        document = measure(f"{folder}/t", args.rows)
    output.write(document, args.out)
    for row in document["results"]:
        print(*(f"{value!s:>9}" for value in row.values()), file=sys.stderr)
    return 0


def measure(path: str, rows: int = ROWS) -> dict[str, Any]:
    first = _write(path, rows)
    asked = [predicate.format(first=first) for predicate in PREDICATES]
    return {
        "scenario": NAME,
        "partitions": DAYS * len(REGIONS),
        "rows": DAYS * len(REGIONS) * rows,
        "results": [_looked_at(path, where) for where in asked],
    }


def _write(path: str, rows: int) -> str:
    """The first of two commits, the second of which has the last region alone."""
    numbers = np.arange(rows)
    instants: list[str] = []
    for regions in (REGIONS, REGIONS[-1:]):
        parts = [
            pa.table(
                {
                    "id": pa.array(numbers).cast(pa.string()),
                    "n": numbers,
                    "name": [f"k{number:06d}" for number in numbers],
                    "day": pa.repeat(pa.scalar(dt.date(2024, 1, 1) + dt.timedelta(day)), rows),
                    "region": [region] * rows,
                }
            )
            for day in range(DAYS)
            for region in regions
        ]
        operation = "upsert" if instants else "bulk_insert"
        written = hoodie.write_table(pa.concat_tables(parts), path, operation=operation, options=OPTIONS)
        instants.append(str(written.instant))
    return instants[0]


def _looked_at(path: str, where: str) -> dict[str, Any]:
    with counted(path) as requests, duckdb_predicate.connection() as connection:
        view = TableView.load(Table.open(path), where=duckdb_predicate.parsed(connection, where))
    folders = {asked for name, asked, _ in requests.calls if name == "list" and ".hoodie" not in asked}
    groups = [_row_groups(view, number) for number in range(len(view.slices))]
    before, _ = io_bytes()
    found = hoodie.read_table(path, where=where, columns=["id", "name"])
    after, _ = io_bytes()
    return {
        "folders": len(folders),
        "files": len(view.slices),
        "row_groups": sum(groups),
        "mib_read": round((after - before) / (1 << 20), 1),
        "rows": found.num_rows,
        "where": where,
    }


def _row_groups(view: TableView, number: int) -> int:
    item = view.slices[number]
    assert item.base is not None
    footer = pq.read_metadata(item.base.path)
    return len(pruning.row_groups(view.predicate, view.path_columns, item, footer))
