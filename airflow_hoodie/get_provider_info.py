"""Entry point `apache_airflow_provider`: what Airflow's provider manager lists. Imports nothing."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Hoodie"

#: the form of the connection type; the fields are kept in the connection's extra
_CONNECTION = {
    "connection-type": "hoodie",
    "hook-class-name": "airflow_hoodie.hooks.hoodie.HoodieHook",
    "hook-name": "Hoodie",
    "ui-field-behaviour": {
        "hidden-fields": ["host", "port", "login", "password", "schema", "extra"],
        "relabeling": {},
        "placeholders": {},
    },
    "conn-fields": {
        "warehouse": {
            "label": "Warehouse",
            "description": "Folder in which tables with relative paths lie: an absolute path or a URI",
            "schema": {"type": ["string", "null"]},
        },
        "options": {
            "label": "Options",
            "description": "hoodie.* settings under those of the tables: a JSON object, or lines name=value",
            "schema": {"type": ["string", "null"], "format": "multiline"},
        },
        "spark_conn_id": {
            "label": "Spark connection",
            "description": "Connection of type spark that jobs are submitted with, unless a task names one",
            "schema": {"type": ["string", "null"], "default": "spark_default"},
        },
        "storage_conn_id": {
            "label": "Storage connection",
            "description": "Connection of type aws, google_cloud_platform, wasb or webhdfs, with the "
            "credentials of the tables' storage; without it those of the machine",
            "schema": {"type": ["string", "null"]},
        },
    },
}

_LOCK_CONNECTION = {
    "connection-type": "hoodie_lock",
    "hook-class-name": "airflow_hoodie.hooks.lock.HoodieLockHook",
    "hook-name": "Hoodie lock",
    "ui-field-behaviour": {
        "hidden-fields": ["login", "password", "extra"],
        "relabeling": {"schema": "Database of Hive's metastore"},
        "placeholders": {"host": "zk1:2181,zk2:2181"},
    },
    "conn-fields": {
        "provider": {
            "label": "Provider",
            "description": "zookeeper, storage, filesystem, hivemetastore, dynamodb, or your own class",
            "schema": {"type": ["string", "null"]},
        },
        "settings": {
            "label": "Settings",
            "description": "lines name=value; names below hoodie.write.lock.<provider>., or whole names",
            "schema": {"type": ["string", "null"], "format": "multiline"},
        },
        "aws_conn_id": {
            "label": "AWS connection",
            "description": "Connection of type aws with the credentials for DynamoDB",
            "schema": {"type": ["string", "null"]},
        },
    },
}

_CONFIG = {
    "hoodie": {
        "description": "Apache Hudi tables",
        "options": {
            "tables": {
                "description": (
                    "Tables that the page Hoodie timeline shows, to users who may read assets: a JSON object "
                    "of names and paths, or objects of path and hoodie_conn_id, whose warehouse and storage "
                    "connection count. The API server must be able to read these."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": '{"orders": "/data/orders"}',
                "default": "",
            },
            "tables_of_assets": {
                "description": (
                    "Show the tables of all assets hoodie://file/... too. Then the authors of DAGs decide "
                    "which of the tables that the API server can read have their timelines shown."
                ),
                "version_added": "0.1.0",
                "type": "boolean",
                "example": None,
                "default": "False",
            },
            "maintenance_dag": {
                "description": (
                    "Id of a DAG that maintains tables: beside a table that needs a hand the page Hoodie "
                    'timeline has a button that triggers it, with {"hoodie_table": {"name": ..., '
                    '"path": ...}} as its conf, by Airflow\'s API and with the rights of the user. Empty: '
                    "there is no button."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "maintenance",
                "default": "",
            },
        },
    }
}


def _modules(kind: str, *names: str) -> list[dict[str, Any]]:
    return [
        {
            "integration-name": _INTEGRATION,
            "python-modules": [f"airflow_hoodie.{kind}.{name}" for name in names],
        }
    ]


def get_provider_info() -> dict[str, Any]:
    """Provider description after Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "airflow-hoodie",
        "name": _INTEGRATION,
        "description": "Apache Hudi tables written by Python Spark jobs: operators, sensors and assets.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://hudi.apache.org/",
                "tags": ["apache"],
            }
        ],
        "operators": _modules(
            "operators",
            *(
                "backfill",
                "base",
                "ingest",
                "maintenance",
                "relay",
                "services",
                "sql",
                "ttl",
                "undo",
                "version",
                "write",
            ),
        ),
        "sensors": _modules("sensors", "base", "commit", "freshness", "partition"),
        "triggers": _modules("triggers", "application", "commits", "condition", "turn"),
        "asset-uris": [
            {
                "schemes": ["hoodie"],
                "handler": "airflow_hoodie.assets.hoodie.sanitize_uri",
                "factory": "airflow_hoodie.assets.hoodie.create_asset",
                "to_openlineage_converter": "airflow_hoodie.assets.hoodie.convert_asset_to_openlineage",
            },
        ],
        "hooks": _modules("hooks", "hoodie", "local", "lock", "spark"),
        "connection-types": [_CONNECTION, _LOCK_CONNECTION],
        "config": _CONFIG,
        "extra-links": [
            "airflow_hoodie.links.hoodie.TimelineLink",
            "airflow_hoodie.links.hoodie.CommitLink",
            "airflow_hoodie.links.hoodie.SparkUILink",
        ],
        "notifications": ["airflow_hoodie.notifications.hoodie.HoodieNotifier"],
        "cli": ["airflow_hoodie.cli.definition.get_hoodie_cli_commands"],
    }
