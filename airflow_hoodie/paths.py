"""Paths of tables as DAGs give them: absolute, URIs, relative to a connection's warehouse, or templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from airflow_hoodie.exceptions import HoodieConfigurationError


@runtime_checkable
class Located(Protocol):
    """A table that knows its path, as HoodieTable does."""

    @property
    def path(self) -> str: ...
    @property
    def hoodie_conn_id(self) -> str | None: ...
    def to_dict(self) -> dict[str, Any]: ...


def fields_of(table: Any) -> Any:
    """The dict form of a HoodieTable; anything else as it is."""
    return table.to_dict() if isinstance(table, Located) else table


def is_template(text: str) -> bool:
    """Does the text hold Jinja that is rendered later? Such a value is checked after rendering."""
    return "{{" in text or "{%" in text


def is_later(value: Any) -> bool:
    """Is it an XComArg or a mapped value, which Airflow resolves when the task runs?"""
    return hasattr(value, "resolve") and not isinstance(value, type)


def is_absolute(path: str) -> bool:
    return path.startswith(("/", "file:/")) or "://" in path


def is_on_files(path: str) -> bool:
    """Is it an absolute path on a file system, to which credentials have no say?"""
    return path.startswith(("/", "file:/"))


def check_path(path: Any, relative: bool = False) -> str:
    """The path, if it is absolute, a URI, or still a template; else HoodieConfigurationError.

    With `relative` a path in a warehouse is right, too.
    """
    if isinstance(path, str) and path.strip():
        if is_template(path) or is_absolute(path) or (relative and not path.startswith("~")):
            return path
        raise HoodieConfigurationError(
            f"table path {path!r} is relative, so every worker would take another folder; "
            "use an absolute path, or name the connection in whose warehouse it lies: "
            "HoodieTable(hoodie_conn_id='hoodie_default', ...)"
        )
    raise HoodieConfigurationError(f"table path is {path!r}; give the absolute path of the table's folder")


def table_path(table: Any) -> str:
    """The path of a HoodieTable, of its dict form, or the path itself, absolute or a template; else
    HoodieConfigurationError.
    """
    table = fields_of(table)
    if not isinstance(table, Mapping):
        return check_path(table)
    path, conn_id = table.get("path"), table.get("hoodie_conn_id")
    if conn_id and isinstance(path, str) and not (is_absolute(path) or is_template(path)):
        raise HoodieConfigurationError(
            f"table path {path!r} is relative to the warehouse of {conn_id!r}, which only tasks look up when "
            "they run; what Airflow must know before, as assets and watchers, needs an absolute path"
        )
    return check_path(path)
