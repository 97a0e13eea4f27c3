"""Files that range queries on two columns have to read, by the layouts of a clustering.

A file is read unless its footers' least and greatest values of a column lie outside the query. Prints JSON.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import hoodie

from . import output

NAME, ROWS, FILES, QUERIES = "layout", 1_000_000, 64, 500
COLUMNS = ("x", "y")
SHARE = 0.05
"""Of the rows that a query's range of one column holds."""
LAYOUTS = ("none", "linear", "z-order", "hilbert")
METHODS = ("direct", "sample")
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "layout",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.bulkinsert.sort.mode": "NONE",
}

Ranges = npt.NDArray[np.float64]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the table ({ROWS})")
    parser.add_argument("--files", type=int, default=FILES, help=f"files it is clustered into ({FILES})")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    document = measure(args.rows, args.files)
    output.write(document, args.out)
    for row in document["results"]:
        print(*(f"{value!s:>9}" for value in row.values()), file=sys.stderr)
    return 0


def measure(
    rows: int = ROWS,
    files: int = FILES,
    spreads: Sequence[str] = ("even", "skewed"),
    methods: Sequence[str] = METHODS,
) -> dict[str, Any]:
    """One row for each distribution of values and each layout: mean numbers of files read."""
    results = []
    for spread in spreads:
        table = _table(rows, spread)
        for layout in LAYOUTS:
            for method in methods if layout in ("z-order", "hilbert") else methods[:1]:
                with tempfile.TemporaryDirectory(prefix="hoodie-layout-") as folder:
                    found = _clustered(Path(folder) / "t", table, layout, method, files)
                counts = {name: round(value, 1) for name, value in _read(table, found).items()}
                results.append(
                    {"values": spread, "layout": layout, "method": method, "files": len(found)} | counts
                )
    return {
        "scenario": NAME,
        "rows": rows,
        "queries": QUERIES,
        "share_of_a_column": SHARE,
        "results": results,
    }


def _table(rows: int, spread: str) -> pa.Table:
    """Two independent columns: an integer, and a floating number."""
    chance = np.random.default_rng(11)
    x = chance.integers(0, 1_000_000, rows) if spread == "even" else chance.zipf(1.3, rows) % 1_000_000
    y = chance.random(rows) * 1000 if spread == "even" else chance.lognormal(0, 2, rows)
    payload = chance.integers(0, 1 << 60, rows)
    return pa.table(
        {"id": pa.array(np.arange(rows)).cast(pa.string()), "ts": payload, "x": x, "y": y, "more": payload}
    )


def _clustered(path: Path, table: pa.Table, layout: str, method: str, files: int) -> list[Ranges]:
    """[[least, greatest] of x, of y] of every file of the table, clustered or just written."""

    def load(**more: Any) -> int:
        hoodie.write_table(table, str(path), operation="bulk_insert", options=OPTIONS | more)
        return sum(file.stat().st_size for file in path.glob("*.parquet"))

    target = -(-load() // files)
    if layout == "none":
        shutil.rmtree(path)
        load(**{"hoodie.parquet.max.file.size": target, "hoodie.parquet.block.size": target})
    else:
        prefix = "hoodie.clustering.plan.strategy."
        options = {
            prefix + "sort.columns": ",".join(COLUMNS),
            prefix + "target.file.max.bytes": target,
            "hoodie.layout.optimize.strategy": layout,
            "hoodie.layout.optimize.curve.build.method": method,
            "hoodie.parquet.compression.codec": "snappy",
        }
        hoodie.cluster_table(str(path), options=options)
    groups = hoodie.file_groups(str(path))
    return [_ranges(path / group["partition"] / group["slices"][0]["name"]) for group in groups]


def _ranges(file: Path) -> Ranges:
    found = pq.ParquetFile(file)
    places = [found.schema_arrow.names.index(name) for name in COLUMNS]
    groups: list[Any] = [found.metadata.row_group(number) for number in range(found.num_row_groups)]
    told = [[group.column(place).statistics for group in groups] for place in places]
    return np.array([[min(item.min for item in each), max(item.max for item in each)] for each in told])


def _read(table: pa.Table, files: list[Ranges]) -> dict[str, float]:
    """Mean number of files that queries on x, on y, and on both have to read."""
    chance = np.random.default_rng(12)
    hits = []
    for number, name in enumerate(COLUMNS):
        values = np.sort(table.column(name).to_numpy().astype(np.float64))
        width = int(len(values) * SHARE)
        starts = chance.integers(0, len(values) - width, QUERIES)
        low, high = values[starts], values[starts + width]
        bounds = np.array([ranges[number] for ranges in files])
        hits.append((bounds[:, 0, None] <= high) & (bounds[:, 1, None] >= low))
    return {
        "read_by_x": float(hits[0].sum(axis=0).mean()),
        "read_by_y": float(hits[1].sum(axis=0).mean()),
        "read_by_both": float((hits[0] & hits[1]).sum(axis=0).mean()),
    }
