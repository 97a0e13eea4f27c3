"""Kubernetes, by the REST API of its API server (/api/v1/namespaces/<name>/pods, Kubernetes' API reference).

An application is its driver pod, whose label is the tag. The API server is asked with the credentials that
spark-submit takes for the submission, by the same settings and files, which are read for each request:
Kubernetes replaces tokens. A request with secrets is kept as a Secret of the tag's name, which the pod
mounts; Spark would leave it where it uploads files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from airflow_hoodie.clusters import ClusterManager, State, Status
from airflow_hoodie.clusters.kubernetes_credentials import Credentials
from airflow_hoodie.clusters.rest import ask, shown, unreachable
from airflow_hoodie.exceptions import HoodieConfigurationError

SCHEME = "k8s://"
_LABEL = "hoodie-submission"
_NAMESPACE = "spark.kubernetes.namespace"
_POD_NAME = "spark.kubernetes.driver.pod.name"
_UPLOADS = "spark.kubernetes.file.upload.path"
_WAIT = "spark.kubernetes.submission.waitAppCompletion"
#: Spark's name of the container
_DRIVER = "spark-kubernetes-driver"
#: where the driver finds its Secret, and the key of the request in it
_MOUNT, _REQUEST = "/var/run/secrets/hoodie", "request.json"
#: what the user may have to do
_VERBS = {"pods": "get, list and delete", "secrets": "create, patch and delete"}
_PHASES = {"Succeeded": State.SUCCEEDED, "Failed": State.FAILED}


class Kubernetes(ClusterManager):
    """A namespace of a cluster.

    :param server: address of the API server, `https://host:6443`.
    :param namespace: that of the driver pods.
    :param credentials: a user's, who may do what _VERBS says.
    """

    NAME = "Kubernetes"
    KEPT_REQUEST = f"{_MOUNT}/{_REQUEST}"

    def __init__(self, *, server: str, namespace: str, credentials: Credentials) -> None:
        self._server = server.rstrip("/")
        self._namespace = namespace
        self._credentials = credentials

    @classmethod
    def of(cls, master: str, namespace: str | None, settings: Mapping[str, str]) -> Kubernetes:
        """That of a Spark master, `k8s://https://host:6443`, by the settings of Spark.

        Raises HoodieConfigurationError for settings by which its applications can't be watched.
        """
        server = master.removeprefix(SCHEME)
        server = server if "://" in server else f"https://{server}"
        if settings.get(_POD_NAME):
            raise HoodieConfigurationError(
                f"{_POD_NAME} gives all tries of a task one name, and Kubernetes takes no second pod while "
                "the first is kept; leave it out, and the driver pod gets a name of its own"
            )
        return cls(
            server=server,
            namespace=namespace or settings.get(_NAMESPACE) or "default",
            credentials=Credentials.of(server, settings),
        )

    @classmethod
    def at(cls, place: Mapping[str, str]) -> Kubernetes:
        """By its `place()`."""
        given = dict(place)
        server, namespace = given.pop("server"), given.pop("namespace")
        return cls(server=server, namespace=namespace, credentials=Credentials(**given))

    def place(self) -> dict[str, str]:
        return {"server": self._server, "namespace": self._namespace, **asdict(self._credentials)}

    def conf(self, tag: str, given: Mapping[str, Any]) -> dict[str, str]:
        return {_WAIT: "false", f"spark.kubernetes.driver.label.{_LABEL}": tag, _NAMESPACE: self._namespace}

    def log_command(self, application_id: str) -> str:
        return f"kubectl logs {application_id} -n {self._namespace}"

    def conf_of_kept(self, tag: str) -> dict[str, str]:
        return {f"spark.kubernetes.driver.secrets.{tag}": _MOUNT}

    def find(self, tag: str) -> str | None:
        pod = self._pod(tag)
        return str(pod["name"]) if pod else None

    def status(self, application_id: str) -> Status:
        pod = self._ask("GET", "pods", application_id)
        return Status(State.UNKNOWN) if pod is None else _status(pod)

    def kill(self, application_id: str) -> None:
        """Delete the driver pod: Kubernetes ends its processes, and deletes what belongs to it."""
        self._ask("DELETE", "pods", application_id)

    def keep(self, tag: str, request: str) -> None:
        metadata = {"name": tag, "labels": {_LABEL: tag}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True}
        self._ask("POST", "secrets", json={**secret, "stringData": {_REQUEST: request}})

    def bind_kept(self, tag: str) -> None:
        """The pod becomes the owner: who deletes it deletes the Secret."""
        if (pod := self._pod(tag)) is not None:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
            patch = {"metadata": {"ownerReferences": [owner]}}
            headers = {"Content-Type": "application/merge-patch+json"}
            self._ask("PATCH", "secrets", tag, json=patch, headers=headers)

    def forget(self, tag: str) -> None:
        self._ask("DELETE", "secrets", tag)

    def _pod(self, tag: str) -> dict[str, Any] | None:
        """Metadata of the last driver pod with this tag."""
        answer = self._ask("GET", "pods", params={"labelSelector": f"{_LABEL}={tag}"})
        pods = [pod["metadata"] for pod in (answer or {}).get("items") or []]
        return max(pods, key=lambda pod: str(pod.get("creationTimestamp")), default=None)

    def _ask(self, method: str, kind: str, name: str = "", **options: Any) -> dict[str, Any] | None:
        """The answer; None for a pod or a Secret that the server does not know."""
        url = f"{self._server}/api/v1/namespaces/{quote(self._namespace)}/{kind}"
        url += f"/{quote(name, safe='')}" if name else ""
        try:
            with contextlib.ExitStack() as held:
                credentials = self._credentials.options(held)
                options["headers"] = {**credentials.pop("headers"), **options.get("headers", {})}
                status, found = ask(method, url, self.TIMEOUT_S, **credentials, **options)
            if status == 404 and found.get("reason") == "NotFound":
                return None
            if status in (400, 404):
                raise ValueError(f"HTTP {status} {found.get('message') or ''}")
        except (OSError, ValueError) as error:  # those of requests are among them
            advice = "is it running, and is the address right?"
            raise unreachable(
                "Kubernetes' API server", [f"{self._server}: {shown(error)}"], advice
            ) from error
        if status >= 400:
            raise HoodieConfigurationError(
                f"Kubernetes' API server refuses {method} {url} with HTTP {status}"
                f"{_said(found)}; its user needs {_VERBS[kind]} on {kind} of the namespace "
                f"{self._namespace}, and its credentials are {self._credentials}"
            )
        return found


def check_uploads(settings: Mapping[str, str]) -> None:
    """Can spark-submit hand the job's files over? `settings`: all that it finds.

    Raises HoodieConfigurationError.
    """
    if not settings.get(_UPLOADS):
        raise HoodieConfigurationError(
            f"the driver pod gets the job's files from a folder that worker and pods reach, and {_UPLOADS} "
            "names none; set it in conf, the extra of the Spark connection or spark-defaults.conf, such as "
            '"s3a://bucket/uploads"'
        )


def _said(answer: Mapping[str, Any]) -> str:
    message = shown(answer.get("message"))
    return f" ({message})" if message else ""


def _status(pod: Mapping[str, Any]) -> Status:
    """By the driver's container, which others, of a service mesh, may outlive; else by the pod's phase."""
    found = pod.get("status") or {}
    container = _driver(found.get("containerStatuses") or [])
    ended = container.get("terminated")
    if ended is None:
        state = _PHASES.get(str(found.get("phase")))
    else:
        state = State.SUCCEEDED if ended.get("exitCode") == 0 else State.FAILED
    if (pod.get("metadata") or {}).get("deletionTimestamp") and state is not State.SUCCEEDED:
        state = State.KILLED if state is State.FAILED else State.ENDING
    return Status(state or State.RUNNING, shown(", ".join(_reasons(found, container))))


def _driver(statuses: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """State of the driver's container; {} while it has none."""
    named = [one for one in statuses if one.get("name") == _DRIVER] or statuses
    return (named[0].get("state") or {}) if len(named) == 1 else {}


def _reasons(status: Mapping[str, Any], container: Mapping[str, Any]) -> list[str]:
    """Why a pod does not run, or has failed: its own reason, its scheduler's, its container's."""
    waits = [one for one in status.get("conditions") or [] if one.get("reason") == "Unschedulable"]
    sources = [status, *waits, container.get("waiting") or {}, container.get("terminated") or {}]
    texts = [": ".join(filter(None, [one.get("reason"), one.get("message")])) for one in sources]
    code = (container.get("terminated") or {}).get("exitCode")
    return [text for text in texts if text] + ([f"exit code {code}"] if code is not None else [])
