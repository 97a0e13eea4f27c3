"""Tables of schema-on-read evolution that Apache Hudi made and we wrote on: Hudi reads them and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from tests.support.evolved import adopt, alter, ask, changed, commits, evolving
from tests.support.hudi_client import HudiServer
from tests.support.rows import assert_same_rows

pytestmark = pytest.mark.interop


def _ours(table: Path) -> pa.Table:
    """Two upserts, the second with a new column and a wider one, a delete, and what services write."""
    before = hoodie.read_table(str(table), meta=False)
    hoodie.write_table(changed(before, ["k001", "k003"], 50, {"title": "ours"}), str(table))
    if table.name == "evolved_mor":
        hoodie.compact_table(str(table))
    rows = changed(before, ["k004", "k006"], 51, {"title": "ours too"})
    place = rows.schema.get_field_index("note")
    rows = rows.set_column(place, "note", pa.array([2**40, None], pa.int64()))
    rows = rows.append_column("more", pa.array([{"p": 1, "q": "x"}, None]))
    hoodie.write_table(rows, str(table))
    gone = before.filter(pc.is_in(before["id"], pa.array(["k007"]))).select(["id", "region"])
    hoodie.write_table(gone, str(table), operation="delete")
    found: pa.Table = hoodie.read_table(str(table))
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", ["evolved_cow", "evolved_mor"])
def test_apache_hudi_reads_and_continues_what_we_wrote(
    hudi_015: HudiServer, hudi_12: HudiServer, evolved_tables: Path, tmp_path: Path, name: str
) -> None:
    table = tmp_path / name
    shutil.copytree(evolved_tables / name, table)
    expected = _ours(table)
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.table.name": name,
        "hoodie.schema.on.read.enable": "true",
        "hoodie.metadata.enable": "false",
    }
    with evolving(hudi_12):
        assert_same_rows(ask(hudi_12, table, "snapshot"), expected, meta=True, what="1.2.0")
    with evolving(hudi_015):
        assert_same_rows(ask(hudi_015, table, "snapshot"), expected, meta=True, what="0.15.0")
        for instant in commits(table)[-3:]:
            then = hoodie.read_table(str(table), as_of=instant)
            assert_same_rows(ask(hudi_015, table, f"asof_{instant}"), then, meta=True, what=instant)
        adopt(hudi_015, table)
        alter(
            hudi_015, table, "rename column title to label", "drop column note", "rename column more.p to r"
        )
        theirs = changed(ask(hudi_015, table, "snapshot"), ["k001", "k009"], 60, {"label": "theirs"})
        hudi_015.write(table, theirs, options)
        answer = ask(hudi_015, table, "snapshot")
        assert_same_rows(hoodie.read_table(str(table)), answer, meta=True, what="after both")
        assert {"label", "more"} <= set(answer.column_names)
        ours = changed(hoodie.read_table(str(table)), ["k009", "k012"], 70, {"label": "last"})
        hoodie.write_table(ours, str(table))
        assert_same_rows(ask(hudi_015, table, "snapshot"), hoodie.read_table(str(table)), meta=True)
