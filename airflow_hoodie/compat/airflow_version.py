"""Which Airflow the provider works on, and what needs a later one."""

from __future__ import annotations

import re

#: the first whose pages plugins can add to
OLDEST = (3, 1)


def check_airflow(version: str) -> None:
    """Raises AirflowOptionalProviderFeatureException for a version that is too old.

    Where Airflow lists providers it passes that error by.
    """
    if _numbers(version) < OLDEST:
        raise _too_old("airflow-hoodie", OLDEST, version)


def needs(what: str, since: tuple[int, int] = (3, 3)) -> None:
    """Raises AirflowOptionalProviderFeatureException where Airflow is older than what `what` is made of."""
    import airflow

    if _numbers(airflow.__version__) < since:
        raise _too_old(what, since, airflow.__version__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _too_old(what: str, since: tuple[int, int], version: str) -> Exception:
    from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

    needed = ".".join(map(str, since))
    return AirflowOptionalProviderFeatureException(
        f"{what} needs Airflow {needed} or later, and this is {version}; install apache-airflow>={needed}"
    )
