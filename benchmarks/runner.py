"""Rounds of timed operations.

A round gives every contestant one session of its own: start, then for every case a warm-up and a timed
operation, each on a fresh copy of the base table, then exit.  One JVM lives at a time; rounds interleave the
contestants, in an order that turns with the round, so that a slow minute of the machine does not fall on one
of them alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import rows
from .contestants import CONTESTANTS, Contestant, Unavailable
from .process import WorkerFailed, WorkerProcess
from .sampling import Sampler, Usage
from .scenarios import Case
from .workload import Inputs, materialise


@dataclass(frozen=True)
class Settings:
    work: Path
    repeat: int
    warmups: int
    codec: str
    """Parquet codec of all contestants, or `default`: each its own."""
    driver_memory: str = "6g"
    shuffle_partitions: int = 0
    """0: Spark's default."""
    timeout: float = 1800.0


@dataclass(frozen=True)
class Sample:
    """One timed operation; files and bytes are the data files that it added below the table's path."""

    seconds: float
    usage: Usage
    load_before: float
    files: int
    bytes: int
    result: dict[str, Any]


@dataclass
class Outcome:
    """All samples of one contestant in one case."""

    contestant: str
    case: str
    versions: dict[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    load_seconds: float | None = None
    """Loading the base table in a fresh, cold session; None when an earlier run had done it."""
    rows_equal: bool | None = None
    differences: list[str] = field(default_factory=list)
    error: str | None = None


def log(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Runner:
    def __init__(self, settings: Settings, contestants: list[Contestant], cases: list[Case]) -> None:
        self._settings, self._contestants, self._cases = settings, contestants, cases
        self._inputs: dict[str, Inputs] = {}
        self._expected: dict[tuple[str, bool], rows.Digest] = {}
        self._loaded: set[Path] = set()
        self.outcomes = {
            (c.name, case.name): Outcome(c.name, case.name) for c in contestants for case in cases
        }

    def run(self) -> list[Outcome]:
        for case in self._cases:
            log(f"input of {case.name}: {case.workload.rows:,} rows, {case.workload.upsert_rows:,} upserted")
            self._inputs[case.name] = materialise(case.workload, self._settings.work / "data")
        for turn in range(self._settings.repeat):
            shift = turn % len(self._contestants)
            for contestant in self._contestants[shift:] + self._contestants[:shift]:
                self._round(contestant, turn)
        return list(self.outcomes.values())

    def _round(self, contestant: Contestant, turn: int) -> None:
        cases = [case for case in self._cases if self._prepared(contestant, case)]
        if not cases:
            return
        for case in cases:
            # a session each: memory that one case took is not another's
            session = self._session(contestant, f"{case.name}-{turn}", case)
            with self._failures(contestant, [case]), session as worker:
                self.outcomes[contestant.name, case.name].versions = worker.versions
                self._timed(worker, contestant, case, turn)

    @contextmanager
    def _failures(self, contestant: Contestant, cases: list[Case]) -> Iterator[None]:
        """An error ends the contestant in these cases, not the run."""
        try:
            yield
        except (WorkerFailed, Unavailable) as error:
            log(f"{contestant.name}: {error}")
            for case in cases:
                self.outcomes[contestant.name, case.name].error = str(error)

    def _session(self, contestant: Contestant, stage: str, case: Case) -> WorkerProcess:
        settings = self._settings
        logs = settings.work / "logs" / f"{contestant.name}-{stage}.log"
        return WorkerProcess(contestant, session(settings, contestant) | case.session, logs, settings.timeout)

    def _base(self, contestant: Contestant, case: Case) -> Path:
        name = f"{case.base_label}-{self._settings.codec}"
        return self._settings.work / "tables" / contestant.table / name / "table"

    def _prepared(self, contestant: Contestant, case: Case) -> bool:
        """Load the base table once, in a session that ends before anything is measured; false on error."""
        outcome = self.outcomes[contestant.name, case.name]
        if outcome.error:
            return False
        base = self._base(contestant, case)
        done = base.parent / "done"
        # Ours is loaded anew in every run: the code that wrote a kept one may have changed.
        maker = CONTESTANTS[contestant.maker] if contestant.maker else contestant
        kept = done.exists() and maker.kind != "ours"
        if case.operation == "bulk_insert" or not contestant.table or base in self._loaded or kept:
            return True
        shutil.rmtree(base.parent, ignore_errors=True)
        base.parent.mkdir(parents=True)
        with self._failures(contestant, [case]):
            self._load(maker, case, base)
            done.touch()
            self._loaded.add(base)
        return not outcome.error

    def _load(self, contestant: Contestant, case: Case, base: Path) -> None:
        source, options = str(self._inputs[case.name].base), self._options(case.load_options)
        with self._session(contestant, "load", case) as worker:
            answer = worker.call("bulk_insert", source=source, table=str(base), options=options)
            for operation in case.prepared:
                more = str(self._inputs[case.name].upsert)
                worker.call(operation, source=more, table=str(base), options=options)
        if (contestant.name, case.name) in self.outcomes:
            self.outcomes[contestant.name, case.name].load_seconds = answer["seconds"]
        log(f"{contestant.name}: loaded {case.name} in {answer['seconds']:.1f} s")

    def _options(self, options: dict[str, str]) -> dict[str, str]:
        codec = self._settings.codec
        return options if codec == "default" else {"hoodie.parquet.compression.codec": codec} | options

    @contextmanager
    def _fresh(self, contestant: Contestant, case: Case) -> Iterator[Path]:
        folder = self._settings.work / "run" / contestant.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        table = folder / "table"
        if case.operation != "bulk_insert" and contestant.table:
            copy_table(self._base(contestant, case), table)
        try:
            yield table
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _timed(self, worker: WorkerProcess, contestant: Contestant, case: Case, turn: int) -> None:
        inputs = self._inputs[case.name]
        source = str(inputs.base if case.operation == "bulk_insert" else inputs.upsert)
        options = self._options(case.options)
        outcome = self.outcomes[contestant.name, case.name]
        for _ in range(self._settings.warmups):
            with self._fresh(contestant, case) as table:
                worker.call(case.operation, source=source, table=str(table), options=options)
        with self._fresh(contestant, case) as table:
            before = set(rows.parquet_files(table))
            os.sync()
            load = os.getloadavg()[0]
            with Sampler(worker.pid) as sampler:
                answer = worker.call(case.operation, source=source, table=str(table), options=options)
            added = [path for path in rows.parquet_files(table) if path not in before]
            size = sum(path.stat().st_size for path in added)
            sample = Sample(answer["seconds"], sampler.usage, load, len(added), size, answer["result"])
            outcome.samples.append(sample)
            log(f"{contestant.name}: {case.name} {turn + 1}/{self._settings.repeat}: {sample.seconds:.2f} s")
            if outcome.rows_equal is None:
                self._compare(worker, contestant, case, table)

    def _compare(self, worker: WorkerProcess, contestant: Contestant, case: Case, table: Path) -> None:
        out = table.parent / "rows"
        files = worker.call("rows", table=str(table), out=str(out))["files"] or rows.latest_base_files(table)
        actual = rows.digest(files)
        outcome = self.outcomes[contestant.name, case.name]
        outcome.differences = rows.differences(actual, self._digest(case, merged=bool(contestant.table)))
        outcome.rows_equal = not outcome.differences
        if outcome.differences:
            log(f"{contestant.name}: ROWS DIFFER in {case.name}: {outcome.differences}")

    def _digest(self, case: Case, merged: bool) -> rows.Digest:
        """What the table must hold; the floor's upsert holds the incoming rows alone."""
        key = (case.name, merged)
        if key not in self._expected:
            inputs = self._inputs[case.name]
            if case.operation == "merge":
                self._expected[key] = rows.expected_after_merge(inputs)
            elif "upsert" not in (*case.prepared, case.operation):
                self._expected[key] = rows.digest(rows.parquet_files(inputs.base))
            elif merged:
                self._expected[key] = rows.expected_after_upsert(inputs)
            else:
                self._expected[key] = rows.digest(rows.parquet_files(inputs.upsert))
        return self._expected[key]


def session(settings: Settings, contestant: Contestant) -> dict[str, str]:
    """The Spark settings that all contestants share."""
    spark = settings.work / "spark"
    spark.mkdir(parents=True, exist_ok=True)
    java = f"-Duser.timezone=UTC -Dderby.system.home={spark}"
    shared = {
        "spark.master": "local[2]",
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(spark / "local"),
        "spark.sql.warehouse.dir": str(spark / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.codec != "default":
        shared["spark.sql.parquet.compression.codec"] = settings.codec
    if settings.shuffle_partitions:
        shared["spark.sql.shuffle.partitions"] = str(settings.shuffle_partitions)
    if contestant.jars:
        shared["spark.jars"] = ",".join(contestant.jar_files())
    return shared


def copy_table(base: Path, table: Path) -> None:
    """A copy that shares its data files as hard links.

    Table formats never change a data file in place, but they do rewrite small metadata files
    (`hoodie.properties`), so everything else, and everything in hidden and `_` folders, is copied.
    """
    for folder, _, names in os.walk(base):
        relative = Path(folder).relative_to(base)
        target = table / relative
        target.mkdir(parents=True, exist_ok=True)
        data = not any(part[0] in "._" for part in relative.parts)
        for name in names:
            if data and name.endswith(".parquet"):
                os.link(Path(folder, name), target / name)
            else:
                shutil.copy2(Path(folder, name), target / name)
