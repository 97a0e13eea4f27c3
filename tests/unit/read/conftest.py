"""Queries of these tests share databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hoodie.read import duckdb_predicate
from tests.support.databases import Databases


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    made = Databases()
    yield made
    made.close()


@pytest.fixture(autouse=True, scope="module")
def shared_databases(databases: Databases) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb_predicate, "connection", databases.connection)
        yield
