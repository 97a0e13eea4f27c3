"""Connection type `hoodie_lock`: the lock of tables that several writers write at once.

    AIRFLOW_CONN_LAKE_LOCK='{"conn_type": "hoodie_lock", "host": "zk1:2181,zk2:2181",
        "extra": {"provider": "zookeeper", "base_path": "/hudi/locks"}}'

The extra has the `provider`, its settings (names below `hoodie.write.lock.<provider>.`, or whole names of
settings), and for DynamoDB `aws_conn_id`. Host and port are those of ZooKeeper or of Hive's metastore, whose
database is the connection's schema.
"""

from __future__ import annotations

import json
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook, Connection

from airflow_hoodie.arguments import connection_texts
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.locks import PREFIX
from airflow_hoodie.secrets import hide
from airflow_hoodie.storage_conn import aws_settings

CONN_TYPE = "hoodie_lock"
_THRIFT_PORT = 9083


class HoodieLockHook(BaseHook):
    """Reads a connection of type `hoodie_lock`.

    :param lock_conn_id: id of the connection.
    """

    conn_name_attr = "lock_conn_id"
    default_conn_name = "hoodie_lock_default"
    conn_type = CONN_TYPE
    hook_name = "Hoodie lock"

    def __init__(self, lock_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.lock_conn_id = lock_conn_id

    def get_conn(self) -> dict[str, Any]:
        """The lock as HoodieTable takes it.

        Raises HoodieConfigurationError for a connection that is missing, of another type or malformed.
        """
        conn_id = self.lock_conn_id
        try:
            lock, aws = _lock_of(conn_id, self.get_connection(conn_id))
        except AirflowNotFoundException:
            raise HoodieConfigurationError(
                f"connection {conn_id!r} of a lock is not defined. {connection_help(conn_id)}"
            ) from None
        if aws is not None:
            try:
                lock = {**_aws_options(aws, self.get_connection(aws)), **lock}
            except AirflowNotFoundException:
                raise HoodieConfigurationError(
                    f"connection {conn_id!r}: aws_conn_id is {aws!r}, which is not defined; define it, or "
                    "correct the field"
                ) from None
        hide(lock)
        return lock


def _lock_of(conn_id: str, conn: Connection) -> tuple[dict[str, Any], str | None]:
    """The lock that a connection of type `hoodie_lock` names, and the connection with its credentials.

    Raises HoodieConfigurationError.
    """
    if conn.conn_type != CONN_TYPE:
        raise HoodieConfigurationError(
            f"connection {conn_id!r} is of type {conn.conn_type!r}, not {CONN_TYPE}. "
            + connection_help(conn_id)
        )
    try:
        extra = json.loads(conn.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict) or not str(extra.get("provider") or "").strip():
        raise HoodieConfigurationError(
            f"connection {conn_id!r}: extra is no JSON object that names the lock's provider. "
            + connection_help(conn_id)
        )
    given = connection_texts(conn_id, "settings", extra.pop("settings", None))
    found = {**extra, **given}
    aws = found.pop("aws_conn_id", None)
    return {**_address(str(found["provider"]), conn), **found}, aws or None


def _aws_options(conn_id: str, conn: Connection) -> dict[str, str]:
    """Credentials of an `aws` connection as those of a lock. Raises HoodieConfigurationError."""
    place = f"{PREFIX}dynamodb"
    found = aws_settings(conn_id, conn, "dynamodb", place)
    renamed = {f"{place}.endpoint": f"{place}.endpoint_url"}
    return {renamed.get(name, name): text for name, text in found.items()}


def connection_help(conn_id: str) -> str:
    """How to define a connection of a lock."""
    extra = {"provider": "zookeeper", "base_path": "/hudi/locks"}
    value = json.dumps({"conn_type": CONN_TYPE, "host": "zk1:2181,zk2:2181", "extra": extra})
    return f"Set AIRFLOW_CONN_{conn_id.upper()}='{value}', or add it under Admin, Connections."


def _address(provider: str, conn: Connection) -> dict[str, str]:
    """What host, port and schema of a connection are to a provider. Raises HoodieConfigurationError."""
    if conn.login or conn.password:
        raise HoodieConfigurationError(
            f"connection of a lock: {provider} takes no login and no password; leave them out (those of "
            "DynamoDB are in the connection that aws_conn_id names)"
        )
    host, port = conn.host or "", conn.port
    if provider == "zookeeper":
        return {"url": host, **({"port": str(port)} if port else {})}
    if provider == "hivemetastore":
        uris = [f"thrift://{each}:{port or _THRIFT_PORT}" for each in host.split(",") if each.strip()]
        return {"uris": ",".join(uris), "database": conn.schema or ""}
    return {}
