"""A context of a kubeconfig, kubectl's file: the address of a cluster and the credentials of a user.

Its form is that of Kubernetes' documentation (client-go's Config, v1). Commands that make credentials are not
run (`exec`).
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_hoodie.exceptions import HoodieConfigurationError


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
