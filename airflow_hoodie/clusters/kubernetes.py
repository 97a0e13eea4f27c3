"""Kubernetes, by the REST API of its API server (/api/v1/namespaces/<name>/pods, Kubernetes' API reference).

- An application is its driver pod, whose label is the tag.
- The credentials are those that spark-submit takes for the submission, by the same settings and files. They
  are read for each request, because Kubernetes replaces tokens.
- A request with secrets is a Secret of the tag's name, which the pod mounts. Spark would leave it where it
  uploads files.
- A context of a kubeconfig, kubectl's file, has the address of a cluster and the credentials of a user. Its
  form is that of Kubernetes' documentation (client-go's Config, v1). Commands that make credentials are not
  run (`exec`).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from airflow_hoodie.clusters import ClusterManager, State, Status
from airflow_hoodie.clusters.rest import ask, shown, unreachable
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.secrets import private_file


@dataclass(frozen=True, kw_only=True)
class Account:
    """What the context lacks is empty; certificates and key are in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes
    token: str


def kubeconfig(environ: Mapping[str, str] = os.environ) -> str:
    """Path of the file that kubectl and Spark read here; "" where there is none."""
    given = [Path(one) for one in environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    paths = given or [Path(environ.get("HOME", "/"), ".kube", "config")]
    return next((str(path) for path in paths if path.is_file()), "")


def server_of(path: str, context: str) -> str:
    """Address of the cluster of this context, else of the current one; "" where the file says none."""
    try:
        cluster, _ = _chosen(path, context)
        return str(cluster["server"])
    except HoodieConfigurationError:
        return ""


def account(path: str, context: str) -> Account:
    """Of this context, else of the current one. Raises HoodieConfigurationError."""
    cluster, user = _chosen(path, context)
    wrong = [name for name in ("exec", "auth-provider", "username") if user.get(name)]
    wrong += [name for name in ("insecure-skip-tls-verify",) if cluster.get(name)]
    if wrong:
        raise HoodieConfigurationError(
            f"{path} has {', '.join(wrong)}, which is not supported; set "
            "spark.kubernetes.authenticate.submission.oauthTokenFile to the path of a token, and caCertFile "
            "to that of the cluster's certificate"
        )
    folder, token_file = Path(path).parent, user.get("tokenFile")
    try:
        return Account(
            authority=_content(cluster, "certificate-authority", folder),
            certificate=_content(user, "client-certificate", folder),
            key=_content(user, "client-key", folder),
            token=str((folder / token_file).read_text() if token_file else user.get("token") or "").strip(),
        )
    except (OSError, ValueError) as error:
        raise _unusable(path, str(error)) from None


def _chosen(path: str, context: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Cluster and user. Raises HoodieConfigurationError."""
    import yaml  # Airflow needs it, too

    try:
        value = yaml.safe_load(Path(path).read_text())
        chosen = _named(value, "context", context or value["current-context"])
        user = _named(value, "user", chosen["user"]) if chosen.get("user") else {}
        return _named(value, "cluster", chosen["cluster"]), user or {}
    except yaml.YAMLError:
        raise _unusable(path, "it is no YAML") from None
    except (OSError, LookupError, TypeError, AttributeError, ValueError) as error:
        raise _unusable(path, str(error)) from None


def _unusable(path: str, why: str) -> HoodieConfigurationError:
    return HoodieConfigurationError(
        f"can't take credentials for Kubernetes from {path} ({why}); correct it, or the context that "
        "spark.kubernetes.context names"
    )


def _named(value: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    for item in value[f"{kind}s"]:
        if item["name"] == name:
            found: Mapping[str, Any] = item[kind]
            return found
    raise LookupError(f"no {kind} {name!r}")


def _content(holder: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """Of the field with the data, else of the file that another field names."""
    if data := holder.get(f"{name}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error:
            raise ValueError(f"{name}-data is no Base64") from None
    return (folder / holder[name]).read_bytes() if holder.get(name) else b""


_TRUST = "spark.kubernetes.trust.certificates"
_CONTEXT = "spark.kubernetes.context"
_AUTH = "spark.kubernetes.authenticate.submission."
_TOKEN, _TOKEN_FILE = f"{_AUTH}oauthToken", f"{_AUTH}oauthTokenFile"
_CA_FILE, _CERT_FILE, _KEY_FILE = f"{_AUTH}caCertFile", f"{_AUTH}clientCertFile", f"{_AUTH}clientKeyFile"
#: where a pod finds the token of its service account and the certificate of the cluster
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Paths of files of workers and triggerers; "" for none.

    `token_file`: a bearer token. `ca_file`: the certificates by which the server is known, else those of the
    system. `cert_file` and `key_file`: a client's certificate and its key. `kubeconfig`: a file that has
    these instead, in its context `context`, else in the current one.
    """

    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    kubeconfig: str = ""
    context: str = ""

    @classmethod
    def of(cls, server: str, settings: Mapping[str, str]) -> Credentials:
        """Those of Spark's settings, else of a kubeconfig, else of the pod that Airflow runs in.

        Raises HoodieConfigurationError where there are none, unless the server is one without TLS.
        """
        _check(settings)
        found = cls(
            token_file=settings.get(_TOKEN_FILE, ""),
            ca_file=settings.get(_CA_FILE, ""),
            cert_file=settings.get(_CERT_FILE, ""),
            key_file=settings.get(_KEY_FILE, ""),
        )
        if found.token_file or found.cert_file or not server.startswith("https:"):
            return found
        return _of_machine(server, found.ca_file, settings.get(_CONTEXT, ""))

    def options(self, held: contextlib.ExitStack) -> dict[str, Any]:
        """Of `requests.request`: headers, verify, cert. Their files are there while `held` is open.

        Raises HoodieConfigurationError for files that can't be read.
        """

        def file(content: bytes) -> str:
            return str(held.enter_context(private_file(content, ".pem"))) if content else ""

        if self.kubeconfig:
            found = account(self.kubeconfig, self.context)
            token, ca_file = found.token, self.ca_file or file(found.authority)
            cert_file, key_file = file(found.certificate), file(found.key)
        else:
            token = _read(_TOKEN_FILE, self.token_file).strip()
            ca_file, cert_file, key_file = self.ca_file, self.cert_file, self.key_file
            for name, path in ((_CA_FILE, ca_file), (_CERT_FILE, cert_file), (_KEY_FILE, key_file)):
                _read(name, path)
        return {
            "headers": {"Authorization": f"Bearer {token}"} if token else {},
            "verify": ca_file or True,
            "cert": (cert_file, key_file or cert_file) if cert_file else None,
        }

    def __str__(self) -> str:
        found = [path for path in (self.kubeconfig, self.token_file, self.cert_file) if path]
        return f"those of {' and '.join(found)}" if found else "none"


def _check(settings: Mapping[str, str]) -> None:
    """Refuses what would be ignored, or would have to be kept in Airflow's database."""
    if settings.get(_TOKEN):
        raise HoodieConfigurationError(
            f"{_TOKEN} is a secret that the triggerer would need from Airflow's database; put the token into "
            f"a file of workers and triggerers, and its path into {_TOKEN_FILE}"
        )
    if settings.get(_TRUST, "").strip().lower() == "true":
        raise HoodieConfigurationError(
            f"{_TRUST}=true takes any server for the API server, and is not supported; put the path of the "
            f"cluster's certificate into {_CA_FILE}"
        )


def _of_machine(server: str, ca_file: str, context: str) -> Credentials:
    """Raises HoodieConfigurationError where this machine has none for the server."""
    path = kubeconfig()
    if path and _address(server_of(path, context)) == _address(server):
        account(path, context)  # can be used
        return Credentials(kubeconfig=path, context=context, ca_file=ca_file)
    authority, token = str(ACCOUNT / "ca.crt"), str(ACCOUNT / "token")
    # the token of this pod is for the cluster that this pod is in
    if Path(token).is_file() and ca_file in ("", authority):
        return Credentials(token_file=token, ca_file=authority)
    raise HoodieConfigurationError(
        f"no credentials for the API server {server}: {path or 'there is no kubeconfig'}"
        f"{' is not for it' if path else ''}, and this worker is no pod of its cluster ({ACCOUNT}); set "
        f"{_TOKEN_FILE} to the path of a token, or {_CERT_FILE} and {_KEY_FILE}, on workers and triggerers"
    )


def _address(server: str) -> tuple[str | None, int]:
    url = urlsplit(server)
    return url.hostname, url.port or 443


def _read(name: str, path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise HoodieConfigurationError(
            f"can't read {path} ({why}), a credential for Kubernetes' API server; set {name} to a file that "
            "workers and triggerers read"
        ) from None


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

    def request_conf(self, tag: str) -> dict[str, str]:
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

    def bind_request(self, tag: str) -> None:
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
