"""Runs of the DAG `backfilled_upserts`, made and done as Airflow does.

Nothing here sets Airflow's environment: a process of its own has that of the test which starts it.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


def backfill(first: int, last: int, again: str = "none") -> list[str]:
    """Do what `airflow backfill create` does for days of January 2013; the runs that are to be done."""
    from airflow.models.backfill import Backfill, ReprocessBehavior, _create_backfill
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    with create_session() as session:  # the scheduler says when one is over
        session.execute(update(Backfill).values(completed_at=datetime.now(timezone.utc)))
    made = _create_backfill(
        dag_id="backfilled_upserts",
        from_date=datetime(2013, 1, first, tzinfo=timezone.utc),
        to_date=datetime(2013, 1, last, tzinfo=timezone.utc),
        max_active_runs=4,
        reverse=False,
        dag_run_conf=None,
        triggering_user_name=None,
        reprocess_behavior=ReprocessBehavior(again),
    )
    with create_session() as session:
        query = select(DagRun.run_id).where(DagRun.backfill_id == made.id).order_by(DagRun.logical_date)
        return list(session.scalars(query))


def work(dag: Any, run_id: str) -> dict[str, str]:
    """Do the tasks of a run, as dag.test does; their states."""
    from airflow import settings
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.state import DagRunState, TaskInstanceState
    from sqlalchemy import select

    assert settings.Session is not None
    session = settings.Session()
    run = session.scalars(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == run_id)).one()
    run.dag = DBDagBag().get_latest_version_of_dag(dag.dag_id, session=session)
    run.state = DagRunState.RUNNING
    session.commit()
    while run.state == DagRunState.RUNNING:
        session.expire_all()
        ready, _ = run.update_state(session=session)
        for ti in ready:
            ti.try_number += 1
            ti.state = TaskInstanceState.SCHEDULED
        session.commit()
        for ti in run.get_task_instances(session=session):
            if ti.state == TaskInstanceState.SCHEDULED:
                _run_task(ti=ti, task=dag.task_dict[ti.task_id])
    session.expire_all()
    found = {ti.task_id: str(ti.state) for ti in run.get_task_instances(session=session)}
    session.close()
    return found
