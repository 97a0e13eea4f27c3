"""Reports of jobs in their table: written whole, deleted by who reads them, or once they are old."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, StorageError
from hoodie.storage import storage_for
from hoodie.table.doctor import check_table
from hoodie.timeline import job_reports
from hoodie.timeline.job_reports import JobReport, StoredReport
from tests.support.objects import stored
from tests.unit.write.support import PLAIN, plain

REPORT = JobReport(result={"status": "cleaned", "comments": "é\n", "half": "\udc80"})


@pytest.fixture(params=["file", "objects"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Path of a table that is not there yet."""
    if request.param == "file":
        yield f"{tmp_path}/t"
    else:
        with stored(tmp_path) as bucket:
            yield f"{bucket}/t"


def kept(base: str, tag: str) -> StoredReport:
    return StoredReport(path=base, options={}, tag=tag)


def names(base: str) -> list[str]:
    return sorted(storage_for(base).names(f"{base}/.hoodie/.aux/airflow-results"))


def test_a_report_is_read_and_deleted(base: str) -> None:
    report = kept(base, "hoodie-1")
    assert report.read() is None
    report.write(JobReport(error={"code": "input", "message": "x", "values": {"row": 1}}))
    report.write(REPORT)
    found = report.read()
    assert found == JobReport(result={"status": "cleaned", "comments": "é\n", "half": "?"})
    assert kept(base, "hoodie-2").read() is None
    for _ in range(2):
        report.delete()
    assert names(base) == []


def test_a_tag_is_no_path(tmp_path: Path) -> None:
    for tag in ("", "../x", "a/b", "a.json", "é", "x" * 65):
        with pytest.raises(ConfigError, match="letters, digits and dashes"):
            kept(str(tmp_path), tag).read()


def test_old_reports_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many by one job; what a killed one left of a file goes with them."""
    monkeypatch.setattr(job_reports, "_MOST", 2)
    base = str(tmp_path)
    for number in range(3):
        kept(base, f"old-{number}").write(REPORT)
    folder = tmp_path / ".hoodie/.aux/airflow-results"
    (folder / ".old-3.json.0123456789ab.hoodie-tmp").touch()
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    kept(base, "new").write(REPORT)
    assert len(names(base)) == 3
    kept(base, "newer").write(REPORT)
    assert names(base) == ["new.json", "newer.json"]


def test_a_table_that_can_not_be_tidied_takes_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise StorageError("no right to delete")

    report = kept(str(tmp_path), "new")
    monkeypatch.setattr(StoredReport, "_sweep", refused)
    report.write(REPORT)
    assert report.read() is not None


@pytest.mark.full
def test_a_report_is_nothing_to_the_table(tmp_path: Path) -> None:
    """One that is there before the table, as of a failed first write, and one beside its services."""
    path = str(tmp_path / "t")
    kept(path, "first").write(REPORT)
    options = {**PLAIN, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    for number in range(5):
        hoodie.write_table(plain(("a", number, "x")), path, options=options)
    kept(path, "second").write(REPORT)
    few = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    assert hoodie.clean_table(path, options=few).status == "cleaned"
    assert hoodie.archive_table(path, options=few).status == "archived"
    assert hoodie.read_table(path, meta=False).equals(pa.table(plain(("a", 4, "x"))))
    assert {found.status for found in check_table(path)} <= {"ok", "note"}
    assert names(path) == ["first.json", "second.json"]
