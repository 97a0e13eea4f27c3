"""Jobs on Dataproc, run by the environment that has Google's packages (scripts/setup dataproc)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hoodie import HoodieTable
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.write import UpsertOperator
from scripts.environment import DATAPROC
from tests.airflow.other_venvs import check_tests_in

PLACE = {"uploads": "gs://jobs/hoodie", "cluster_name": "lake", "region": "europe-west1"}


@pytest.mark.full
@pytest.mark.parametrize("cases", ["dataproc_cases", "test_platforms"])
def test_on_dataproc(cases: str, tmp_path: Path) -> None:
    check_tests_in(DATAPROC, "dataproc", [f"tests/airflow/{cases}.py", "-k", "dataproc"], tmp_path)


def test_options_that_it_has_not() -> None:
    """Where the DAG is parsed, which needs no package of Google's."""
    given: dict[str, Any] = {
        "task_id": "write",
        "table": HoodieTable(name="orders", path="/lake/orders", record_keys="id"),
        "source": "/in",
        "engine": "dataproc",
    }
    UpsertOperator(**given, engine_options=PLACE)
    with pytest.raises(HoodieConfigurationError, match="did you mean 'cluster_name'"):
        UpsertOperator(**given, engine_options={**PLACE, "cluster_nam": "lake"})
