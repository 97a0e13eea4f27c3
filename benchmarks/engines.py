"""A job from its start to its end by size: on the local engine, and by spark-submit with local[N].

Each size is one upsert, half of it updates, of a table that a bulk insert made. The engines take turns on
copies of that table. `empty` is a PySpark script that starts a session and does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hoodie
from hoodie.bundle import bundle_zip, job_script
from scripts.environment import ROOT, spark_environment

from . import output
from .sampling import Sampler
from .workload import KEY, ORDERING, PARTITION, Workload, materialise

NAME = "engines"
SIZES = (900, 20_000, 200_000, 1_000_000, 3_000_000)
ROWS, DAYS, TOUCHED = 4_000_000, 40, 10
EMPTY = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.datasource.write.precombine.field": ORDERING,
}
#: what starts a JVM sooner, and lets it run slower afterwards
SMALL_JOBS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
ENGINES = ("local", "spark", "spark small", "empty", "empty small")


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 when a job failed."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, action="append", help=f"rows of an upsert; repeatable {SIZES}")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the table ({ROWS:,})")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="repeatable (all)")
    parser.add_argument("--repeat", type=int, default=3, help="turns (3)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="of Spark's master")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE of all upserts; repeatable")
    parser.add_argument("--work", type=Path, help="keep inputs here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    work = (args.work or Path(tempfile.mkdtemp(prefix="hoodie-engines-"))).resolve()
    try:
        doc = _measure(work, args)
    finally:
        shutil.rmtree(work / "run" if args.work else work, ignore_errors=True)
    output.write(doc, args.out)
    return 0


def _measure(work: Path, args: argparse.Namespace) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    options = {**OPTIONS, **dict(option.split("=", 1) for option in args.option)}
    for size in args.size or SIZES:
        updates = min(size // 2, args.rows // DAYS * TOUCHED)
        workload = Workload(args.rows, DAYS, updates, (DAYS - TOUCHED, DAYS), size - updates, 0, (0, 0))
        inputs = materialise(workload, work)
        base = work / f"table-{workload.base_label}"
        if not base.exists():
            import pyarrow.dataset as ds

            hoodie.write_table(ds.dataset(inputs.base), str(base), operation="bulk_insert", options=OPTIONS)
        bytes_in = sum(file.stat().st_size for file in inputs.upsert.iterdir())
        runs: dict[str, list[dict[str, float]]] = {}
        for _ in range(args.repeat):
            for engine in args.engine or ENGINES:
                if engine.startswith("empty") and size != (args.size or SIZES)[0]:
                    continue
                runs.setdefault(engine, []).append(
                    _run(engine, base, inputs.upsert, work / "run", args.cores, options)
                )
                print(size, engine, runs[engine][-1], file=sys.stderr, flush=True)
        for engine, found in runs.items():
            medians = {name: round(statistics.median(run[name] for run in found), 2) for name in found[0]}
            results.append({"rows": size, "source_bytes": bytes_in, "engine": engine, **medians})
    return {
        "scenario": NAME,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg(),
        "table_rows": args.rows,
        "spark": f"local[{args.cores}]",
        "spark small": dict(SMALL_JOBS),
        "repeat": args.repeat,
        "results": results,
    }


def _run(
    engine: str, base: Path, source: Path, run: Path, cores: int, options: dict[str, str]
) -> dict[str, float]:
    """Seconds, CPU seconds, peak of memory in MiB, bytes written."""
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    request = {
        "table": str(run / "t"),
        "operation": "upsert",
        "source": {"path": str(source)},
        "options": options,
        "engine": "local" if engine == "local" else "spark",
    }
    (run / "request.json").write_text(json.dumps(request))
    (run / "empty.py").write_text(EMPTY)
    if not engine.startswith("empty"):
        shutil.copytree(base, run / "t")
    command = _command(engine, run, cores)
    environ = {**os.environ, **spark_environment(), "PYTHONPATH": str(ROOT / "spark_jobs")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.monotonic()
    with (run / "out").open("wb") as out:
        process = subprocess.Popen(command, env=environ, cwd=run, stdout=out, stderr=subprocess.STDOUT)
        with Sampler(process.pid) as sampler:
            _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    text = (run / "out").read_text(errors="replace")
    if status:
        raise RuntimeError(f"{engine} failed:\n{text[-3000:]}")
    written = 0
    for line in text.splitlines():
        if "HOODIE_RESULT " in line:
            written = json.loads(line.split("HOODIE_RESULT ", 1)[1])["bytes_written"]
    return {
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mib": sampler.usage.peak,
        "bytes_written": written,
    }


def _command(engine: str, run: Path, cores: int) -> list[str]:
    request = ["--request", f"@{run / 'request.json'}"]
    if engine == "local":
        return [sys.executable, str(job_script()), "upsert", *request]
    spark = [
        str(Path(spark_environment()["SPARK_HOME"], "bin", "spark-submit")),
        "--master",
        f"local[{cores}]",
    ]
    settings = {"spark.log.level": "WARN", **(SMALL_JOBS if engine.endswith("small") else {})}
    spark += [word for item in settings.items() for word in ("--conf", "=".join(item))]
    if engine.startswith("empty"):
        return [*spark, str(run / "empty.py")]
    return [*spark, "--py-files", str(bundle_zip()), str(job_script()), "upsert", *request]
