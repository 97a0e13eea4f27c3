"""Airflow's connections of object stores as settings of the tables' storage (docs/storage.md).

What a connection says of credentials is taken over as a whole, or refused: a job that went on with the
machine's own rights instead would read and write as somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from airflow_hoodie.arguments import fields_of, is_on_files
from airflow_hoodie.exceptions import HoodieConfigurationError
from hoodie.mask import holds_secret
from hoodie.storage import settings
from hoodie.storage.settings import options_of


class StoreConnection(Protocol):
    """What is read of an Airflow connection."""

    conn_type: str | None
    login: str | None
    password: str | None
    host: str | None
    port: int | None
    extra: str | None


def storage_settings(conn_id: str, conn: StoreConnection) -> dict[str, str]:
    """`hoodie.storage.*` settings. Raises HoodieConfigurationError, which shows no secret."""
    known = _TYPES.get(str(conn.conn_type))
    if known is None:
        raise HoodieConfigurationError(
            f"connection {conn_id!r} is of type {conn.conn_type!r}, which is no object store's; "
            f"storage_conn_id names one of type {', '.join(_TYPES)}"
        )
    return {name: text for name, text in known(conn_id, conn, _fields(conn_id, conn)).items() if text}


def aws_settings(conn_id: str, conn: StoreConnection, service: str, place: str) -> dict[str, str]:
    """Credentials of a connection of type `aws` for another of Amazon's services: `hoodie.aws.*`, and its
    region and address below the setting `place`. Raises HoodieConfigurationError, which shows no secret.
    """
    if conn.conn_type != "aws":
        raise HoodieConfigurationError(
            f"connection {conn_id!r} is of type {conn.conn_type!r}; aws_conn_id names one of type aws"
        )
    key, secret, token, region, endpoint = _amazon(conn_id, conn, _fields(conn_id, conn), service)
    found = {
        "hoodie.aws.access.key": key,
        "hoodie.aws.secret.key": secret,
        "hoodie.aws.session.token": token,
        f"{place}.region": region,
        f"{place}.endpoint": endpoint,
    }
    return {name: text for name, text in found.items() if text}


def _fields(conn_id: str, conn: StoreConnection) -> dict[str, Any]:
    """Of the extra. Raises HoodieConfigurationError."""
    try:
        extra = json.loads(conn.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise HoodieConfigurationError(f"connection {conn_id!r}: extra is no JSON object; correct it")
    prefix = f"extra__{conn.conn_type}__"
    return {str(name).removeprefix(prefix): value for name, value in extra.items() if value}


def trigger_storage(table: Any) -> dict[str, Any]:
    """Arguments `hoodie_conn_id` and `options` of a trigger on a table; none where they have no say.

    Raises HoodieConfigurationError for options with a secret.
    """
    table = fields_of(table)
    if not isinstance(table, Mapping) or is_on_files(str(table.get("path"))):
        return {}
    options = options_of(table.get("options") or {})
    if secrets := sorted(name for name, text in options.items() if holds_secret(name, text)):
        raise HoodieConfigurationError(
            f"HoodieTable {table.get('name')!r}: options have {', '.join(secrets)}, and what waits in the "
            "triggerer takes no secrets, because its arguments are in Airflow's database; put them into a "
            "connection that the hoodie connection's storage_conn_id names"
        )
    conn_id = table.get("hoodie_conn_id")
    return {**({"hoodie_conn_id": conn_id} if conn_id else {}), **({"options": options} if options else {})}


def _aws(conn_id: str, conn: StoreConnection, extra: Mapping[str, Any]) -> dict[str, str]:
    names = (
        settings.S3_ACCESS_KEY,
        settings.S3_SECRET_KEY,
        settings.S3_SESSION_TOKEN,
        settings.S3_REGION,
        settings.S3_ENDPOINT,
    )
    found = _amazon(conn_id, conn, extra, "s3")
    return {key.name: text for key, text in zip(names, found, strict=True)}


def _amazon(
    conn_id: str, conn: StoreConnection, extra: Mapping[str, Any], service: str
) -> tuple[str, str, str, str, str]:
    """Access key, its secret, session token, region and the service's address, each "" where it is not given.

    Raises HoodieConfigurationError for credentials that can't be taken over.
    """
    _refuse(
        conn_id,
        extra,
        ("role_arn", "profile_name", "assume_role_method", "aws_account_id", "session_kwargs"),
        "give the keys themselves, or none, and the machine the role",
    )
    services = extra.get("service_config")
    own = services.get(service) if isinstance(services, Mapping) else None
    endpoint = (own.get("endpoint_url") if isinstance(own, Mapping) else None) or extra.get("endpoint_url")
    key = conn.login or _text(extra, "aws_access_key_id")
    secret = conn.password or _text(extra, "aws_secret_access_key")
    if bool(key) != bool(secret):
        raise HoodieConfigurationError(
            f"connection {conn_id!r} has an access key or its secret, not both; set login and password, or "
            "neither, and have the machine's credentials used"
        )
    token, region = _text(extra, "aws_session_token"), _text(extra, "region_name")
    return key, secret, token, region, str(endpoint or "")


def _google(conn_id: str, conn: StoreConnection, extra: Mapping[str, Any]) -> dict[str, str]:
    _refuse(
        conn_id,
        extra,
        ("key_secret_name", "credential_config_file", "impersonation_chain", "idp_issuer_url"),
        "give keyfile_dict or key_path, or none, and the machine the service account",
    )
    keyfile = extra.get("keyfile_dict")
    return {
        settings.GCS_SERVICE_ACCOUNT_FILE.name: _text(extra, "key_path"),
        settings.GCS_SERVICE_ACCOUNT_KEY.name: (
            keyfile if isinstance(keyfile, str) else json.dumps(keyfile) if keyfile else ""
        ),
    }


def _azure(conn_id: str, conn: StoreConnection, extra: Mapping[str, Any]) -> dict[str, str]:
    """As Airflow's hook reads it: the login is the account, or with a tenant the service principal."""
    _refuse(
        conn_id,
        extra,
        ("managed_identity_client_id", "workload_identity_tenant_id", "client_secret_auth_config"),
        "give the account's key, a SAS token or a service principal, or none, and the machine the identity",
    )
    parts = _connection_string(conn_id, _text(extra, "connection_string"))
    account, endpoint = _account(conn.host or "")
    tenant = _text(extra, "tenant_id")
    sas = _text(extra, "sas_token") or _text(extra, "shared_access_key")
    if sas.startswith("http"):  # Airflow's hook takes the URL of an account with its signature, too
        sas = urlsplit(sas).query
    found = {
        settings.AZURE_ACCOUNT_NAME.name: account or ("" if tenant else conn.login or ""),
        settings.AZURE_ENDPOINT.name: endpoint,
        settings.AZURE_SAS_TOKEN.name: sas.lstrip("?"),
    }
    if tenant:
        found |= {
            settings.AZURE_TENANT_ID.name: tenant,
            settings.AZURE_CLIENT_ID.name: conn.login or "",
            settings.AZURE_CLIENT_SECRET.name: conn.password or "",
        }
    else:
        found[settings.AZURE_ACCOUNT_KEY.name] = conn.password or ""
    return {**found, **parts}


def _hdfs(conn_id: str, conn: StoreConnection, extra: Mapping[str, Any]) -> dict[str, str]:
    """Hosts with commas are those of the name nodes, which have one port."""
    _refuse(conn_id, extra, ("verify", "cookies", "headers"), "leave it out, and have the machine trust HDFS")
    if conn.password:
        raise HoodieConfigurationError(
            f"connection {conn_id!r} has a password, which WebHDFS does not ask for; leave it out"
        )
    scheme = "https://" if extra.get("use_ssl") in (True, "true", "True") else ""
    port = f":{conn.port}" if conn.port else ""
    hosts = [f"{scheme}{host.strip()}{port}" for host in (conn.host or "").split(",") if host.strip()]
    return {settings.HDFS_HTTP_ADDRESS.name: ",".join(hosts), settings.HDFS_USER.name: conn.login or ""}


def _connection_string(conn_id: str, text: str) -> dict[str, str]:
    """`AccountName=...;AccountKey=...;BlobEndpoint=...` as settings."""
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    names = {
        "AccountName": settings.AZURE_ACCOUNT_NAME,
        "AccountKey": settings.AZURE_ACCOUNT_KEY,
        "SharedAccessSignature": settings.AZURE_SAS_TOKEN,
        "BlobEndpoint": settings.AZURE_ENDPOINT,
    }
    found = {key.name: parts[name] for name, key in names.items() if parts.get(name)}
    if text and not found:
        raise HoodieConfigurationError(
            f"connection {conn_id!r}: connection_string has none of {', '.join(names)}; copy it from the "
            "storage account's page"
        )
    return found


def _account(host: str) -> tuple[str, str]:
    """Account and endpoint of a host: a name, or a URL; the endpoint is "" where it is Azure's own."""
    if "://" not in host:
        return host.partition(".")[0], ""
    name = urlsplit(host).hostname or ""
    azure = name.endswith((".core.windows.net", ".core.usgovcloudapi.net", ".core.chinacloudapi.cn"))
    return (name.partition(".")[0], "") if azure else ("", host.rstrip("/"))


def _refuse(conn_id: str, extra: Mapping[str, Any], names: tuple[str, ...], step: str) -> None:
    """Raises HoodieConfigurationError for credentials that can't be taken over."""
    if wrong := [name for name in names if extra.get(name)]:
        raise HoodieConfigurationError(
            f"connection {conn_id!r}: extra has {', '.join(wrong)}, which can't be used for tables: {step}"
        )


def _text(extra: Mapping[str, Any], name: str) -> str:
    return str(extra.get(name) or "").strip()


_TYPES: dict[str, Callable[[str, StoreConnection, Mapping[str, Any]], dict[str, str]]] = {
    "aws": _aws,
    "google_cloud_platform": _google,
    "wasb": _azure,
    "webhdfs": _hdfs,
}
