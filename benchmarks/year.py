"""A year in fast motion: a daily upsert with all services automatic, on both types of table, local engine.

Each day changes a tenth of the rows, deletes a few and adds as many, so that the table stays as large as it
is. After each upsert, services included, the table's data files, the entries of its active timeline, its
bytes and the seconds are noted. They must be flat: the median of days 300 to 365 may be little above that of
days 60 to 120. At the end rows equal a plain model, for our reader and for hudi-rs.

With --kill the writer is a process of its own, which is killed at random moments, and the day repeated with
its token: nothing may change but the time.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.timeline.active import Timeline
from hoodie.timeline.tokens import TOKEN_KEY
from tests.support.oracle import Model
from tests.support.processes import forked
from tests.support.readers import read_hudi_rs
from tests.support.rows import difference
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

from . import output

NAME, DAYS, ROWS = "year", 365, 2000
KINDS = ("cow", "mor")
MEASURES = ("files", "timeline", "bytes", "seconds")
#: how much more than in days 60 to 120 the last days may have; times are those of a machine that does more
LIMITS = {"files": 1.1, "timeline": 1.1, "bytes": 1.1, "cpu": 1.3}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "year",
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.archive.merge.enable": "true",
    # with 20 and 30 a timeline is warm only when it has 30 cleans, of which not every day has one
    "hoodie.keep.min.commits": "11",
    "hoodie.keep.max.commits": "15",
}
#: new rows go to files of their own, and not with the updates into the one file of their partition; these
#: small files are clustered
MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "true",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "4",
    # else a writer that is killed while it clusters leaves a plan that refuses the next day's updates
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}


@dataclass(frozen=True)
class Day:
    """What a table has after a day's upsert. `bytes` of data files and of all below `.hoodie`, but `history`:
    the archive and the tokens of all commits, which grow by their nature. `cpu`: processor seconds of this
    process, 0 where the writer was another one. `kills`: how often it was killed that day.
    """

    day: int
    files: int
    timeline: int
    bytes: int
    history: int
    seconds: float
    cpu: float
    kills: int = 0


@dataclass
class Year:
    """One table over its days; `kill_rate` is the chance that a day's writer is killed, again and again.

    more: settings over those of the run.
    """

    path: Path
    kind: str
    rows: int = ROWS
    kill_rate: float = 0.0
    seed: int = 1
    more: Mapping[str, str] = field(default_factory=dict)
    days: list[Day] = field(default_factory=list)
    model: Model = field(default_factory=lambda: Model(["id"], ["region"], "ts"))

    @property
    def options(self) -> dict[str, str]:
        return {**OPTIONS, **(MERGE_ON_READ if self.kind == "mor" else {}), **self.more}

    def run(self, days: int) -> None:
        for day in range(1, days + 1):
            chance = random.Random(f"{self.seed}/{day}")
            rows = self._changes(chance, day)
            started, cpu, kills = time.perf_counter(), time.process_time(), 0
            if self.kill_rate:
                while chance.random() < self.kill_rate and kills < 5:
                    kills += self._killed(rows, day, chance)
                self._apart(rows, day)
            else:
                self._write(rows, day)
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
            self.model.upsert(rows)
            self.days.append(self._day(day, seconds, 0.0 if self.kill_rate else cpu, kills))

    def _changes(self, chance: random.Random, day: int) -> list[dict[str, Any]]:
        """Updates of a tenth of the rows, and a few that go and as many that come."""
        if day == 1:
            return small_rows(range(self.rows), day)
        ids = sorted(int(row["id"][1:]) for row in self.model.rows())
        few = max(1, self.rows // 100)
        touched = chance.sample(ids, self.rows // 10 + few)
        first = self.rows + few * (day - 2)
        return [
            *small_rows(touched[few:], day),
            *small_rows(touched[:few], day, deleted=True),
            *small_rows(range(first, first + few), day),
        ]

    def _write(self, rows: Sequence[dict[str, Any]], day: int) -> None:
        result = hoodie.write_table(
            as_table(rows, SMALL_SCHEMA),
            str(self.path),
            options=self.options,
            extra_metadata={TOKEN_KEY: f"{NAME}/{day}"},
        )
        assert not result.warnings, result.warnings

    def _killed(self, rows: Sequence[dict[str, Any]], day: int, chance: random.Random) -> int:
        """A writer killed at some moment of its day; 0 when it was done before."""
        usual = statistics.median([item.seconds for item in self.days if not item.kills] or [1.0])
        return int(self._apart(rows, day, chance.random() * usual) != 0)

    def _apart(self, rows: Sequence[dict[str, Any]], day: int, kill_after: float | None = None) -> int:
        code = forked(lambda: self._write(rows, day), kill_after)
        assert code == 0 or (kill_after is not None and code < 0), f"the writer of day {day} failed"
        return code

    def _day(self, day: int, seconds: float, cpu: float, kills: int) -> Day:
        data = [file for file in _files(self.path) if ".hoodie" not in file.relative_to(self.path).parts]
        meta = list(_files(self.path / ".hoodie"))
        sizes = {file: file.stat().st_size for file in [*data, *meta]}
        folders = {"archived", "airflow-tokens"}
        history = sum(size for file, size in sizes.items() if folders & set(file.parts))
        return Day(
            day,
            len([file for file in data if file.suffix == ".parquet" or ".log." in file.name]),
            len(list(Timeline.load(str(self.path)))),
            sum(sizes.values()) - history,
            history,
            round(seconds, 4),
            round(cpu, 4),
            kills,
        )

    def differences(self) -> dict[str, str]:
        """By reader; "" where its rows are those of the model."""
        expected = self.model.table(SMALL_SCHEMA)
        readers: dict[str, Callable[[Path], pa.Table]] = {
            "hoodie": lambda path: hoodie.read_table(str(path)),
            "hudi-rs": read_hudi_rs,
        }
        return {name: difference(read(self.path), expected) or "" for name, read in readers.items()}


def flat(days: Sequence[Day], early: range, late: range) -> dict[str, dict[str, float]]:
    """Medians of early and late days and how the late ones are to the early ones, by measure."""
    found = {}
    for name in (*MEASURES, "cpu"):
        medians = [
            statistics.median(getattr(day, name) for day in days if day.day in span) for span in (early, late)
        ]
        if medians[0]:
            found[name] = {
                "early": round(medians[0], 4),
                "late": round(medians[1], 4),
                "ratio": round(medians[1] / medians[0], 3),
            }
    return found


def grown(ratios: dict[str, dict[str, float]]) -> list[str]:
    """The measures that are not flat."""
    return [name for name, limit in LIMITS.items() if name in ratios and ratios[name]["ratio"] > limit]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def plot(years: Sequence[Year], file: Path) -> None:
    """The four measures by day, a line for each type of table."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    titles = {
        "files": "data files",
        "timeline": "instants on the active timeline",
        "bytes": "MB, archive and tokens left out",
        "seconds": "seconds for an upsert with its services",
    }
    figure, panels = pyplot.subplots(2, 2, figsize=(10, 6), layout="constrained")
    for name, panel in zip(MEASURES, panels.flat, strict=True):
        for year in years:
            scale = 1e6 if name == "bytes" else 1
            values = [getattr(day, name) / scale for day in year.days]
            label = "copy on write" if year.kind == "cow" else "merge on read"
            panel.plot([day.day for day in year.days], values, linewidth=0.9, label=label)
        panel.set_title(titles[name], fontsize=10)
        top = sorted(
            getattr(day, name) / (1e6 if name == "bytes" else 1) for year in years for day in year.days
        )
        panel.set_ylim(0, top[int(len(top) * 0.995)] * 1.15)
        panel.set_xlabel("day", fontsize=8)
        panel.tick_params(labelsize=8)
        panel.grid(alpha=0.3)
    panels.flat[0].legend(fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=80)


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 when a measure grows, or a reader's rows are wrong."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--days", type=int, default=DAYS, help=f"upserts ({DAYS})")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the table ({ROWS})")
    parser.add_argument("--type", choices=KINDS, help="of the table (default: both)")
    parser.add_argument("--kill", action="store_true", help="kill the writer on half of the days")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="the four measures by day")
    parser.add_argument("--work", type=Path, help="keep the tables here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with output.folder(args.work, NAME, memory) as folder:
        years = [
            Year(folder / kind, kind, args.rows, 0.5 if args.kill else 0.0, args.seed)
            for kind in ([args.type] if args.type else KINDS)
        ]
        for year in years:
            year.run(args.days)
            print(f"{year.kind}: {args.days} days", file=sys.stderr)
        results = [_report(year, args.days) for year in years]
    if args.plot:
        plot(years, args.plot)
    doc = {"scenario": NAME, "days": args.days, "rows": args.rows, "kill": args.kill, "results": results}
    output.write(doc, args.out)
    return 1 if any(item["grown"] or any(item["differences"].values()) for item in results) else 0


def _report(year: Year, days: int) -> dict[str, Any]:
    early = range(days * 60 // DAYS, days * 120 // DAYS + 1)
    ratios = flat(year.days, early, range(days * 300 // DAYS, days + 1))
    return {
        "type": year.kind,
        "seconds": round(sum(day.seconds for day in year.days), 1),
        "kills": sum(day.kills for day in year.days),
        "medians": ratios,
        "limits": LIMITS,
        "grown": grown(ratios),
        "differences": year.differences(),
        "by_day": [list(asdict(day).values()) for day in year.days],
    }
