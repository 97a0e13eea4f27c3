"""Our engine on Spark 3.5, in a session that has Apache Hudi's bundle and its extension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodie
from tests.support.hudi_client import HudiServer
from tests.support.oracle import Model
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.spark]

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": 200,
}


@pytest.mark.full
def test_upserts_beside_apache_hudi(tmp_path: Path, hudi_015: HudiServer) -> None:
    """Of files that executors read, and of a DataFrame."""
    path, model, asked = tmp_path / "t", Model(["id"], ["region"], "ts"), list[Any]()
    for how, rows in (("file", small_rows(range(60), 1)), ("frame", small_rows(range(30, 90), 2))):
        file = tmp_path / f"{how}.parquet"
        pq.write_table(as_table(rows, SMALL_SCHEMA), file)
        asked.append([str(path), "upsert", str(file), OPTIONS])
        model.upsert(rows)
    done = hudi_015.program("operations", asked)["results"]
    counts = [(result["num_inserts"], result["num_updates"]) for result in done]
    assert counts == [(60, 0), (60, 0), (30, 30)], "the first one is of a dry run"
    expected = model.table(SMALL_SCHEMA)
    assert_same_rows(hoodie.read_table(str(path)), expected, what="ours")
    assert_same_rows(hudi_015.read(path), expected, what="Apache Hudi")
