"""Entry point `apache_airflow_provider`: what Airflow's provider manager lists. Imports nothing."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Hoodie"


def get_provider_info() -> dict[str, Any]:
    """Provider description after Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "airflow-hoodie",
        "name": _INTEGRATION,
        "description": "Apache Hudi tables written by Python Spark jobs: operators, hook and sensors.",
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
                "python-modules": ["airflow_hoodie.operators.base", "airflow_hoodie.operators.write"],
            }
        ],
        "sensors": [
            {"integration-name": _INTEGRATION, "python-modules": ["airflow_hoodie.sensors.commit"]},
        ],
        "hooks": [
            {"integration-name": _INTEGRATION, "python-modules": ["airflow_hoodie.hooks.spark"]},
        ],
    }
