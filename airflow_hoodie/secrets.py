"""Secrets of operators, connections and requests: found by hoodie.mask, passed to Airflow's own masker."""

from __future__ import annotations

from typing import Any

from airflow.sdk.log import mask_secret

from hoodie.mask import Mask


def hide(*values: Any) -> Mask:
    """A mask that knows the secrets in these values.

    Airflow's masker gets them too, for what it shows of this task: logs, rendered templates, lineage.
    """
    mask = Mask(*values)
    for secret in mask.known:
        if "{{" not in secret:
            mask_secret(secret)
    return mask
