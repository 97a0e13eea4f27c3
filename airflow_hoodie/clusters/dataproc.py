"""Google Cloud Dataproc: jobs of a cluster, by its own interface, through the hook of Airflow's provider.

The tag is the id of the job, by which it is found, and that of the request that submits it: of several
requests with one id Dataproc takes the first. The driver runs on the cluster's master node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_hoodie.clusters import State, Status
from airflow_hoodie.clusters.platform import Platform, Submission, connection_named, provider
from airflow_hoodie.clusters.rest import last_shown, shown, unreachable
from airflow_hoodie.exceptions import HoodieConfigurationError

_STATES = {
    "CANCEL_PENDING": State.ENDING,
    "CANCEL_STARTED": State.ENDING,
    "CANCELLED": State.KILLED,
    "DONE": State.SUCCEEDED,
    "ERROR": State.FAILED,
}
_CONSOLE = "https://console.cloud.google.com/dataproc/jobs"


class _Unknown(Exception):
    """Of the job that was asked for, or no more to be ended."""


@dataclass(frozen=True, kw_only=True)
class Dataproc(Platform):
    """A cluster.

    `cluster_name`, `region`: of the cluster. `project_id`: else that of the connection. `gcp_conn_id`: a
    connection of type `google_cloud_platform`. `impersonation_chain`: as Airflow's hooks have it. `labels`:
    of the jobs.
    """

    cluster_name: str
    region: str
    project_id: str | None = None
    gcp_conn_id: str = "google_cloud_default"
    impersonation_chain: str | Sequence[str] | None = None
    labels: Mapping[str, str] | None = None

    NAME: ClassVar[str] = "Dataproc"
    PROVIDER: ClassVar[str] = "apache-airflow-providers-google"
    PROVIDER_MODULE: ClassVar[str] = "airflow.providers.google"
    EXTRA: ClassVar[str] = "dataproc"

    def submit(self, job: Submission) -> str:
        lists = {
            "args": job.arguments,
            "python_file_uris": (job.package, *job.py_files),
            "file_uris": job.files,
            "archive_uris": job.archives,
            "jar_file_uris": job.jars,
        }
        described = {
            "reference": {"job_id": job.tag},
            "placement": {"cluster_name": self.cluster_name},
            "labels": {**(self.labels or {}), "hoodie-submission": job.tag},
            "pyspark_job": {
                "main_python_file_uri": job.script,
                "properties": {"spark.app.name": job.name, **job.conf},
                **{name: list(items) for name, items in lists.items()},
            },
        }
        with self._asked() as (hook, options):
            answer = hook.submit_job(job=described, request_id=job.tag, **options)
        return str(answer.reference.job_id)

    def find(self, tag: str) -> str | None:
        return None if self._job(tag) is None else tag

    def status(self, application_id: str) -> Status:
        job = self._job(application_id)
        if job is None:
            return Status(State.UNKNOWN)
        state = str(job.status.state.name)
        found = _STATES.get(state, State.RUNNING)
        said = ": ".join(part for part in (state, job.status.details, job.driver_output_resource_uri) if part)
        return Status(found, shown(said) if found is State.FAILED else "")

    def ui(self, application_id: str) -> str:
        job = self._job(application_id)
        if job is None:
            return ""
        place = {"region": self.region, "project": job.reference.project_id}
        return f"{_CONSOLE}/{application_id}?{urlencode(place)}"

    def kill(self, application_id: str) -> None:
        with suppress(_Unknown), self._asked(known=False) as (hook, options):
            hook.cancel_job(job_id=application_id, **options)

    def label(self, application_id: str) -> str:
        return f"Dataproc's job {application_id}"

    def log_command(self, application_id: str) -> str:
        project = f" --project {self.project_id}" if self.project_id else ""
        return f"gcloud dataproc jobs wait {application_id} --region {self.region}{project}"

    def _job(self, job_id: str) -> Any:
        """None where Dataproc has none of that id."""
        with suppress(_Unknown), self._asked(known=False) as (hook, options):
            return hook.get_job(job_id=job_id, **options)
        return None

    @contextmanager
    def _asked(self, *, known: bool = True) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The hook, and what each of its requests has. Where the job may not be `known`, Dataproc's word for
        that is _Unknown.
        """
        hooks = provider(Dataproc, "airflow.providers.google.cloud.hooks.dataproc")
        raised = provider(Dataproc, "google.api_core.exceptions")
        retry = provider(Dataproc, "google.api_core.retry")
        auth = provider(Dataproc, "google.auth.exceptions")
        again = retry.Retry(
            predicate=retry.if_exception_type(raised.ServiceUnavailable), timeout=self.TIMEOUT_S
        )
        options = {"region": self.region, "timeout": self.TIMEOUT_S, "retry": again}
        if self.project_id:  # else the hook takes that of the connection
            options["project_id"] = self.project_id
        with connection_named(Dataproc, self.gcp_conn_id):
            try:
                yield (
                    hooks.DataprocHook(
                        gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain
                    ),
                    options,
                )
            except raised.ClientError as error:
                if not known and isinstance(error, (raised.NotFound, raised.FailedPrecondition)):
                    raise _Unknown from None
                if isinstance(error, raised.TooManyRequests):
                    raise self._unreachable(error) from error
                raise HoodieConfigurationError(
                    f"Dataproc refuses the request: {last_shown(error)}; correct engine_options, or the "
                    f"rights of the connection {self.gcp_conn_id!r}"
                ) from error
            except raised.GoogleAPIError as error:
                raise self._unreachable(error) from error
            except AirflowNotFoundException:
                raise
            except auth.TransportError as error:
                raise self._unreachable(error) from error
            except (auth.GoogleAuthError, AirflowException) as error:
                raise HoodieConfigurationError(
                    f"Dataproc can't be asked ({last_shown(error)}); correct the connection "
                    f"{self.gcp_conn_id!r}"
                ) from error

    def _unreachable(self, error: Exception) -> Exception:
        return unreachable("Dataproc", [last_shown(error)], "is the network of this machine open to it?")
