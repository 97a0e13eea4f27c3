"""A service is described once: what follows from the description, and what is written by hand beside it."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
import hoodie.services
from hoodie.cli.command import main as command
from hoodie.jobs._main import main as job
from hoodie.services import pages, registry
from hoodie.services.registry import Lazy, Service, planned, public
from scripts.environment import ROOT

JOBS = ROOT / "spark_jobs" / "hoodie" / "jobs"

TOY = {
    "__init__.py": '"""Counts commits."""\n',
    "service.py": """
from __future__ import annotations
from dataclasses import dataclass
from hoodie.services.registry import Service, Turn, Lazy
from hoodie.services.request import Request, asked

@dataclass(frozen=True, kw_only=True)
class CountRequest(Request):
    unit: str = asked("commits", doc="what is counted", choices=("commits", "instants"))

SERVICE = Service(
    name="count",
    doc="count what is on the timeline",
    request=CountRequest,
    run=Lazy("hoodie.services.counting.run", "count"),
    text=Lazy("hoodie.services.counting.run", "text"),
    turn=Turn(number=70, name="counting", entry=Lazy("hoodie.services.counting.run", "CountEntry")),
)
""",
    "run.py": """
from __future__ import annotations
from dataclasses import dataclass
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable

@dataclass(frozen=True, kw_only=True)
class CountResult(ServiceResult):
    number: int
    action: str = "count"
    operation: str = "count"

def count(request):
    target = ServiceTable.open(request.table, request.options)
    timeline = target.timeline()
    found = timeline.commits() if request.unit == "commits" else timeline.instants
    return CountResult(status="counted", number=len(found), reason="", **about(target, request.dry_run, 0.0))

def text(result):
    return f"{result['table']} has {result['number']}"

class CountEntry(PlannerEntry):
    def work(self, target, result):
        return Work(f"count {result['number']}", 0, 0)
""",
}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The path of a table with two commits, while there is one service more: a folder, and nothing else."""
    folder = tmp_path / "more" / "counting"
    folder.mkdir(parents=True)
    for name, text in TOY.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(hoodie.services, "__path__", [*hoodie.services.__path__, str(folder.parent)])
    registry.services.cache_clear()
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": "100"}
    for value in (1, 2):
        hoodie.write_table(pa.table({"id": [value]}), str(tmp_path / "counted"), options=options)
    yield str(tmp_path / "counted")
    registry.services.cache_clear()
    for name in [name for name in sys.modules if name.startswith("hoodie.services.counting")]:
        del sys.modules[name]


def test_a_folder_adds_a_service(toy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["count", "--table", toy]) == 0
    assert capsys.readouterr().out == "counted has 2\n"
    assert command(["count", "--table", toy, "--unit", "years"]) == 2
    assert "argument --unit: invalid choice: 'years'" in capsys.readouterr().err
    assert job("count", ["--request", json.dumps({"table": toy, "unit": "instants"})]) == 0
    assert json.loads(capsys.readouterr().out.removeprefix("HOODIE_RESULT "))["number"] == 2
    for request, message in (
        ({"table": toy, "unit": "years"}, "unit is 'years'; use one of commits, instants"),
        ({"table": toy, "mode": "run"}, "unknown fields mode; there are table, operation, unit, options"),
        ({"unit": "commits"}, "the request has no table"),
    ):
        assert job("count", ["--request", json.dumps(request)]) == 1
        assert message in capsys.readouterr().out
    plan = hoodie.plan_services(toy)
    assert [item.service for item in plan.services][-2:] == ["archive", "counting"]
    assert (plan.due, plan.services[-1].would) == (["counting"], "count 2")
    assert command(["services", "run", "--table", toy, "--only", "counting"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "counting: counted has 2"
    assert "| `hoodie count` `--unit` | count what is on the timeline |" in pages.markdown()


@pytest.mark.parametrize("service", registry.services().values(), ids=registry.services())
def test_what_a_description_names_is_there(service: Service) -> None:
    assert callable(service.text)
    for call in (service.run, *([service.turn.entry] if service.turn else [])):
        assert isinstance(call, Lazy)
        assert callable(call.load())


@pytest.mark.parametrize("service", public().values(), ids=public())
def test_the_function_takes_what_the_service_is_asked(service: Service) -> None:
    assert service.function in hoodie.__all__
    taken = inspect.signature(getattr(hoodie, service.function)).parameters
    own = {name: item for name, item in service.request.own().items() if name != "delete"}  # a function
    common = [
        "options",
        *(["extra_metadata", "spark"] if service.needs_engine else []),
        "dry_run",
        "progress",
    ]
    assert list(taken) == ["path", *own, *common]
    assert all(
        taken[name].default == (inspect.Parameter.empty if item.default is MISSING else item.default)
        for name, item in own.items()
    )


@pytest.mark.airflow
@pytest.mark.parametrize("service", public().values(), ids=public())
def test_the_operator_takes_what_the_service_is_asked(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    import airflow_hoodie

    assert service.operator in airflow_hoodie.__all__
    operator: Any = getattr(airflow_hoodie, service.operator)
    assert operator.job == service.name
    taken = {name for cls in operator.__mro__ for name in inspect.signature(cls.__init__).parameters}
    assert set(service.request.own()) <= taken
    texts = {name for name, item in service.request.own().items() if item.default is not False}
    assert texts <= set(operator.template_fields)


def test_the_table_of_services_is_fresh() -> None:
    page = (ROOT / "docs" / "services.md").read_text()
    assert pages.markdown() in page, "put the output of python -m hoodie.services.pages into docs/services.md"


def test_the_turns_are_those_of_apache_hudi_and_the_archive_waits_for_the_cleaner() -> None:
    assert list(planned()) == [
        *("restore", "repair", "compaction", "log_compaction", "clustering", "clean", "archive"),
    ]
