"""Databricks: runs that are submitted once, by its Jobs API, through the hook of Airflow's provider.

A run gets this package as a wheel, which Databricks installs on all machines of the cluster. The tag is its
idempotency token: of several submissions with one token Databricks starts one run, so that the hook may
repeat a request whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_hoodie.clusters import State, Status
from airflow_hoodie.clusters.platform import Platform, Submission, connection_named, provider
from airflow_hoodie.clusters.rest import last_shown, shown, unreachable
from airflow_hoodie.compat.databricks_provider import list_runs
from airflow_hoodie.exceptions import HoodieConfigurationError
from hoodie.bundle import bundle_wheel

#: life cycles that are over
_ENDED = ("TERMINATED", "SKIPPED", "INTERNAL_ERROR")
_RESULTS = {"SUCCESS": State.SUCCEEDED, "CANCELED": State.KILLED, "TIMEDOUT": State.KILLED}
#: how Databricks says that it knows no run of an id
_UNKNOWN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
#: runs of one answer, its most; answers, newest runs first, that are read to find one
_PAGE, _PAGES = 25, 20
#: of the only task of a run
_TASK = "hoodie"
#: settings of spark-submit that mean nothing to a cluster which is there before the job
_OF_SUBMIT = {
    "spark.executor.instances": "num_workers or autoscale of new_cluster",
    "spark.cores.max": "num_workers or autoscale of new_cluster",
    "spark.jars.excludes": "a maven library of engine_options",
    "spark.jars.repositories": "a maven library of engine_options",
}

Answer = TypeVar("Answer")


class _Unknown(Exception):
    """Of the run that was asked for."""


@dataclass(frozen=True, kw_only=True)
class Databricks(Platform):
    """A workspace.

    `databricks_conn_id`: a connection of type `databricks`. `new_cluster`: one that is made for the run, or
    `existing_cluster_id`: one that is there. `libraries`: beside this package. Both as the Jobs API has them.
    `uploads_path`: the path of `uploads` in the workspace, such as that of an external volume.
    """

    databricks_conn_id: str = "databricks_default"
    new_cluster: Mapping[str, Any] | None = None
    existing_cluster_id: str | None = None
    libraries: Sequence[Mapping[str, Any]] = ({"pypi": {"package": "fastavro>=1.9"}},)
    uploads_path: str | None = None

    NAME: ClassVar[str] = "Databricks"
    PROVIDER: ClassVar[str] = "apache-airflow-providers-databricks"
    PROVIDER_MODULE: ClassVar[str] = "airflow.providers.databricks"
    EXTRA: ClassVar[str] = "databricks"

    def __post_init__(self) -> None:
        if (self.new_cluster is None) == (self.existing_cluster_id is None):
            raise HoodieConfigurationError(
                f"engine_options have new_cluster={self.new_cluster!r} and "
                f"existing_cluster_id={self.existing_cluster_id!r}; give one of the two"
            )

    def bundled(self) -> Path:
        return bundle_wheel()

    def uploads_address(self) -> str:
        """Databricks knows S3 as s3://, and takes paths as they are."""
        given = self.uploads_path or self.uploads
        return given.rstrip("/").replace("s3a://", "s3://", 1)

    def submit(self, job: Submission) -> str:
        conf = dict(job.conf)
        libraries = self._libraries(job, conf.pop("spark.jars.packages", ""))
        task = {
            "task_key": _TASK,
            "spark_python_task": {"python_file": job.script, "parameters": list(job.arguments)},
            "libraries": libraries,
            **self._cluster(conf),
        }
        run = {"run_name": job.label(256), "idempotency_token": job.tag, "tasks": [task]}
        return str(self._asked("submit a run", lambda hook: hook.submit_run(run)))

    def _libraries(self, job: Submission, packages: str) -> list[Mapping[str, Any]]:
        wrong = [name for name in job.py_files if not name.endswith(".whl")]
        if wrong or job.files or job.archives:
            raise HoodieConfigurationError(
                f"Databricks takes no {', '.join([*wrong, *job.files, *job.archives])} with a job; give "
                "wheels in py_files, and what else it needs in libraries of engine_options, or on the cluster"
            )
        return [
            *({"whl": name} for name in (job.package, *job.py_files)),
            *({"jar": name} for name in job.jars),
            *({"maven": {"coordinates": name.strip()}} for name in packages.split(",") if name.strip()),
            *self.libraries,
        ]

    def _cluster(self, conf: Mapping[str, str]) -> dict[str, Any]:
        for name in sorted(set(_OF_SUBMIT) & set(conf)):
            raise HoodieConfigurationError(
                f"{name} has no effect on Databricks; leave it out, and use {_OF_SUBMIT[name]}"
            )
        if self.new_cluster is not None:
            return {
                "new_cluster": {
                    **self.new_cluster,
                    "spark_conf": {**(self.new_cluster.get("spark_conf") or {}), **conf},
                }
            }
        if conf:
            raise HoodieConfigurationError(
                f"the cluster {self.existing_cluster_id} runs already, so {', '.join(sorted(conf))} would "
                "have no effect; set them on the cluster, or use new_cluster"
            )
        return {"existing_cluster_id": self.existing_cluster_id}

    def find(self, tag: str) -> str | None:
        given: dict[str, Any] = {"run_type": "SUBMIT_RUN", "limit": _PAGE}
        hooks = self._hooks()
        path = hooks.GET_RUN_ENDPOINT[1].replace("runs/get", "runs/list")
        for _ in range(_PAGES):
            page = self._asked("list runs", lambda hook: list_runs(hook, path, given))
            for run in page.get("runs") or []:
                if str(run.get("run_name") or "").startswith(tag):
                    return str(run["run_id"])
            if not page.get("next_page_token"):
                break
            given["page_token"] = page["next_page_token"]
        return None

    def status(self, application_id: str) -> Status:
        try:
            run = self._run(application_id)
        except _Unknown:
            return Status(State.UNKNOWN)
        state = run.get("state") or {}
        life, result = str(state.get("life_cycle_state")), str(state.get("result_state") or "")
        if life not in _ENDED:
            ending = life == "TERMINATING" and state.get("user_cancelled_or_timedout")
            return Status(State.ENDING if ending else State.RUNNING)
        found = _RESULTS.get(result, State.FAILED)
        if found is not State.FAILED:
            return Status(found)
        parts = [result or life, state.get("state_message"), self._error(run)]
        return Status(found, shown(": ".join(str(part) for part in parts if part)))

    def _error(self, run: Mapping[str, Any]) -> str:
        """With which the run's task ended; "" for none, such as of a run that never started."""
        found: Mapping[str, Any] = {}
        if tasks := run.get("tasks"):
            with suppress(_Unknown):
                number = tasks[0]["run_id"]
                found = self._asked("read its output", lambda hook: hook.get_run_output(number), known=False)
        return last_shown(found.get("error"))

    def ui(self, application_id: str) -> str:
        try:
            found = str(self._run(application_id).get("run_page_url") or "")
        except _Unknown:
            return ""
        return found if found.startswith(("http://", "https://")) else ""

    def kill(self, application_id: str) -> None:
        with suppress(_Unknown):
            self._asked("cancel a run", lambda hook: hook.cancel_run(int(application_id)), known=False)

    def label(self, application_id: str) -> str:
        return f"Databricks' run {application_id}"

    def log_command(self, application_id: str) -> str:
        return f"the output of task {_TASK} of run {application_id} in the workspace"

    def _run(self, application_id: str) -> dict[str, Any]:
        return self._asked("get a run", lambda hook: hook.get_run(int(application_id)), known=False)

    def _hooks(self) -> Any:
        return provider(Databricks, "airflow.providers.databricks.hooks.databricks")

    def _asked(self, what: str, request: Callable[[Any], Answer], *, known: bool = True) -> Answer:
        """Where the run may not be `known`, Databricks' word for that is _Unknown."""
        hooks = self._hooks()
        with connection_named(Databricks, self.databricks_conn_id):
            try:
                return request(
                    hooks.DatabricksHook(
                        databricks_conn_id=self.databricks_conn_id,
                        timeout_seconds=self.TIMEOUT_S,
                        retry_limit=2,
                        caller="airflow-hoodie",
                    )
                )
            except AirflowNotFoundException:
                raise
            except AirflowException as error:
                answer = getattr(error.__cause__, "response", None)
                if answer is None or answer.status_code >= 500 or answer.status_code == 429:
                    raise self._unreachable(error) from error
                code = _error_code(answer)
                if not known and (answer.status_code == 404 or code in _UNKNOWN):
                    raise _Unknown from None
                raise HoodieConfigurationError(
                    f"Databricks refuses to {what} with HTTP {answer.status_code}: "
                    f"{last_shown(answer.text)}; correct engine_options, or the connection "
                    f"{self.databricks_conn_id!r}"
                ) from error
            except OSError as error:  # those of requests
                raise self._unreachable(error) from error
            except ValueError as error:  # of the connection
                raise HoodieConfigurationError(
                    f"Databricks can't be asked ({shown(error)}); correct the connection "
                    f"{self.databricks_conn_id!r}"
                ) from error

    def _unreachable(self, error: Exception) -> Exception:
        advice = f"is the connection {self.databricks_conn_id!r} right, and the network open to it?"
        return unreachable("Databricks", [last_shown(error)], advice)


def _error_code(answer: Any) -> str:
    try:
        return str(answer.json().get("error_code"))
    except (ValueError, AttributeError):
        return ""
