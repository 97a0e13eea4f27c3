"""RECORD_INDEX beside Apache Hudi 0.15.0: the same history gives the same rows, each goes on with the index
that the other wrote, and it is true after every step.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import hoodie
from tests.interop.test_global_index import PAYLOADS, one_history, rows_of
from tests.interop.test_metadata_table import agrees
from tests.support.hudi_client import HudiServer
from tests.support.record_index import FEW_GROUPS, has_record_index, misplaced
from tests.support.shared_table import OFF, TYPES, Table

pytestmark = [pytest.mark.interop, pytest.mark.full]

INDEX: dict[str, Any] = {**FEW_GROUPS, "hoodie.index.type": "RECORD_INDEX"}
PLAIN = {**OFF, **INDEX}
CLUSTER = {"hoodie.clustering.plan.strategy.sort.columns": "ts", **FEW_GROUPS}
COMPACT = {"hoodie.compact.inline.max.delta.commits": 1, **FEW_GROUPS}


@pytest.mark.parametrize(
    ("moves", "table"), [(True, "MERGE_ON_READ"), (False, "COPY_ON_WRITE"), (True, "COPY_ON_WRITE")]
)
def test_the_same_history_gives_the_same_table(
    hudi_015: HudiServer, tmp_path: Path, moves: bool, table: str
) -> None:
    options = {
        "hoodie.datasource.write.table.type": table,
        "hoodie.datasource.write.payload.class": PAYLOADS["event time"],
        "hoodie.record.index.update.partition.path": str(moves).lower(),
        **PLAIN,
    }
    for step, (paths, expected) in enumerate(one_history(hudi_015, tmp_path, options)):  # noqa: B007
        for path in paths:
            assert has_record_index(path)
            assert misplaced(path) == [], (step, path)
    for path in paths:
        for metadata in (True, False):
            assert rows_of(hudi_015.read(path, metadata=metadata)) == expected, path


@pytest.mark.parametrize("kind", TYPES)
def test_in_turns(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """With compactions or clusterings of ours, rollbacks, and Apache Hudi writing on after each."""
    table = Table(tmp_path / f"indexed_{kind.lower()}", kind)
    path = str(table.path)
    servers = (hudi_015,)
    for version in range(1, 3):
        table.ours(version, PLAIN)
    agrees(table, "by us", servers)
    table.theirs(hudi_015, 3, PLAIN)
    agrees(table, "by Apache Hudi", servers)
    if kind == "MERGE_ON_READ":
        assert hoodie.compact_table(path, options=COMPACT).compacted
    else:
        assert hoodie.cluster_table(path, options=CLUSTER).clustered
    agrees(table, "rewritten by us", servers)
    table.theirs(hudi_015, 4, PLAIN)
    before = copy.deepcopy(table.model)
    table.ours(5, PLAIN)
    hoodie.rollback_table(path, max(table.commits()), options=FEW_GROUPS)
    table.model = before
    agrees(table, "rolled back", servers)
    for version in range(6, 16):
        if version % 2:
            table.ours(version, PLAIN)
        else:
            table.theirs(hudi_015, version, PLAIN)
        agrees(table, f"turn {version}", servers)
    assert has_record_index(path)
