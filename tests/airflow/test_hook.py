"""The hook: which Spark a task gets, and what it says when it gets none."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hoodie.compat import spark_provider
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.job_output import parse_marker
from airflow_hoodie.operators.write import UpsertOperator

from .conftest import FakeSubmit


def set_connection(monkeypatch: pytest.MonkeyPatch, value: Any, name: str = "SPARK_DEFAULT") -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name}", value if isinstance(value, str) else json.dumps(value))


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No Spark in the environment."""
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "AIRFLOW_CONN_SPARK_DEFAULT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


# --- the master -------------------------------------------------------------------------------------------


def test_no_connection_and_no_master(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(HoodieConfigurationError) as caught:
        HoodieSparkSubmitHook(conn_id="spark_lake")
    message = str(caught.value)
    assert "'spark_lake' is not defined and master= is not set" in message
    assert 'AIRFLOW_CONN_SPARK_LAKE=\'{"conn_type": "spark", "host": "local[2]"' in message
    assert 'master="local[2]"' in message


@pytest.mark.parametrize("uri", ["spark://local[2]", "spark://local[*]"])
def test_the_uri_that_would_be_yarn(uri: str, bare: pytest.MonkeyPatch) -> None:
    set_connection(bare, uri)
    with pytest.raises(HoodieConfigurationError, match=r"no URI .* use the JSON form") as caught:
        HoodieSparkSubmitHook()
    assert '{"conn_type": "spark"' in str(caught.value)


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ("local://", "local://"),
        ("spark://", "spark://"),
        ({"conn_type": "spark"}, "spark://"),
        ({"conn_type": "spark", "host": "local[2"}, "local[2"),
        ({"conn_type": "spark", "host": "locl"}, "locl"),
    ],
)
def test_a_master_that_spark_does_not_know(value: Any, master: str, bare: pytest.MonkeyPatch) -> None:
    set_connection(bare, value)
    with pytest.raises(HoodieConfigurationError) as caught:
        HoodieSparkSubmitHook()
    assert f"gives the master {master!r}" in str(caught.value)
    assert "AIRFLOW_CONN_SPARK_DEFAULT" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ({"conn_type": "spark", "host": "local[2]"}, "local[2]"),
        ("spark://local", "local"),
        ({"conn_type": "spark", "host": "local-cluster[2,1,1024]"}, "local-cluster[2,1,1024]"),
        ("spark://h:7077", "spark://h:7077"),
        ({"conn_type": "spark", "host": "spark://h", "port": 7077}, "spark://h:7077"),
        ("spark://yarn?deploy-mode=client", "yarn"),
    ],
)
def test_masters_of_connections(value: Any, master: str, bare: pytest.MonkeyPatch) -> None:
    set_connection(bare, value)
    assert HoodieSparkSubmitHook().spark_connection["master"] == master


@pytest.mark.parametrize("master", ["local[2]", "local", "yarn", "spark://h:7077", "spark://a:1,b:2"])
def test_a_master_needs_no_connection(master: str, bare: pytest.MonkeyPatch) -> None:
    hook = HoodieSparkSubmitHook(master=master, deploy_mode="client", yarn_queue="etl")
    assert hook.spark_connection["master"] == master
    assert hook.spark_connection["deploy_mode"] == "client"
    assert hook.spark_connection["queue"] == "etl"


def test_a_master_beats_the_connection_and_keeps_its_extra(bare: pytest.MonkeyPatch) -> None:
    set_connection(bare, {"conn_type": "spark", "host": "yarn", "port": 1, "extra": {"queue": "root.etl"}})
    hook = HoodieSparkSubmitHook(master="local[2]")
    assert hook.spark_connection["master"] == "local[2]"
    assert hook.spark_connection["queue"] == "root.etl"


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("sc://h:15002", "Spark Connect has no spark-submit; name the cluster's own master"),
        ("generic://h:7077", "a type of connection and no master; make the connection of type spark"),
        ("https://h:6443", "a Kubernetes master is written k8s://https://host:port"),
        ("k8s://https://h:6443", "pip install apache-airflow-providers-cncf-kubernetes"),
    ],
)
def test_masters_that_can_not_work(master: str, message: str, bare: pytest.MonkeyPatch) -> None:
    """When the DAG is read, where the operator names it; before the start, where the connection does."""
    bare.setattr("airflow.providers.apache.spark.hooks.spark_submit.kube_client", None, raising=False)
    with pytest.raises(HoodieConfigurationError, match=message):
        UpsertOperator(
            task_id="u", master=master, source="/in", table={"name": "t", "path": "/t", "record_keys": "id"}
        )
    set_connection(bare, {"conn_type": "spark", "host": master})
    with pytest.raises(HoodieConfigurationError, match=message):
        HoodieSparkSubmitHook()


def test_a_dead_master_is_unreachable(bare: pytest.MonkeyPatch, fake: FakeSubmit) -> None:
    """Spark would try it for more than a minute; one of two that answers will do."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        alive = f"127.0.0.1:{server.getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as gone:
            dead = f"127.0.0.1:{gone.getsockname()[1]}"
        hook = HoodieSparkSubmitHook(master=f"spark://{dead}", spark_binary=str(fake.path))
        with pytest.raises(HoodieJobError, match=f"spark://{dead} is unreachable") as caught:
            hook.submit("job.py")
        assert (caught.value.code, caught.value.values) == ("unreachable", {"master": f"spark://{dead}"})
        assert not Path(f"{fake.path}.json").exists()
        HoodieSparkSubmitHook(master=f"spark://{dead},{alive}", spark_binary=str(fake.path)).submit("job.py")
    assert fake.option("--master") == f"spark://{dead},{alive}"


def test_cluster_mode_is_refused(bare: pytest.MonkeyPatch) -> None:
    set_connection(bare, "spark://yarn?deploy-mode=cluster")
    with pytest.raises(HoodieConfigurationError, match="deploy mode 'cluster' hides"):
        HoodieSparkSubmitHook()


def test_a_bad_extra_is_a_configuration_error(bare: pytest.MonkeyPatch) -> None:
    set_connection(bare, {"conn_type": "spark", "host": "local", "extra": {"spark-binary": "rm"}})
    with pytest.raises(HoodieConfigurationError, match="'spark_default': The spark-binary extra"):
        HoodieSparkSubmitHook()


# --- SPARK_HOME, PYSPARK_PYTHON, spark-submit -------------------------------------------------------------


def spark_home(folder: Path, code: str = "") -> Path:
    """A folder that looks like a full Spark, with a fake spark-submit."""
    (folder / "jars").mkdir(parents=True)
    (folder / "bin").mkdir()
    FakeSubmit(folder / "bin" / "spark-submit").body(code)
    return folder


def test_the_installed_pyspark_is_used(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = spark_home(tmp_path / "pyspark")
    spec = SimpleNamespace(submodule_search_locations=[str(home)])
    bare.setattr(importlib.util, "find_spec", lambda name: spec)
    HoodieSparkSubmitHook(master="local[2]", env_vars={"A": 1}).submit("job.py")
    call = FakeSubmit(home / "bin" / "spark-submit").call()
    assert call["env"]["SPARK_HOME"] == str(home)
    assert call["env"]["PYSPARK_PYTHON"] == sys.executable
    assert call["env"]["PYTHONWARNINGS"].startswith("ignore:PySpark does not yet fully support pandas")
    assert call["env"]["A"] == "1"


def test_what_the_user_says_wins(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = spark_home(tmp_path / "other")
    bare.setenv("SPARK_HOME", "/nowhere")
    HoodieSparkSubmitHook(
        master="local[2]", env_vars={"SPARK_HOME": str(home), "PYSPARK_PYTHON": "python3.12"}
    ).submit("job.py")
    call = FakeSubmit(home / "bin" / "spark-submit").call()
    assert call["env"]["SPARK_HOME"] == str(home)
    assert call["env"]["PYSPARK_PYTHON"] == "python3.12"


def test_executors_elsewhere_keep_their_python(bare: pytest.MonkeyPatch, fake: FakeSubmit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        HoodieSparkSubmitHook(master=master, spark_binary=str(fake.path)).submit("job.py")
    env = fake.call()["env"]
    assert "PYSPARK_PYTHON" not in env
    assert env["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_pyspark_is_not_imported_to_find_it(bare: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        bare.delitem(sys.modules, name)
    home = spark_provider.installed_spark_home()
    assert home is None or Path(home, "jars").is_dir()
    assert "pyspark" not in sys.modules


def test_pyspark_client_has_no_spark_submit(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    bare.setattr(importlib.util, "find_spec", lambda name: spec)
    bare.setenv("PATH", str(tmp_path))
    with pytest.raises(HoodieConfigurationError, match=r"no spark-submit found.*SPARK_HOME \(not set\)"):
        HoodieSparkSubmitHook(master="local[2]").submit("job.py")


def test_a_binary_that_is_not_there(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hook = HoodieSparkSubmitHook(master="local[2]", spark_binary=str(tmp_path / "spark-submit"))
    with pytest.raises(HoodieConfigurationError, match=r"could not start spark-submit .*No such file"):
        hook.submit("job.py")


# --- lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('HOODIE_RESULT {"a": 1}', ("RESULT", {"a": 1})),
        ('HOODIE_ERROR {"code": "input"}\n', ("ERROR", {"code": "input"})),
        ('[Stage 1:==> (1 + 2) / 8] HOODIE_PROGRESS {"step": "x"}', ("PROGRESS", {"step": "x"})),
        ("HOODIE_RESULT {broken", ("", None)),
        ('HOODIE_RESULT {"a": }', ("", None)),
        ("HOODIE_RESULT [1]", ("", None)),
        ('MY_HOODIE_RESULT {"a": 1}', ("", None)),
        ('HOODIE_RESULTS {"a": 1}', ("", None)),
    ],
)
def test_marker_lines(line: str, expected: tuple[str, Any]) -> None:
    assert parse_marker(line) == expected


@pytest.mark.parametrize(
    ("line", "nonce", "kind"),
    [
        ('HOODIE_RESULT:abc {"a": 1}', "abc", "RESULT"),
        ('HOODIE_RESULT:abc {"a": 1}', "", ""),
        ('HOODIE_RESULT:abd {"a": 1}', "abc", ""),
        ('HOODIE_RESULT: {"a": 1}', "", ""),
        ('HOODIE_RESULT {"a": 1}', "abc", ""),
        ('row 7: HOODIE_RESULT {"a": 1}', "abc", ""),
        ('[Stage 1:==> (1 + 2) / 8] HOODIE_ERROR:abc {"a": 1}', "abc", "ERROR"),
    ],
)
def test_lines_of_a_nonce(line: str, nonce: str, kind: str) -> None:
    assert parse_marker(line, nonce)[0] == kind


def test_a_job_without_a_request_is_known_by_its_markers(fake: FakeSubmit) -> None:
    """As people start one, with `application_args` of their own."""
    fake.body("""say("RESULT", {"instant": request["table"]})""")
    hook = HoodieSparkSubmitHook(
        master="local[2]", spark_binary=str(fake.path), application_args=["--request", '{"table": "t"}']
    )
    hook.submit("job.py")
    assert hook.result == {"instant": "t"}


def test_the_log_has_the_text_of_the_job(fake: FakeSubmit, logged: Callable[[], str]) -> None:
    """The result that the task returns has not."""
    fake.body(
        """say("RESULT", {"operation": "clean", "table": "t", "status": "cleaned", "summary": "Did it"})"""
    )
    hook = HoodieSparkSubmitHook(
        master="local[2]", spark_binary=str(fake.path), application_args=["--request", "{}"]
    )
    hook.submit("job.py")
    assert hook.result == {"operation": "clean", "table": "t", "status": "cleaned"}
    assert "Did it" in logged()


def test_a_job_without_a_text(fake: FakeSubmit, logged: Callable[[], str]) -> None:
    fake.body("""say("RESULT", {"operation": "clean", "table": "t", "status": "cleaned"})""")
    hook = HoodieSparkSubmitHook(
        master="local[2]", spark_binary=str(fake.path), application_args=["--request", "{}"]
    )
    hook.submit("job.py")
    assert "clean t cleaned" in logged()


def test_secrets_are_masked_in_the_log() -> None:
    hook = HoodieSparkSubmitHook(master="local[2]")
    masked = hook.masked_command(
        ["--request", '{"options":{"x.jdbc.password":"a\\"s3cr3t","y":"z"}}', "--conf", "k.secret=s"]
    )
    assert "s3cr3t" not in masked
    assert "k.secret=s" not in masked
    assert '"y":"z"' in masked
