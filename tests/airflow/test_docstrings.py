"""What a DAG author passes is documented: what operators, sensors, triggers, hooks and notifiers take."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

from tests.house.test_walls import GLUE, modules

KINDS = ("operators", "sensors", "triggers", "hooks", "notifications")
PARAM = re.compile(r"^ *:param (\w+): \S", re.MULTILINE)


def classes() -> Iterator[type]:
    from airflow.sdk import BaseHook, BaseNotifier, BaseOperator
    from airflow.triggers.base import BaseTrigger

    for name in modules(GLUE):
        if name.split(".")[1:2] and name.split(".")[1] in KINDS:
            for cls in vars(importlib.import_module(name)).values():
                own = isinstance(cls, type) and cls.__module__ == name
                if own and issubclass(cls, (BaseOperator, BaseHook, BaseTrigger, BaseNotifier)):
                    yield cls


def parameters(cls: type) -> set[str]:
    """The names that the class itself declares; `kwargs` stands for those of its base."""
    made = vars(cls).get("__init__")
    if made is None:
        return set()
    made = inspect.unwrap(made)
    return set(inspect.signature(made).parameters) - {"self", "kwargs"}


def documented(cls: type) -> list[str]:
    return PARAM.findall(inspect.cleandoc(vars(cls).get("__doc__") or ""))


@pytest.mark.airflow
def test_each_parameter_is_documented_once() -> None:
    pytest.importorskip("airflow.sdk")
    kinds = list(classes())
    assert len(kinds) > 20
    wrong = {
        cls.__name__: sorted(parameters(cls) ^ set(documented(cls))) or documented(cls)
        for cls in kinds
        if sorted(parameters(cls)) != sorted(documented(cls))
    }
    assert wrong == {}


@pytest.mark.airflow
def test_what_is_templated_is_called_so() -> None:
    """A parameter's text says "(templated)" where its class, or what derives from it, renders it."""
    pytest.importorskip("airflow.sdk")
    from airflow.sdk import BaseOperator

    wrong = []
    for cls in classes():
        if not issubclass(cls, BaseOperator):
            continue
        text = inspect.cleandoc(vars(cls).get("__doc__") or "")
        for name, said in re.findall(r"^:param (\w+): (.*?)(?=^:param|\Z)", text, re.MULTILINE | re.DOTALL):
            if ("(templated)" in said) != (name in cls.template_fields):
                wrong.append(f"{cls.__name__}.{name}")
    assert wrong == []
