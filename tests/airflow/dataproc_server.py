"""A stand-in for Google Cloud Dataproc: a gRPC server with its JobController, which runs each job. It is made
where Google's packages are: in an environment of its own (scripts/setup dataproc).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from .machines import Machines, Platform, kill


@dataclass
class Controller(Platform):
    """`lost`: submissions whose answers will be lost. `states`: of jobs that tests put into one."""

    engine: str = "dataproc"
    jobs: dict[str, Any] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)
    lost: int = 0

    def submit(self, request: Any) -> Any:
        """The job, which a request id has once."""
        from google.cloud.dataproc_v1 import Job

        assert len(request.request_id) <= 40
        if request.request_id in self.requests:
            return self.view(self.requests[request.request_id])
        job = Job(request.job)
        job.reference.project_id = request.project_id
        spark = job.pyspark_job
        words = (spark.main_python_file_uri, list(spark.args), spark.python_file_uris[0])
        self.machines.start(*words, dict(spark.properties))
        self.described.append(Job.to_dict(job))
        self.jobs[job.reference.job_id] = job
        self.requests[request.request_id] = job.reference.job_id
        return self.view(job.reference.job_id)

    def view(self, job_id: str) -> Any:
        """None where there is none of that id."""
        from google.cloud.dataproc_v1 import Job, JobStatus

        if job_id not in self.jobs:
            return None
        found = Job(self.jobs[job_id])
        code = self.machines.jobs[list(self.jobs).index(job_id)].poll()
        ended = "CANCELLED" if job_id in self.cancelled else "DONE" if code == 0 else "ERROR"
        state = self.states.get(job_id) or ("RUNNING" if code is None else ended)
        details = "Job failed with message [see the driver's output]." if state == "ERROR" else ""
        found.status = JobStatus(state=JobStatus.State[state], details=details)
        found.driver_output_resource_uri = f"gs://staging/jobs/{job_id}/driveroutput"
        return found

    def cancel(self, job_id: str) -> bool:
        """Could it be cancelled?"""
        job = self.machines.jobs[list(self.jobs).index(job_id)]
        runs = job.poll() is None
        if runs:
            self.cancelled.add(job_id)
            kill(job)
        return runs


@contextlib.contextmanager
def dataproc(machines: Machines, uploads: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    import grpc
    from airflow.providers.google.cloud.hooks.dataproc import DataprocHook
    from google.cloud.dataproc_v1 import Job, JobControllerClient
    from google.cloud.dataproc_v1.services.job_controller.transports import JobControllerGrpcTransport
    from google.cloud.dataproc_v1.types import CancelJobRequest, GetJobRequest, SubmitJobRequest

    place = {"cluster_name": "lake", "region": "europe-west1"}
    controller = Controller(machines, options={"uploads": uploads, **place})

    def checked(request: Any, context: Any) -> None:
        if controller.broken:
            context.abort(grpc.StatusCode.UNAVAILABLE, "The service is currently unavailable.")
        if (request.project_id, request.region) != ("planted-project", "europe-west1"):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, f"Not authorized on {request.project_id}.")

    def submit(request: Any, context: Any) -> Any:
        checked(request, context)
        if request.job.placement.cluster_name != "lake":
            context.abort(grpc.StatusCode.NOT_FOUND, "Not found: Cluster")
        job = controller.submit(request)
        if controller.lost:
            controller.lost -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "The answer is lost.")
        return job

    def get(request: Any, context: Any) -> Any:
        checked(request, context)
        job = controller.view(request.job_id)
        if job is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Not found: Job {request.job_id}")
        return job

    def cancel(request: Any, context: Any) -> Any:
        get(request, context)
        if not controller.cancel(request.job_id):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "Cannot cancel a job that has ended.")
        return get(request, context)

    methods: list[tuple[str, Any, Any]] = [
        ("SubmitJob", submit, SubmitJobRequest),
        ("GetJob", get, GetJobRequest),
        ("CancelJob", cancel, CancelJobRequest),
    ]
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(method, kind.deserialize, Job.serialize)
        for name, method, kind in methods
    }
    service = grpc.method_handlers_generic_handler("google.cloud.dataproc.v1.JobController", handlers)
    server = grpc.server(ThreadPoolExecutor(8), handlers=[service])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    def client(hook: Any, region: str | None = None) -> Any:
        """Without Google's endpoint and credentials; the rest of the hook is the provider's."""
        assert region == "europe-west1"
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        return JobControllerClient(transport=JobControllerGrpcTransport(channel=channel))

    monkeypatch.setattr(DataprocHook, "get_job_client", client)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    keyfile = {
        "type": "service_account", "project_id": "planted-project", "private_key": pem,
        "client_email": "jobs@planted-project.example", "token_uri": "https://nowhere.invalid/token",
    }  # fmt: skip
    connection = {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": json.dumps(keyfile)}}
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(connection))
    try:
        yield controller
    finally:
        server.stop(0).wait()
