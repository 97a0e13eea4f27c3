"""Airflow provider for Apache Hudi tables.

Importing this package imports neither Airflow nor Spark: Airflow itself loads it to list providers. The
names below are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_hoodie.assets.events import commits_in
    from airflow_hoodie.factories import dags_of_tables, hoodie_table_group
    from airflow_hoodie.notifications.hoodie import HoodieNotifier
    from airflow_hoodie.operators.backfill import BackfillMaintenanceOperator
    from airflow_hoodie.operators.ingest import IngestOperator
    from airflow_hoodie.operators.maintenance import MaintenanceOperator
    from airflow_hoodie.operators.relay import PartitionRelayOperator
    from airflow_hoodie.operators.services import (
        ArchiveOperator,
        CleanOperator,
        ClusteringOperator,
        CompactionOperator,
        HiveSyncOperator,
        IndexOperator,
        LogCompactionOperator,
    )
    from airflow_hoodie.operators.sql import HoodieSQLOperator
    from airflow_hoodie.operators.ttl import PartitionTTLOperator
    from airflow_hoodie.operators.undo import (
        CancelOperator,
        RestoreOperator,
        RollbackOperator,
        SavepointOperator,
    )
    from airflow_hoodie.operators.version import DowngradeOperator, UpgradeOperator
    from airflow_hoodie.operators.write import (
        BulkInsertOperator,
        DeleteOperator,
        DeletePartitionOperator,
        InsertOperator,
        InsertOverwriteOperator,
        UpsertOperator,
    )
    from airflow_hoodie.retries import HOODIE_RETRIES, HoodieRetryPolicy
    from airflow_hoodie.sensors.commit import CommitSensor
    from airflow_hoodie.sensors.freshness import FreshnessSensor
    from airflow_hoodie.sensors.partition import PartitionSensor
    from airflow_hoodie.table import HoodieTable
    from airflow_hoodie.triggers.commits import CommitEventTrigger

_HOME = {
    "HoodieTable": "airflow_hoodie.table",
    "UpsertOperator": "airflow_hoodie.operators.write",
    "InsertOperator": "airflow_hoodie.operators.write",
    "BulkInsertOperator": "airflow_hoodie.operators.write",
    "DeleteOperator": "airflow_hoodie.operators.write",
    "DeletePartitionOperator": "airflow_hoodie.operators.write",
    "InsertOverwriteOperator": "airflow_hoodie.operators.write",
    "IngestOperator": "airflow_hoodie.operators.ingest",
    "HoodieSQLOperator": "airflow_hoodie.operators.sql",
    "ArchiveOperator": "airflow_hoodie.operators.services",
    "CleanOperator": "airflow_hoodie.operators.services",
    "ClusteringOperator": "airflow_hoodie.operators.services",
    "CompactionOperator": "airflow_hoodie.operators.services",
    "HiveSyncOperator": "airflow_hoodie.operators.services",
    "IndexOperator": "airflow_hoodie.operators.services",
    "LogCompactionOperator": "airflow_hoodie.operators.services",
    "MaintenanceOperator": "airflow_hoodie.operators.maintenance",
    "PartitionTTLOperator": "airflow_hoodie.operators.ttl",
    "CancelOperator": "airflow_hoodie.operators.undo",
    "RestoreOperator": "airflow_hoodie.operators.undo",
    "RollbackOperator": "airflow_hoodie.operators.undo",
    "SavepointOperator": "airflow_hoodie.operators.undo",
    "DowngradeOperator": "airflow_hoodie.operators.version",
    "UpgradeOperator": "airflow_hoodie.operators.version",
    "PartitionRelayOperator": "airflow_hoodie.operators.relay",
    "BackfillMaintenanceOperator": "airflow_hoodie.operators.backfill",
    "HOODIE_RETRIES": "airflow_hoodie.retries",
    "HoodieRetryPolicy": "airflow_hoodie.retries",
    "HoodieNotifier": "airflow_hoodie.notifications.hoodie",
    "CommitSensor": "airflow_hoodie.sensors.commit",
    "FreshnessSensor": "airflow_hoodie.sensors.freshness",
    "PartitionSensor": "airflow_hoodie.sensors.partition",
    "CommitEventTrigger": "airflow_hoodie.triggers.commits",
    "commits_in": "airflow_hoodie.assets.events",
    "dags_of_tables": "airflow_hoodie.factories",
    "hoodie_table_group": "airflow_hoodie.factories",
}

__all__ = [
    "HOODIE_RETRIES",
    "ArchiveOperator",
    "BackfillMaintenanceOperator",
    "BulkInsertOperator",
    "CancelOperator",
    "CleanOperator",
    "ClusteringOperator",
    "CommitEventTrigger",
    "CommitSensor",
    "CompactionOperator",
    "DeleteOperator",
    "DeletePartitionOperator",
    "DowngradeOperator",
    "FreshnessSensor",
    "HiveSyncOperator",
    "HoodieNotifier",
    "HoodieRetryPolicy",
    "HoodieSQLOperator",
    "HoodieTable",
    "IndexOperator",
    "IngestOperator",
    "InsertOperator",
    "InsertOverwriteOperator",
    "LogCompactionOperator",
    "MaintenanceOperator",
    "PartitionRelayOperator",
    "PartitionSensor",
    "PartitionTTLOperator",
    "RestoreOperator",
    "RollbackOperator",
    "SavepointOperator",
    "UpgradeOperator",
    "UpsertOperator",
    "commits_in",
    "dags_of_tables",
    "hoodie_table_group",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    import importlib

    import airflow

    from airflow_hoodie.compat.airflow_version import check_airflow

    check_airflow(airflow.__version__)
    return getattr(importlib.import_module(home), name)
