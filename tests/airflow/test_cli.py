"""`airflow hoodie ...`, through Airflow's own command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .timelines import WrittenTimeline

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Arguments after `airflow hoodie` -> exit code and what was printed."""
    from airflow.cli import cli_parser

    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")

    def command(*arguments: str) -> tuple[int, str]:
        args = cli_parser.get_parser().parse_args(["hoodie", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            args.func(args)
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    yield command
    cli_parser.get_parser.cache_clear()


def findings(text: str) -> dict[str, list[tuple[str, str]]]:
    document = json.loads(text)
    found: dict[str, list[tuple[str, str]]] = {}
    for item in document["findings"]:
        found.setdefault(item["check"], []).append((item["status"], item["text"]))
    return found


@pytest.mark.full
def test_doctor_of_a_sound_set_up(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = WrittenTimeline.create(tmp_path)
    value = {"conn_type": "hoodie", "extra": {"warehouse": str(tmp_path), "spark_conn_id": "spark_lake"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(value))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_LAKE", '{"conn_type": "spark", "host": "local[2]"}')
    code, text = run("doctor", "--conn-id", "lake", "--table", "orders", "--json")
    found = findings(text)
    assert code == 0
    assert found["provider"][0][0] == "ok"
    assert found["connection"] == [
        ("ok", f"Connection 'lake': 1 table in {tmp_path}: orders (COPY_ON_WRITE)")
    ]
    assert found["spark connection"] == [("ok", "spark_lake: master local[2]")]
    assert found["table"][0][0] == "ok"
    assert f"orders at {table.path}: COPY_ON_WRITE" in found["table"][0][1]
    assert found["spark"][0][0] == "ok"
    assert json.loads(text)["status"] in ("ok", "warning")  # warning: a plugin is not installed here


def test_doctor_says_what_is_wrong(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_db: None
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_BAD", '{"conn_type": "hoodie", "extra": {"warehouse": "lake"}}')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    code, text = run("doctor", "--conn-id", "bad", "--spark-conn-id", "nowhere", "--table", str(tmp_path))
    assert code == 1
    assert "FAIL  connection        connection 'bad': warehouse is 'lake'; give an absolute path" in text
    assert "FAIL  spark connection  Spark connection 'nowhere' is not defined" in text
    assert "FAIL  java" in text
    assert f"FAIL  table             {tmp_path} is no Hudi table: no .hoodie folder" in text
    assert "→ install Java 17 and set JAVA_HOME" in text


def test_connections_of_the_database(run: Run, airflow_db: None, tmp_path: Path) -> None:
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    table = WrittenTimeline.create(tmp_path)
    instant = table.commit()
    extra = json.dumps({"warehouse": str(tmp_path)})
    with create_session() as session:
        session.add(Connection(conn_id="lake_in_db", conn_type="hoodie", extra=extra))
    try:
        code, text = run("timeline", "--table", "orders", "--conn-id", "lake_in_db", "--json")
    finally:
        with create_session() as session:
            session.query(Connection).filter_by(conn_id="lake_in_db").delete()
    assert code == 0
    assert [item["instant"] for item in json.loads(text)["instants"]] == [instant]


def test_looking_at_a_table(run: Run, tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    table.commit()
    code, text = run("files", "--table", table.path)
    assert (code, "0 file groups" in text) == (0, True)
    code, text = run("services", "--table", table.path, "--only", "clean", "--json")
    assert code == 0, text
    assert [item["service"] for item in json.loads(text)["services"]] == ["clean"]
    code, text = run("timeline", "--table", "orders", "--conn-id", "nowhere", "--json")
    assert code == 1
    assert json.loads(text)["error"]["message"].startswith("hoodie connection 'nowhere' is not defined")


@pytest.mark.full
def test_names_in_a_table_are_text(run: Run, tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    table.commit("eu\x1b[2J\nforged")
    for command in (["timeline"], ["files"], ["services", "--json"], ["doctor"], ["files", "--json"]):
        _, text = run(*command, "--table", table.path)
        assert ("\x1b" in text, "\nforged" in text) == (False, False), command
    code, text = run("files", "--table", f"{tmp_path}/a\x1b[2J\nforged")
    assert (code, text.count("\n"), "a\\x1b[2J\\nforged" in text) == (1, 1, True)
    _, text = run("files", "--table", "relative\x1b[2J\nforged")
    assert ("\x1b" in text, "\nforged" in text) == (False, False)
