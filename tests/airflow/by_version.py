"""What the tests use of Airflow that has other places in its versions.

Nothing of Airflow is imported before it is asked for: conftest.py sets its environment first.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module
from typing import Any


def dag_bag(path: str) -> Any:
    """The DAGs of a file, as the DAG processor reads it, and its errors."""
    return _first("DagBag", "airflow.dag_processing.dagbag", "airflow.models.dagbag")(dag_folder=path)


def dag_serialization() -> Any:
    """The class that makes of a DAG what Airflow stores of it, and back."""
    module = import_module("airflow.serialization.serialized_objects")
    return getattr(module, "DagSerialization", None) or module.SerializedDAG  # of Airflow 3.1


def serialized_dag() -> Any:
    """The class of DAGs as Airflow's database has them."""
    homes = ("airflow.serialization.definitions.dag", "airflow.serialization.serialized_objects")
    return _first("SerializedDAG", *homes)


def operator_serialization() -> Any:
    """The class that makes of an operator what Airflow stores of it, and back."""
    module = import_module("airflow.serialization.serialized_objects")
    return getattr(module, "OperatorSerialization", None) or module.SerializedBaseOperator  # of Airflow 3.1


def dag_test_as_of_the_newest() -> None:
    """Makes `dag.test` of an older Airflow as that of 3.3 in two regards.

    All tasks have one API server: to make one takes seconds. Callbacks know the error, as in a worker.
    """
    supervisor: Any = import_module("airflow.sdk.execution_time.supervisor")
    runner: Any = import_module("airflow.sdk.execution_time.task_runner")
    if hasattr(supervisor.in_process_api_server, "cache_info"):
        return
    supervisor.in_process_api_server = functools.cache(supervisor.in_process_api_server)
    finalize = runner.finalize

    def with_error(ti: Any, state: Any, context: Any, log: Any, error: BaseException | None = None) -> None:
        finalize(ti, state, context if error is None else {**context, "exception": error}, log, error)

    runner.finalize = with_error


def on_this_airflow(source: str) -> str:
    """A DAG file of the newest Airflow, as docs/airflow.md says to write it for this one."""
    sdk = import_module("airflow.sdk")
    if not hasattr(sdk, "RetryPolicy"):  # before Airflow 3.3
        source = re.sub(r"\bHOODIE_RETRIES,\s*", "", source, count=1)
        source = source.replace("HOODIE_RETRIES", '{"retries": 5}')
    if not hasattr(sdk, "CronDataIntervalTimetable"):  # before Airflow 3.2
        there = "from airflow.timetables.interval import CronDataIntervalTimetable\n"
        sdk_import = "from airflow.sdk import DAG, "
        source = source.replace(f"{sdk_import}CronDataIntervalTimetable, ", there + sdk_import, 1)
    return source


def _first(name: str, *modules: str) -> Any:
    """The attribute of the first of these modules that is there."""
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(", ".join(modules))
