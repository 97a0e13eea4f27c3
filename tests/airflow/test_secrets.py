"""Secrets are planted wherever a task may have one; nothing that others may see has them afterwards.

Looked through: command lines of all processes, Airflow's database (rendered templates, XComs, events), logs,
exceptions, lineage, and every file of the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException
from airflow_hoodie.hooks.hoodie import HoodieHook
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.operators.services import CleanOperator
from airflow_hoodie.operators.undo import SavepointOperator
from airflow_hoodie.operators.write import DeletePartitionOperator, UpsertOperator
from airflow_hoodie.table import HoodieTable
from tests.conftest import require
from tests.support.processes import command_lines

from .conftest import HOME, FakeSubmit

#: by place; one has what JSON, repr and URIs write otherwise
PLANTS = {
    place: f'planted"{number:02}/é-{place}' if place == "OPTION" else f"planted-{number:02}-{place}"
    for number, place in enumerate(
        ["OPTION", "TABLE_OPTION", "CONNECTION", "ACCESS_KEY", "SECRET_KEY", "SESSION_TOKEN", "ACCOUNT_KEY",
         "SAS", "ENVIRONMENT", "SOURCE_OPTION", "URI", "SIGNATURE", "QUERY"]
    )
}  # fmt: skip
#: what is left of each, however it is written
MARKS = [value[-len(place) - 2 :] if '"' in value else value for place, value in PLANTS.items()]


def found(texts: Iterable[str]) -> list[str]:
    """Planted secrets, with what stands around them."""
    return [
        text[max(0, at - 200) : at + 100]
        for text in texts
        for mark in [*MARKS, 'planted"', 'planted\\"']
        if (at := text.find(mark)) >= 0
    ]


def files(folder: Path) -> list[str]:
    return [path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()]


def database() -> list[str]:
    """Every row of Airflow's database but the log in files."""
    with contextlib.closing(sqlite3.connect(HOME / "airflow.db")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return [str(row) for (name,) in tables for row in connection.execute(f'SELECT * FROM "{name}"')]


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for place, value in PLANTS.items():
        monkeypatch.setenv(f"PLANT_{place}", value)
    extra = {"warehouse": str(tmp_path), "options": {"hoodie.streamer.session.token": PLANTS["CONNECTION"]}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "hoodie", "extra": extra}))
    from airflow.sdk._shared.secrets_masker import _secrets_masker

    masker = _secrets_masker()
    before = masker.patterns, masker.replacer
    masker.reset_masker()  # type: ignore[no-untyped-call]
    yield
    masker.patterns, masker.replacer = before


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    made = HoodieTable(
        name="orders", path="orders", record_keys="id", partition_fields="day", hoodie_conn_id="lake",
        options={"hoodie.metrics.datadog.api.key": PLANTS["TABLE_OPTION"]},
    )  # fmt: skip
    rows = pa.table({"id": ["a", "b"], "day": ["1", "2"]})
    hoodie.write_table(rows, str(tmp_path / "orders"), options=made.options_for("upsert"))
    return made


#: what a job may let slip: everything that it was told
TALKATIVE = """
    for text in (json.dumps(request), repr(request), " ".join(args), os.environ["AWS_SECRET_ACCESS_KEY"]):
        print("said:", text)
    for path in [given[1:] for given in args if given[:1] == "@"]:
        print(open(path).read())
"""

#: a job that lasts until its command line was looked at
LOOKED_AT = """
    started = os.path.getsize({looks!r})
    while os.path.getsize({looks!r}) < started + 2:
        time.sleep(0.01)
"""

#: a job that fails for a query, else says that it committed
ENDING = """
    if request["source"]["format"] == "sql":
        sys.exit(3)
    say("RESULT", {"status": "committed", "operation": "upsert", "instant": "20260101000000000",
        "base_path": request["table"], "partitions": ["1"]})
"""

ARGUMENTS: dict[str, Any] = {
    "options": {"hoodie.datasource.hive_sync.password": "OPTION"},
    "conf": {
        "spark.hadoop.fs.s3a.access.key": "ACCESS_KEY",
        "spark.hadoop.fs.s3a.secret.key": "SECRET_KEY",
        "spark.hadoop.fs.s3a.session.token": "SESSION_TOKEN",
        "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net": "ACCOUNT_KEY",
        "spark.hadoop.fs.azure.sas.c.acc.blob.core.windows.net": "SAS",
        "spark.ui.enabled": "false",
    },
    "env_vars": {"AWS_SECRET_ACCESS_KEY": "ENVIRONMENT"},
}


def filled(value: Any, fill: Callable[[str], str]) -> Any:
    """With the secrets in place of the names of places."""
    if isinstance(value, dict):
        return {name: filled(item, fill) for name, item in value.items()}
    return fill(value) if value in PLANTS else value


def source(fill: Callable[[str], str]) -> dict[str, Any]:
    paths = [
        f"s3://AK:{fill('URI')}@in/x",
        f"https://acc.blob.core.windows.net/in?sv=1&sig={fill('SIGNATURE')}",
    ]
    return {"path": paths, "format": "csv", "options": {"db.password": fill("SOURCE_OPTION")}}


def query(fill: Callable[[str], str]) -> dict[str, Any]:
    return {"path": f"SELECT * FROM jdbc WHERE url = 'jdbc:x://h?password={fill('QUERY')}'", "format": "sql"}


SOURCE = """
    import os
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import CleanOperator, HoodieTable, SavepointOperator, UpsertOperator

    table = HoodieTable(
        name="orders", path="orders", record_keys="id", partition_fields="day", hoodie_conn_id="lake",
        options={{"hoodie.metrics.datadog.api.key": "{{{{ plant('PLANT_TABLE_OPTION') }}}}"}})
    submit = {{"master": "local[2]", "spark_binary": {binary!r}, **{arguments!r}}}
    local = {{"options": submit["options"], "env_vars": submit["env_vars"]}}
    with DAG("hidden", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), schedule=None,
             user_defined_macros={{"plant": os.environ.get}}) as dag:
        UpsertOperator(task_id="write", table=table, source={source!r}, **submit)
        UpsertOperator(task_id="query", table=table, source={query!r}, **submit)
        UpsertOperator.partial(task_id="mapped", table=table, **submit).expand(source=[{source!r}])
        CleanOperator(task_id="clean", table=table, **local)
        SavepointOperator(task_id="save", table=table, **local)
"""


def template(place: str) -> str:
    return f"{{{{ plant('PLANT_{place}') }}}}"


def test_a_dag_with_secrets(
    load_dag: Callable[[str], Any],
    fake: FakeSubmit,
    table: HoodieTable,
    logged: Callable[[], str],
    tmp_path: Path,
) -> None:
    """One task of it fails."""
    looks = tmp_path / "looks"
    looks.touch()
    fake.body(LOOKED_AT.format(looks=str(looks)) + TALKATIVE + ENDING)
    text = SOURCE.format(
        binary=str(fake.path), arguments=filled(ARGUMENTS, template),
        source=source(template), query=query(template),
    )  # fmt: skip
    dag = load_dag(text)
    with command_lines(looks) as lines:
        run = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert states == {**dict.fromkeys(("write", "mapped", "clean", "save"), "success"), "query": "failed"}
    log = logged()
    assert "said:" in log
    assert fake.request()["options"]["hoodie.datasource.hive_sync.password"] == PLANTS["OPTION"]
    assert any("hoodie.jobs.run" in line for line in lines)
    assert any("--request @" in line for line in lines)
    assert found(lines) == []
    assert found([log, *files(HOME / "logs")]) == []
    rows = database()
    assert any("hoodie.datasource.hive_sync.password" in row and "***" in row for row in rows)
    assert found(rows) == []
    assert found(files(tmp_path / "orders")) == []


@pytest.mark.parametrize(
    "ending",
    [
        "raise SystemExit(3)",
        "os.kill(os.getpid(), 9)",
        "say('ERROR', {'code': 'input', 'message': repr(request), 'values': {'source': repr(request)}})",
        "say('PROGRESS', {'step': 'x', 'text': repr(request)}); print('no result')",
    ],
)
def test_errors_of_jobs(ending: str, fake: FakeSubmit, table: HoodieTable, logged: Callable[[], str]) -> None:
    fake.body(f"{TALKATIVE}\n    {ending}")
    task = UpsertOperator(
        task_id="w", table=table, source=source(PLANTS.__getitem__), master="local[2]", name="n",
        spark_binary=str(fake.path), **filled(ARGUMENTS, PLANTS.__getitem__),
    )  # fmt: skip
    with pytest.raises(HoodieException) as caught:
        task.execute({})
    error = caught.value
    assert found([str(error), repr(error), json.dumps(error.values), logged()]) == []
    assert found(traceback.format_exception(error)) == []


def test_errors_of_the_local_job(
    table: HoodieTable, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str], tmp_path: Path
) -> None:
    options = {"hoodie.datasource.hive_sync.password": PLANTS["OPTION"]}
    with pytest.raises(HoodieException, match=r"hoodie\.cleaner\.polic") as caught:
        CleanOperator(task_id="c", table=table, options={**options, "hoodie.cleaner.polic": "x"}).execute({})
    assert found([str(caught.value), logged()]) == []
    command = HoodieLocalHook._command
    broken = "import sys; text = sys.stdin.read(); print(text); print(repr(text)); raise SystemExit(text)"
    monkeypatch.setattr(HoodieLocalHook, "_command", lambda self: [*command(self)[:2], broken])
    with pytest.raises(HoodieException, match="exit code 1") as caught:
        CleanOperator(task_id="c", table=table, options=options).execute({})
    assert found([str(caught.value), logged()]) == []


def test_what_would_be_committed_is_refused(table: HoodieTable, tmp_path: Path, jobs_here: None) -> None:
    before = files(tmp_path / "orders")
    extra = {"from": f"jdbc:postgresql://u:{PLANTS['URI']}@h/db"}
    with pytest.raises(HoodieConfigurationError, match="'from' holds a secret") as caught:
        DeletePartitionOperator(
            task_id="d", table=table, partitions="1", extra_metadata=extra, emit_asset=False
        ).execute({})
    assert found([str(caught.value)]) == []
    with pytest.raises(HoodieConfigurationError, match="comments holds a secret"):
        SavepointOperator(
            task_id="s", table=table, user="me", comments=f"key.password={PLANTS['OPTION']}"
        ).execute({})
    assert files(tmp_path / "orders") == before


def test_lineage(table: HoodieTable, tmp_path: Path) -> None:
    require(find_spec("airflow.providers.openlineage"), "no OpenLineage provider")
    from .test_lineage import lineage

    for given in (source(PLANTS.__getitem__), query(PLANTS.__getitem__)):
        task = UpsertOperator(task_id="w", table=table, source=given, **filled(ARGUMENTS, PLANTS.__getitem__))
        for complete in (False, True):
            assert found([json.dumps(lineage(task, complete), ensure_ascii=False)]) == []


def test_the_task_in_lineage(table: HoodieTable) -> None:
    """What Airflow's provider tells of a task by itself."""
    require(find_spec("airflow.providers.openlineage"), "no OpenLineage provider")
    from airflow.providers.openlineage.utils.utils import TaskInfo

    task = UpsertOperator(
        task_id="w", table=table, source=source(PLANTS.__getitem__), **filled(ARGUMENTS, PLANTS.__getitem__)
    )
    assert found([json.dumps(dict(TaskInfo(task)), default=str, ensure_ascii=False)]) == []


@pytest.mark.parametrize(
    "extra",
    [
        {"options": f"hoodie.a.password {PLANTS['OPTION']}"},
        {"options": f'{{"hoodie.a.password": "{PLANTS["URI"]}"'},
        {"options": [PLANTS["URI"]]},
        {"password": PLANTS["URI"]},
        {"warehouse": f"lake?sig={PLANTS['URI']}"},
    ],
)
def test_errors_of_a_connection(
    extra: dict[str, Any], monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BAD", json.dumps({"conn_type": "hoodie", "extra": extra}))
    with pytest.raises(HoodieConfigurationError) as caught:
        HoodieHook("bad").get_conn()
    assert found([str(caught.value), logged()]) == []


def test_settings_of_spark(fake: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in force beside those of the defaults and of the user's own file."""
    from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook

    conf = filled(ARGUMENTS["conf"], PLANTS.__getitem__)
    (tmp_path / "home" / "conf").mkdir(parents=True)
    (tmp_path / "home" / "conf" / "spark-defaults.conf").write_text("spark.a 1")
    (tmp_path / "mine.conf").write_text("spark.b 2")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    fake.body("print(open(args[args.index('--properties-file') + 1]).read()); sys.exit(3)")
    for own, expected in ((None, "spark.a 1\n"), (str(tmp_path / "mine.conf"), "spark.b 2\n")):
        seen: list[str] = []
        hook = HoodieSparkSubmitHook(
            master="local[2]", spark_binary=str(fake.path), conf=conf, properties_file=own
        )
        monkeypatch.setattr(hook._output, "take", seen.append)
        with pytest.raises(HoodieException):
            hook.submit("job.py")
        assert fake.options("--conf") == ["spark.ui.enabled=false"]
        assert expected in seen
        assert f"spark.hadoop.fs.s3a.access.key={PLANTS['ACCESS_KEY']}\n" in seen
        assert not os.path.exists(fake.option("--properties-file"))


def test_settings_stay_where_spark_may_have_others(
    fake: FakeSubmit, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    """A properties file would replace defaults that nobody knows where to find."""
    from airflow_hoodie.hooks import spark

    monkeypatch.setattr(spark, "installed_spark_home", lambda: None)
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    conf = {"spark.hadoop.fs.s3a.access.key": PLANTS["ACCESS_KEY"]}
    spark.HoodieSparkSubmitHook(master="local[2]", spark_binary=str(fake.path), conf=conf).submit("job.py")
    assert fake.options("--conf") == [f"spark.hadoop.fs.s3a.access.key={PLANTS['ACCESS_KEY']}"]
    text = logged()
    assert "spark.hadoop.fs.s3a.access.key are on the command line" in text
    assert found([text]) == []
