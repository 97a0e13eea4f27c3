"""Backends: the local one, Spark's and a caller's own; tests/spark has Spark's sessions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.backend import BACKENDS, Backend
from hoodie.backend.choice import backend_for, backend_of
from hoodie.backend.local import LocalBackend
from hoodie.backend.spark import SparkBackend
from hoodie.engine import Engine
from hoodie.errors import ConfigError, InputError
from hoodie.jobs import _main

KEY = "hoodie.datasource.write.recordkey.field"
LOGS = {KEY: "id", "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
DUE = {"hoodie.compact.inline.max.delta.commits": "1"}


class Rows:
    """Rows of an engine of one's own."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.sparkSession = "a session"


class Own(LocalBackend):
    used = 0

    def engine(self) -> Engine:
        Own.used += 1
        return super().engine()


@pytest.fixture
def job(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def call(**request: Any) -> dict[str, Any]:
        capsys.readouterr()
        _main.main("services", ["--request", json.dumps(request)])
        answer: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1].partition(" ")[2])
        return answer

    return call


def test_every_name_leads_to_its_class() -> None:
    assert [BACKENDS.find("engine", name) for name in BACKENDS.places] == list(BACKENDS.classes())
    assert BACKENDS.find("engine", "SPARK") is SparkBackend
    assert not LocalBackend.has_session
    with pytest.raises(ConfigError, match="engine='ray' is no engine known here; use one of local, spark"):
        BACKENDS.find("engine", "ray")


def test_rows_and_sessions_choose() -> None:
    rows = pa.table({"id": ["a"]})
    assert isinstance(backend_of(None), LocalBackend)
    assert isinstance(backend_of(object()), SparkBackend)
    assert backend_of(own := Own()) is own
    assert isinstance(backend_for(rows, None), LocalBackend)
    assert isinstance(backend_for(Rows(rows), None), SparkBackend)
    assert isinstance(backend_for(rows, object()), SparkBackend)


@pytest.mark.parametrize("backend", [LocalBackend(), SparkBackend(object())])
def test_rows_of_neither_are_refused(backend: Backend) -> None:
    with pytest.raises(InputError, match="can't write a list; pass a Spark DataFrame, a pyarrow Table"):
        backend.frame(["a"])


def test_a_job_on_a_backend_of_ones_own(tmp_path: Path, job: Callable[..., dict[str, Any]]) -> None:
    table = str(tmp_path / "t")
    for value in (1, 2):
        hoodie.write_table(pa.table({"id": ["a"], "v": [value]}), table, options=LOGS)
    refused = job(table=table, engine="ray", options=DUE)
    assert (refused["code"], "engine='ray'" in refused["message"]) == ("configuration", True)
    done = job(table=table, engine=f"{__name__}:Own", services=["compaction"], options=DUE)
    assert (done["done"], Own.used) == (["compaction"], 1)
    assert hoodie.read_table(table, spark=Own()).column("v").to_pylist() == [2]
