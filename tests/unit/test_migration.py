"""The page of migration: every call that a table names is made, on a table of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from scripts.environment import ROOT
from tests.unit.test_docs import KEYS, orders

PAGE = (ROOT / "docs" / "migration.md").read_text()
CELLS = [line.split(" | ")[-1] for line in PAGE.splitlines() if line.startswith("| ")]
CALLS = list(dict.fromkeys(code for cell in CELLS for code in re.findall(r"`(hoodie\.[^`]*\))`", cell)))
NAMES = {name for cell in CELLS for name in re.findall(r"`(hoodie\.errors\.\w+|hoodie\.\w+_table)`", cell)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with three commits, and logs."""
    path = tmp_path_factory.mktemp("migration") / "orders"
    options = {**KEYS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    for first in (0, 10, 0):
        hoodie.write_table(orders(first), str(path), options=options)
    return path


def test_the_page_names_calls_of_each_tool() -> None:
    assert len(CALLS) > 35
    assert {"hoodie.errors.TableNotFound", "hoodie.errors.CommitConflict", "hoodie.sync_table"} == NAMES
    for name in NAMES:
        assert eval(name) is not None


@pytest.mark.parametrize("call", CALLS)
def test_a_call_works(made: Path, tmp_path: Path, call: str) -> None:
    path = str(tmp_path / "orders")
    shutil.copytree(made, path)
    times = [item["instant"] for item in hoodie.instants(path)]
    news = orders(10)
    values: dict[str, Any] = {
        "hoodie": hoodie,
        "path": path,
        "rows": news,
        "keys": news.slice(0, 1).select(["order_id", "order_date"]),
        "options": {name: text for name, text in KEYS.items() if ".datasource." in name},
        "instant": times[0],
        "newest": times[-1],
        "result": hoodie.Table(path).history()[0],
        "tables": {"orders": path, "news": news},
    }
    result = eval(call, values)
    assert result is not None
    if "DELETE" in call or "delete_where" in call or '"delete"' in call:
        assert result.num_deletes > 0
    if "UPDATE orders" in call or ".update(" in call:
        assert result.num_updates > 0
