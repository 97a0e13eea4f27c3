"""What the tests use of Airflow that has other places in its versions.

Nothing of Airflow is imported before it is asked for: conftest.py sets its environment first.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def dag_bag(path: str) -> Any:
    """The DAGs of a file, as the DAG processor reads it, and its errors."""
    return _first("DagBag", "airflow.dag_processing.dagbag", "airflow.models.dagbag")(dag_folder=path)


def dag_serialization() -> Any:
    """The class that makes of a DAG what Airflow stores of it, and back."""
    module = import_module("airflow.serialization.serialized_objects")
    return getattr(module, "DagSerialization", None) or module.SerializedDAG  # of Airflow 3.1


def on_this_airflow(source: str) -> str:
    """A DAG file of the newest Airflow, as one writes it for this one."""
    if hasattr(import_module("airflow.sdk"), "CronDataIntervalTimetable"):
        return source
    elsewhere = "from airflow.timetables.interval import CronDataIntervalTimetable\n"
    return source.replace("CronDataIntervalTimetable, ", "", 1).replace(
        "from airflow.sdk", elsewhere + "from airflow.sdk", 1
    )


def _first(name: str, *modules: str) -> Any:
    """The attribute of the first of these modules that is there."""
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(", ".join(modules))
