"""Real Apache Hudi for a test session: one server a version."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import require
from tests.support.hudi_client import HudiServer, missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tables that are made here are of version 6, which all that read and write beside us know, where a test
    says nothing else.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("table_version") is None:
            item.add_marker(pytest.mark.table_version(6))


@pytest.fixture(scope="session")
def hudi_015() -> Iterator[HudiServer]:
    """Apache Hudi 0.15.0 on Spark 3.5."""
    yield from _server("0.15.0")


@pytest.fixture(scope="session")
def hudi_12() -> Iterator[HudiServer]:
    """Apache Hudi 1.2.0 on Spark 3.5, kept from upgrading tables of version 6."""
    yield from _server("1.2.0")


def _server(version: str) -> Iterator[HudiServer]:
    lacking = missing(version)
    require(lacking is None, str(lacking))
    with HudiServer(version) as server:
        yield server


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Writers of a table are in one time zone, which its instants are in; the servers' is UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
