"""Credentials for Kubernetes' API server: those that spark-submit takes, by its settings and its files."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_hoodie.clusters.kubeconfig import account, kubeconfig, server_of
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.private_file import private_file

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
