"""The curve of the cost against the touched work, and against a table that grows around constant work.

Upserts by the local engine, services off: storage calls, bytes read and written, and processor seconds, the
median of some runs. Counts do not depend on the machine's load. Prints JSON.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import hoodie
from tests.support.large_table import OPTIONS, LargeTable

from . import output
from .counting import Cost, cost

NAME = "curve"
SETTINGS = {**OPTIONS, "hoodie.table.services.enabled": "false"}
#: partitions of two files each, files of one partition
PARTITIONS, FILES = 2_000, 500
TOUCHED = (1, 2, 5, 10, 20, 50, 100, 200)
GROWING = (20, 100, 500, 2_000, 10_000)
#: of the picture: they do not depend on the machine's load
MEASURES = {"storage_calls": "storage calls", "megabytes": "MB read and written"}
#: what an upsert into a growing table touches
CONSTANT = 10
#: of rows, each newer than those before
_VERSIONS = itertools.count(1)


@dataclass(frozen=True)
class Point:
    """An upsert: `touched` partitions, or files, of a table of so many."""

    curve: str
    table: int
    touched: int
    storage_calls: int
    bytes_read: int
    bytes_written: int
    cpu_seconds: float

    @property
    def megabytes(self) -> float:
        return (self.bytes_read + self.bytes_written) / 1e6


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeat", type=int, default=5, help="upserts of each kind (5)")
    parser.add_argument("--most", type=int, default=10_000, help="partitions of the largest table (10,000)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="calls and bytes")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    with output.folder(None, NAME) as folder:
        points = measure(folder, args.repeat, args.most)
    if args.plot:
        plot(points, args.plot)
    found = [asdict(point) for point in points]
    output.write({"scenario": NAME, "repeat": args.repeat, "cpus": os.cpu_count(), "points": found}, args.out)
    return 0


def measure(folder: Path, repeat: int, most: int) -> list[Point]:
    """Curves: `partitions` and `files` that are touched, and the `table` that grows."""
    wide = _made(LargeTable(f"{folder}/wide", min(PARTITIONS, most), files=2))
    deep = _made(LargeTable(f"{folder}/deep", 1, files=min(FILES, most)))
    points = [_point("partitions", wide, count, 2, repeat) for count in TOUCHED if count <= wide.partitions]
    points += [_point("files", deep, 1, count, repeat) for count in TOUCHED if count <= deep.files]
    for size in (size for size in GROWING if size <= most):
        table = _made(LargeTable(f"{folder}/{size}", size, files=2))
        points.append(_point("table", table, CONSTANT, 2, repeat))
        shutil.rmtree(table.path)
    return points


def _made(table: LargeTable) -> LargeTable:
    table.make()
    return table


def _point(curve: str, table: LargeTable, partitions: int, files: int, repeat: int) -> Point:
    costs: list[Cost] = []
    for _ in range(repeat + 1):  # the first one warms up
        rows = table.upsert(range(partitions), next(_VERSIONS), files)
        with cost() as found:
            done = hoodie.write_table(rows, table.path, options=SETTINGS)
        assert (done.num_updates, done.num_files) == (rows.num_rows, partitions * files)
        costs.append(found)
    costs = costs[1:]
    touched = files if curve == "files" else partitions
    point = Point(
        curve=curve,
        table=table.files if curve == "files" else table.partitions,
        touched=touched,
        storage_calls=round(statistics.median(each.storage_calls for each in costs)),
        bytes_read=round(statistics.median(each.bytes_read for each in costs)),
        bytes_written=round(statistics.median(each.bytes_written for each in costs)),
        cpu_seconds=round(statistics.median(each.cpu_seconds for each in costs), 4),
    )
    print(*asdict(point).values(), file=sys.stderr, flush=True)
    return point


def plot(points: Sequence[Point], file: Path) -> None:
    """Storage calls above, bytes below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    wide = next(point.table for point in points if point.curve == "partitions")
    deep = next(point.table for point in points if point.curve == "files")
    titles = {
        "partitions": f"partitions touched, of {wide:,}",
        "files": f"files touched, of {deep:,} in one partition",
        "table": f"partitions of the table, {CONSTANT} touched",
    }
    figure, panels = pyplot.subplots(2, 3, figsize=(11, 5.5), layout="constrained")
    for column, (curve, title) in enumerate(titles.items()):
        mine = [point for point in points if point.curve == curve]
        across = [point.table if curve == "table" else point.touched for point in mine]
        for row, (name, label) in enumerate(MEASURES.items()):
            panel, values = panels[row][column], [getattr(point, name) for point in mine]
            panel.plot(across, values, marker="o", markersize=3, linewidth=1)
            panel.set_xlabel(title, fontsize=8)
            panel.set_ylabel(label, fontsize=8)
            panel.set_ylim(bottom=0)
            panel.set_xlim(left=0)
            panel.tick_params(labelsize=8)
            panel.grid(alpha=0.3)
    for panels_of_row in panels:  # the same scale: what grows beside what does not
        top = max(panel.get_ylim()[1] for panel in panels_of_row)
        for panel in panels_of_row:
            panel.set_ylim(0, top)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=80)
