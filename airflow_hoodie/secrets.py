"""Secrets of operators, connections and requests: found by hoodie.mask, passed to Airflow's own masker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow.sdk.log import mask_secret

from hoodie.mask import Mask, holds_secret


def hide(*values: Any) -> Mask:
    """A mask that knows the secrets in these values.

    Airflow's masker gets them too, for what it shows of this task: logs, rendered templates, lineage.
    """
    mask = Mask(*values)
    for secret in mask.known:
        if "{{" not in secret:
            mask_secret(secret)
    return mask


def secret_names(value: Any, name: str = "") -> Iterator[str]:
    """Names of the texts in mappings and lists that hold secrets; `name` is what the value is called."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from secret_names(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from secret_names(item, name)
    elif isinstance(value, str) and holds_secret(name, value):
        yield name
