"""Every operator and sensor: what is said to be templated is, exists, and renders."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

import airflow_hoodie
from airflow_hoodie import HoodieTable
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.get_provider_info import get_provider_info

#: arguments of the classes that need more than a table, by parameter
GIVEN: dict[str, Any] = {
    "to": "8",
    "sql": "DELETE FROM orders",
    "source": "/in/*.csv",
    "partitions": ["day=1"],
    "max_age": 60,
    "instant": "20260101000000000",
    "keys": "/keys.csv",
    "mode": "show",
}
DAY = "2026-01-01"
_PARAMETER = re.compile(r"^ *:param (\w+): (.*?)(?=^ *:param|\Z)", re.MULTILINE | re.DOTALL)


def classes() -> Iterator[type[BaseOperator]]:
    """All public ones in the modules of the provider info."""
    info = get_provider_info()
    for kind in ("operators", "sensors"):
        for name in info[kind][0]["python-modules"]:
            module = importlib.import_module(name)
            for found in vars(module).values():
                if inspect.isclass(found) and issubclass(found, BaseOperator) and found.__module__ == name:
                    yield found


def is_base(kind: type[BaseOperator]) -> bool:
    """One that only others derive from: it has no short name."""
    return kind.__name__ not in airflow_hoodie.__all__


def made(kind: type[Any]) -> Any:
    table_type = "MERGE_ON_READ" if kind.__name__.endswith("CompactionOperator") else "COPY_ON_WRITE"
    table = HoodieTable(name="orders", path="/lake/orders", record_keys="id", table_type=table_type)
    parameters = inspect.signature(kind.__init__).parameters
    needed = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
    ]
    needed += ["instant"] if getattr(kind, "instant_needed", False) else []
    needed += ["to"] if "to" in parameters else []
    given = {name: GIVEN[name] for name in needed if name not in ("table", "task_id")}
    return kind(task_id="task", table=table, **given)


def promised(kind: type[BaseOperator]) -> set[str]:
    """Arguments that the class's own docstring calls templated."""
    text = inspect.getdoc(kind) or ""
    return {name for name, description in _PARAMETER.findall(text) if "(templated)" in description}


CONCRETE = [kind for kind in classes() if not is_base(kind)]


def test_all_are_found() -> None:
    names = {kind.__name__ for kind in CONCRETE}
    assert {"UpsertOperator", "CompactionOperator", "CleanOperator", "CommitSensor"} <= names


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_fields_exist_and_render(kind: type[BaseOperator]) -> None:
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), params={"day": DAY}) as dag:
        task = made(kind)
    for name in (*task.template_fields, *task.template_fields_renderers):
        assert hasattr(task, name), name
    assert set(task.template_fields_renderers) <= set(task.template_fields)
    assert len(set(task.template_fields)) == len(task.template_fields)
    for name in task.template_fields:
        setattr(task, name, {"inside": ["{{ params.day }}"]} if name == "table" else "{{ params.day }}")
    ti = SimpleNamespace(dag_id="d", task_id="task", run_id="manual__1", map_index=-1)
    task.render_template_fields({"params": dag.params.dump(), "dag": dag, "task": task, "ti": ti})
    for name in task.template_fields:
        assert getattr(task, name) == ({"inside": [DAY]} if name == "table" else DAY), name


@pytest.mark.parametrize("kind", list(classes()), ids=lambda kind: kind.__name__)
def test_what_the_documentation_calls_templated_is(kind: type[BaseOperator]) -> None:
    assert promised(kind) <= set(kind.template_fields)


@pytest.mark.parametrize("kind", [airflow_hoodie.UpsertOperator, airflow_hoodie.CommitSensor])
def test_a_class_of_ones_own_renders_what_its_base_does(kind: type[Any]) -> None:
    own: Any = type("Own", (kind,), {"template_fields": (*kind.template_fields, "owner")})
    assert own.template_fields[-1] == "owner"
    own = type("Own", (kind,), {})
    assert own.template_fields == kind.template_fields
    with pytest.raises(HoodieConfigurationError, match=rf"Own.*has not .*table.*\*{kind.__name__}\."):
        type("Own", (kind,), {"template_fields": ("owner",)})


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_what_is_ours_and_templated_is_documented(kind: type[BaseOperator]) -> None:
    theirs = {
        name
        for parent in kind.__mro__
        if not parent.__module__.startswith("airflow_hoodie")
        for name in getattr(parent, "template_fields", ())
    }
    documented = set().union(*(promised(parent) for parent in kind.__mro__ if parent in set(classes())))
    assert set(kind.template_fields) - theirs <= documented
