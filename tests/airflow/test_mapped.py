"""Mapped forms of every operator and sensor, run by Airflow's own task runner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import airflow_hoodie
import hoodie
from airflow_hoodie.assets.hoodie import asset_uri
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.operators import base
from airflow_hoodie.table import HoodieTable

from .conftest import FakeSubmit

SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, TaskGroup, task, task_group
    from airflow_hoodie import *

    def table(name):
        path = {folder!r} + "/" + name
        return HoodieTable(name=name, path=path, record_keys="id", table_type="MERGE_ON_READ")

    A, B = table("a"), table("b")
    SUBMIT = {{"master": "local[2]", "spark_binary": {binary!r}}}
    WAIT = {{"poke_interval": 0.1, "timeout": 20}}

    START = datetime(2026, 1, 1, tzinfo=timezone.utc)

    with DAG("mapped", schedule=[B.asset, A.commits(), B.commits()], start_date=START):
        with TaskGroup("writes"):
            UpsertOperator.partial(task_id="UpsertOperator", **SUBMIT).expand_kwargs(
                [{{"table": A, "source": "/in/a.csv"}}, {{"table": B.to_dict(), "source": "/in/b.csv"}}])
            InsertOperator.partial(task_id="InsertOperator", table=A, **SUBMIT).expand(
                source=["/in/{{{{ ds }}}}.csv", {{"path": "/in/2", "format": "json"}}])
            BulkInsertOperator.partial(task_id="BulkInsertOperator", source="/in", **SUBMIT).expand(table=[B])
            DeleteOperator.partial(task_id="DeleteOperator", table=A, **SUBMIT).expand(source=["/in"])
            InsertOverwriteOperator.partial(
                task_id="InsertOverwriteOperator", table=A, **SUBMIT
            ).expand_kwargs([{{"source": "/in", "whole_table": True}}])
            HoodieSQLOperator.partial(task_id="HoodieSQLOperator", table=A, **SUBMIT).expand(
                sql=["DELETE FROM a"])
            IngestOperator.partial(task_id="IngestOperator", table=A, **SUBMIT).expand(source=["/in"])
            DeletePartitionOperator.partial(task_id="DeletePartitionOperator", table=A).expand(
                partitions=[["2026-01-02", "2026-01-03"]])

        @task
        def intervals():
            return [{{"token": "2026-01-01", "source": "/in/2026-01-01"}}]

        UpsertOperator.partial(task_id="intervals_upsert", table=A, **SUBMIT).expand_kwargs(intervals())

        @task_group
        def by_source(source):
            written = UpsertOperator(task_id="upsert", table=A, source=source, **SUBMIT)
            written >> CommitSensor(task_id="commit", table=A, after="2026-01-01T00:00:00", **WAIT)

        by_source.expand(source=["/in/1.csv"])

        with TaskGroup("services"):
            for kind in (CompactionOperator, LogCompactionOperator, ClusteringOperator, CleanOperator,
                         ArchiveOperator, MaintenanceOperator, BackfillMaintenanceOperator,
                         PartitionTTLOperator, SavepointOperator):
                submit = {{}} if kind is SavepointOperator else SUBMIT
                kind.partial(task_id=kind.__name__, **submit).expand(table=[A])
            IndexOperator.partial(task_id="IndexOperator", table=A, **SUBMIT).expand(mode=["show"])
            HiveSyncOperator.partial(task_id="HiveSyncOperator", table=A, **SUBMIT).expand(database=["lake"])
            for kind in (UpgradeOperator, DowngradeOperator):
                kind.partial(task_id=kind.__name__, table=A, **SUBMIT).expand(to=["8"])
            for kind in (CancelOperator, RollbackOperator, RestoreOperator):
                kind.partial(task_id=kind.__name__, table=A).expand(instant=["20260101000000000"])
            PartitionRelayOperator.partial(task_id="PartitionRelayOperator").expand(table=[A])

        with TaskGroup("sensors"):
            real = {real!r}
            PartitionSensor.partial(
                task_id="PartitionSensor", partitions="2026-01-01", **WAIT).expand(table=[real])
            FreshnessSensor.partial(
                task_id="FreshnessSensor", max_age=3600, start_from_trigger=True, **WAIT).expand(table=[real])
            CommitSensor.partial(task_id="CommitSensor", table=real, deferrable=True, **WAIT).expand(
                after=[None])
"""


@pytest.fixture(autouse=True)
def jobs(committing: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(self: HoodieLocalHook) -> list[str]:
        return [str(committing.path), "--request", "-"]

    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "run.py")
    monkeypatch.setattr(HoodieLocalHook, "_command", command)


def asset_events(run_id: str) -> Counter[str]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetModel.uri).join(AssetEvent.asset).where(AssetEvent.source_run_id == run_id)
        return Counter(session.scalars(query))


def test_every_operator_and_sensor_runs_mapped(
    load_dag: Callable[[str], Any], committing: FakeSubmit, tmp_path: Path
) -> None:
    real = HoodieTable(name="real", path=str(tmp_path / "real"), record_keys="id", partition_fields="day")
    rows = pa.table({"id": ["a"], "day": ["2026-01-01"]})
    hoodie.write_table(rows, real.path, options=real.options_for("upsert"))
    source = SOURCE.format(folder=str(tmp_path), binary=str(committing.path), real=real.path)
    run = load_dag(source).test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    tasks = run.get_task_instances()
    skipped = {"BackfillMaintenanceOperator", "PartitionRelayOperator"}  # no backfill; no commit to tell of
    ended = {(task.task_id, task.map_index): str(task.state) for task in tasks}
    assert ended == {
        (name, index): "skipped" if name.split(".")[-1] in skipped else "success" for name, index in ended
    }
    kinds = {name for name in airflow_hoodie.__all__ if name.endswith(("Operator", "Sensor"))}
    assert kinds <= {name.split(".")[-1] for name, _ in ended}
    assert Counter(name for name, index in ended if index > 0).keys() >= {"writes.UpsertOperator"}
    # a mapped write has an outlet only once it runs; its events reach the DAGs that wait for them
    assert asset_events(run.run_id)[asset_uri(str(tmp_path / "b"))] == 2
