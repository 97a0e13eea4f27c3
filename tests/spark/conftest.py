"""Spark sessions in interpreters of their own, one a version and mode for a test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.answers import Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    running = Servers()
    yield running
    running.close()
