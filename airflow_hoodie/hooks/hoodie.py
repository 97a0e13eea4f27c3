"""Connection type `hoodie`: the warehouse in which tables lie, and what they share.

    AIRFLOW_CONN_HOODIE_DEFAULT='{"conn_type": "hoodie", "extra": {"warehouse": "/data/lake",
        "options": {"hoodie.parquet.compression.codec": "snappy"}, "spark_conn_id": "spark_default"}}'

All of it is in the connection's extra: `warehouse`, the folder that relative table paths begin at; `options`,
`hoodie.*` settings under those of the table (an object, its JSON, or lines name=value); `spark_conn_id`, for
operators that name none; `storage_conn_id`, a connection of type `aws`, `google_cloud_platform`, `wasb`
or `webhdfs`, whose credentials are settings under the `options`.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook, Connection

from airflow_hoodie.arguments import (
    check_path,
    connection_texts,
    fields_of,
    is_absolute,
    is_on_files,
    table_path,
)
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.hooks.lock import HoodieLockHook
from airflow_hoodie.locks import lock_options
from airflow_hoodie.secrets import hide
from airflow_hoodie.storage_conn import storage_settings
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.storage import normalize, storage_for
from hoodie.storage.local import LocalStorage
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table
from hoodie.table.properties import META_FOLDER

DEFAULT_CONN = "hoodie_default"
DEFAULT_SPARK_CONN = "spark_default"

_FIELDS = ("warehouse", "options", "spark_conn_id", "storage_conn_id")
#: so deep below the warehouse tables are looked for, and in so many folders
_DEPTH, _FOLDERS = 3, 2000
_NAMED = 10


@dataclass(frozen=True)
class Warehouse:
    """What a connection says; `path` is absolute or a URI, "" where the connection names none."""

    conn_id: str
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    spark_conn_id: str | None = None
    storage_conn_id: str | None = None

    @classmethod
    def of(cls, conn_id: str, extra: Mapping[str, Any]) -> Warehouse:
        """Raises HoodieConfigurationError for what is malformed; it names the connection and the field."""
        unknown = sorted(set(extra) - set(_FIELDS))
        if unknown:
            raise HoodieConfigurationError(
                f"connection {conn_id!r}: extra has {', '.join(map(repr, unknown))}, which no hoodie "
                f"connection has; its fields are {', '.join(_FIELDS)}"
            )
        path = str(extra.get("warehouse") or "").strip()
        if path and not is_absolute(path):
            raise HoodieConfigurationError(
                f"connection {conn_id!r}: warehouse is {path!r}; give an absolute path or a URI"
            )
        if len(path) > 1:
            path = path.rstrip("/")
        options = connection_texts(conn_id, "options", extra.get("options"))
        others = (str(extra.get(name) or "").strip() or None for name in ("spark_conn_id", "storage_conn_id"))
        return cls(conn_id, path, options, *others)

    def with_storage(self, found: Any) -> Warehouse:
        """With the settings of the storage's connection, under its own."""
        options = storage_settings(str(self.storage_conn_id), found)
        hide(options)
        return replace(self, options={**options, **self.options})

    def locate(self, path: str) -> str:
        """A table's path, in the warehouse if it is relative. Raises HoodieConfigurationError."""
        if is_absolute(path):
            return path
        check_path(path, relative=True)
        if not self.path:
            raise HoodieConfigurationError(
                f"table path {path!r} is relative, but connection {self.conn_id!r} has no warehouse; set the "
                "connection's field Warehouse, or give the table an absolute path"
            )
        inside = posixpath.normpath(path)
        if inside == ".." or inside.startswith("../"):
            raise HoodieConfigurationError(
                f"table path {path!r} leads out of the warehouse {self.path} of connection {self.conn_id!r}; "
                "use a path inside, or an absolute one"
            )
        return posixpath.join(self.path, inside)


class HoodieHook(BaseHook):
    """Reads a connection of type `hoodie`.

    :param hoodie_conn_id: id of the connection.
    """

    conn_name_attr = "hoodie_conn_id"
    default_conn_name = DEFAULT_CONN
    conn_type = "hoodie"
    hook_name = "Hoodie"

    def __init__(self, hoodie_conn_id: str = DEFAULT_CONN) -> None:
        super().__init__()
        self.hoodie_conn_id = hoodie_conn_id

    def get_conn(self) -> Warehouse:
        """With the settings of its storage's connection.

        Raises HoodieConfigurationError for a connection that is missing, of another type or malformed.
        """
        with self._defined():
            conn = self._described(self.get_connection(self.hoodie_conn_id))
        if conn.storage_conn_id is None:
            return conn
        with self._defined(conn.storage_conn_id):
            return conn.with_storage(self.get_connection(conn.storage_conn_id))

    async def aget_conn(self) -> Warehouse:
        """The same in an event loop."""
        with self._defined():
            conn = self._described(await self.aget_connection(self.hoodie_conn_id))
        if conn.storage_conn_id is None:
            return conn
        with self._defined(conn.storage_conn_id):
            return conn.with_storage(await self.aget_connection(conn.storage_conn_id))

    @contextlib.contextmanager
    def _defined(self, storage_conn_id: str | None = None) -> Iterator[None]:
        """Names the connection that is not."""
        conn_id = self.hoodie_conn_id
        try:
            yield
        except AirflowNotFoundException:
            raise HoodieConfigurationError(
                f"hoodie connection {conn_id!r} is not defined. {connection_help(conn_id)}"
                if storage_conn_id is None
                else f"connection {conn_id!r}: storage_conn_id is {storage_conn_id!r}, which is not defined; "
                "define it, or correct the field"
            ) from None

    def _described(self, found: Connection) -> Warehouse:
        conn_id = self.hoodie_conn_id
        if found.conn_type != self.conn_type:
            raise HoodieConfigurationError(
                f"connection {conn_id!r} is of type {found.conn_type!r}, not hoodie. "
                + connection_help(conn_id)
            )
        try:
            extra = json.loads(found.extra or "{}")
        except ValueError as error:
            raise HoodieConfigurationError(
                f"connection {conn_id!r}: extra is no JSON ({error}). {connection_help(conn_id)}"
            ) from None
        if not isinstance(extra, dict):
            raise HoodieConfigurationError(
                f"connection {conn_id!r}: extra is no JSON object. {connection_help(conn_id)}"
            )
        hide(extra)
        conn = Warehouse.of(conn_id, extra)
        hide(conn.options)
        return conn

    def test_connection(self) -> tuple[bool, str]:
        """For the form's button: is the warehouse there, which tables are in it, and can they be read? The
        answer names the connection.
        """
        good, text = self._tested()
        known = f"connection {self.hoodie_conn_id!r}"
        if not self._is_of_the_form():
            return good, text if known in text else f"{known[0].upper()}{known[1:]}: {text}"
        text = text.replace(connection_help(self.hoodie_conn_id), "Correct it in this form.")
        text = text.replace(known, "this connection")
        return good, text if "this connection" in text else f"This connection: {text}"

    def _is_of_the_form(self) -> bool:
        """Airflow's API tests the form's values by a name that it makes up and puts into the environment."""
        conn_id = self.hoodie_conn_id
        made_up = len(conn_id) == 8 and conn_id.isascii() and conn_id.isalnum() and not conn_id.islower()
        return made_up and f"AIRFLOW_CONN_{conn_id.upper()}" in os.environ

    def _tested(self) -> tuple[bool, str]:
        try:
            conn = self.get_conn()
            if not conn.path:
                return True, "it names no warehouse, so table paths must be absolute"
            base, options = normalize(conn.path), options_of(conn.options)
            if not storage_for(base, options).exists(base) and "://" not in base:
                return False, f"no folder {base} is on this machine; make it, or correct the warehouse"
            return _found(base, options)
        except (HoodieConfigurationError, HoodieError, OSError) as error:
            return False, str(error)


def resolved(table: Mapping[str, Any]) -> tuple[dict[str, Any], Warehouse | None]:
    """A table's dict form with its connection's path and options, and its lock's; and the connection.

    Does it again, nothing changes. Raises HoodieConfigurationError.
    """
    table = _locked(table)
    conn_id = table.get("hoodie_conn_id")
    if not conn_id:
        return table, None
    conn = HoodieHook(conn_id).get_conn()
    options = {**conn.options, **(table.get("options") or {})}
    return {**table, "path": conn.locate(str(table["path"])), "options": options}, conn


def _locked(table: Mapping[str, Any]) -> dict[str, Any]:
    """With the settings of its lock among the options, which go over them."""
    out = dict(table)
    lock = out.pop("lock", None)
    if not lock:
        return out
    found = HoodieLockHook(lock).get_conn() if isinstance(lock, str) else lock
    return {**out, "options": {**lock_options(found, str(table["name"])), **(table.get("options") or {})}}


def resolved_path(table: Any) -> str:
    """As `table_path`, in the warehouse of the table's connection; no look-up for an absolute path."""
    table = fields_of(table)
    if isinstance(table, Mapping) and table.get("hoodie_conn_id"):
        path = str(table.get("path"))
        return path if is_absolute(path) else HoodieHook(table["hoodie_conn_id"]).get_conn().locate(path)
    return table_path(table)


def located(table: Any) -> tuple[str, dict[str, str]]:
    """Path and storage settings (`hoodie.storage.*`) of a table, its dict form or its path. A connection is
    looked up where it has a say: not for an absolute path on a file system. Raises HoodieConfigurationError.
    """
    table = fields_of(table)
    if not isinstance(table, Mapping):
        return table_path(table), {}
    own = options_of(table.get("options") or {})
    if not table.get("hoodie_conn_id") or is_on_files(str(table.get("path"))):
        return table_path(table), own
    found, _ = resolved({**table, "lock": None})
    return str(found["path"]), options_of(found["options"])


async def storage_options(conn_id: str | None, path: str, own: Mapping[str, str]) -> dict[str, str]:
    """The storage settings of a table at an absolute path, in an event loop, as of `located`."""
    if not conn_id or is_on_files(path):
        return dict(own)
    conn = await HoodieHook(conn_id).aget_conn()
    return {**options_of(conn.options), **own}


def tables_below(folder: str, options: Mapping[str, str] | None = None) -> Iterator[str]:
    """Folders with a `.hoodie` below a folder, not those inside tables; bounded in depth and number.

    A warehouse may have links to its tables: a local one is listed by a storage that follows links.
    """
    storage = storage_for(folder, options or {}) if "://" in folder else LocalStorage()
    todo, seen = [(folder, 0)], 0
    while todo and seen < _FOLDERS:
        path, depth = todo.pop(0)
        seen += 1
        below = [item for item in storage.list(path) if item.is_dir]
        if any(item.name == META_FOLDER for item in below):
            yield path
        elif depth < _DEPTH:
            todo += [(item.path, depth + 1) for item in below if not item.name.startswith((".", "_"))]


def connection_help(conn_id: str) -> str:
    """How to define a hoodie connection."""
    value = json.dumps({"conn_type": "hoodie", "extra": {"warehouse": "/data/lake"}})
    return f"Set AIRFLOW_CONN_{conn_id.upper()}='{value}', or add it under Admin, Connections."


def _found(base: str, options: Mapping[str, str]) -> tuple[bool, str]:
    good: list[str] = []
    bad: list[str] = []
    for path in tables_below(base, options):
        name = path.removeprefix(base).lstrip("/") or "."
        try:
            table = Table.open(path, Config(options), rounds=1)
            good.append(f"{name} ({table.properties.table_type.value})")
        except HoodieError as error:
            bad.append(f"{name}: {error.message}")
    if bad:
        count = len(good) + len(bad)
        return False, f"{len(bad)} of {count} tables in {base} can't be read: {'; '.join(bad[:_NAMED])}"
    if not good:
        return True, f"{base} is there and holds no table yet."
    named = ", ".join(sorted(good)[:_NAMED]) + (", …" if len(good) > _NAMED else "")
    return True, f"{len(good)} table{'s' if len(good) > 1 else ''} in {base}: {named}"
