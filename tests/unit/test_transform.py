"""SQL over the rows of a source, before they are written, by the local engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.backend.local import LocalBackend
from hoodie.cli import main
from hoodie.errors import ConfigError, InputError
from hoodie.jobs._main import parse_request, run
from hoodie.progress import silent
from hoodie.source import text

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": "100"}
ROWS = pa.table({"id": ["a", "b", "a"], "n": [1, 2, 3]})
SUMS = "select id, sum(n) as n from source group by id"


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def rows(table: str) -> list[dict[str, Any]]:
    return sorted(hoodie.read_table(table, columns=["id", "n"]).to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("kind", ["table", "reader", "dataset"])
def test_rows_of_every_kind(table: str, tmp_path: Path, kind: str) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    given: Any = ROWS
    if kind != "table":
        given = ROWS.to_reader(1) if kind == "reader" else ds.dataset(tmp_path / "rows.parquet")
    twice = f"{SUMS} having (select count(*) from source) = 3"  # it is scanned twice
    assert hoodie.write_table(given, table, options=OPTIONS, transform=twice).num_inserts == 2
    assert rows(table) == [{"id": "a", "n": 4}, {"id": "b", "n": 2}]


def test_a_large_text_file_is_streamed(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 8)
    monkeypatch.setattr(text, "HELD_BYTES", 0)
    pa.csv.write_csv(ROWS, tmp_path / "rows.csv")
    assert main([*words(table, tmp_path / "rows.csv"), "--transform", SUMS]) == 0
    assert rows(table) == [{"id": "a", "n": 4}, {"id": "b", "n": 2}]


def words(table: str, source: Path) -> list[str]:
    options = [word for name, value in OPTIONS.items() for word in ("--option", f"{name}={value}")]
    return ["upsert", "--table", table, "--source", str(source), *options]


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("select nosuch from source", r'"nosuch" not found in FROM clause.*; columns of source are id, n'),
        ("select id, from where", "the transform can't be evaluated: Parser Error"),
        ("select * from other", "Table with name other does not exist"),
        ("select * from read_csv('/etc/passwd')", "the transform can't be evaluated: Permission Error"),
        ("create table x as select 1", "give one SELECT"),
        ("select 1; select 2", "give one SELECT"),
        ("select id, cast(id as integer) as n from source", "Could not convert string 'a' to INT32"),
        (" ", "give one SELECT"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(table: str, transform: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        hoodie.write_table(ROWS, table, options=OPTIONS, transform=transform)
    assert not Path(table, ".hoodie").exists()


def test_a_file_that_can_not_be_read_is_no_fault_of_the_text(table: str, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    data = (tmp_path / "rows.parquet").read_bytes()
    found = ds.dataset(tmp_path / "rows.parquet")
    (tmp_path / "rows.parquet").write_bytes(b"x" * len(data))
    with pytest.raises(InputError, match=r"rows\.parquet can't be read as parquet"):
        hoodie.write_table(found, table, options=OPTIONS, transform=SUMS)


def test_another_text_is_another_write(table: str, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")

    def job(transform: str | None) -> dict[str, Any]:
        given = {"table": table, "source": str(tmp_path / "rows.parquet"), "options": OPTIONS, "token": "d/t"}
        request = {**given, **({"transform": transform} if transform else {})}
        return run(LocalBackend(), parse_request(request, "upsert"), silent)

    assert [job(text)["status"] for text in (SUMS, SUMS)] == ["committed", "already_committed"]
    changed = job("select id, 7 as n from source")
    assert changed["status"] == "committed"
    assert "its source changed" in changed["warnings"][0]
    assert [row["n"] for row in rows(table)] == [7, 7]
    assert job(None)["status"] == "committed"


def test_an_ingestion_and_a_dry_run(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(ROWS, tmp_path / "in" / "1.parquet")
    assert main([*words(table, tmp_path / "in"), "--transform", SUMS, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_inserts"] == 2
    text = "select 'x' as id, 1 as n"
    result = hoodie.ingest(str(tmp_path / "in"), table, options=OPTIONS, transform=text)
    assert result.write.num_inserts == 1
    assert rows(table) == [{"id": "x", "n": 1}]
