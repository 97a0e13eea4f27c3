"""Airflow provider for Apache Hudi tables.

Importing this package imports neither Airflow nor Spark: Airflow itself loads it to list providers. The
names below are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_hoodie.operators.write import BulkInsertOperator, InsertOperator, UpsertOperator
    from airflow_hoodie.sensors.commit import CommitSensor
    from airflow_hoodie.table import HoodieTable

_HOME = {
    "HoodieTable": "airflow_hoodie.table",
    "UpsertOperator": "airflow_hoodie.operators.write",
    "InsertOperator": "airflow_hoodie.operators.write",
    "BulkInsertOperator": "airflow_hoodie.operators.write",
    "CommitSensor": "airflow_hoodie.sensors.commit",
}

__all__ = ["BulkInsertOperator", "CommitSensor", "HoodieTable", "InsertOperator", "UpsertOperator"]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    import importlib

    return getattr(importlib.import_module(home), name)
