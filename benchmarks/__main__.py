from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from . import (
    backfill,
    bounded,
    checks,
    codec,
    cold,
    curve,
    engines,
    filters,
    lakes,
    layout,
    metadata,
    output,
    poll,
    pruning,
    repeated,
    report,
    scale,
    small,
    tagging,
    tasks,
    tokens,
    writers,
    year,
)
from .contestants import CODEC, CONTESTANTS, chosen
from .runner import Runner, Settings
from .scenarios import SCENARIOS, Late

#: scenarios that are no contest of contestants; each has arguments of its own
LONG_RUNS = {
    backfill.NAME: backfill.main,
    bounded.NAME: bounded.main,
    checks.NAME: checks.main,
    cold.NAME: cold.main,
    curve.NAME: curve.main,
    engines.NAME: engines.main,
    filters.NAME: filters.main,
    lakes.NAME: lakes.main,
    layout.NAME: layout.main,
    metadata.NAME: metadata.main,
    pruning.NAME: pruning.main,
    repeated.NAME: repeated.main,
    scale.NAME: scale.main,
    small.NAME: small.main,
    tagging.NAME: tagging.main,
    tasks.NAME: tasks.main,
    tokens.NAME: tokens.main,
    writers.NAME: writers.main,
    year.NAME: year.main,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Our writer beside Apache Hudi, Delta and plain Spark, in one run, repeats interleaved.",
        epilog=f"contestants: {', '.join(CONTESTANTS)}. Other scenarios, see their --help: "
        f"{', '.join(LONG_RUNS)}",
    )
    parser.add_argument("scenario", choices=[*SCENARIOS, codec.NAME, poll.NAME])
    parser.add_argument("--rows", type=int, help="rows of the base table (default: the scenario's)")
    parser.add_argument("--contestants", help="comma-separated names (default: the scenario's)")
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="R", help="timed operations per contestant (3)"
    )
    parser.add_argument(
        "--warmups", type=int, default=1, help="untimed operations before each, same session (1)"
    )
    parser.add_argument(
        "--codec", default=CODEC, help=f"Parquet codec of all, or 'default': each its own ({CODEC})"
    )
    parser.add_argument("--driver-memory", default="6g", help="heap of each contestant's Spark (6g)")
    parser.add_argument(
        "--shuffle-partitions", type=int, default=0, help="spark.sql.shuffle.partitions of all"
    )
    parser.add_argument(
        "--late", choices=[late.value for late in Late], default="old", help="days of the late rows (old)"
    )
    parser.add_argument("--case", help="only the cases whose name contains this")
    parser.add_argument(
        "--work", type=Path, help="keep inputs, base tables and logs here (default: a temporary folder)"
    )
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    return parser.parse_args()


def main() -> int:
    """Exit status 1 when a contestant failed or its rows differ."""
    if sys.argv[1:] and sys.argv[1] in LONG_RUNS:
        return LONG_RUNS[sys.argv[1]](sys.argv[2:])
    args = _arguments()
    if args.scenario == codec.NAME:
        return codec.main(args.rows or codec.ROWS, args.repeat, args.out)
    if args.scenario == poll.NAME:
        return poll.main(args.rows or poll.COMMITS, args.out)
    scenario = SCENARIOS[args.scenario]
    contestants = chosen(args.contestants.split(",") if args.contestants else list(scenario.contestants))
    late = Late(args.late)
    cases = [
        case for case in scenario.cases(args.rows or scenario.rows, late) if (args.case or "") in case.name
    ]
    work = (args.work or Path(tempfile.mkdtemp(prefix="hoodie-bench-"))).resolve()
    settings = Settings(
        work, args.repeat, args.warmups, args.codec, args.driver_memory, args.shuffle_partitions
    )  # fmt: skip
    try:
        outcomes = Runner(settings, contestants, cases).run()
    finally:
        shutil.rmtree(work / "run" if args.work else work, ignore_errors=True)
    doc = report.document(scenario.name, settings, cases, outcomes)
    output.write(doc, args.out)
    print(report.table(doc), file=sys.stderr)
    return 0 if doc["rows_equal"] and not any(row["error"] for row in doc["results"]) else 1


if __name__ == "__main__":
    sys.exit(main())
