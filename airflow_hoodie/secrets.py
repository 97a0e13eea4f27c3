"""Secrets of operators, connections and requests: found by hoodie.mask, passed to Airflow's own masker."""

from __future__ import annotations

from collections.abc import Mapping
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


def any_secret(value: Any, name: str = "") -> bool:
    """Do mappings, lists and texts hold a secret; `name` is what the value is called."""
    if isinstance(value, Mapping):
        return any(any_secret(item, str(key)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return any(any_secret(item, name) for item in value)
    return isinstance(value, str) and holds_secret(name, value)
