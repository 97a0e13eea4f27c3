"""Figures of commits and services, as a push gateway gets them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.metrics.hook import text_of
from tests.support.receiver import Receiver

PREFIX = "hoodie.metrics."
TABLE = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "my-orders"}


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


def settings(address: str, **more: str) -> dict[str, str]:
    host, _, port = address.rpartition("/")[2].partition(":")
    given = {"on": "true", "reporter.type": "PROMETHEUS_PUSHGATEWAY", "pushgateway.host": host}
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {f"{PREFIX}{name}": value for name, value in {**given, "pushgateway.port": port, **named}.items()}


def write(table: Path, options: dict[str, str], *keys: str) -> Any:
    more = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    rows = pa.table({"id": list(keys or "a")})
    return hoodie.write_table(rows, str(table), options={**TABLE, **more, **options})


def values(text: str) -> dict[str, int]:
    """Of the text format: a type before each gauge."""
    assert re.fullmatch(r"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) gauge\n\2 -?[0-9]+\n)+", text)
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: int(value) for name, value in lines}


def test_a_commit(tmp_path: Path, receiver: Receiver) -> None:
    before = time.time()
    with receiver.listening() as address:
        results = [write(tmp_path / "t", settings(address), *keys) for keys in ("ab", "bc")]
    assert [result.warnings for result in results] == [[], []]
    assert receiver.paths == ["/metrics/job/my-orders"] * 2
    assert receiver.headers[0]["Content-Type"].startswith("text/plain; version=0.0.4")
    found = values(receiver.bodies[1])
    told = {name.removeprefix("my_orders_commit_"): value for name, value in found.items()}
    assert {name: told[name] for name in told if name.startswith("totalRecords")} == {
        "totalRecordsWritten": 3,
        "totalRecordsDeleted": 0,
    }
    assert (told["totalInsertRecordsWritten"], told["totalUpdateRecordsWritten"]) == (1, 1)
    assert (told["totalFilesInsert"], told["totalFilesUpdate"]) == (0, 1)
    assert (told["totalPartitionsWritten"], told["totalBytesWritten"]) == (1, results[1].bytes_written)
    assert 0 < told["duration"] < 20_000
    assert abs(told["commitTime"] - before * 1000) < 20_000
    assert len(told) == 16


def test_services_and_names(tmp_path: Path, receiver: Receiver) -> None:
    more = {"reporter_metricsname_prefix": "", "pushgateway_report_labels": "team:data/eu, env:a b"}
    with receiver.listening() as address:
        options = settings(address, **more) | {f"{PREFIX}pushgateway.job.name": "nightly"}
        instant = write(tmp_path / "t", options).instant
        hoodie.rollback_table(str(tmp_path / "t"), instant, options=options)
    assert set(receiver.paths) == {"/metrics/job/nightly/team@base64/ZGF0YS9ldQ==/env/a%20b"}
    assert values(receiver.bodies[-1])["rollback_numFilesDeleted"] == 1


def test_a_random_suffix_is_one_of_a_write(tmp_path: Path, receiver: Receiver) -> None:
    with receiver.listening() as address:
        for _ in range(2):
            write(tmp_path / "t", settings(address, pushgateway_random_job_name_suffix="true"))
    assert all(re.fullmatch(r"/metrics/job/my-orders\d+", path) for path in receiver.paths)
    assert len(set(receiver.paths)) == 2


def test_a_gateway_that_fails_is_a_warning(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.metrics.hook._TIMEOUT_S", 0.2)
    with receiver.listening() as address:
        receiver.statuses, receiver.answer = [400], b"no such name"
        refused = write(tmp_path / "t", settings(address)).warnings
        receiver.hangs = True
        hung = write(tmp_path / "t", settings(address)).warnings
    gone = write(tmp_path / "t", settings(address)).warnings
    begin = "the rows are committed, but the push of metrics failed: StorageError: the push gateway at "
    place = address.rpartition("/")[2]
    assert refused == [f"{begin}{place} answered 400: no such name"]
    assert hung == [f"{begin}{place} did not answer in 0.2 s"]
    assert gone[0].startswith(f"{begin}{place} is out of reach: ")
    assert len(hoodie.instants(str(tmp_path / "t"))) == 3


def test_other_reporters_are_a_warning(tmp_path: Path) -> None:
    (warning,) = write(tmp_path / "t", {f"{PREFIX}on": "true"}).warnings
    assert "hoodie.metrics.reporter.type=PROMETHEUS_PUSHGATEWAY" in warning


@pytest.mark.parametrize(
    "more",
    [
        {"pushgateway_host": "http://host"},
        {"pushgateway_host": "host/path"},
        {"pushgateway_host": ""},
        {"pushgateway_port": "0"},
        {"pushgateway_port": "99999"},
        {"pushgateway_report_labels": "team"},
        {"pushgateway_report_labels": "job:mine"},
        {"pushgateway_report_labels": "a b:mine"},
    ],
)
def test_settings_that_can_not_be_followed(tmp_path: Path, more: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.metrics\.pushgateway\."):
        write(tmp_path / "t", settings("http://host:9091", **more))
    assert not (tmp_path / "t").exists()


def test_names() -> None:
    assert text_of({"2024.t-1.é": 5}) == "# TYPE _2024_t_1__ gauge\n_2024_t_1__ 5\n"
