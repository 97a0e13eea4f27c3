"""Every service by its doors: the Python API, the command line for people and for programs, its job.

The table of tests/support/service_entries.py says what is asked and what follows; the operators follow it in
tests/airflow/test_service_operators.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.backend.local import LocalBackend
from hoodie.backend.spark import SparkBackend
from hoodie.errors import ConfigError, HoodieError
from hoodie.jobs import _main
from hoodie.services.registry import Service, public
from hoodie.text import visible_in
from tests.support.cli import said
from tests.support.service_entries import ENTRIES, FEW
from tests.support.services import COMPACT, Door, Said, T, copied, follow

EXTRA = {"by": "test"}
WRONG = [
    pytest.param(name, item, id=f"{name} {dict(item.given)}")
    for name, entry in ENTRIES.items()
    for item in entry.wrong
]


def by_api(service: Service, path: str, given: Mapping[str, Any], options: Any, dry_run: bool) -> Said:
    steps: list[str] = []
    asked = {**given, **({"extra_metadata": EXTRA} if service.needs_engine else {})}
    name = "delete_savepoint" if asked.pop("delete", False) else service.function
    if name == "delete_savepoint":
        asked = {"instant": asked["instant"]}
    try:
        result = getattr(hoodie, name)(
            path, options=options, dry_run=dry_run, progress=lambda step, _: steps.append(step), **asked
        ).to_dict()
    except HoodieError as error:
        return Said(error=(error.code, error.message))
    return Said(result=result, text=service.text(visible_in(result)), progress=steps)


def flags(service: Service, path: str, given: Mapping[str, Any], options: Any, dry_run: bool) -> list[str]:
    """The command line; a positional argument, `mode` of an index, comes first."""
    found = [service.command or service.name, "--table", path, *(["--dry-run"] if dry_run else [])]
    for name, value in given.items():
        if value is True:
            found.append(f"--{name}")
        elif (service.name, name) == ("index", "mode"):
            found.insert(1, value)
        elif value is not False:
            found += [f"--{name}", value]
    return [*found, *(part for name, value in options.items() for part in ("--option", f"{name}={value}"))]


def by_command(capsys: pytest.CaptureFixture[str]) -> Door:
    def call(*asked: Any) -> Said:
        code, out, err = said(capsys, flags(*asked))
        if code:
            message = err.splitlines()[-1]
            assert (code, out, message[:8]) == (1, "", "hoodie: ")
            return Said(error=(None, message))
        return Said(
            text=out.removesuffix("\n"), progress=[line.partition(":")[0] for line in err.splitlines()]
        )

    return call


def by_command_for_programs(capsys: pytest.CaptureFixture[str]) -> Door:
    def call(*asked: Any) -> Said:
        code, out, err = said(capsys, [*flags(*asked), "--json"])
        assert (out.count("\n"), err) == (1, ""), "one line, and no progress"
        document = json.loads(out)
        if code:
            return Said(error=(document["error"]["code"], document["error"]["message"]))
        return Said(result=document, text=asked[0].text(document))

    return call


def by_job(capsys: pytest.CaptureFixture[str]) -> Door:
    """With the local engine in Spark's place."""

    def call(service: Service, path: str, given: Mapping[str, Any], options: Any, dry_run: bool) -> Said:
        more = {"extra_metadata": EXTRA} if service.needs_engine else {}
        asked = {"table": path, "options": options, "dry_run": dry_run, **given, **more}
        code, lines = run_job(capsys, service.name, asked)
        *steps, (kind, value) = lines
        assert {name for name, _ in steps} <= {"HOODIE_PROGRESS"}
        if code:
            assert (code, kind) == (1, "HOODIE_ERROR")
            return Said(error=(value["code"], value["message"]))
        assert (kind, value["operation"]) == ("HOODIE_RESULT", service.name)
        assert not {"files", "voided"} & set(value)
        return Said(result=value, text=value["summary"], progress=[step["step"] for _, step in steps])

    return call


def run_job(
    capsys: pytest.CaptureFixture[str], name: str, request: Mapping[str, Any]
) -> tuple[int, list[tuple[str, Any]]]:
    """The exit code and the HOODIE_* lines."""
    capsys.readouterr()
    code = _main.main(name, ["--request", json.dumps(request)])
    lines = [line.partition(" ") for line in capsys.readouterr().out.splitlines()]
    return code, [(kind, json.loads(text)) for kind, _, text in lines if kind.startswith("HOODIE_")]


DOORS: dict[str, Callable[[pytest.CaptureFixture[str]], Door]] = {
    "api": lambda _: by_api,
    "command": by_command,
    "json": by_command_for_programs,
    "job": by_job,
}


#: the first history of each service by every door, the others by two
CASES = [
    pytest.param(
        door,
        name,
        history,
        id=f"{door}-{name} {history}",
        marks=[pytest.mark.full] if number and door in ("json", "job") else [],
    )
    for door in DOORS
    for name, entry in ENTRIES.items()
    for number, history in enumerate(entry.histories)
]


@pytest.fixture(params=DOORS)
def door(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Door:
    monkeypatch.setattr(SparkBackend, "started", LocalBackend.started)
    return DOORS[request.param](capsys)


def test_every_service_has_an_entry() -> None:
    assert set(ENTRIES) == set(public())
    for name, service in public().items():
        assert set(ENTRIES[name].given) == set(service.request.own())
        assert all(service.request.own()[key].default != value for key, value in ENTRIES[name].given.items())


@pytest.mark.parametrize(("door", "name", "history"), CASES, indirect=["door"])
def test_what_a_service_does_and_says(
    name: str, history: str, door: Door, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = {**copied(history.partition(":")[0], tmp_path, tmp_path_factory), **EXTRA}
    follow(name, ENTRIES[name], ENTRIES[name].histories[history], names, door)


@pytest.mark.parametrize("name", ENTRIES)
def test_arguments_reach_the_request(name: str, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """All fields, with the settings, whether it is a dry run, and the metadata where the door has it."""
    service, asked = public()[name], list[Any]()

    def capture(request: Any, *_: Any) -> None:
        asked.append(request)
        raise ConfigError("captured")

    monkeypatch.setattr(f"{service.run.module}.{service.run.name}", capture)  # type: ignore[attr-defined]
    given = {**ENTRIES[name].given}
    if door is by_api and given.pop("delete", False):
        monkeypatch.setattr("hoodie.services.savepoint.run.delete_savepoint", capture)
        given = {"instant": T}
        assert door(service, "/t", {**given, "delete": True}, {}, True).error == ("configuration", "captured")
        assert asked.pop().delete is True
        given = {**ENTRIES[name].given, "delete": False}
    for dry_run in (True, False):
        failed = door(service, "/t", given, {"hoodie.x": "1"}, dry_run)
        assert failed.error is not None
        assert "captured" in failed.error[1]
        request = asked.pop()
        assert request.__class__.__name__ == service.request.__name__
        assert {key: getattr(request, key) for key in given} == given
        assert (request.table, request.options, request.dry_run) == ("/t", {"hoodie.x": "1"}, dry_run)
        if service.needs_engine:
            assert request.extra_metadata in (EXTRA, {})
            assert callable(request.engine)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_table_that_is_not_there(name: str, door: Door, tmp_path: Path) -> None:
    given = {"instant": T, "to": "8", **({"mode": "show"} if name == "index" else {})}
    own = public()[name].request.own()
    given = {key: value for key, value in given.items() if key in own and key not in ("delete",)}
    if name in ("compact", "log-compact", "cluster"):
        given["mode"] = "execute"
    failed = door(public()[name], str(tmp_path / "none"), given, ENTRIES[name].options, False)
    assert failed.error is not None
    assert failed.error[0] in ("table_not_found", None)
    assert str(tmp_path / "none") in failed.error[1]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_wrong_arguments(name: str, wrong: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, service = str(tmp_path / "t"), public()[name]
    if wrong.api:
        with pytest.raises(ConfigError, match=wrong.api):
            getattr(hoodie, service.function)(path, **wrong.given)
    if wrong.command[0]:
        code, _, err = said(capsys, flags(service, path, wrong.given, {}, False))
        assert (code, wrong.command[1] in err) == (wrong.command[0], True), err
    if wrong.job:
        engine = {"engine": "local"} if service.needs_engine else {}
        code, lines = run_job(capsys, name, {"table": path, **engine, **wrong.given})
        kind, error = lines[-1]
        assert (code, kind, error["code"]) == (1, "HOODIE_ERROR", "configuration")
        assert wrong.job in error["message"]


def test_the_archived_timeline(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = copied("five", tmp_path, tmp_path_factory)["path"]
    before = [item["instant"] for item in hoodie.instants(path)]
    hoodie.archive_table(path, options=FEW)
    code, out, _ = said(capsys, ["timeline", "--table", path, "--archived"])
    assert code == 0
    lines = out.splitlines()
    assert lines[-1] == f"{len(before)} instants"
    assert [line.split()[0] for line in lines[2:-2]] == before
    assert all(line.split()[1:4] == ["commit", "completed", "upsert"] for line in lines[2:5])
    every, active = (
        json.loads(said(capsys, ["timeline", "--table", path, *more, "--json"])[1])["instants"]
        for more in (["--archived"], [])
    )
    assert [item["instant"] for item in every] == before
    assert every[3:] == active
    assert set(every[0]) == set(active[0])


def test_settings_of_a_file_and_options_of_an_engine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = copied("logs", tmp_path, tmp_path_factory)["path"]
    file = tmp_path / "c.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in COMPACT.items()))
    call = ["compact", "--table", path, "--properties", str(file)]
    code, _, err = said(capsys, [*call, "--master", "local[2]"])
    assert (code, "--master is for --engine spark" in err) == (1, True)
    assert said(capsys, call)[1].startswith("Compacted orders: ")
    code, _, err = said(capsys, ["clean", "--table", path, "--engine", "spark"])
    assert (code, "--engine" in err) == (2, True)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "the request has no table; it needs table"),
        ({"table": "t", "source": {"path": "x"}}, "unknown fields source; there are table, operation, mode"),
        ({"table": "t", "operation": "upsert"}, "asks for 'upsert', this job does 'compact'"),
        ({"table": "t", "options": "a=b"}, "the request's options are 'a=b'"),
    ],
)
def test_bad_requests(capsys: pytest.CaptureFixture[str], request_: Any, message: str) -> None:
    code, lines = run_job(capsys, "compact", request_)
    kind, error = lines[-1]
    assert (code, kind, error["code"]) == (1, "HOODIE_ERROR", "configuration")
    assert message in error["message"]
