"""Writes in deploy mode cluster on Kubernetes: a driver pod, watched by a trigger, read from its commit.

Kubernetes' API server is a server with its answers. What is the same on YARN is in test_deferring.py.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_hoodie import HoodieTable
from airflow_hoodie.clusters import State, Status, kubernetes
from airflow_hoodie.clusters.choice import cluster_at
from airflow_hoodie.clusters.kubernetes import Credentials, Kubernetes
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
)
from airflow_hoodie.operators.services import CleanOperator
from hoodie.timeline.job_reports import JobReport, StoredReport
from tests.support.http_server import Server, serving

from .detached import TOKEN, Answering, DetachedTask, run
from .timelines import WrittenTimeline

POD = "dag-write-run-5c1f0d9b3a6e2f11-driver"
BEARER = "eyJhbGciOiJSUzI1NiJ9.of-a-service-account"
LABEL = "hoodie-submission"
AUTH = "spark.kubernetes.authenticate.submission."
UPLOADS = {"spark.kubernetes.file.upload.path": "s3a://jobs/uploads"}
SPACE = "/api/v1/namespaces/jobs"
SECRET = {"hoodie.storage.s3.secret.key": "0123456789"}
MOUNT = "/var/run/secrets/hoodie"


def container(name: str = "spark-kubernetes-driver", **state: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": "spark:3.5",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
    }


def failure(status: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    """As the API server answers what it does not do."""
    value = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return status, {**value, "message": message, "reason": reason, "code": status}


@dataclass
class ApiServer:
    """`objects` by kind and name; `broken`: so many requests get HTTP 503 first.

    `forbidden`: what the user may not touch. `accepted` is called with each new pod. A pod that was deleted
    is still there.
    """

    address: str = ""
    objects: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))
    killed: list[str] = field(default_factory=list)
    token: str = BEARER
    broken: int = 0
    forbidden: str = ""
    accepted: Callable[[], Any] = lambda: None
    #: after the answer to each request that comes from now on
    answered: Callable[[], Any] = lambda: None

    @property
    def pods(self) -> dict[str, Any]:
        return self.objects["pods"]

    @property
    def secrets(self) -> dict[str, Any]:
        return self.objects["secrets"]

    def add(self, labels: Mapping[str, str], name: str = POD, created: str = "2026-11-24T12:00:00Z") -> None:
        """A pod as Spark 3.5 makes it, shortened."""
        role = {"spark-role": "driver", "spark-app-selector": "spark-4f1e", "spark-version": "3.5.9"}
        metadata = {"name": name, "namespace": "jobs", "uid": "9b1f", "creationTimestamp": created}
        self.pods[name] = {
            "kind": "Pod", "apiVersion": "v1", "metadata": {**metadata, "labels": {**role, **labels}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "spark-kubernetes-driver"}]},
            "status": {"phase": "Pending"},
        }  # fmt: skip

    def says(self, phase: str, *containers: Any, name: str = POD, **status: Any) -> None:
        self.pods[name]["status"] = {"phase": phase, "containerStatuses": list(containers), **status}

    def delete(self, name: str = POD) -> None:
        self.pods[name]["metadata"].update(
            deletionTimestamp="2026-11-24T12:09:00Z", deletionGracePeriodSeconds=30
        )

    def answer(self, method: str, path: str, authorization: str, body: Any) -> tuple[int, dict[str, Any]]:
        if self.broken:
            self.broken -= 1
            return failure(503, "ServiceUnavailable", "etcd is not ready")
        if authorization != f"Bearer {self.token}":
            return failure(401, "Unauthorized", "Unauthorized")
        url = urlsplit(path)
        kind, _, name = url.path.removeprefix(f"{SPACE}/").partition("/")
        if kind == self.forbidden:
            user = "system:serviceaccount:airflow:worker"
            said = f'{kind} is forbidden: User "{user}" cannot list resource "{kind}" in API group ""'
            return failure(403, "Forbidden", said)
        known = self.objects[kind]
        if method == "POST":
            name = body["metadata"]["name"]
            given = {"uid": "9b1f", "creationTimestamp": "2026-11-24T12:00:00Z"}
            known[name] = {**body, "metadata": {**body["metadata"], **given}}
            return 201, known[name]
        if not name:
            label, _, value = parse_qs(url.query)["labelSelector"][0].partition("=")
            items = [one for one in known.values() if one["metadata"]["labels"].get(label) == value]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        if name not in known:
            return failure(404, "NotFound", f'{kind} "{name}" not found')
        if method == "PATCH":
            known[name]["metadata"].update(body["metadata"])
        elif method == "DELETE" and kind == "secrets":
            return 200, {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Success",
                "deleted": known.pop(name),
            }
        elif method == "DELETE":
            self.killed.append(name)
            self.delete(name)
        return 200, known[name]


def handler(server: ApiServer) -> type[Answering]:
    class Handler(Answering):
        def do_GET(self) -> None:
            body, answered = self.body(), server.answered
            authorization = self.headers["Authorization"] or ""
            status, value = server.answer(self.command, self.path, authorization, body)
            self.answer(status, value)
            answered()

        do_DELETE = do_PATCH = do_GET

        def do_POST(self) -> None:
            if self.path.startswith(SPACE):
                return self.do_GET()
            # what spark-submit makes of its settings; of another address
            prefix = "spark.kubernetes.driver.label."
            conf = self.body()
            server.add({name.removeprefix(prefix): conf[name] for name in conf if name.startswith(prefix)})
            server.accepted()
            return self.answer(200, {})

    return Handler


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    with serving(Server(handler(server))) as address:
        server.address = f"http://{address}"
        yield server


def cluster_of(address: str, token_file: object) -> Kubernetes:
    credentials = Credentials(token_file=str(token_file))
    return Kubernetes(server=address, namespace="jobs", credentials=credentials)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{BEARER}\n")
    return path


@dataclass(kw_only=True)
class Task(DetachedTask):
    api: ApiServer
    conf: dict[str, str]

    def operator(self, **arguments: Any) -> Any:
        return super().operator(**{"conf": dict(self.conf), **arguments})


def connect(api: ApiServer, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    """Airflow's Spark connection, with these fields of its extra."""
    extra = {"deploy-mode": "cluster", "namespace": "jobs", **settings}
    connection = {"conn_type": "spark", "host": f"k8s://{api.address}", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


@pytest.fixture
def task(api: ApiServer, tmp_path: Path, token_file: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    connect(api, monkeypatch)
    monkeypatch.setattr(
        "airflow.providers.apache.spark.hooks.spark_submit.kube_client", object(), raising=False
    )
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    conf = {**UPLOADS, f"{AUTH}oauthTokenFile": str(token_file)}
    timeline = WrittenTimeline.create(tmp_path)
    return Task(api=api, conf=conf, address=api.address, timeline=timeline, folder=tmp_path)


# --- a write ----------------------------------------------------------------------------------------------


def test_a_write_is_read_from_its_commit(task: Task) -> None:
    deferral = task.deferred()
    call = task.call()
    args, conf = call["args"], call["conf"]
    assert args[args.index("--master") + 1] == f"k8s://{task.api.address}"
    assert args[args.index("--deploy-mode") + 1] == "cluster"
    assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert conf[f"spark.kubernetes.driver.label.{LABEL}"] == task.store["hoodie_submission"]["tag"]
    assert conf["spark.kubernetes.namespace"] == "jobs"
    assert conf | task.conf == conf
    assert call["python"] is None, "the worker's Python is not in the pod"
    assert call["request"]["token"] == TOKEN
    assert BEARER not in json.dumps([deferral.trigger.serialize(), call])
    instant = task.commit()
    task.api.says("Succeeded", container(terminated={"exitCode": 0, "reason": "Completed"}))
    result = task.resumed(deferral)
    assert (result["status"], result["instant"], result["num_inserts"]) == ("committed", instant, 2)


def test_a_job_that_failed_after_its_commit_made_it(task: Task) -> None:
    deferral = task.deferred()
    instant = task.commit()
    task.api.says("Failed", container(terminated={"exitCode": 143, "reason": "Error"}))
    assert task.resumed(deferral)["instant"] == instant


@pytest.mark.full
def test_a_pod_that_was_deleted_after_its_commit(task: Task) -> None:
    deferral = task.deferred()
    instant = task.commit()
    del task.api.pods[POD]
    assert task.resumed(deferral)["instant"] == instant


LOG = rf"its log \(kubectl logs {POD} -n jobs\) has the job's error"


def fails(api: ApiServer) -> None:
    api.says("Failed", container(terminated={"exitCode": 137, "reason": "OOMKilled"}))


def succeeds(api: ApiServer) -> None:
    api.says("Succeeded", container(terminated={"exitCode": 0, "reason": "Completed"}))


def goes(api: ApiServer) -> None:
    api.pods.clear()


def is_killed(api: ApiServer) -> None:
    api.says("Failed", container(terminated={"exitCode": 143, "reason": "Error"}))
    api.delete()


@pytest.mark.parametrize(
    ("end", "error", "message"),
    [
        (fails, HoodieJobError, rf"{POD} failed: OOMKilled, exit code 137; {LOG}"),
        pytest.param(
            succeeds,
            HoodieJobError,
            "succeeded, but the table has no result of it",
            marks=pytest.mark.full,
        ),
        (goes, HoodieJobError, f"Kubernetes knows no {POD}, and the table has no result of it"),
        pytest.param(is_killed, HoodieJobKilledError, f"{POD} was killed", marks=pytest.mark.full),
    ],
)
def test_no_commit(
    end: Callable[[ApiServer], None], error: type[HoodieException], message: str, task: Task
) -> None:
    deferral = task.deferred()
    end(task.api)
    with pytest.raises(error, match=message):
        task.resumed(deferral)


# --- the phases of a pod ----------------------------------------------------------------------------------

WAITS = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are free",
}
PULL = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
RUNNING = {"startedAt": "2026-11-24T12:00:09Z"}


PROXY = container("proxy", running=RUNNING)
FAILED_PROXY = container("proxy", terminated={"exitCode": 137, "reason": "Error"})
EVICTED = {"reason": "Evicted", "message": "The node was low on resource: memory."}
STATES: list[tuple[tuple[Any, ...], State, str]] = [
    (("Pending", {"conditions": [WAITS]}), State.RUNNING, "Unschedulable: 0/3 nodes are free"),
    (("Pending", container(waiting=PULL)), State.RUNNING, "ImagePullBackOff: Back-off pulling image"),
    (("Running", container(running=RUNNING)), State.RUNNING, ""),
    (("Unknown", container(running=RUNNING)), State.RUNNING, ""),
    (("Running", PROXY, container(terminated={"exitCode": 0})), State.SUCCEEDED, "exit code 0"),
    (("Running", PROXY, container(terminated={"exitCode": 1})), State.FAILED, "exit code 1"),
    (("Failed", container(terminated={"exitCode": 0}), FAILED_PROXY), State.SUCCEEDED, "exit code 0"),
    (("Failed", EVICTED), State.FAILED, "Evicted: The node was low on resource: memory."),
]


def test_states(api: ApiServer, token_file: Path) -> None:
    """The driver's container counts where others, of a service mesh, outlive it."""
    api.add({})
    cluster = cluster_of(api.address, token_file)
    for (phase, *rest), state, said in STATES:
        fields = rest.pop() if rest and "state" not in rest[-1] else {}
        api.says(phase, *rest, **fields)
        assert cluster.status(POD) == Status(state, said)


# --- tries ------------------------------------------------------------------------------------------------


def test_a_retry_waits_for_the_pod_that_runs(task: Task) -> None:
    first = task.deferred()
    task.forget()
    task.api.says("Running", container(running=RUNNING))
    second = task.deferred()
    assert not task.submitted
    assert second.trigger.serialize() == first.trigger.serialize()


def test_a_cleared_task_does_not_wait_for_the_pod_that_is_being_killed(task: Task) -> None:
    """Kubernetes ends a deleted pod in half a minute, in which the cleared task may start already."""
    deferral = task.deferred()
    task.api.says("Running", container(running=RUNNING))
    asyncio.run(deferral.trigger.on_kill())
    assert task.api.killed == [POD]
    task.forget()
    task.deferred()
    assert task.submitted


def test_of_several_pods_the_last_one_counts(api: ApiServer, token_file: Path) -> None:
    cluster = cluster_of(api.address, token_file)
    assert cluster.find("hoodie-1") is None
    api.add({LABEL: "hoodie-1"}, name="second", created="2026-11-24T12:00:02Z")
    api.add({LABEL: "hoodie-1"}, name="first", created="2026-11-24T12:00:01Z")
    api.add({LABEL: "hoodie-2"}, name="other", created="2026-11-24T12:00:03Z")
    assert cluster.find("hoodie-1") == "second"


@pytest.mark.full
def test_nothing_is_submitted_while_an_earlier_pod_may_run(task: Task) -> None:
    task.deferred()
    task.forget()
    task.api.broken = 1
    with pytest.raises(HoodieJobError, match=r"API server is unreachable \(.*HTTP 503\)") as caught:
        task.operator().execute(task.context)
    assert caught.value.code == "unreachable"
    assert not task.submitted


# --- the end of a task ------------------------------------------------------------------------------------


@pytest.mark.full
def test_killing_the_task_between_submission_and_deferral_deletes_the_pod(task: Task) -> None:
    operator = task.operator()
    with pytest.raises(TaskDeferred):
        operator.execute(task.context)
    operator.on_kill()
    assert task.api.killed == [POD]


def test_a_pod_that_is_deleted_is_waited_for(task: Task) -> None:
    """The trigger sees it being ended, then gone."""
    deferral = task.deferred()
    task.api.says("Running", container(running=RUNNING))
    task.api.delete()
    task.api.answered = task.api.pods.clear
    with pytest.raises(HoodieJobKilledError, match="was killed"):
        task.resumed(deferral)


# --- requests with secrets --------------------------------------------------------------------------------


def test_a_request_with_secrets_is_a_secret_until_the_job_has_ended(task: Task) -> None:
    """Spark would leave a file with it where it uploads files."""
    deferral = task.deferred(options=SECRET)
    tag = task.store["hoodie_submission"]["tag"]
    [kept] = task.api.secrets.values()
    request = json.loads(kept["stringData"]["request.json"])
    assert (request["token"], request["options"]) == (TOKEN, request["options"] | SECRET)
    assert kept["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": "9b1f"}
    ]
    call = task.call()
    assert call["args"][-2:] == ["--request", f"@{MOUNT}/request.json"]
    assert call["conf"][f"spark.kubernetes.driver.secrets.{tag}"] == MOUNT
    assert "--files" not in call["args"]
    assert "0123456789" not in json.dumps([call, task.store, deferral.trigger.serialize()])
    task.commit()
    succeeds(task.api)
    assert task.resumed(deferral)["status"] == "committed"
    assert task.api.secrets == {}


def test_a_service_leaves_its_result_in_the_table(task: Task) -> None:
    """The Secret with its request says under which name."""
    table = HoodieTable(name="orders", path=task.timeline.path, record_keys="id")
    clean = CleanOperator(
        task_id="write", table=table, engine="spark", deferrable=True, conf=dict(task.conf), options=SECRET,
        spark_binary=task.submitter(), name="dag/clean/run", poll_interval=0.05,
    )  # fmt: skip
    with pytest.raises(TaskDeferred) as caught:
        clean.execute(task.context)
    [kept] = task.api.secrets.values()
    tag = json.loads(kept["stringData"]["request.json"])["result_tag"]
    assert tag == kept["metadata"]["name"] == task.store["hoodie_submission"]["tag"]
    result = {"status": "cleaned", "table": "orders", "base_path": table.path, "operation": "clean"}
    report = StoredReport(path=table.path, options={}, tag=tag)
    report.write(JobReport(result=result))
    succeeds(task.api)
    assert clean.execute_complete(task.context, run(caught.value.trigger)) == result
    assert (task.api.secrets, report.read()) == ({}, None)


def test_a_failed_submission_leaves_neither_pod_nor_secret(task: Task) -> None:
    def fail() -> None:
        task.api.accepted = lambda: None
        raise ConnectionError

    task.api.accepted = fail
    with pytest.raises(HoodieJobError, match="exit code 1"):
        task.operator(options=SECRET).execute(task.context)
    assert (task.api.killed, task.api.secrets) == ([POD], {})


@pytest.mark.parametrize("running", [True, False])
def test_a_worker_that_died_while_it_submitted(running: bool, task: Task) -> None:
    """The retry gives the Secret to the pod, or deletes it where there is none."""
    tag = "hoodie-of-the-first-try"
    task.store.set("hoodie_submission", {"tag": tag, "before": "", "kept": True})
    task.api.secrets[tag] = {"metadata": {"name": tag}}
    if running:
        task.api.add({LABEL: tag})
    task.deferred(options=SECRET)
    assert (tag in task.api.secrets, task.submitted) == (running, not running)
    assert all(kept["metadata"]["ownerReferences"][0]["name"] == POD for kept in task.api.secrets.values())


@pytest.mark.parametrize(
    ("kind", "verbs"), [("pods", "get, list and delete"), ("secrets", "create, patch and delete")]
)
def test_what_the_user_may_not_do_is_said_before_a_job_runs(kind: str, verbs: str, task: Task) -> None:
    task.api.forbidden = kind
    with pytest.raises(HoodieConfigurationError, match=f"its user needs {verbs} on {kind}"):
        task.operator(options=SECRET).execute(task.context)
    assert not task.submitted


# --- the API server ---------------------------------------------------------------------------------------


def test_a_refusal_names_what_the_user_lacks(api: ApiServer, token_file: Path) -> None:
    cluster = cluster_of(api.address, token_file)
    api.forbidden = "pods"
    refused = r'HTTP 403 \(pods is forbidden: User "system:.*"\); its user needs get, list and delete on pods'
    with pytest.raises(HoodieConfigurationError, match=refused):
        cluster.find("hoodie-1")
    api.token = "another"
    with pytest.raises(HoodieConfigurationError, match=rf"HTTP 401 \(Unauthorized\).*{token_file}"):
        cluster.kill(POD)


def test_a_server_that_is_none_of_kubernetes(api: ApiServer, token_file: Path) -> None:
    """Its 404 is not that of a pod that is gone; nor is that of a server that is not there."""
    api.answer = lambda *_: (404, {"error": "no such page"})  # type: ignore[method-assign]
    for address, said in ((api.address, "HTTP 404"), ("http://127.0.0.1:1", "refused")):
        cluster = cluster_of(address, token_file)
        with pytest.raises(HoodieJobError, match=said) as caught:
            cluster.status(POD)
        assert caught.value.code == "unreachable"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the pod that Airflow runs in: the folder of its service account. There is no kubeconfig."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    monkeypatch.setattr(kubernetes, "ACCOUNT", folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (folder / "ca.crt").write_text("")
    (folder / "token").write_text(BEARER)
    return folder


def test_the_account_of_a_pod_of_airflow(api: ApiServer, account: Path) -> None:
    """Kubernetes replaces the token; it is for the cluster of this pod alone."""
    place = Kubernetes.of("k8s://10.0.0.1:443", None, {}).place()
    assert (place["server"], place["namespace"]) == ("https://10.0.0.1:443", "default")
    assert (place["token_file"], place["ca_file"]) == (str(account / "token"), str(account / "ca.crt"))
    cluster = cluster_of(api.address, place["token_file"])
    api.token = "the-next-one"
    (account / "token").write_text(api.token)
    assert cluster.find("hoodie-1") is None
    with pytest.raises(HoodieConfigurationError, match=f"no credentials.*set {AUTH}oauthTokenFile"):
        Kubernetes.of("k8s://https://elsewhere", None, {f"{AUTH}caCertFile": "/etc/other.crt"})
    with pytest.raises(HoodieConfigurationError, match=rf"can't read /none .*set {AUTH}oauthTokenFile"):
        cluster_of(api.address, "/none").find("hoodie-1")


def certificate(folder: Path) -> tuple[str, str]:
    """Paths of a certificate of 127.0.0.1 that is its own authority, and of its key."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    now = dt.datetime.now(dt.timezone.utc)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certified, private = folder / "ca.crt", folder / "ca.key"
    certified.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(certified), str(private)


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str, str]]:
    """Address of a server that asks for its own certificate; paths of this and of the key."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    certified, private = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certified, private)
    context.load_verify_locations(certified)
    context.verify_mode = ssl.CERT_REQUIRED
    api = ApiServer()
    api.answer = lambda *_: (200, {"kind": "PodList", "items": []})  # type: ignore[method-assign]
    server = Server(handler(api))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server) as address:
        yield address, certified, private


def test_certificates_of_server_and_client(secured: tuple[str, str, str]) -> None:
    address, certified, private = secured
    settings = {f"{AUTH}clientCertFile": certified, f"{AUTH}clientKeyFile": private}
    known = Kubernetes.of(f"k8s://{address}", "jobs", {**settings, f"{AUTH}caCertFile": certified})
    assert known.find("hoodie-1") is None
    with pytest.raises(HoodieJobError, match="CERTIFICATE_VERIFY_FAILED"):
        Kubernetes.of(f"k8s://{address}", "jobs", settings).find("hoodie-1")


def test_a_kubeconfig(
    secured: tuple[str, str, str], tmp_path: Path, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl's: data or paths, of the current context or a named one, for its own server alone."""
    address, certified, private = secured
    data = base64.b64encode(Path(certified).read_bytes()).decode()
    user = {"client-certificate-data": data, "client-key": Path(private).name}
    cluster = {"server": f"https://{address}", "certificate-authority-data": data}
    config = {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "here", "user": "certified"}},
            {"name": "two", "context": {"cluster": "here", "user": "cloud"}},
        ],
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [
            {"name": "certified", "user": user},
            {"name": "cloud", "user": {"exec": {"command": "cloud", "args": ["token"]}}},
        ],
    }
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", f"/none:{path}")
    found = Kubernetes.of(f"k8s://{address}", "jobs", {})
    assert cluster_at(json.loads(json.dumps(found.place()))).find("hoodie-1") is None
    assert data not in json.dumps(found.place())
    assert Kubernetes.of("k8s://elsewhere", "jobs", {}).place()["token_file"] == str(account / "token")
    with pytest.raises(HoodieConfigurationError, match=f"{path} has exec, which is not supported; set"):
        Kubernetes.of(f"k8s://{address}", "jobs", {"spark.kubernetes.context": "two"})


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        (
            {},
            "spark.kubernetes.file.upload.path names none; set it in conf, the extra of",
        ),
        ({**UPLOADS, f"{AUTH}oauthToken": BEARER}, f"its path into {AUTH}oauthTokenFile"),
        (
            {**UPLOADS, "spark.kubernetes.trust.certificates": "true"},
            f"certificate into {AUTH}caCertFile",
        ),
        (
            {**UPLOADS, "spark.kubernetes.driver.pod.name": "mine"},
            "the driver pod gets a name of its own",
        ),
    ],
)
def test_what_can_not_be_submitted(conf: dict[str, str], message: str, task: Task) -> None:
    with pytest.raises(HoodieConfigurationError, match=message) as caught:
        task.operator(conf={**task.conf, **conf} if conf else {}).execute(task.context)
    assert not task.submitted
    assert BEARER not in str(caught.value)
    assert task.store == {}


def test_settings_of_the_properties_file_count(task: Task) -> None:
    """Of spark-defaults.conf, or of the operator's own file; a token that it holds is refused as well."""
    text = "# mine\n\nspark.kubernetes.file.upload.path   s3a://jobs/uploads\n"
    (task.folder / "spark-defaults.conf").write_text(f"{text}{AUTH}oauthTokenFile={task.folder / 'token'}\n")
    assert task.deferred(conf={}).trigger.serialize()[1]["application_id"] == POD
    own = task.folder / "own.conf"
    own.write_text(f"{text}{AUTH}oauthToken = {BEARER}\n")
    with pytest.raises(HoodieConfigurationError, match="oauthTokenFile"):
        task.operator(conf={}, properties_file=str(own)).execute(task.context)


def test_settings_of_the_connection_count(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over those of spark-defaults.conf, under those of the operator; spark-submit gets them, too."""
    (task.folder / "spark-defaults.conf").write_text(f"{AUTH}oauthTokenFile=/none\n")
    image = {"spark.kubernetes.container.image": "spark:3.5"}
    connect(task.api, monkeypatch, **task.conf, **image)
    task.deferred(conf={"spark.kubernetes.container.image": "spark:4.2"})
    conf = task.call()["conf"]
    assert (conf | task.conf, conf["spark.kubernetes.container.image"]) == (conf, "spark:4.2")


@pytest.mark.full
def test_the_event_of_a_trigger_that_may_not_look(task: Task) -> None:
    deferral = task.deferred()
    task.api.forbidden = "pods"
    assert run(deferral.trigger)["state"] == "lost"
    with pytest.raises(HoodieJobError, match=r"may be running still: .*HTTP 403 .*A retry waits for it"):
        task.resumed(deferral)
