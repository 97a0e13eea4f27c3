"""The command line as people and programs use it: in this process, on the local engine."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.cli import main
from tests.support.stores import after, timeline_at

KEYED = ["--option", "hoodie.datasource.write.recordkey.field=id"]
OPTIONS = [
    *KEYED,
    *["--option", "hoodie.datasource.write.partitionpath.field=region"],
    *["--option", "hoodie.datasource.write.precombine.field=ts"],
]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout, which must be one JSON document on one line."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        assert set(self.document) == {"error"}
        error: dict[str, Any] = self.document["error"]
        return error


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs one command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


def write_csv(name: str, rows: list[dict[str, Any]]) -> str:
    with open(name, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of two commits: three rows, then one update and one insert."""
    folder = tmp_path_factory.mktemp("cli")
    first = [
        {"id": "a", "region": "eu", "ts": 1, "n": 1},
        {"id": "b", "region": "eu", "ts": 1, "n": 2},
        {"id": "c", "region": "us", "ts": 1, "n": 3},
    ]
    second = [{"id": "a", "region": "eu", "ts": 2, "n": 10}, {"id": "d", "region": "us", "ts": 1, "n": 4}]
    for number, rows in enumerate((first, second)):
        source = write_csv(str(folder / f"{number}.csv"), rows)
        assert main(["upsert", "--table", str(folder / "t"), "--source", source, *OPTIONS]) == 0
    return folder


@pytest.fixture
def table(run: Run, made: Path, tmp_path: Path) -> str:
    """The table in the folder of the commands, and what it was written from."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return "t"


# --- writes ------------------------------------------------------------------------------------------


def test_an_upsert_for_people(run: Run) -> None:
    source = write_csv("a.csv", [{"id": 1, "n": 5}, {"id": 2, "n": 6}])
    said = run("upsert", "--table", "t", "--source", source, *KEYED)
    assert said.code == 0
    head, files = said.out.splitlines()
    assert head.startswith("Committed upsert 2")
    assert head.endswith(" to t: 2 inserted, 0 updated, 0 deleted")
    assert files.startswith("  1 file of ")
    assert "in 1 partition, " in files
    assert [line.partition(":")[0] for line in said.err.splitlines()] == ["stage", "stage", "write", "commit"]


def test_an_upsert_for_programs(run: Run, table: str) -> None:
    source = write_csv("a.csv", [{"id": "a", "region": "eu", "ts": 3, "n": 100}])
    said = run("upsert", "--table", table, "--source", source, "--json")
    assert (said.code, said.err) == (0, "")
    result = said.document
    assert (result["status"], result["operation"], result["partitions"]) == ("committed", "upsert", ["eu"])
    assert (result["num_inserts"], result["num_updates"], result["num_writes"]) == (0, 1, 2)
    assert result["instant"] == hoodie.instants(table)[-1]["instant"]


@pytest.mark.parametrize("command", ["insert", "bulk-insert"])
def test_inserts_do_not_look_for_keys(run: Run, table: str, command: str) -> None:
    said = run(command, "--table", table, "--source", "0.csv", "--json")
    assert said.document["operation"] == command.replace("-", "_")
    assert said.document["num_inserts"] == 3
    assert hoodie.read_table(table).num_rows == 7


def test_several_sources_and_formats(run: Run) -> None:
    pq.write_table(pa.table({"id": [1], "n": [1]}), "1.parquet")
    pq.write_table(pa.table({"id": [2], "n": [2]}), "2.parquet")
    os.mkdir("in")
    Path("in/rows.txt").write_text('{"id": 3, "n": 3}\n')
    assert run("upsert", "--table", "t", "--source", "1.parquet", "--source", "2*", *KEYED).code == 0
    said = run("upsert", "--table", "t", "--source", "in/*", "--format", "json")
    assert said.code == 0, said.err
    assert sorted(hoodie.read_table("t")["id"].to_pylist()) == [1, 2, 3]


def test_a_day_of_other_looking_values_does_not_change_the_table(run: Run, table: str) -> None:
    rows = [{"id": 7, "region": "eu", "ts": 1, "n": ""}, {"id": "007", "region": "eu", "ts": 1, "n": ""}]
    assert run("upsert", "--table", table, "--source", write_csv("a.csv", rows)).code == 0
    found = hoodie.read_table(table, where="region = 'eu'", meta=False)
    assert found.schema.field("n").type == pa.int64()
    assert {"7", "007"} < set(found["id"].to_pylist())


def test_properties_file_and_options_over_it(run: Run) -> None:
    text = "# settings\nhoodie.datasource.write.recordkey.field = id\nhoodie.table.name: from_\\\n  file\n"
    Path("w.properties").write_text(text)
    source = write_csv("a.csv", [{"id": 1}])
    said = run("upsert", "--table", "t", "--source", source, "--properties", "w.properties", "--json")
    assert said.document["table"] == "from_file"
    named = ["--properties", "w.properties", "--option", "hoodie.table.name=given"]
    assert run("upsert", "--table", "u", "--source", source, *named, "--json").document["table"] == "given"


def test_source_options_reach_the_reader(run: Run) -> None:
    Path("a.csv").write_text("id;n\n1;2\n")
    said = run("upsert", "--table", "t", "--source", "a.csv", "--source-option", "sep=;", *KEYED)
    assert said.code == 0, said.err
    assert hoodie.read_table("t", meta=False).to_pylist() == [{"id": 1, "n": 2}]


def test_a_source_without_rows_makes_a_commit_without_files(run: Run, table: str) -> None:
    Path("none.csv").write_text("id,region,ts,n\n")
    said = run("upsert", "--table", table, "--source", "none.csv", "--json")
    assert said.code == 0, said.out
    assert (said.document["num_files"], said.document["partitions"]) == (0, [])
    assert len(hoodie.instants(table)) == 3


def test_a_name_that_hudi_knows_without_effect_here_is_a_warning(run: Run) -> None:
    source = write_csv("a.csv", [{"id": 1}])
    said = run("upsert", "--table", "t", "--source", source, *KEYED, "--option", "hoodie.metrics.jmx.port=1")
    assert said.code == 0
    assert "  warning: known to Apache Hudi but without effect here: hoodie.metrics.jmx.port" in said.out


# --- reading -----------------------------------------------------------------------------------------


def test_read_for_people(run: Run, table: str) -> None:
    said = run("read", "--table", table, "--no-meta", "--where", "n >= 3", "--columns", "id,n")
    lines = said.out.splitlines()
    assert lines[:2] == ["id   n", "--  --"]
    assert sorted(lines[2:5]) == ["a   10", "c    3", "d    4"]
    assert lines[5:] == ["", "3 rows"]


def test_read_for_programs(run: Run, table: str) -> None:
    document = run("read", "--table", table, "--json", "--where", "id = 'a'").document
    names = [column["name"] for column in document["columns"]]
    assert names == [*(name for name in names if name.startswith("_hoodie_")), "id", "region", "ts", "n"]
    assert len(names) == 9
    assert {"name": "n", "type": "int64"} in document["columns"]
    [row] = document["rows"]
    assert (row["id"], row["n"], row["_hoodie_record_key"]) == ("a", 10, "a")
    assert document["base_path"] == os.path.abspath(table)


def test_queries(run: Run, table: str) -> None:
    first, second = (entry["instant"] for entry in hoodie.instants(table))

    def answer(*arguments: str) -> list[tuple[str, int]]:
        said = run("read", "--table", table, "--columns", "id,n", "--json", *arguments)
        assert said.code == 0, said.out
        return sorted((row["id"], row["n"]) for row in said.document["rows"])

    since, until = after(table, first), after(table, second)
    assert answer("--query", "incremental", "--begin", since) == [("a", 10), ("d", 4)]
    assert answer("--begin", since, "--end", until, "--where", "n > 4") == [("a", 10)]
    assert answer("--begin", "earliest") == answer("--query", "read_optimized") == answer()
    before = [("a", 1), ("b", 2), ("c", 3)]
    assert answer("--query", "time_travel", "--as-of", first) == answer("--as-of", first) == before
    assert (
        answer("--as-of", "9999-12-31 00:00:00", "--option", "hoodie.memory.merge.max.size=100000")
        == answer()
    )
    for arguments, message in (
        (["--query", "incremental"], "needs --begin: an instant"),
        (["--begin", "lunch"], "--begin 'lunch' is no point in time"),
        (["--query", "snapshot", "--as-of", "2001-01-01"], "--as-of belongs to a query of type time_travel"),
        (["--as-of", "2001-01-01"], "hoodie: --as-of 20010101000000000 is before"),
        (["--as-of", "2001-01-01"], f"begins with commit {first}"),
        (["--query", "fastest"], "use one of snapshot, read_optimized, incremental, time_travel"),
        (["--query", "snapshto"], "time_travel, did you mean 'snapshot'?"),
        (["--option", "hoodie.memory.merge.max.sise=1"], "did you mean 'hoodie.memory.merge.max.size'"),
    ):
        said = run("read", "--table", table, *arguments)
        assert said.code == 1
        assert message in said.err


def test_all_kinds_of_values_are_json(run: Run) -> None:
    rows = pa.table(
        {
            "id": ["k"],
            "f": pa.array([float("nan")]),
            "d": pa.array([None], pa.decimal128(5, 2)),
            "b": pa.array([b"\xff"]),
            "m": pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int32())),
            "t": pa.array([0], pa.timestamp("us", "UTC")),
            "day": pa.array([1], pa.date32()),
            "s": [{"text": 'a"\n', "list": [1, None]}],
        }
    )
    hoodie.write_table(rows, "t", options={"hoodie.datasource.write.recordkey.field": "id"})
    [row] = run("read", "--table", "t", "--no-meta", "--json").document["rows"]
    assert row == {
        "id": "k",
        "f": "nan",
        "d": None,
        "b": "/w==",
        "m": {"x": 1},
        "t": "1970-01-01T00:00:00+00:00",
        "day": "1970-01-02",
        "s": {"text": 'a"\n', "list": [1, None]},
    }
    shown = run("read", "--table", "t", "--no-meta").out
    assert '{"text": "a\\"\\n", "list": [1, null]}' in shown


def test_the_screen_shows_twenty_rows_programs_get_all(run: Run) -> None:
    rows = pa.table({"id": list(range(30))})
    hoodie.write_table(rows, "t", options={"hoodie.datasource.write.recordkey.field": "id"})
    said = run("read", "--table", "t", "--columns", "id")
    assert len(said.out.splitlines()) == 24
    note = "30 rows, 20 shown; --limit N shows more, --output FILE.parquet writes all"
    assert said.out.splitlines()[-1] == note
    assert len(run("read", "--table", "t", "--json").document["rows"]) == 30
    limited = run("read", "--table", "t", "--json", "--limit", "5").document
    assert (limited["num_rows"], len(limited["rows"])) == (30, 5)


def test_read_into_a_file(run: Run, table: str) -> None:
    said = run("read", "--table", table, "--no-meta", "--output", "o.parquet")
    assert said.out.startswith("4 rows written to ")
    stored = pq.read_table("o.parquet")
    Path("o.parquet").write_text("replaced")
    assert stored.equals(hoodie.read_table(table, meta=False))
    document = run("read", "--table", table, "--output", "o.parquet", "--json").document
    assert document == {
        "output": os.path.abspath("o.parquet"),
        "num_rows": 4,
        "bytes": os.path.getsize("o.parquet"),
    }
    assert sorted(os.listdir()) == ["0.csv", "1.csv", "o.parquet", "t"]
    assert "no folder" in run("read", "--table", table, "--output", "no/o.parquet").err


def test_timeline(run: Run, table: str) -> None:
    times = [entry["instant"] for entry in hoodie.instants(table)]
    heads, _, *lines, _, note = run("timeline", "--table", table).out.splitlines()
    assert heads.split()[:4] == ["instant", "action", "state", "operation"]
    assert [line.split()[:7] for line in lines] == [
        [times[0], "commit", "completed", "upsert", "3", "0", "0"],
        [times[1], "commit", "completed", "upsert", "1", "1", "0"],
    ]
    assert note == "2 instants"
    document = run("timeline", "--table", table, "--json").document
    assert document["instants"] == hoodie.instants(table)


def test_a_pending_write_is_on_the_timeline(run: Run, table: str) -> None:
    (timeline_at(table) / "29990101000000000.commit.requested").touch()
    last = run("timeline", "--table", table).out.splitlines()[-3].split()
    assert last[:3] == ["29990101000000000", "commit", "requested"]


def test_files(run: Run, table: str) -> None:
    document = run("files", "--table", table, "--json").document
    assert document["file_groups"] == hoodie.file_groups(table)
    assert [(group["partition"], len(group["slices"])) for group in document["file_groups"]] == [
        ("eu", 2),
        ("us", 2),
    ]
    said = run("files", "--table", table)
    assert said.out.splitlines()[-1].startswith("2 file groups, 4 files of ")
    newest = document["file_groups"][0]["slices"][0]
    assert newest["bytes"] == os.path.getsize(Path(table, "eu", newest["name"]))


def test_config_lists_every_setting(run: Run) -> None:
    document = run("config", "--json").document
    named = {setting["name"]: setting for setting in document["settings"]}
    assert named["hoodie.parquet.max.file.size"]["default"] == "125829120"
    assert named["hoodie.table.name"]["default"] is None
    assert all(setting["meaning"] for setting in document["settings"])
    shown = run("config", "parquet.max").out
    assert "hoodie.parquet.max.file.size  (default 125829120)" in shown
    assert "hoodie.table.name" not in shown
    assert "no setting has 'nosuch' in its name" in run("config", "nosuch").err


# --- bad input ---------------------------------------------------------------------------------------

FAILURES = {
    "no such source": (["upsert", "--source", "nosuch.csv"], "source_not_found", "no such source: nosuch"),
    "a source of another format": (
        ["upsert", "--source", "0.csv", "--format", "parquet"],
        "input",
        "0.csv as parquet: it does not end as a Parquet file does",
    ),
    "an unknown setting": (
        ["upsert", "--source", "0.csv", "--option", "hoodie.datasource.write.recordkey.fields=id"],
        "configuration",
        "did you mean 'hoodie.datasource.write.recordkey.field'?",
    ),
    "a malformed setting": (
        ["upsert", "--source", "0.csv", "--option", "hoodie.parquet.max.file.size=big"],
        "configuration",
        "hoodie.parquet.max.file.size='big': expected a whole number",
    ),
    "other keys than the table's": (
        ["upsert", "--source", "0.csv", "--option", "hoodie.datasource.write.recordkey.field=n"],
        "table_mismatch",
        "the table has 'id'",
    ),
    "no properties file": (
        ["upsert", "--source", "0.csv", "--properties", "no.properties"],
        "configuration",
        "can't read the properties file no.properties: No such file or directory",
    ),
    "a master for the local engine": (
        ["upsert", "--source", "0.csv", "--master", "local[2]"],
        "configuration",
        "--master is for --engine spark",
    ),
    "a predicate that is no SQL": (
        ["read", "--where", "n >"],
        "configuration",
        "--where 'n >' can't be evaluated",
    ),
    "a predicate on no column": (["read", "--where", "m = 1"], "configuration", "--where 'm = 1'"),
    "a column that is not there": (["read", "--columns", "id,m"], "configuration", "no column m in "),
    "no columns": (["read", "--columns", ","], "configuration", "--columns is empty"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures(case: str, run: Run, table: str) -> None:
    (command, *rest), code, message = FAILURES[case]
    before = sorted(os.listdir(Path(table, ".hoodie")))
    said = run(command, "--table", table, *rest)
    assert said.code == 1
    assert said.out == ""
    assert message in said.err
    assert said.err.startswith("hoodie: ")
    assert said.err.count("\n") == 1
    machine = run(command, "--table", table, *rest, "--json")
    assert (machine.code, machine.err) == (1, "")
    assert machine.error["code"] == code
    assert said.err == f"hoodie: {machine.error['message']}\n"
    assert sorted(os.listdir(Path(table, ".hoodie"))) == before


@pytest.mark.parametrize("command", ["read", "timeline", "files"])
def test_a_path_that_is_no_table(command: str, run: Run) -> None:
    os.mkdir("folder")
    for path in ("folder", "nosuch"):
        said = run(command, "--table", path, "--json")
        assert said.code == 1
        assert said.error["code"] == "table_not_found"
        assert f"{os.path.abspath(path)} is no Hudi table" in said.error["message"]


def test_a_write_into_a_folder_of_other_files(run: Run) -> None:
    os.mkdir("folder")
    Path("folder/notes.txt").touch()
    said = run("upsert", "--table", "folder", "--source", write_csv("a.csv", [{"id": 1}]), *KEYED)
    assert said.code == 1
    assert "holds 'notes.txt' and is no Hudi table" in said.err
    assert os.listdir("folder") == ["notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["upsert", "--table", "t"], "the following arguments are required: --source"),
        (["upsrt"], "invalid choice: 'upsrt'"),
        (["insert", "--table", "t", "--source", "a", "--option", "x"], "'x' is not KEY=VALUE"),
        (["insert", "--table", "t", "--source", "a", "--engine", "flink"], "invalid choice: 'flink'"),
        (["read", "--table", "t", "--limit", "-1"], "'-1' is no number of rows"),
        (["timeline", "--table", "t", "--verbose"], "unrecognized arguments: --verbose"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str, run: Run) -> None:
    said = run(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("usage: hoodie")
    assert message in said.err
    machine = run(*arguments, "--json")
    assert (machine.code, machine.err) == (2, "")
    assert machine.error["code"] == "usage"
    assert message in machine.error["message"]


def test_help_says_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "exit codes: 0 done; 1 failed" in capsys.readouterr().out


def test_what_is_not_installed_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    for module in ("hoodie.source.arrow", "hoodie.source.arrow", "hoodie.source.csv_file"):
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.delattr(module, raising=False)
    Path("a.csv").write_text("id\n1\n")
    said = run("upsert", "--table", "t", "--source", "a.csv", *KEYED)
    assert said.code == 1
    assert (
        said.err
        == "hoodie: this needs pyarrow, which is not installed; pip install pyarrow numpy fastavro duckdb\n"
    )


# --- as a process ------------------------------------------------------------------------------------


def process(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hoodie.cli", *arguments]


def test_a_reader_that_leaves_early_is_no_error(run: Run, table: str) -> None:
    command = subprocess.Popen(
        process("read", "--table", table, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=os.getcwd(),
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    assert command.wait(60) == 0
    assert command.stderr.read() == b""
    command.stderr.close()


def test_timeline_and_files_need_the_standard_library_only(table: str) -> None:
    """Of a table of version 6, whose commits are JSON."""
    hoodie.downgrade_table(table, "6")
    code = (
        "import sys; from hoodie.cli import main\n"
        f"main(['timeline', '--table', {table!r}]); main(['files', '--table', {table!r}])\n"
        "print(sorted({'pyarrow', 'numpy', 'fastavro', 'pyspark', 'duckdb'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


def test_sigterm_withdraws_the_write(run: Run, table: str, tmp_path: Path) -> None:
    code = (
        "import sys, time; from hoodie.cli import main\n"
        "from hoodie.write.input.write_input import WriteInput\n"
        "def slow(*a): print('ready', flush=True); time.sleep(600)\n"
        "WriteInput.write = slow\n"
        f"sys.exit(main(['upsert', '--table', {table!r}, '--source', '1.csv']))"
    )
    timeline = timeline_at(table)
    before = sorted(os.listdir(timeline))
    job = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    assert len(os.listdir(timeline)) > len(before)
    job.send_signal(signal.SIGTERM)
    assert job.wait(120) == 143
    job.stdout.close()
    assert sorted(os.listdir(timeline)) == before
