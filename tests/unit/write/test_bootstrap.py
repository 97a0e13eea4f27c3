"""Bootstrapped tables, whose skeleton files hold the meta columns only, are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import HoodieError
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import OPTIONS, data_files, listing

ROWS = as_table(small_rows(range(10), 1), SMALL_SCHEMA)
CALLS: dict[str, Callable[[str], Any]] = {
    "read": hoodie.read_table,
    "upsert": lambda path: hoodie.write_table(ROWS, path),
    "delete": lambda path: hoodie.write_table(ROWS, path, operation="delete"),
    "overwrite": lambda path: hoodie.write_table(ROWS, path, operation="insert_overwrite_table"),
    "cluster": lambda path: hoodie.cluster_table(path),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_table_whose_properties_name_a_bootstrap_base_path(tmp_path: Path, call: str) -> None:
    table = tmp_path / "t"
    hoodie.write_table(ROWS, str(table), options=OPTIONS)
    with (table / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write("hoodie.bootstrap.base.path=/elsewhere\n")
    _refused(table, call)


@pytest.mark.parametrize("call", CALLS)
def test_a_skeleton_file_in_a_table_whose_properties_do_not_tell(tmp_path: Path, call: str) -> None:
    table = tmp_path / "t"
    hoodie.write_table(ROWS, str(table), options=OPTIONS)
    for file in data_files(table):
        file.rename(file.with_name(file.name[: file.name.rindex("_")] + "_00000000000001.parquet"))
    _refused(table, call)


def _refused(table: Path, call: str) -> None:
    before = listing(table)
    with pytest.raises(HoodieError, match=r"bootstrap.*with Apache Hudi"):
        CALLS[call](str(table))
    assert listing(table) == before
