"""Rows that commands print and write: formats, values of every kind, whole files; progress of a write."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.support.cli import Run, document

KEY = "hoodie.datasource.write.recordkey.field"
YEAR_10000 = 253402300800000000


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Rows of many types; the commands run in the folder beside it."""
    monkeypatch.chdir(tmp_path)
    rows = pa.table(
        {
            "id": [1, 2],
            "text": ['a "quoted", line\nbreak', ""],
            "n": pa.array([1.5, None]),
            "flag": [True, None],
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "ts": pa.array([0, YEAR_10000], pa.timestamp("us", "UTC")),
            "day": pa.array([1, None], pa.date32()),
            "raw": pa.array([b"\xff", None]),
            "tags": [["x", "y"], None],
            "ext": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
            "s": [{"a": 1, "t": "é"}, None],
        }
    )
    hoodie.write_table(rows, "t", options={KEY: "id"})
    return "t"


OBJECTS = [
    {
        "id": 1,
        "text": 'a "quoted", line\nbreak',
        "n": 1.5,
        "flag": True,
        "price": "1.50",
        "ts": "1970-01-01T00:00:00+00:00",
        "day": "1970-01-02",
        "raw": "/w==",
        "tags": ["x", "y"],
        "ext": {"k": 1},
        "s": {"a": 1, "t": "é"},
    },
    {
        "id": 2,
        "text": "",
        "ts": "10000-01-01 00:00:00.000000Z",
        **dict.fromkeys(("n", "flag", "price", "day", "raw", "tags", "ext", "s")),
    },
]
CSV = [
    {
        "id": "1",
        "text": 'a "quoted", line\nbreak',
        "n": "1.5",
        "flag": "true",
        "price": "1.50",
        "ts": "1970-01-01 00:00:00.000000Z",
        "day": "1970-01-02",
        "raw": "/w==",
        "tags": '["x", "y"]',
        "ext": '{"k": 1}',
        "s": '{"a": 1, "t": "é"}',
    },
    {
        "id": "2",
        "text": "",
        "ts": "10000-01-01 00:00:00.000000Z",
        **dict.fromkeys(("n", "flag", "price", "day", "raw", "tags", "ext", "s"), ""),
    },
]


def parsed(form: str, text: str) -> Any:
    if form == "json":
        return json.loads(text)
    if form == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_formats_of_files_and_of_stdout(run: Run, table: str, form: str) -> None:
    expected = CSV if form == "csv" else OBJECTS
    code, out, err = run("read", table, "--no-meta", "--format", form)
    assert (code, err) == (0, "")
    assert sorted(parsed(form, out), key=lambda row: int(row["id"])) == expected
    code, said, _ = run("read", table, "--no-meta", "--output", f"rows.{form}")
    assert (code, said.startswith("2 rows written to ")) == (0, True)
    assert Path(f"rows.{form}").read_bytes().decode() == out
    code, said, _ = run("read", table, "--no-meta", "--output", "rows.dat", "--format", form, "--json")
    assert (code, document(said)["num_rows"]) == (0, 2)
    assert Path("rows.dat").read_bytes().decode() == out
    empty = run("read", table, "--no-meta", "--where", "id = 3", "--format", form)
    assert (empty[0], parsed(form, empty[1])) == (0, [])
    limited = run("read", table, "--no-meta", "--limit", "1", "--format", form)
    assert (limited[0], len(parsed(form, limited[1]))) == (0, 1)


def test_a_time_after_9999_is_shown(run: Run, table: str) -> None:
    code, out, err = run("read", table, "--columns", "id,ts")
    assert (code, err) == (0, "")
    assert "10000-01-01 00:00:00.000000Z" in out
    code, out, _ = run("read", table, "--no-meta", "--json")
    assert sorted(document(out)["rows"], key=lambda row: int(row["id"])) == OBJECTS


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "ndjson", "parquet"])
def test_what_is_written_is_a_source(run: Run, table: str, suffix: str) -> None:
    columns = ["--columns", "id,text,n,flag"]
    assert run("read", table, *columns, "--where", "id = 1", "--output", f"rows.{suffix}")[0] == 0
    lines = ["--source-option", "multiLine=true"] if suffix == "csv" else []
    code, _, err = run("upsert", "u", "--source", f"rows.{suffix}", "--key", "id", *lines)
    assert code == 0, err
    assert hoodie.read_table("u", meta=False).to_pylist() == [
        {"id": 1, "text": 'a "quoted", line\nbreak', "n": 1.5, "flag": True}
    ]


def test_columns_of_one_name_enums_and_unions(run: Run, table: str) -> None:
    text = "SELECT 1 AS a, 2 AS a, union_value(n := id) AS u, 'x'::ENUM('x', 'y') AS e FROM t ORDER BY id"
    given = ["sql", text, "--table", f"t={table}"]
    code, out, err = run(*given)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[:4]] == [
        ["a", "a", "u", "e"],
        ["-", "-", "-", "-"],
        ["1", "2", "1", "x"],
        ["1", "2", "2", "x"],
    ]
    rows = [{"a": 1, "a_2": 2, "u": number, "e": "x"} for number in (1, 2)]
    found = document(run(*given, "--json")[1])
    assert found["rows"] == rows
    assert [column["name"] for column in found["columns"]] == ["a", "a_2", "u", "e"]
    assert parsed("jsonl", run(*given, "--format", "jsonl")[1]) == rows
    assert parsed("csv", run(*given, "--format", "csv")[1])[1] == {"a": "1", "a_2": "2", "u": "2", "e": "x"}
    code, _, err = run(*given, "--output", "o.parquet")
    assert (code, "Parquet has no type for column u" in err) == (1, True)
    assert not os.path.exists("o.parquet")
    text = "SELECT 1 AS a, 2 AS a, 'x'::ENUM('x', 'y') AS e FROM t"
    assert run("sql", text, "--table", f"t={table}", "--output", "o.parquet")[0] == 0
    assert pq.read_table("o.parquet").to_pylist() == [{"a": 1, "a_2": 2, "e": "x"}] * 2


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl", "o.json", "o.parquet"])
def test_a_file_appears_whole_or_not_at_all(run: Run, table: str, name: str) -> None:
    Path(name).write_text("before")
    text = "SELECT CASE WHEN id = 2 THEN error('stop') ELSE id END AS id FROM t"
    code, _, err = run("sql", text, "--table", f"t={table}", "--output", name)
    assert (code, "stop" in err) == (1, True)
    assert Path(name).read_text() == "before"
    assert sorted(os.listdir()) == [name, "t"]
    assert run("sql", "SELECT id FROM t", "--table", f"t={table}", "--output", name)[0] == 0
    assert Path(name).read_bytes()[:6] != b"before"
    assert sorted(os.listdir()) == [name, "t"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--output", "o.xlsx"],
            "no format has the suffix '.xlsx'; use one of .parquet, .csv",
        ),
        (["--output", "o"], "no format has the suffix ''"),
        (["--format", "parquet"], "--format parquet is for a file; add --output FILE.parquet"),
        (["--format", "csv", "--json"], "--json prints one document, --format csv rows"),
        (
            ["--output", "/dev/null", "--format", "csv"],
            "/dev/null is no regular file; name one",
        ),
        (["--output", "t", "--format", "csv"], "is a folder; name a file"),
        (["--output", "no/o.csv"], "no folder"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_files_that_are_refused(run: Run, table: str, arguments: list[str], message: str) -> None:
    code, out, err = run("read", table, *arguments)
    assert (code, message in out + err) == (1, True), err
    assert os.listdir() == ["t"]


def test_a_base_file_is_no_log(run: Run, table: str) -> None:
    (file,) = Path(table).glob("*.parquet")
    code, out, err = run("log", str(file))
    assert (code, out) == (1, "")
    assert "is a base file (Parquet), not a log file; give one of the logs that `hoodie files` lists" in err


def terminal(*arguments: str) -> tuple[int, str]:
    """The exit code of a command, and its standard error, which is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hoodie.cli", *arguments]
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], 120)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    return job.wait(120), text.decode()


def test_progress_of_a_write_on_a_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    days = [f"day{number % 3}" for number in range(3000)]
    pq.write_table(pa.table({"id": list(range(3000)), "day": days}), "rows.parquet")
    given = ["upsert", "t", "--source", "rows.parquet", "--key", "id", "--partition-by", "day"]
    code, text = terminal(*given)
    assert code == 0
    steps = [line.rpartition("\x1b[K")[2] for line in text.replace("\r\n", "\n").split("\n")]
    assert [step.partition(":")[0] for step in steps if step] == [
        *("stage", "stage", "metadata", "write", "commit")
    ]
    assert re.search(r"\x1b\[Kwrite: \d of 3 files, [\d,]+ of 3,000 rows, about \d+ s left", text), text
    code, _, err = run(*given)
    assert code == 0
    assert "\x1b" not in err
    assert " left" not in err
