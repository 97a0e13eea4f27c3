"""Change logs of Apache Hudi 0.15.0 beside ours: the same schemas and bytes, and tables that we continue."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.format.cdc import LOGGING_MODE, LoggingMode, record_schema
from hoodie.format.log_block import HeaderKey
from hoodie.format.log_data import encode_data_block, read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.settings import Codec
from hoodie.table import properties
from tests.support.change_logs import STORAGE, changes, expected, ordered, rows_by_key

NAMES = ["cow_cdc", "mor_cdc"]


@pytest.mark.parametrize("name", NAMES)
def test_apache_hudis_change_logs_are_what_we_would_write(golden_tables: Path, name: str) -> None:
    table = golden_tables / "0.15.0-v6" / name / "table"
    mode = LoggingMode[properties.load(STORAGE, str(table))[LOGGING_MODE]]
    logs = sorted(table.rglob(".*.cdc"))
    assert logs
    for log in logs:
        instant = log.name.split("_")[1].split(".")[0]
        [commit] = [*table.glob(f".hoodie/{instant}.commit"), *table.glob(f".hoodie/{instant}.deltacommit")]
        schema = record_schema(mode, json.loads(commit.read_text())["extraMetadata"]["schema"])
        with LogFileReader(STORAGE, str(log)) as reader:
            [block] = reader.blocks()
            content = bytes(reader.content(block))
            assert block.headers == {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
            rows = read_data_block(block, content)
            assert b"".join(map(bytes, encode_data_block(rows, schema, block.type, Codec.GZIP))) == content


@pytest.mark.parametrize("name", NAMES)
def test_its_tables_are_continued(golden_tables: Path, tmp_path: Path, name: str) -> None:
    """Updates, new rows and deletes in base files that it wrote; on merge-on-read only new rows are, and the
    updates of files that take them.
    """
    table, steps = tmp_path / name, ["upsert", "delete"]
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", table)
    if name == "mor_cdc":
        hoodie.compact_table(str(table), options={"hoodie.compact.inline.max.delta.commits": 1})
        steps = ["upsert"]
    mode = properties.load(STORAGE, str(table))[LOGGING_MODE]
    rows = hoodie.read_table(str(table), meta=False)
    schema = rows.schema
    at = schema.get_field_index("ts")
    newer = rows.set_column(at, schema.field(at), pc.add(rows.column("ts"), 10**6)).slice(0, 20)
    keys = pa.chunked_array([[f"new{number}" for number in range(20)]])
    new = newer.set_column(schema.get_field_index("id"), schema.field("id"), keys)
    for operation in steps:
        before = rows_by_key(table, schema)
        given = pa.concat_tables([newer, new]) if operation == "upsert" else rows.slice(15, 10)
        instant = hoodie.write_table(given, str(table), operation=operation).instant
        wanted = expected(mode, instant, before, rows_by_key(table, schema))
        assert ordered(changes(table, instant)) == wanted
        assert len(wanted) == (40 if operation == "upsert" else 10)
