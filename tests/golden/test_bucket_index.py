"""Tables of the BUCKET index: rows are refused, as they would go to groups where Hudi never looks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.format.names import BaseFileName
from tests.support.rows import assert_same_rows

BUCKETED = ["idx_bucket", "mor_bucket", "mor_bucket_compacted"]
WRITES = ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]


@pytest.fixture
def table(golden_tables: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copytree(golden_tables / "0.15.0-v6" / request.param / "table", tmp_path / "table"))


def files(table: Path) -> list[str]:
    return sorted(str(path) for path in table.rglob("*") if "/metadata/" not in str(path))


@pytest.mark.parametrize("table", BUCKETED, indirect=True)
def test_rows_are_refused_and_nothing_is_written(table: Path) -> None:
    before = files(table)
    rows = hoodie.read_table(str(table), meta=False)
    place = rows.schema.get_field_index("region")
    elsewhere = rows.set_column(place, "region", pa.array(["new"] * rows.num_rows))
    for operation in WRITES:
        for incoming in (rows, elsewhere):
            with pytest.raises(ConfigError, match=r"BUCKET index.*0000000"):
                hoodie.write_table(incoming, str(table), operation=operation)
    for mode in ("schedule", "run"):
        with pytest.raises(ConfigError, match="BUCKET index"):
            hoodie.cluster_table(str(table), mode=mode)
    assert files(table) == before


@pytest.mark.parametrize("table", ["idx_bucket"], indirect=True)
def test_keys_are_deleted_and_the_groups_stay(table: Path) -> None:
    def ids() -> set[str]:
        names = (BaseFileName.parse(path.name) for path in table.glob("*/*.parquet"))
        return {name.file_id for name in names if name}

    before, groups = hoodie.read_table(str(table), meta=False), ids()
    gone = before.slice(0, 30)
    assert hoodie.write_table(gone, str(table), operation="delete").num_deletes == 30
    expected = before.filter(pc.invert(pc.is_in(before.column("id"), value_set=gone.column("id"))))
    assert_same_rows(hoodie.read_table(str(table)), expected)
    assert ids() == groups
