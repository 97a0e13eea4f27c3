"""What DAGs and connections give: paths of tables, absolute, URIs, relative to a connection's warehouse, or
templates; settings; values that are known when the task runs.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from typing import Any, Protocol, TypeGuard, runtime_checkable

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


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a message about a name that is not known; "" where none is like it."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}" if close else ""


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


def default_deferrable() -> bool:
    """Airflow's setting for tasks that do not say whether they are deferrable."""
    from airflow.providers.common.compat.sdk import conf

    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def option_texts(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Settings as texts: booleans in lower case, lists joined by commas. Names must be texts."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise HoodieConfigurationError(f"options are {options!r}; pass a dict of hoodie.* settings")
    out: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(name, str) or not name.strip():
            raise HoodieConfigurationError(f"option name {name!r} is no text; use hoodie.* names")
        if value is None:
            raise HoodieConfigurationError(f"option {name} is None; give it a value or remove it")
        if isinstance(value, bool):
            out[name] = "true" if value else "false"
        elif isinstance(value, (list, tuple)):
            out[name] = ",".join(str(item) for item in value)
        else:
            out[name] = str(value)
    return out


def task_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """`option_texts` of an operator's argument; values that are known when the task runs stay as they are."""
    if options is None:
        return {}
    later = {name: value for name, value in options.items() if is_later(value)} if _is_dict(options) else {}
    return {**option_texts(known_options(options)), **later}


def known_options(options: Any) -> Any:
    """The argument, without values that are known when the task runs; None if it is such a value itself."""
    if options is not None and _is_dict(options):
        return {name: value for name, value in options.items() if not is_later(value)}
    return None if options is None or is_later(options) else options


def connection_texts(conn_id: str, field: str, value: Any) -> dict[str, str]:
    """Settings in a field of a connection: an object, its JSON, or lines name=value.

    Raises HoodieConfigurationError.
    """
    wrong = f"connection {conn_id!r}: {field} are %s; give a JSON object of settings, or lines name=value"
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("{"):
            try:
                value = json.loads(text)
            except ValueError as error:
                raise HoodieConfigurationError(wrong % f"no JSON ({error})") from None
        else:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            pairs = [line.partition("=") for line in lines]
            if broken := next((line for line, pair in zip(lines, pairs, strict=True) if not pair[1]), None):
                raise HoodieConfigurationError(wrong % f"{broken.split()[0]!r} without a '='")
            value = {name.strip(): text.strip() for name, _, text in pairs}
    if value is not None and not isinstance(value, Mapping):
        raise HoodieConfigurationError(wrong % f"a {type(value).__name__}")
    try:
        return option_texts(value)
    except HoodieConfigurationError as error:
        raise HoodieConfigurationError(f"connection {conn_id!r}: {error}") from None


def _is_dict(options: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(options, Mapping)
