"""`hoodie files` and `hoodie log` on tables of versions 8 and 9 that Apache Hudi 1.2.0 wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hoodie.cli import main
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage
from hoodie.table.commit_keys import block_keys


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize(
    "name", ["1.2.0-v9/mor_pending_compaction", "more/nbcc_pending_compaction_between"], ids=["bases", "logs"]
)
def test_files_are_those_of_the_folders(
    later_tables: Path, later_more: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Log files too; a slice of log files alone has no name."""
    table = (later_more if name.startswith("more") else later_tables) / name / "table"
    groups = answered(capsys, "files", "--table", str(table))["file_groups"]
    slices = [item for group in groups for item in group["slices"]]
    found = {item["name"]: item["bytes"] for item in slices if item["name"]}
    found |= {log["name"]: log["bytes"] for item in slices for log in item["logs"]}
    files = [file for file in table.glob("*/*") if "-" in file.name and file.suffix != ".crc"]
    assert found == {file.name: file.stat().st_size for file in files}
    assert {item["name"] is None for item in slices} == ({True} if name.startswith("more") else {True, False})
    main(["files", "--table", str(table)])
    assert f"{len(files)} files of" in capsys.readouterr().out.splitlines()[-1]


def test_blocks_of_changed_columns(later_more: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = later_more / "more/sql_partial_updates2/table/dt=2024-01-02"
    [log] = folder.glob(".*_20261127072054541.log.1_*[0-9]")
    [block] = answered(capsys, "log", str(log), "--records")["blocks"]
    assert (block["changed_columns_only"], block["problem"], block["records"]) == (True, None, 5)
    named = [
        {name: text for name, text in row.items() if not name.startswith("_hoodie_")} for row in block["rows"]
    ]
    assert named == [{"ts": 5, "val": 100 * number} for number in (1, 3, 5, 7, 9)]
    with LogFileReader(LocalStorage(), str(log)) as reader:
        keys = [block_keys(item, reader.content(item)).to_pylist() for item in reader.blocks()]
    assert keys == [[row["_hoodie_record_key"] for row in block["rows"]]]
    headers = block["headers"]
    assert headers["IS_PARTIAL"] == "true"
    assert headers["BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS"] < block["instant"]
    main(["log", str(log)])
    assert "changed columns only" in capsys.readouterr().out
