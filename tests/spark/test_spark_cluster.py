"""The package's jobs on a cluster of Spark whose machines share no folder, on a table on an object store."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.bundle import bundle_zip, job_script
from hoodie.storage import storage_for
from tests.spark.answers import interpreter
from tests.support.cluster import Cluster, cluster
from tests.support.moto_server import bucket_on, moto
from tests.support.s3_store import KEY, SECRET

pytestmark = [pytest.mark.spark, pytest.mark.full]

ROWS, DAYS = 60_000, 8
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
}


def rows(ids: range, version: int) -> pa.Table:
    columns = {
        "id": [f"{n:06}" for n in ids],
        "day": [f"day-{n % DAYS}" for n in ids],
        "ts": pa.array([version] * len(ids), pa.int64()),
        "text": [f"{n * 7919 % 104729}" * 8 for n in ids],
    }
    return pa.table(columns)


def landed(path: str, found: pa.Table) -> str:
    with storage_for(path).output(path) as sink:
        opened: Any = sink
        pq.write_table(found, opened, row_group_size=5_000)
        sink.commit()
    return path


def test_jobs_on_a_cluster_one_worker_of_which_dies(tmp_path: Path) -> None:
    (tmp_path / "moto").mkdir()
    with (
        moto(tmp_path / "moto") as endpoint,
        bucket_on(endpoint) as bucket,
        cluster(tmp_path / "cluster", interpreter("4"), 2) as spark,
    ):
        table = f"{bucket}/t"
        storage = {
            "hoodie.storage.s3.endpoint": endpoint,
            "hoodie.storage.s3.access.key": KEY,
            "hoodie.storage.s3.secret.key": SECRET,
        }
        by_tasks = {"hoodie.spark.driver.max.bytes": "0"}
        jobs = _Jobs(spark, table, {**OPTIONS, **storage, **by_tasks}, tmp_path)
        first = landed(f"{bucket}/in/1.parquet", rows(range(ROWS), 1))
        assert jobs.run("bulk_insert", source=first)["num_inserts"] == ROWS
        landed(f"{bucket}/in/2.parquet", rows(range(0, ROWS, 2), 2))  # updates alone make logs
        done = jobs.run("upsert", kill=True, source=f"{bucket}/in/2*", token="dag/task/-1/day")
        assert (done["num_updates"], done["num_inserts"], jobs.killed) == (ROWS // 2, 0, True)
        again = jobs.run("upsert", source=f"{bucket}/in/2*", token="dag/task/-1/day")
        assert again["status"] == "already_committed"
        eager = {"hoodie.compact.inline.max.delta.commits": "1"}
        assert jobs.run("compact", mode="run", options=eager)["status"] == "compacted"
        ordered = {"hoodie.clustering.plan.strategy.sort.columns": "ts,id"}
        assert jobs.run("cluster", mode="run", options=ordered)["status"] == "clustered"
        expected = {f"{n:06}": 2 - n % 2 for n in range(ROWS)}
        found = hoodie.read_table(table, columns=["id", "ts"], meta=False)
        assert found.num_rows == len(expected)
        assert dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True)) == expected
        names = [item["action"] for item in hoodie.instants(table) if item["state"] == "completed"]
        assert sorted(names) == ["commit", "deltacommit", "deltacommit", "replacecommit"]
        assert not storage_for(table).tree(f"{table}/.hoodie/.temp")


class _Jobs:
    def __init__(self, spark: Cluster, table: str, options: dict[str, str], folder: Path) -> None:
        self._spark, self._table, self._options, self._folder = spark, table, options, folder
        self._zip = bundle_zip(folder / "zip")
        self.killed = False

    def run(self, job: str, *, kill: bool = False, **fields: Any) -> dict[str, Any]:
        """The job's result. `kill`: a worker dies as soon as a task writes."""
        request = {"table": self._table, **fields}
        request["options"] = {**self._options, **fields.get("options", {})}
        (self._folder / "request.json").write_text(json.dumps(request))
        given = (job, "--request", f"@{self._folder / 'request.json'}")
        command = self._spark.submit(job_script(), *given, zipped=self._zip, conf={})
        log = self._folder / f"{job}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._spark.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        killer = threading.Thread(target=self._kill, args=(process,))
        if kill:
            killer.start()
        try:
            out, _ = process.communicate(timeout=300)
        finally:
            process.kill()
            if kill:
                killer.join()
        assert SECRET not in out + log.read_text(errors="replace")
        results = [line.partition(" ")[2] for line in out.splitlines() if line.startswith("HOODIE_RESULT")]
        assert results, out[-3000:] + log.read_text(errors="replace")[-3000:]
        found: dict[str, Any] = json.loads(results[0])
        return found

    def _kill(self, process: subprocess.Popen[str]) -> None:
        markers = f"{self._table}/.hoodie/.temp"
        while process.poll() is None:
            if storage_for(self._table).tree(markers):
                self._spark.kill_worker()
                self.killed = True
                return
            time.sleep(0.05)
