"""Settings as DAGs and connections give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.paths import is_later


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


def kept_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
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
