"""Which Airflow the provider works on. Imports nothing of Airflow unless it is too old."""

from __future__ import annotations

import re

#: task and asset state stores, shared streams of triggers and retry policies are new in it
OLDEST = (3, 3)


def check_airflow(version: str) -> None:
    """Raises AirflowOptionalProviderFeatureException for a version that is too old.

    Where Airflow lists providers it passes that error by.
    """
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < OLDEST:
        from airflow.exceptions import AirflowOptionalProviderFeatureException

        needed = ".".join(map(str, OLDEST))
        raise AirflowOptionalProviderFeatureException(
            f"airflow-hoodie needs Airflow {needed} or later, and this is {version}; "
            f"install apache-airflow>={needed}"
        )
