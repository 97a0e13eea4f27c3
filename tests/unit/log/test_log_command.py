"""`hoodie log`."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.format.log_block import BlockType, rollback_headers
from hoodie.format.log_data import DeleteRecords, encode_data_block, encode_delete_block
from hoodie.format.log_file import LogFileWriter
from hoodie.format.schema import to_avro_text
from hoodie.format.settings import Codec
from hoodie.storage.local import LocalStorage
from hoodie.timeline.time import InstantTime
from tests.support.arrow import arrow_schema
from tests.support.cli import Run
from tests.unit.log.reference import block

TABLE = arrow_schema([("id", pa.int64()), ("day", pa.date32()), ("tags", pa.map_(pa.string(), pa.int32()))])
ROWS = [{"id": i, "day": dt.date(2024, 1, 1), "tags": [("a", i)]} for i in range(25)]
TEXT = to_avro_text(TABLE, "t")


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "log")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Rows, deletes, a rollback, compacted rows as Parquet."""
    path = tmp_path / ".f-0_001.log.1_0-1-0"
    rows = pa.Table.from_pylist(ROWS, TABLE)
    ordering: Any = pa.array([None, 7], pa.int64())
    deletes = DeleteRecords(pa.array(["k1", "k2"]), pa.array(["p", "q"]), ordering)
    writer = LogFileWriter(LocalStorage().output(str(path)))
    writer.append(
        BlockType.AVRO_DATA,
        {0: "001", 2: TEXT},
        encode_data_block(rows, TEXT, BlockType.AVRO_DATA, Codec.ZSTD),
    )
    writer.append(BlockType.DELETE, {0: "001", 2: TEXT}, encode_delete_block(deletes))
    writer.append(BlockType.COMMAND, rollback_headers(InstantTime("003"), InstantTime("002")))
    writer.append(
        BlockType.PARQUET_DATA,
        {0: "004", 2: TEXT, 4: "000,001"},
        encode_data_block(rows.slice(0, 2), TEXT, BlockType.PARQUET_DATA, Codec.ZSTD),
    )
    writer.close()
    return path


def document(run: Run, *arguments: str) -> Any:
    code, out, err = run(*arguments, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    return json.loads(out)


def test_blocks_for_people(run: Run, log: Path) -> None:
    code, out, err = run(str(log))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == [
        "offset",
        "type",
        "instant",
        "target",
        "records",
        "deletes",
        "content",
        "note",
    ]
    assert [line.split()[1:3] for line in lines[2:6]] == [
        ["AVRO_DATA", "001"],
        ["DELETE", "001"],
        ["COMMAND", "003"],
        ["PARQUET_DATA", "004"],
    ]
    assert lines[2].split()[3:4] == ["25"]
    assert lines[4].split()[3:4] == ["002"]
    assert lines[5].endswith("compacts 000, 001")
    assert lines[-1].startswith("4 blocks, ")
    assert "k1" not in out


def test_blocks_for_programs(run: Run, log: Path) -> None:
    said = document(run, str(log))
    assert said["path"] == str(log)
    assert said["bytes"] == log.stat().st_size == sum(item["bytes"] for item in said["blocks"])
    assert (said["corrupt_blocks"], said["damage"]) == (0, None)
    rows, deletes, command, compacted = said["blocks"]
    assert (rows["records"], rows["deletes"], rows["instant"], rows["offset"]) == (25, None, "001", 0)
    assert rows["headers"] == {"INSTANT_TIME": "001", "SCHEMA": TEXT}
    assert (deletes["records"], deletes["deletes"]) == (None, 2)
    assert (command["target_instant"], command["content_bytes"]) == ("002", 0)
    assert (compacted["compacted_instants"], compacted["records"]) == (["000", "001"], 2)
    assert all("rows" not in item and item["problem"] is None for item in said["blocks"])


def test_records(run: Run, log: Path) -> None:
    rows, deletes, command, compacted = document(run, str(log), "--records")["blocks"]
    assert rows["rows"][3] == {"id": 3, "day": "2024-01-01", "tags": {"a": 3}}
    assert len(rows["rows"]) == 25
    assert deletes["rows"] == [
        {"record_key": "k1", "partition_path": "p", "ordering_value": None},
        {"record_key": "k2", "partition_path": "q", "ordering_value": 7},
    ]
    assert "rows" not in command
    assert compacted["rows"] == rows["rows"][:2]
    _, out, _ = run(str(log), "--records")
    assert "20 of 25 shown; --json prints all" in out
    assert out.count("2024-01-01") == 22
    assert "record_key" in out


def test_headers_of_newer_hudi(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(block(3, {0: "001", 5: "AQ=="}, b""))
    (item,) = document(run, str(path))["blocks"]
    assert item["headers"] == {"INSTANT_TIME": "001", "RECORD_POSITIONS": "AQ=="}


def test_what_cannot_be_read_stands_beside_its_block(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    torn = block(3, {0: "001"}, b"rows", cut=4)
    kryo = block(1, {0: "002"}, b"\x00\x00\x00\x02\x00\x00\x00\x00")
    path.write_bytes(torn + kryo + block(4, {0: "003", 2: TEXT}, b"hfile"))
    said = document(run, str(path), "--records")
    corrupt, old, hfile = said["blocks"]
    assert said["corrupt_blocks"] == 1
    assert (corrupt["type"], corrupt["bytes"], corrupt["problem"]) == ("CORRUPT", len(torn), None)
    assert "compact the table with Apache Hudi first" in old["problem"]
    assert "HFile" in hfile["problem"]
    code, out, _ = run(str(path), "--records")
    assert code == 0
    assert "1 of them corrupt: readers skip them" in out


def test_damage_ends_the_reading_and_is_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    good = block(1, {0: "001"}, b"\x00\x00\x00\x03\x00\x00\x00\x01\x00")
    path.write_bytes(good + block(9, {0: "002"}, b""))
    said = document(run, str(path))
    assert [item["deletes"] for item in said["blocks"]] == [0]
    assert f"damaged at byte {len(good)} (block type 9)" in said["damage"]
    assert "reading ends here" in run(str(path), "--records")[1]


def test_a_date_beyond_pythons_is_no_failure(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    text = '{"type":"record","name":"r","fields":[{"name":"d","type":{"type":"int","logicalType":"date"}}]}'
    record = b"\xfe\xff\xff\xff\x0f"
    content = b"\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x05" + record
    path.write_bytes(block(3, {0: "001", 2: text}, content))
    (item,) = document(run, str(path), "--records")["blocks"]
    assert (item["records"], item["problem"]) == (1, None)
    assert "2147483647" in item["rows"][0]["d"]


def test_an_empty_file_has_no_blocks(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"")
    assert document(run, str(path))["blocks"] == []
    assert "0 blocks" in run(str(path))[1]


def test_a_file_that_is_not_there(run: Run, tmp_path: Path) -> None:
    code, out, err = run(str(tmp_path / "none"))
    assert (code, out) == (1, "")
    assert "No such file" in err
