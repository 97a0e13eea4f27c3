"""Keys and paths recomputed from the data columns of tables that Apache Hudi 0.15.0 wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hoodie.config.key import Config, keys
from hoodie.keygen import key_generator

TABLES = [
    "cow_complex",
    "cow_nonpart",
    "cow_tskeygen",
    "cow_hive_urlenc",
    "cow_hive_noenc",
    "cow_types",
    "idx_bloom",
    "idx_bucket",
    "idx_simple",
]


@pytest.mark.parametrize("name", TABLES)
def test_keys_and_paths_as_hudi_stored_them(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    options = json.loads((folder / "meta.json").read_text())["write_options"]
    known = {k: v for k, v in options.items() if k in keys() and keys()[k].group == "keys"}
    files = [path for path in (folder / "table").rglob("[!.]*.parquet") if ".hoodie" not in path.parts]
    assert files
    for path in files:
        rows = pq.ParquetFile(path).read()
        generator = key_generator(Config.of(known), rows.schema)
        assert generator.record_keys(rows).to_pylist() == rows["_hoodie_record_key"].to_pylist()
        assert generator.partition_paths(rows).to_pylist() == rows["_hoodie_partition_path"].to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_persisted_entries_as_hudi_stored_them(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    options = json.loads((folder / "meta.json").read_text())["write_options"]
    known = {k: v for k, v in options.items() if k in keys() and keys()[k].group == "keys"}
    lines = (folder / "table" / ".hoodie" / "hoodie.properties").read_text().splitlines()
    stored = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    file = next(path for path in (folder / "table").rglob("[!.]*.parquet") if ".hoodie" not in path.parts)
    made = key_generator(Config.of(known), pq.read_schema(file)).persisted()
    made.pop("hoodie.keygen.timebased.timestamp.type", None)  # ours alone: Hudi forgets it
    assert made == {entry: stored[entry] for entry in made}
    keygen = {entry for entry in stored if "keygen" in entry or "hive_style" in entry or "urlencode" in entry}
    assert keygen <= made.keys()
