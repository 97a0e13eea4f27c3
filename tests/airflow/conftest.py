"""Airflow in this process: a home of its own, one database, and a spark-submit that is a script.

The environment is set before anything imports airflow.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import json
import logging
import os
import shutil
import stat
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hoodie.bundle import _files as _read_for_bundle
from tests.airflow.by_version import dag_bag, dag_test_as_of_the_newest, serialized_dag
from tests.conftest import require

HERE = Path(__file__).parent
HOME = Path(tempfile.mkdtemp(prefix="hoodie-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
DAGS = HOME / "dags"
DAGS.mkdir()

os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(DAGS),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME / 'airflow.db'}",
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=str(HOME / "logs"),
    AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT="60",
)

OUR_WARNINGS = ("ignore", "error:::airflow_hoodie", "error:::hoodie")

collect_ignore_glob = [] if importlib.util.find_spec("airflow") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.airflow)
            # what Airflow and its server warn about is not ours to mend
            runs_dag = "load_dags" in getattr(item, "fixturenames", ())
            warnings = OUR_WARNINGS if runs_dag else ("ignore::DeprecationWarning:airflow[.]",)
            item.add_marker(pytest.mark.filterwarnings(*warnings))


@dataclass
class FakeSubmit:
    """A spark-submit that runs `body` (Python) and notes how it was called.

    `call()` is its command line and environment of the last run, `request()` what the job was asked. The body
    may use `args` (its command line), `request` (the job's) and `say(kind, value)` (prints a HOODIE_* line).
    """

    path: Path

    def body(self, code: str) -> FakeSubmit:
        prelude = f"""\
            #!{sys.executable}
            import json, os, signal, subprocess, sys, time
            args = sys.argv[1:]
            note = {str(self.path)!r} + ".json"
            given = args[args.index("--request") + 1] if "--request" in args else "null"
            if given[0] in "@-":
                given = open(given[1:] or 0).read()
            request = json.loads(given)
            nonce = request.pop("nonce", "") if request else ""
            new = f"{{note}}.{{os.getpid()}}"
            with open(new, "w") as file:
                call = {{"args": args, "env": dict(os.environ), "pid": os.getpid(), "request": request}}
                json.dump(call, file)
            os.replace(new, note)
            def say(kind, value):
                marker = "HOODIE_" + kind + (":" + nonce if nonce else "")
                print(marker, json.dumps(value), flush=True)
        """
        self.path.write_text(textwrap.dedent(prelude) + textwrap.dedent(code))
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)
        return self

    def call(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(Path(f"{self.path}.json").read_text())
        return value

    def request(self) -> dict[str, Any]:
        request: dict[str, Any] = self.call()["request"]
        return request

    def option(self, name: str) -> str:
        args: list[str] = self.call()["args"]
        return args[args.index(name) + 1]

    def options(self, name: str) -> list[str]:
        args: list[str] = self.call()["args"]
        return [args[number + 1] for number, arg in enumerate(args) if arg == name]


def guarded(job: int) -> bool:
    """Whether the process that ends this job when its worker dies has started."""
    from airflow_hoodie.hooks import process_group

    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if process_group.__file__.encode() in words and str(job).encode() in words:
                return True
    return False


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSubmit:
    # sources of tests are nowhere; Hadoop's configuration may say where they are, so the job has to look
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    folder = tmp_path / "bin"
    folder.mkdir()
    return FakeSubmit(folder / "spark-submit").body("")


@pytest.fixture
def real_spark(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Arguments of an operator that runs the real spark-submit, with a local master."""
    from airflow_hoodie.compat.spark_provider import installed_spark_home

    require(
        os.environ.get("SPARK_HOME") or installed_spark_home(), "no Spark: neither SPARK_HOME nor pyspark"
    )
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    connection = {"conn_type": "spark", "host": "local[1]", "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_REAL", json.dumps(connection))
    return {"spark_conn_id": "spark_real", "driver_memory": "1g"}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What was logged so far: to stdout once Airflow has set its logging up, else to Python's handlers."""
    caplog.set_level(logging.INFO)
    return lambda: capsys.readouterr().out + caplog.text


def run_jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of local tasks run in this process from now on; what they are asked and print stays the same."""
    from airflow_hoodie.hooks.local import HoodieLocalHook
    from airflow_hoodie.job_output import with_nonce
    from airflow_hoodie.secrets import hide
    from hoodie.jobs import _main
    from hoodie.jobs._output import Output

    def run(self: HoodieLocalHook, request: Mapping[str, Any]) -> dict[str, Any]:
        text, self._output.nonce = with_nonce(request)
        self._output.mask = hide(request, self._env_vars)

        class Lines(Output):
            def emit(self, kind: str, value: Mapping[str, Any]) -> None:
                line = f"HOODIE_{kind}:{self.nonce} {json.dumps(value, ensure_ascii=False, default=str)}"
                assert output.take(line), line

        output = self._output
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(_main, "Output", Lines)
            code = _main.main(self._job, ["--request", text.decode()])
        return self._outcome(code)

    monkeypatch.setattr(HoodieLocalHook, "run", run)


@pytest.fixture
def jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    run_jobs_here(monkeypatch)


_bundled = functools.cache(_read_for_bundle)


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission looks whether its zip has the sources as they are: for all tests they are read once."""
    monkeypatch.setattr("hoodie.bundle._files", _bundled)


#: body of a job that commits: writes the instant's file and reports
COMMITTING_JOB = """
    say("PROGRESS", {"step": "index", "text": "looked up 3 keys"})
    meta = os.path.join(request["table"], ".hoodie")
    os.makedirs(meta, exist_ok=True)
    instant = time.strftime("%Y%m%d%H%M%S") + "%03d" % (time.time_ns() // 1_000_000 % 1000)
    open(os.path.join(meta, instant + ".commit"), "w").write("{}")
    say("RESULT", {"status": "committed", "table": request["options"]["hoodie.table.name"],
        "base_path": request["table"], "action": "commit", "instant": instant,
        "operation": request["operation"], "partitions": ["2026-01-01"], "num_inserts": 3, "num_updates": 0,
        "num_deletes": 0, "num_writes": 3, "num_files": 1, "bytes_written": 4321, "duration_s": 0.5,
        "warnings": ["metadata table removed"], "rolled_back": [], "metadata_table_removed": True})
"""


@pytest.fixture
def committing(fake: FakeSubmit) -> FakeSubmit:
    return fake.body(COMMITTING_JOB)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """Airflow's tables, once per session."""
    from airflow.utils.db import initdb

    initdb()
    dag_test_as_of_the_newest()


@pytest.fixture
def load_dags(airflow_db: None) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Source of a DAG file -> its DAGs, from a file in the DAG folder, as the DAG processor reads it."""
    written: list[Path] = []

    def load(source: str) -> dict[str, Any]:
        path = DAGS / f"dag_{len(list(DAGS.iterdir()))}_{os.getpid()}.py"
        path.write_text(textwrap.dedent(source))
        written.append(path)
        bag = dag_bag(str(path))
        assert not bag.import_errors, bag.import_errors
        return dict(bag.dags)

    yield load
    for path in written:
        path.unlink()


@pytest.fixture
def load_dag(load_dags: Callable[[str], dict[str, Any]]) -> Callable[[str], Any]:
    """Source of a file with one DAG -> that DAG."""

    def load(source: str) -> Any:
        (dag,) = load_dags(source).values()
        return dag

    return load


@pytest.fixture
def listening() -> Iterator[None]:
    """The provider's listener is at work, installed as a plugin or not."""
    from airflow.listeners.listener import get_listener_manager

    from airflow_hoodie.plugins import commits

    manager = get_listener_manager()
    added = not manager.pm.is_registered(commits)
    if added:
        manager.add_listener(commits)  # type: ignore[no-untyped-call]
    yield
    if added:
        manager.pm.unregister(commits)


@pytest.fixture
def publish(airflow_db: None) -> Iterator[Callable[[Any], None]]:
    """Make DAGs known to Airflow's database and unpaused, as the DAG processor and a user do.

    They are deleted with their runs: another test may give a DAG the same id, and runs the same days.
    """
    from airflow.api.common.delete_dag import delete_dag
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    bundle = "hoodie-tests"
    published: list[str] = []

    def make_known(dag: Any) -> None:
        with create_session() as session:
            session.merge(DagBundleModel(name=bundle))
        lazy = LazyDeserializedDAG.from_dag(dag)
        for _ in range(2):  # watchers run for a DAG that is not paused
            serialized_dag().bulk_write_to_db(bundle, None, [lazy])
            SerializedDagModel.write_dag(lazy, bundle_name=bundle)
            with create_session() as session:
                session.get_one(DagModel, dag.dag_id).is_paused = False
        published.append(dag.dag_id)

    yield make_known
    for dag_id in set(published):
        delete_dag(dag_id)


@pytest.fixture
def schedule(airflow_db: None) -> Callable[[str, str], Callable[[], dict[str, Any]]]:
    """Make a run of a published DAG and schedule its tasks, as the scheduler does; nothing executes them.

    Gives a function that says each task's state and return value as they are now.
    """
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.sdk import timezone
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import select

    def make(dag_id: str, run_id: str) -> Callable[[], dict[str, Any]]:
        with create_session() as session:
            dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
            assert dag is not None
            run = dag.create_dagrun(
                run_id=run_id,
                run_after=timezone.utcnow(),
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState.RUNNING,
                session=session,
            )
            run.dag = dag
            session.flush()
            ready = run.task_instance_scheduling_decisions(session=session).schedulable_tis
            run.schedule_tis(ready, session=session)

        def states() -> dict[str, Any]:
            with create_session() as session:
                query = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
                tis = session.scalars(query).one().get_task_instances(session=session)
                return {
                    ti.task_id: (
                        ti.state and str(ti.state),
                        ti.xcom_pull(task_ids=ti.task_id, session=session),
                    )
                    for ti in tis
                }

        return states

    return make
