"""Error tables: records that can't be written are rows elsewhere, each once, and the others are written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
import hoodie.source.text
from hoodie.cli import main
from hoodie.errors import ConfigError, InputError
from hoodie.ingestion import run
from hoodie.pipeline import write
from hoodie.storage import storage_for
from hoodie.timeline.active import Timeline
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write.operation import WriteRequest

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.metadata.enable": "false",
}
GOOD = '{"id":"a","n":1}\n{"id":"b","n":2}\n'


class Landing:
    """A folder of text files, the table of the good rows and that of the bad ones."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table, self.errors = folder / "in", str(folder / "t"), str(folder / "errors")
        self.folder.mkdir()
        self.clock = 0

    def put(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.dated(path)

    def dated(self, path: Path) -> str:
        self.clock += 1
        os.utime(path, (self.clock, self.clock))
        return str(path)

    def run(self, **given: Any) -> dict[str, Any]:
        given = {"options": OPTIONS, "error_table": self.errors, **given}
        return hoodie.ingest(
            {"path": str(self.folder), **given.pop("source", {})}, self.table, **given
        ).to_dict()

    def ids(self) -> list[str]:
        return sorted(hoodie.read_table(self.table)["id"].to_pylist())

    def bad(self) -> list[tuple[Any, ...]]:
        rows = hoodie.read_table(self.errors, meta=False).sort_by(
            [("file", "ascending"), ("position", "ascending")]
        )
        return [(Path(row["file"]).name, row["position"], row["record"]) for row in rows.to_pylist()]

    def token(self) -> str:
        timeline = Timeline.load(self.table)
        assert timeline.last_commit is not None
        return str(timeline.commit(timeline.last_commit, storage_for(self.table)).extra_metadata[TOKEN_KEY])


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


@pytest.mark.parametrize("block", [pytest.param(16 << 20, marks=pytest.mark.full), 40])
def test_json(landing: Landing, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hoodie.source.text, "BLOCK_BYTES", block)
    landing.put("1.json", GOOD)
    result = landing.run()
    assert (result["num_bad_rows"], result["error_instant"]) == (0, "")
    assert not Path(landing.errors).exists()
    path = landing.put(
        "2.json",
        '{"id":"c","n":3}\n{"id":"d","n":"x"}\n\n{"id":"e",\n"n":5}\n{"n":6}\n{"id":"","n":7}\n'
        '{"id":"f"}\n{"id":"g","n":8}{"id":"h","n":9}\n{"id":"i","n":10}',
    )
    result = landing.run()
    assert (result["num_bad_rows"], result["num_inserts"], result["error_table"]) == (7, 2, landing.errors)
    assert any("7 bad rows went to" in warning for warning in result["warnings"])
    assert landing.ids() == ["a", "b", "c", "i"]
    assert [(position, record) for _, position, record in landing.bad()] == [
        (2, '{"id":"d","n":"x"}'),
        (4, '{"id":"e",'),
        (5, '"n":5}'),
        (6, '{"n":6}'),
        (7, '{"id":"","n":7}'),
        (8, '{"id":"f"}'),
        (9, '{"id":"g","n":8}{"id":"h","n":9}'),
    ]
    rows = hoodie.read_table(landing.errors).to_pylist()
    assert {row["file"] for row in rows} == {path}
    assert {row["token"] for row in rows} == {landing.token()}
    assert {row["_hoodie_commit_time"] for row in rows} == {result["error_instant"]}
    by_line = {row["position"]: row["error"] for row in rows}
    assert "n" in by_line[2]
    assert by_line[6] == "record key id is null or missing, or empty"
    assert by_line[8] == "ordering field n is null or missing"


@pytest.mark.parametrize("block", [pytest.param(16 << 20, marks=pytest.mark.full), 40])
def test_csv(landing: Landing, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hoodie.source.text, "BLOCK_BYTES", block)
    table = pa.table(
        {
            "id": ["a"],
            "n": pa.array([1], pa.int32()),
            "at": pa.array([0], pa.timestamp("us", "UTC")),
            "day": ["x"],
        }
    )
    options = {**OPTIONS, "hoodie.datasource.write.partitionpath.field": "day"}
    hoodie.write_table(table, landing.table, options=options)
    landing.put(
        "1.csv",
        b"id,n,at,day\r\nb,2,2024-01-01T00:00:00Z,x\nc,3000000000,,x\nd,4,noon,x\n"
        b"e,5,2024-01-01T00:00:00Z,x,9\n"
        b'"f\n",6,2024-01-01T00:00:00Z,x\ng,7,2024-01-01T00:00:00Z,\nh\xff,8,,x\n5" i,9,,x\n'
        b'"j ""k""",10,,x\n',
    )
    result = landing.run(options=options)
    assert landing.ids() == ['5" i', "a", "b", 'j "k"']
    assert [position for _, position, _ in landing.bad()] == [3, 4, 5, 6, 7, 8, 9]
    assert (result["num_bad_rows"], result["num_inserts"]) == (7, 3)


def test_parquet(landing: Landing) -> None:
    path = landing.folder / "1.parquet"
    pq.write_table(pa.table({"id": ["a", None, "c"], "n": [1, 2, None]}), path)
    landing.dated(path)
    assert landing.run()["num_bad_rows"] == 2
    assert landing.ids() == ["a"]
    assert landing.bad() == [
        ("1.parquet", None, '{"id": null, "n": 2}'),
        ("1.parquet", None, '{"id": "c", "n": null}'),
    ]


def test_without_an_error_table_a_bad_row_fails_the_run(landing: Landing) -> None:
    landing.put("1.json", f'{GOOD}{{"id":\n')
    with pytest.raises(InputError, match="can't read"):
        landing.run(error_table=None)
    assert not Path(landing.table).exists()
    settings = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": landing.errors}
    named = {**OPTIONS, **settings, "hoodie.errortable.target.table.name": "of_orders"}
    assert landing.run(error_table=None, options=named)["num_bad_rows"] == 1
    assert "hoodie.table.name=of_orders" in Path(landing.errors, ".hoodie/hoodie.properties").read_text()
    with pytest.raises(ConfigError, match=r"errortable\.enable='true' is not supported.*ingest"):
        hoodie.write_table(pa.table({"id": ["a"], "n": [1]}), landing.table, options=named)


def test_a_file_of_bad_records_alone_is_taken(landing: Landing) -> None:
    landing.put("1.json", "{")
    with pytest.raises(InputError, match="no columns to make a table of"):
        landing.run()
    landing.put("2.json", GOOD)
    assert landing.run()["num_bad_rows"] == 1
    landing.put("3.json", "x\ny\n")
    result = landing.run()
    assert (result["status"], result["num_bad_rows"], result["num_writes"]) == ("committed", 2, 0)
    assert landing.run()["status"] == "nothing_new"


def test_more_bad_rows_than_allowed_fail_before_anything_is_written(landing: Landing) -> None:
    name = landing.put("1.json", f"{GOOD}x\ny\n")
    with pytest.raises(InputError, match=rf"more than 1 rows of the source are bad.*{name} 3"):
        landing.run(max_bad_rows=1)
    assert not Path(landing.table).exists()
    assert not Path(landing.errors).exists()
    assert landing.run(max_bad_rows=2)["num_bad_rows"] == 2


def test_a_run_that_ends_between_the_commits_leaves_each_bad_row_once(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing.put("1.json", f"{GOOD}x\nx\n")
    with monkeypatch.context() as patch:

        def killed(engine: Any, frame: Any, request: WriteRequest, progress: Any) -> Any:
            if request.path == landing.errors:
                return write(engine, frame, request, progress)
            raise KeyboardInterrupt

        patch.setattr(run, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            landing.run()
    before = hoodie.instants(landing.errors)
    assert len(landing.bad()) == 2
    assert landing.run()["num_bad_rows"] == 2  # the same rows: found by their token
    assert hoodie.instants(landing.errors) == before
    with monkeypatch.context() as patch:
        patch.setattr(run, "write", killed)
        landing.put("2.json", "y\n")
        with pytest.raises(KeyboardInterrupt):
            landing.run()
    landing.put("3.json", "z\n")
    assert landing.run()["num_bad_rows"] == 2  # another file came: a commit of both, of which one is there
    assert [(name, record) for name, _, record in landing.bad()] == [
        ("1.json", "x"),
        ("1.json", "x"),
        ("2.json", "y"),
        ("3.json", "z"),
    ]
    assert landing.ids() == ["a", "b"]


def test_a_retry_of_the_task_run_tells_the_count_again(landing: Landing) -> None:
    from hoodie.timeline.tokens import RUN_KEY

    landing.put("1.json", f"{GOOD}x\n")
    extra = {RUN_KEY: '{"dag_id": "d"}'}
    first, again = landing.run(extra_metadata=extra), landing.run(extra_metadata=extra)
    assert (again["status"], again["instant"]) == ("already_committed", first["instant"])
    assert again["num_bad_rows"] == 1


def test_a_dry_run_counts_and_writes_nothing(landing: Landing) -> None:
    landing.put("1.json", f"{GOOD}x\n")
    result = landing.run(dry_run=True)
    assert (result["status"], result["num_bad_rows"], result["num_inserts"]) == ("planned", 1, 2)
    assert not Path(landing.errors).exists()


def test_rows_after_a_transform_are_its_own(landing: Landing) -> None:
    landing.put("1.json", f"{GOOD}x\n")
    assert landing.run(transform="select id, n + 1 as n from source")["num_bad_rows"] == 1
    assert hoodie.read_table(landing.table)["n"].to_pylist() == [2, 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_bad_rows": 0}, "max_bad_rows is 0"),
        ({"error_table": None, "max_bad_rows": 3}, "name one with error_table"),
        ({"error_table": " "}, "error_table is ' '"),
        ({"error_table": "{table}/errors"}, "share a folder"),
        ({"error_table": None, "options": {**OPTIONS, "hoodie.errortable.enable": "true"}}, "base.path"),
        (
            {"options": {**OPTIONS, "hoodie.errortable.write.failure.strategy": "LOG_ERROR"}},
            "committed first",
        ),
        ({"options": {**OPTIONS, "hoodie.errortable.write.class": "a.B"}}, "is not supported"),
        ({"source": {"format": "csv", "options": {"multiLine": "true"}}}, "multiLine=true"),
        ({"source": {"format": "csv", "options": {"header": "false"}}}, "with a header"),
    ],
)
def test_what_is_refused(landing: Landing, given: Mapping[str, Any], message: str) -> None:
    landing.put("1.json", GOOD)
    path = given.get("error_table", landing.errors)
    given = {**given, "error_table": path and path.replace("{table}", landing.table)}
    with pytest.raises(ConfigError, match=message):
        landing.run(**given)
    assert not Path(landing.table).exists()


def test_the_command(landing: Landing, capsys: pytest.CaptureFixture[str]) -> None:
    landing.put("1.json", f"{GOOD}x\n")
    words = [
        "ingest",
        "--table",
        landing.table,
        "--source",
        str(landing.folder),
        "--error-table",
        landing.errors,
    ]
    words += [word for name, value in OPTIONS.items() for word in ("--option", f"{name}={value}")]
    assert main(words) == 0
    assert "1 bad row set aside" in capsys.readouterr().out


@pytest.mark.full
def test_a_process_that_is_killed_between_the_commits(landing: Landing) -> None:
    code = """
import os, signal, sys
import hoodie
from hoodie.ingestion import run
write = run.write
def kill(engine, frame, request, progress):
    if request.path == sys.argv[3]:
        return write(engine, frame, request, progress)
    os.kill(os.getpid(), signal.SIGKILL)
run.write = kill
options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.metadata.enable": "false"}
hoodie.ingest({"path": sys.argv[1]}, sys.argv[2], error_table=sys.argv[3], options=options)
"""
    landing.put("1.json", f"{GOOD}x\n")
    words = [sys.executable, "-c", code, str(landing.folder), landing.table, landing.errors]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert (len(landing.bad()), Path(landing.table).exists()) == (1, False)
    result = landing.run()
    assert (result["status"], result["num_bad_rows"], len(landing.bad())) == ("committed", 1, 1)
    assert landing.ids() == ["a", "b"]


def test_an_array_of_json_has_no_lines_that_are_records(landing: Landing) -> None:
    path = landing.put("1.json", '[{"id":"a","n":1},\n{"id":"b","n":2}]')
    with pytest.raises(InputError, match="begins with an array") as caught:
        landing.run()
    assert path in caught.value.message
    assert landing.run(error_table=None)["num_inserts"] == 2


def test_json_files_whose_types_do_not_fit_are_named_with_the_column(landing: Landing) -> None:
    landing.put("1.json", '{"id":"a","n":1,"v":1.5}')
    for text in ('"x"', "[1]", '{"a":1}'):
        landing.put("2.json", f'{{"id":"b","n":1,"v":{text}}}')
        for errors in (landing.errors, None):
            with pytest.raises(InputError, match=r"column v is double in .*1\.json, and .* in .*2\.json"):
                landing.run(error_table=errors)
    assert not Path(landing.table).exists()


def test_new_fields_of_structs_are_added_and_bad_ones_are_rows(landing: Landing) -> None:
    landing.put("1.json", '{"id":"a","n":1,"s":{"c":1}}')
    landing.run()
    landing.put(
        "2.json",
        '{"id":"b","n":1,"s":{"c":2,"d":"new"}}\n{"id":"c","n":1,"s":{"c":"bad"}}\n',
    )
    assert landing.run()["num_bad_rows"] == 1
    found = hoodie.read_table(landing.table, columns=["id", "s"], meta=False).sort_by("id").to_pylist()
    assert found == [{"id": "a", "s": {"c": 1, "d": None}}, {"id": "b", "s": {"c": 2, "d": "new"}}]
    assert [position for _, position, _ in landing.bad()] == [2]
