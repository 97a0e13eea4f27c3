"""Entry point `apache_airflow_provider`: what Airflow's provider manager lists. Imports nothing."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Hoodie"


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
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_hoodie.operators.base",
                    "airflow_hoodie.operators.relay",
                    "airflow_hoodie.operators.services",
                    "airflow_hoodie.operators.write",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_hoodie.sensors.base",
                    "airflow_hoodie.sensors.commit",
                    "airflow_hoodie.sensors.freshness",
                    "airflow_hoodie.sensors.partition",
                ],
            },
        ],
        "triggers": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_hoodie.triggers.commits",
                    "airflow_hoodie.triggers.condition",
                ],
            },
        ],
        "asset-uris": [
            {
                "schemes": ["hoodie"],
                "handler": "airflow_hoodie.assets.hoodie.sanitize_uri",
                "factory": "airflow_hoodie.assets.hoodie.create_asset",
                "to_openlineage_converter": "airflow_hoodie.assets.hoodie.convert_asset_to_openlineage",
            },
        ],
        "hooks": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": ["airflow_hoodie.hooks.local", "airflow_hoodie.hooks.spark"],
            },
        ],
    }
