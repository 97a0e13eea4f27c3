"""Copy-on-write tables written by Apache Hudi 0.15.0: read by us, and written on by us."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.metadata.queries import MetadataTableIgnored
from tests.support.golden import COPY_ON_WRITE, FEATURES
from tests.support.metadata import disagreements, has_metadata_table
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

#: Hudi 0.15 answers this column from the partition path, which does not hold the value; we, hudi-rs and Hudi
#: 1.2 give what is stored
FROM_PATH = {"cow_tskeygen": "ev"}

#: written with settings that later Hudi writes can't be continued by us yet: refused, see NOT_WRITABLE
NOT_WRITABLE = {
    "cow_droppartcol": "drop.partition.columns",
    "cow_nometafields": "populate.meta.fields",
}
CONTINUED = ["cow_archived", "cow_cdc", "cow_complex", "cow_nonpart", "cow_hive_noenc", "cow_schema_evo",
             "cow_types", "cow_schema_on_read",
             "cow_insert_overwrite", "cow_delete_partition", "cow_rollback_failed", "cow_savepoint_restore",
             "idx_bloom", "mdt_full_cow"]  # fmt: skip


def _expected(folder: Path) -> pa.Table:
    return pq.read_table(folder / "expected" / "snapshot.parquet")


@pytest.mark.parametrize("name", full_but(set(COPY_ON_WRITE) - FEATURES, COPY_ON_WRITE))
def test_snapshot_equals_what_apache_hudi_answers(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    ignore = {FROM_PATH[name]} if name in FROM_PATH else set()
    assert_same_rows(
        hoodie.read_table(str(folder / "table")), _expected(folder), meta=True, ignore=ignore, what=name
    )


@pytest.mark.parametrize(
    "name",
    full_but(
        set(CONTINUED) - {"cow_archived", "cow_delete_partition", "idx_bloom", "mdt_full_cow"}, CONTINUED
    ),
)
def test_upsert_continues_a_table_of_apache_hudi(golden_tables: Path, tmp_path: Path, name: str) -> None:
    """Half of the rows are written again with a new value; all others stay as they were."""
    table = str(tmp_path / name)
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", table)
    before = hoodie.read_table(table, meta=False)
    ordering = json.loads((golden_tables / "0.15.0-v6" / name / "meta.json").read_text())["write_options"][
        "hoodie.datasource.write.precombine.field"
    ]
    half = before.slice(0, before.num_rows // 2)
    place = half.schema.get_field_index(ordering)
    newer = half.set_column(place, half.schema.field(place), pc.add(half.column(ordering), 10**6))
    result = hoodie.write_table(newer, table)
    assert (result.num_updates, result.num_inserts) == (half.num_rows, 0)
    expected = pa.concat_tables([newer, before.slice(half.num_rows)])
    assert_same_rows(hoodie.read_table(table), expected, what=name)
    assert_same_rows(read_hudi_rs(table), expected, what=f"{name} by hudi-rs")


@pytest.mark.parametrize("name", NOT_WRITABLE)
def test_tables_that_cannot_be_continued_are_refused(golden_tables: Path, tmp_path: Path, name: str) -> None:
    table = tmp_path / name
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", table)
    files = sorted(str(path) for path in table.rglob("*"))
    with pytest.raises(HoodieError, match=NOT_WRITABLE[name]):
        hoodie.write_table(hoodie.read_table(str(table), meta=False), str(table))
    assert sorted(str(path) for path in table.rglob("*")) == files


@pytest.mark.parametrize("name", ["mdt_files_only", "mdt_compacted"])
def test_a_metadata_table_is_kept(golden_tables: Path, tmp_path: Path, name: str) -> None:
    table = tmp_path / name
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", table)
    rows = hoodie.read_table(str(table), meta=False)
    for _ in range(2):
        result = hoodie.write_table(rows, str(table))
        assert (result.metadata_table_removed, result.warnings) == (False, [])
        assert has_metadata_table(table)
        assert disagreements(table) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", MetadataTableIgnored)
        assert_same_rows(hoodie.read_table(str(table), meta=False), rows)


def test_a_metadata_table_goes_where_the_settings_say_so(golden_tables: Path, tmp_path: Path) -> None:
    table = tmp_path / "mdt_files_only"
    shutil.copytree(golden_tables / "0.15.0-v6" / "mdt_files_only" / "table", table)
    rows = hoodie.read_table(str(table), meta=False)
    result = hoodie.write_table(rows, str(table), options={"hoodie.metadata.enable": "false"})
    assert result.metadata_table_removed
    assert not (table / ".hoodie" / "metadata").exists()
    assert "hoodie.table.metadata.partitions" not in (table / ".hoodie" / "hoodie.properties").read_text()
    assert not hoodie.write_table(rows, str(table)).metadata_table_removed
