"""Amazon EMR, by its own interface, through the hooks of Airflow's provider: steps of a cluster, and job runs
of a serverless application. Credentials and region are those of the Airflow connection, else of the machine.

The driver of a step runs on the primary node, in deploy mode client: who cancels the step ends the driver,
and the step's log is that of the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from airflow_hoodie.clusters import State, Status
from airflow_hoodie.clusters.platform import Platform, Submission, provider
from airflow_hoodie.clusters.rest import last_shown, shown, unreachable
from airflow_hoodie.exceptions import HoodieConfigurationError

#: codes of errors that may pass
_PASSING = ("Throttling", "ThrottlingException", "TooManyRequestsException", "ServiceQuotaExceededException")
#: how Amazon says that it knows no job of an id, or none that can be ended
_UNKNOWN = ("InvalidRequestException", "ResourceNotFoundException", "ValidationException")
#: pages of the list of jobs, newest first, that are read to find one
_PAGES = 20


class _Unknown(Exception):
    """Of the job that was asked for."""


@dataclass(frozen=True, kw_only=True)
class _Amazon(Platform):
    aws_conn_id: str = "aws_default"
    region_name: str | None = None

    PROVIDER: ClassVar[str] = "apache-airflow-providers-amazon"
    PROVIDER_MODULE: ClassVar[str] = "airflow.providers.amazon"
    EXTRA: ClassVar[str] = "emr"
    #: its class in the provider
    HOOK: ClassVar[str]

    def _found(self, tag: str, operation: str, field: str, **place: str) -> Mapping[str, Any] | None:
        """The newest job of the list whose name begins with the tag."""
        with suppress(_Unknown), self._asked(known=False) as client:
            pages = client.get_paginator(operation).paginate(**place)
            for page in islice(pages, _PAGES):
                for job in page[field]:
                    if str(job.get("Name") or job.get("name") or "").startswith(tag):
                        found: Mapping[str, Any] = job
                        return found
        return None

    def _hook(self, **options: Any) -> Any:
        found = getattr(provider(type(self), "airflow.providers.amazon.aws.hooks.emr"), self.HOOK)
        return found(**options)

    @contextmanager
    def _asked(self, *, known: bool = True) -> Iterator[Any]:
        """The client. Where the job may not be `known`, Amazon's word for that is _Unknown."""
        raised: Any = provider(type(self), "botocore.exceptions")
        config = provider(type(self), "botocore.config").Config(
            connect_timeout=self.TIMEOUT_S, read_timeout=self.TIMEOUT_S, retries={"total_max_attempts": 2}
        )
        try:
            yield self._hook(aws_conn_id=self.aws_conn_id, region_name=self.region_name, config=config).conn
        except raised.ClientError as error:
            said, status = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
            code = str(said.get("Code"))
            if code in _UNKNOWN and not known:
                raise _Unknown from None
            if code in _PASSING or int(status.get("HTTPStatusCode") or 0) >= 500:
                raise self._unreachable(error) from error
            raise HoodieConfigurationError(
                f"{self.NAME} refuses {error.operation_name} ({code}: {shown(said.get('Message'))}); correct "
                f"engine_options, or the rights of the connection {self.aws_conn_id!r}"
            ) from error
        except (raised.NoCredentialsError, raised.PartialCredentialsError, raised.NoRegionError) as error:
            raise HoodieConfigurationError(
                f"{self.NAME} can't be asked ({error}); define the connection {self.aws_conn_id!r} with "
                "region_name in its extra, or name them in engine_options"
            ) from error
        except raised.BotoCoreError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Exception:
        return unreachable(self.NAME, [last_shown(error)], "is the network of this machine open to it?")


_STEPS = {
    "CANCEL_PENDING": State.ENDING,
    "COMPLETED": State.SUCCEEDED,
    "CANCELLED": State.KILLED,
    "FAILED": State.FAILED,
    "INTERRUPTED": State.FAILED,
}


@dataclass(frozen=True, kw_only=True)
class Emr(_Amazon):
    """A cluster, which runs each job as a step.

    `job_flow_id`: of the cluster, which outlives the job. `execution_role_arn`: the step's runtime role.
    """

    job_flow_id: str
    execution_role_arn: str | None = None

    NAME: ClassVar[str] = "EMR"
    HOOK: ClassVar[str] = "EmrHook"

    def submit(self, job: Submission) -> str:
        words = ["spark-submit", "--deploy-mode", "client", "--name", job.name]
        for name, value in job.properties().items():
            words += ["--conf", f"{name}={value}"]
        step = {
            "Name": job.label(256),
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": [*words, job.script, *job.arguments]},
        }
        role = {"ExecutionRoleArn": self.execution_role_arn} if self.execution_role_arn else {}
        with self._asked() as client:
            answer = client.add_job_flow_steps(JobFlowId=self.job_flow_id, Steps=[step], **role)
        return str(answer["StepIds"][0])

    def find(self, tag: str) -> str | None:
        step = self._found(tag, "list_steps", "Steps", ClusterId=self.job_flow_id)
        return None if step is None else str(step["Id"])

    def status(self, application_id: str) -> Status:
        try:
            with self._asked(known=False) as client:
                answer = client.describe_step(ClusterId=self.job_flow_id, StepId=application_id)
        except _Unknown:
            return Status(State.UNKNOWN)
        step = answer.get("Step", {}).get("Status") or {}
        state = str(step.get("State"))
        found = _STEPS.get(state, State.RUNNING if step else State.UNKNOWN)
        why = step.get("FailureDetails") or {}
        parts = [state, why.get("Reason"), why.get("Message"), why.get("LogFile")]
        parts.append((step.get("StateChangeReason") or {}).get("Message"))
        return Status(found, shown(": ".join(filter(None, parts))) if found is State.FAILED else "")

    def kill(self, application_id: str) -> None:
        with suppress(_Unknown), self._asked(known=False) as client:
            client.cancel_steps(
                ClusterId=self.job_flow_id,
                StepIds=[application_id],
                StepCancellationOption="TERMINATE_PROCESS",
            )

    def label(self, application_id: str) -> str:
        return f"step {application_id} of EMR's {self.job_flow_id}"

    def log_command(self, application_id: str) -> str:
        return f"{self.job_flow_id}/steps/{application_id}/stdout.gz below the cluster's log URI"


_RUNS = {
    "CANCELLING": State.ENDING,
    "SUCCESS": State.SUCCEEDED,
    "CANCELLED": State.KILLED,
    "FAILED": State.FAILED,
}


@dataclass(frozen=True, kw_only=True)
class EmrServerless(_Amazon):
    """An application, which runs each job as a job run.

    `application_id`, `execution_role_arn`: of the job run. `log_uri`: a folder on S3 for its logs.
    """

    application_id: str
    execution_role_arn: str
    log_uri: str | None = None

    NAME: ClassVar[str] = "EMR Serverless"
    HOOK: ClassVar[str] = "EmrServerlessHook"

    def submit(self, job: Submission) -> str:
        settings: dict[str, Any] = {
            "applicationConfiguration": [
                {"classification": "spark-defaults", "properties": job.properties()}
            ],
        }
        if self.log_uri:
            settings["monitoringConfiguration"] = {"s3MonitoringConfiguration": {"logUri": self.log_uri}}
        with self._asked() as client:
            answer = client.start_job_run(
                applicationId=self.application_id,
                clientToken=job.tag,
                executionRoleArn=self.execution_role_arn,
                name=job.label(256),
                jobDriver={
                    "sparkSubmit": {"entryPoint": job.script, "entryPointArguments": list(job.arguments)}
                },
                configurationOverrides=settings,
            )
        return str(answer["jobRunId"])

    def find(self, tag: str) -> str | None:
        run = self._found(tag, "list_job_runs", "jobRuns", applicationId=self.application_id)
        return None if run is None else str(run["id"])

    def status(self, application_id: str) -> Status:
        try:
            with self._asked(known=False) as client:
                answer = client.get_job_run(applicationId=self.application_id, jobRunId=application_id)
        except _Unknown:
            return Status(State.UNKNOWN)
        run = answer["jobRun"]
        found = _RUNS.get(str(run["state"]), State.RUNNING)
        said = ": ".join(filter(None, [str(run["state"]), run.get("stateDetails")]))
        return Status(found, shown(said) if found is State.FAILED else "")

    def kill(self, application_id: str) -> None:
        with suppress(_Unknown), self._asked(known=False) as client:
            client.cancel_job_run(applicationId=self.application_id, jobRunId=application_id)

    def label(self, application_id: str) -> str:
        return f"job run {application_id} of EMR Serverless"

    def log_command(self, application_id: str) -> str:
        where = self.log_uri or "the job run's log URI"
        return f"applications/{self.application_id}/jobs/{application_id}/SPARK_DRIVER below {where}"
