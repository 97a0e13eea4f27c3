"""Figures of operators in Airflow's metrics: Airflow's own StatsD logger, with a socket as the server.

The package statsd is not among the tests' packages: what stands in for its client sends its texts.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import Stats
from airflow.sdk.observability import stats

import hoodie
from airflow_hoodie import (
    ArchiveOperator,
    HoodieTable,
    IngestOperator,
    MaintenanceOperator,
    UpsertOperator,
)
from airflow_hoodie.exceptions import HoodieConflictError, from_error
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.stats import committed
from hoodie.backend.local import LocalBackend
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.jobs import _main
from hoodie.progress import silent
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.instant import Action
from hoodie.write.transaction import Transaction

OPTIONS = {"hoodie.metadata.enable": "false"}


class Client:
    """As statsd.StatsClient: each call is a datagram."""

    def __init__(self, host: str, port: int, prefix: str, ipv6: bool) -> None:
        self._place, self._prefix = (host, port), prefix

    def incr(self, stat: str, count: int, rate: float) -> None:
        self._send(f"{stat}:{count}|c")

    def timing(self, stat: str, delta: timedelta) -> None:
        self._send(f"{stat}:{delta.total_seconds() * 1000:.6f}|ms")

    def _send(self, text: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(f"{self._prefix}.{text}".encode(), self._place)


class Server:
    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.2)

    def heard(self) -> dict[str, float]:
        """Values by name, since the last call."""
        found = {}
        try:
            while True:
                name, _, value = self.socket.recv(4096).decode().rpartition(":")
                found[name] = float(value.partition("|")[0])
        except TimeoutError:
            return found


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    host, port = server.socket.getsockname()

    airflow: Any = importlib.import_module("airflow.sdk._shared.observability.metrics.statsd_logger")

    def factory() -> Any:
        return airflow.get_statsd_logger(
            stats_class=Client,
            host=host,
            port=port,
            prefix="airflow",
            influxdb_tags_enabled=True,
            statsd_influxdb_enabled=True,
        )

    stats.initialize(factory=factory, export_legacy_names=True)
    yield server
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
    server.socket.close()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HoodieTable:
    """Jobs run in this process, to save time."""

    def ran(_: HoodieLocalHook, request: dict[str, Any]) -> dict[str, Any]:
        operation = request["operation"]
        try:
            return _main.run(LocalBackend(), _main.parse_request(request, operation), silent)
        except HoodieError as error:
            raise from_error(error) from error

    monkeypatch.setattr(HoodieLocalHook, "run", ran)
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    return HoodieTable(name="orders", path=str(tmp_path / "t"), record_keys="id", options=OPTIONS)


def run(kind: Callable[..., Any], table: HoodieTable, *, tries: int = 1, **arguments: Any) -> dict[str, Any]:
    task = kind(task_id="t", table=table, engine="local", **arguments)
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=tries)
    result: dict[str, Any] = task.execute({"ti": ti})
    return result


def test_a_write_and_its_retry(table: HoodieTable, tmp_path: Path, server: Server) -> None:
    source = str(tmp_path / "rows.parquet")
    result = run(UpsertOperator, table, source=source)
    heard = server.heard()
    assert heard.pop("airflow.hoodie.upsert.duration,table=orders") == pytest.approx(
        result["duration_s"] * 1000, rel=1e-3
    )
    assert heard == {
        "airflow.hoodie.upsert.rows_inserted,table=orders": 2,
        "airflow.hoodie.upsert.rows_written,table=orders": 2,
        "airflow.hoodie.upsert.files,table=orders": 1,
        "airflow.hoodie.upsert.bytes,table=orders": result["bytes_written"],
    }
    run(UpsertOperator, table, source=source, tries=2)
    heard = server.heard()
    assert heard["airflow.hoodie.upsert.retries,table=orders"] == 1
    assert heard["airflow.hoodie.upsert.rows_updated,table=orders"] == 2


def test_a_conflict(table: HoodieTable, tmp_path: Path, server: Server) -> None:
    hoodie.write_table(pa.table({"id": ["a"]}), table.path, options=table.options_for("upsert"))
    config = Config.of({})
    with Transaction(Table(TableRef.of(table.path)), config, False, Action.COMMIT, lambda *_: None) as other:
        other.take()
        with pytest.raises(HoodieConflictError):
            run(UpsertOperator, table, source=str(tmp_path / "rows.parquet"), wait_for_writer=0)
    assert server.heard() == {"airflow.hoodie.upsert.conflicts,table=orders": 1}


def test_ingestions_and_services(table: HoodieTable, tmp_path: Path, server: Server) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id":"a","n":1}\nx\n')
    errors = str(tmp_path / "errors")
    run(IngestOperator, table, source=str(tmp_path / "in"), operation="insert", error_table=errors)
    heard = server.heard()
    assert heard["airflow.hoodie.insert.bad_rows,table=orders"] == 1
    assert heard["airflow.hoodie.insert.rows_inserted,table=orders"] == 1
    assert run(IngestOperator, table, source=str(tmp_path / "in"))["status"] == "nothing_new"
    run(ArchiveOperator, table)  # there is nothing to archive
    assert server.heard() == {}
    few = {"hoodie.cleaner.commits.retained": 1}
    for _ in range(3):
        hoodie.write_table(
            pa.table({"id": ["a"], "n": [2]}),
            table.path,
            options={**table.options_for("upsert"), "hoodie.table.services.enabled": "false"},
        )
    run(MaintenanceOperator, table, services="clean", options=few)
    heard = server.heard()
    assert heard["airflow.hoodie.clean.files,table=orders"] >= 1
    assert "airflow.hoodie.clean.duration,table=orders" in heard


def test_metrics_that_fail_are_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(Stats, "timing", broken)
    committed({"status": "committed", "instant": "1", "operation": "upsert", "table": "t"})
    assert "no metrics of hoodie.upsert: no route to host" in caplog.text
