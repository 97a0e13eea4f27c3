"""Tables that we take from version 6 to 8 or 9 and back, in the hands of Apache Hudi at each stop.

Tables of versions 8 and 9 are still refused for writing; the tests let them in.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie import service_api
from tests.interop.test_upgrade import UPGRADE, shown, upgrading, written
from tests.support.hudi_client import HudiServer
from tests.support.later_tables import writable
from tests.support.rows import assert_same_rows
from tests.support.shared_table import OFF, PAYLOAD, TYPES, Table
from tests.support.tables import SMALL_SCHEMA

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True)
def _writable() -> Iterator[None]:
    with writable():
        yield


def _agree(table: Table, *servers: HudiServer) -> None:
    expected = table.model.table(SMALL_SCHEMA)
    for server in servers:
        assert_same_rows(server.read(table.path), expected, what=f"Hudi {server.version}")


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_goes_on_in_tables_that_we_upgrade(
    tmp_path: Path, kind: str, hudi_12: HudiServer, hudi_015: HudiServer
) -> None:
    """Of everything that we write to a timeline and archive. It reads and writes at version 9, and so do we
    and Apache Hudi 0.15.0 once the table is of version 6 again.
    """
    table = Table(tmp_path / f"ours_{kind.lower()}", kind)
    written(table)
    path = str(table.path)
    _agree(table, hudi_015)
    service_api.delete_savepoint(path, _savepoint(table))
    assert service_api.upgrade_table(path, "9").status == "upgraded"
    archived = shown(hudi_12, table)
    assert archived
    _agree(table, hudi_12)
    with upgrading(hudi_12):
        table.theirs(hudi_12, 15, {**OFF, **UPGRADE})
        _agree(table, hudi_12)
        assert shown(hudi_12, table) == archived
    assert service_api.downgrade_table(path, "6").status == "downgraded"
    _agree(table, hudi_015)
    table.theirs(hudi_015, 16, OFF)
    table.ours(17, {**OFF, **_payload(kind)})
    _agree(table, hudi_015)


def _payload(kind: str) -> dict[str, Any]:
    return {"hoodie.datasource.write.payload.class": PAYLOAD} if kind == "MERGE_ON_READ" else {}


def _savepoint(table: Table) -> str:
    timeline = table.timeline()
    return next(str(item.time) for item in timeline if item.action.value == "savepoint")
