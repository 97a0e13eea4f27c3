"""The DAG of the quickstart: a day, twice."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import hoodie
from scripts.environment import ROOT
from tests.house.test_docs import blocks

from .by_version import on_this_airflow

[TEXT] = (text for text in blocks(ROOT / "docs" / "quickstart.md", "python") if "airflow" in text)


@pytest.mark.full
def test_a_day_is_one_commit(load_dag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(tmp_path))
        dag = load_dag(on_this_airflow(TEXT))
    for _ in range(2):
        run = dag.test(logical_date=datetime(2026, 1, 1, tzinfo=timezone.utc))
        assert run.state == "success"
    table = hoodie.Table(tmp_path / "lake" / "orders")
    assert [entry.operation for entry in table.history()] == ["upsert"]
    rows = table.read(["order_id", "amount"]).to_arrow().to_pylist()
    assert {row["order_id"]: row["amount"] for row in rows} == {"2026-01-01 1": 10.0, "2026-01-01 2": 20.0}
