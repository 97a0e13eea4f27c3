"""What a start costs: a command, a job by spark-submit, and the first write of a session, in turns.

- `command`: `hoodie upsert` of three rows of a CSV file, `read` and `timeline`, beside `import pyarrow`.
- `job`: an upsert of three rows by spark-submit, beside a PySpark script that starts a session and stops it.
- `session`: the writes of one session of Spark, the first and the later ones: of a list, which tasks write,
  and of a file, which the driver writes.

`--package` compares several versions of this package: the folders that have `hoodie` in them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hoodie.bundle import bundle_zip
from scripts.environment import ROOT, spark_environment

from . import output
from .engines import EMPTY

NAME = "cold"
PARTS = ("command", "job", "session")
#: writes of a session; the median of the last half is a warm one
WRITES = 10
_KEYS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
_ROWS = {
    "of a list": 'spark.createDataFrame([(n, 1, n) for n in range(3)], "id long, ts long, v long")',
    "of a file": 'spark.read.schema("id long, ts long, v long").csv("rows.csv", header=True)',
}
_SESSION = f"""
import json, shutil, time
import psutil
from hoodie.engine.session import spark_session

def used():
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return time.monotonic(), sum(each.user + each.system for each in times)

shutil.rmtree("t", ignore_errors=True)
began = time.monotonic()
with spark_session("local[2]", {{"spark.ui.enabled": "false"}}) as spark:
    figures = [[time.monotonic() - began, 0]]
    rows = %s
    rows.collect()
    for _ in range({WRITES}):
        before = used()
        import hoodie
        hoodie.write_table(rows, "t", options={_KEYS!r})
        figures.append([after - begun for begun, after in zip(before, used())])
print("FIGURES", json.dumps(figures))
"""
Run = Callable[[], dict[str, float]]


def main(arguments: Sequence[str]) -> int:
    """Exit status 0; a command that fails raises."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="repeatable (all)")
    parser.add_argument("--turns", type=int, default=5, help="turns (5)")
    parser.add_argument("--package", type=Path, action="append", help="a folder with `hoodie`; repeatable")
    parser.add_argument("--python", default=sys.executable, help="the interpreter (this one)")
    parser.add_argument("--work", type=Path, help="keep tables here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    packages = [path.resolve() for path in args.package or [ROOT / "spark_jobs"]]
    makers = {"command": _commands, "job": _jobs, "session": _sessions}
    results: dict[str, Any] = {}
    with output.folder(args.work, NAME) as work:
        for part in args.part or PARTS:
            runs = makers[part](args.python, packages, work)
            results[part] = _in_turns(part, runs, args.turns)
    output.write({"scenario": NAME, "turns": args.turns, "load": os.getloadavg(), **results}, args.out)
    return 0


def _in_turns(part: str, runs: Mapping[str, Run], turns: int) -> dict[str, Any]:
    """The least and the median of each figure of each run. A first round makes tables and is not measured;
    sessions make their own.
    """
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for turn in range(0 if part == "session" else -1, turns):
        for name, run in runs.items():
            figures = run()
            print(part, turn + 1, name, figures, file=sys.stderr, flush=True)
            if turn >= 0:
                found[name].append(figures)
    return {
        name: {
            figure: {"least": round(min(values), 3), "median": round(statistics.median(values), 3)}
            for figure in each[0]
            for values in [[item[figure] for item in each]]
        }
        for name, each in found.items()
    }


def _ran(command: Sequence[str], folder: Path, package: Path | None = None) -> tuple[dict[str, float], str]:
    """Seconds and CPU seconds of a process with those that it waited for, and what it printed."""
    environ = {**os.environ, **spark_environment()}
    environ["PYTHONPATH"] = str(package or "")
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.monotonic()
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    text = (folder / "out").read_text(errors="replace")
    if status:
        raise RuntimeError(f"{' '.join(command)} failed:\n{text[-3000:]}")
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime}, text


def _folder(work: Path, *names: str) -> Path:
    folder = work.joinpath(*names)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.csv").write_text("id,ts,v\n1,1,10\n2,1,20\n3,1,30\n")
    return folder


def _labels(packages: Sequence[Path]) -> dict[str, Path]:
    """Packages by what is put before the names of their runs."""
    return {"" if len(packages) == 1 else f"{package}: ": package for package in packages}


def _commands(python: str, packages: Sequence[Path], work: Path) -> dict[str, Run]:
    words = {
        "upsert": ["upsert", "t", "--source", "rows.csv", "--key", "id", "--ordering", "ts"],
        "read": ["read", "t"],
        "timeline": ["timeline", "t"],
    }

    runs: dict[str, Run] = {}
    for name in ("numpy", "pyarrow"):
        runs[f"import {name}"] = partial(_process, [python, "-c", f"import {name}"], _folder(work, "imports"))
    for label, package in _labels(packages).items():
        folder = _folder(work, "commands", str(len(runs)))
        for name, own in words.items():
            runs[f"{label}{name}"] = partial(_command, python, ["-m", "hoodie.cli", *own], folder, package)
    return runs


def _process(command: Sequence[str], folder: Path) -> dict[str, float]:
    return _ran(command, folder)[0]


def _command(python: str, words: Sequence[str], folder: Path, package: Path) -> dict[str, float]:
    """With the modules that it imports, which a second process counts."""
    figures, _ = _ran([python, *words], folder, package)
    _, text = _ran([python, "-X", "importtime", *words], folder, package)
    return {**figures, "modules": float(len(re.findall(r"^import time: +\d+ \|", text, re.M)))}


def _jobs(python: str, packages: Sequence[Path], work: Path) -> dict[str, Run]:
    submit = [str(Path(spark_environment()["SPARK_HOME"], "bin", "spark-submit")), "--master", "local[2]"]
    submit += ["--conf", "spark.log.level=WARN", "--conf", f"spark.pyspark.python={python}"]
    empty = _folder(work, "empty")
    (empty / "empty.py").write_text(EMPTY)
    runs: dict[str, Run] = {"empty": partial(_process, [*submit, "empty.py"], empty)}
    for label, package in _labels(packages).items():
        folder = _folder(work, "jobs", str(len(runs)))
        request = {"table": str(folder / "t"), "source": {"path": str(folder / "rows.csv")}, "options": _KEYS}
        (folder / "request.json").write_text(json.dumps(request))
        zipped = _zip(python, package, folder)
        script = package / "hoodie" / "jobs" / "run.py"
        command = [*submit, "--py-files", zipped, str(script), "upsert", "--request", "@request.json"]
        runs[f"{label}upsert"] = partial(_process, command, folder)
    return runs


def _zip(python: str, package: Path, folder: Path) -> str:
    if package == ROOT / "spark_jobs":
        return str(bundle_zip())
    made = "from hoodie.bundle import bundle_zip; print('ZIP', bundle_zip())"
    return _ran([python, "-c", made], folder, package)[1].partition("ZIP ")[2].strip()


def _sessions(python: str, packages: Sequence[Path], work: Path) -> dict[str, Run]:
    return {
        f"{label}{name}": partial(_session, python, _folder(work, "sessions", str(place)), package, rows)
        for place, (label, package) in enumerate(_labels(packages).items())
        for name, rows in _ROWS.items()
    }


def _session(python: str, folder: Path, package: Path, rows: str) -> dict[str, float]:
    """Of the first write and a warm one, the median of the last half: seconds, and CPU seconds of the driver,
    the JVM and the workers.
    """
    _, printed = _ran([python, "-c", _SESSION % rows], folder, package)
    text = printed.partition("FIGURES ")[2].partition("\n")[0]
    (start, _), first, *later = json.loads(text)
    warm = [statistics.median(each) for each in zip(*later[len(later) // 2 :], strict=True)]
    return {
        "start": start,
        "first": first[0],
        "warm": warm[0],
        "first to warm": first[0] / warm[0],
        "first, cpu_seconds": first[1],
        "warm, cpu_seconds": warm[1],
    }
