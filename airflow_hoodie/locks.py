"""The lock of a table, as DAGs and connections name it, as settings of jobs (docs/concurrency.md).

Whoever names a lock has several writers at once: the mode is set, too, and options may say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_hoodie.exceptions import HoodieConfigurationError

#: settings of a job (docs/settings.md)
PREFIX = "hoodie.write.lock."
PROVIDER = f"{PREFIX}provider"
_MODE, _AT_ONCE = "hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL"
#: what a provider calls the table's own lock, where nothing else is said: as Apache Hudi does
_NAMES = {"zookeeper": "lock_key", "hivemetastore": "table"}


def lock_options(lock: Mapping[str, Any], table: str) -> dict[str, str]:
    """Settings of a lock: `provider`, names below `hoodie.write.lock.<provider>.`, whole names `hoodie.*`.

    Raises HoodieConfigurationError where no provider is named.
    """
    provider = str(lock.get("provider") or lock.get(PROVIDER) or "").strip()
    if not provider:
        raise HoodieConfigurationError(
            f"lock of table {table!r} names no provider; give {{'provider': 'zookeeper', ...}}, storage, "
            "filesystem, hivemetastore, dynamodb or your own module:Class, or the id of a connection"
        )
    options = {PROVIDER: provider, _MODE: _AT_ONCE}
    if (name := _NAMES.get(provider)) is not None:
        options[f"{PREFIX}{provider}.{name}"] = table
    for name, value in lock.items():
        if name == "provider" or value in (None, ""):
            continue
        options[name if name.startswith("hoodie.") else f"{PREFIX}{provider}.{name}"] = str(value)
    return options
