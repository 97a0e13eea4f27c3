"""What `hoodie doctor` finds wrong with the files of a table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.cli import doctor
from hoodie.table.checkup import ERROR, NOTE, OK, WARNING, Finding
from hoodie.table.doctor import check_table
from hoodie.timeline.time import InstantTime
from tests.support.cli import Run, said
from tests.support.stores import timeline_at
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import OPTIONS

MOR = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}


def write(path: Path, options: dict[str, Any], versions: int) -> list[str]:
    tables = [as_table(small_rows(range(30), number), SMALL_SCHEMA) for number in range(1, versions + 1)]
    return [hoodie.write_table(rows, str(path), options=options).instant for rows in tables]


def findings(path: Path, *, deep: bool = False, check: str = "files") -> list[Finding]:
    return [item for item in check_table(str(path), deep) if item.check == check]


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def test_base_files_of_every_commit(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first, second = write(path, OPTIONS, 2)
    hoodie.write_table(as_table(small_rows([1], 3), SMALL_SCHEMA), str(path), options=OPTIONS)
    [sound] = findings(path)
    assert (sound.status, sound.text) == (OK, "all 7 that the active timeline names are there, in full")
    [gone] = (path / "eu").glob(f"*_{second}.parquet")
    gone.unlink()
    [finding] = findings(path)
    assert finding.status == ERROR
    assert finding.text == f"base file of {second}: eu/{gone.name} is missing"
    assert "hoodie restore" in finding.remedy
    [old] = (path / "us").glob(f"*_{first}.parquet")
    halve(old)
    _, finding = findings(path)
    assert finding.status == WARNING
    assert finding.text.startswith(f"base file of {first}: us/{old.name} has ")


def test_cleaned_files_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even where the clean is archived, and the commit that wrote them is not."""
    path = tmp_path / "t"
    first, *_ = write(path, {**OPTIONS, "hoodie.clean.automatic": "false"}, 3)
    result = hoodie.clean_table(str(path), options={"hoodie.cleaner.commits.retained": 1})
    assert result.status == "cleaned"
    assert not list(path.glob(f"*/*_{first}.parquet"))
    assert [item.status for item in findings(path)] == [OK]
    for file in timeline_at(path).glob("*.clean*"):
        file.unlink()
    assert [item.status for item in findings(path)] == [WARNING] * 3
    monkeypatch.setattr(doctor, "check_machine", lambda binary: [])  # in test_docs.py it runs
    code, text, _ = said(capsys, ["doctor", "--table", str(path), "--deep"])
    assert (code, "WARN  files" in text) == (0, True)


def test_log_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _, second, third = write(path, MOR, 3)
    first_log, log = sorted((path / "eu").glob(".*.log.*"), key=lambda file: file.stat().st_mtime_ns)
    whole = log.read_bytes()
    halve(log)
    [finding] = findings(path)
    assert (finding.status, f"log file of {third}: eu/{log.name} has " in finding.text) == (ERROR, True)
    log.write_bytes(whole + b"#HUDI#" + b"rest")
    assert [item.status for item in findings(path)] == [OK]
    [note, _] = findings(path, deep=True, check="contents")
    assert (note.status, "what a writer left that failed" in note.text) == (NOTE, True)
    data = first_log.read_bytes()
    first_log.write_bytes(data[:6] + b"\x00" * 8 + data[14:])  # the block's length
    assert [item.status for item in findings(path)] == [OK]
    hidden, *_ = findings(path, deep=True, check="contents")
    assert (hidden.status, f"rows that {second} wrote are hidden" in hidden.text) == (ERROR, True)


def test_pages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, OPTIONS, 2)
    [sound] = findings(path, deep=True, check="contents")
    assert (sound.status, sound.text[:13]) == (OK, "6 base files ")
    for number, file in enumerate(sorted((path / "eu").glob("*.parquet"))):
        data = file.read_bytes()
        file.write_bytes(data[:4] + b"\xff" * 600 + data[604:] if number else data[:-8] + b"\x00" * 8)
    assert [item.status for item in findings(path)] == [OK]
    found = findings(path, deep=True, check="contents")
    assert sorted(item.status for item in found) in ([ERROR, WARNING], [ERROR])
    assert all("eu/" in item.text and "written by" in item.text for item in found)


def test_files_of_savepoints_and_plans(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _, second = write(path, MOR, 2)
    hoodie.savepoint_table(str(path), InstantTime(second))
    always = {"hoodie.compact.inline.max.delta.commits": 1}
    plan = hoodie.compact_table(str(path), mode="schedule", options=always).scheduled
    for file in timeline_at(path).glob("*.deltacommit"):
        file.unlink()
    [base] = (path / "eu").glob("*.parquet")
    base.unlink()
    hoodie.write_table(as_table(small_rows([1], 4), SMALL_SCHEMA), str(path), options=MOR)
    found = [item for item in findings(path) if base.name in item.text]
    assert {item.status for item in found} == {ERROR}
    assert any(f"savepoint {second} needs" in item.text for item in found)
    assert any(f"compaction {plan} needs" in item.text for item in found)


@pytest.mark.full
@pytest.mark.parametrize("bundle", ["0.15.0-v6"])
def test_tables_of_apache_hudi(golden_tables: Path, tmp_path: Path, bundle: str) -> None:
    """All that it wrote is sound, however it was cleaned, rolled back, compacted or replaced."""
    for table in sorted((golden_tables / bundle).glob("*/table")):
        for check in ("files", "contents"):
            found = findings(table, deep=True, check=check)
            assert all(item.status in (OK, NOTE) for item in found), (table, found)
    copy = Path(shutil.copytree(golden_tables / bundle / "mor_logs" / "table", tmp_path / "t"))
    log = max(copy.glob("eu/.*.log.*"), key=lambda file: file.name)
    halve(log)
    [finding] = findings(copy)
    assert (finding.status, log.name in finding.text) == (ERROR, True)


@pytest.mark.full
def test_what_it_says_of_indexes(run: Run, tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": 100}
    hoodie.write_table(pa.table({"id": ["a"], "n": [1]}), table, options=options)
    hoodie.index_table(table, "create", "files")
    code, out, _ = run("doctor", "--table", table)
    assert "it lists the files that are there" in out
    [file] = Path(table).glob("*.parquet")
    file.rename(file.with_name("away"))
    code, out, _ = run("doctor", "--table", table)
    assert code == 1
    assert f"{file.name} is listed, and not there" in out
    assert f"hoodie index rebuild --table {table}" in out
