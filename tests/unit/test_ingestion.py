"""Ingestion: each file of a source once, whatever comes between two runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.cli import main
from hoodie.errors import CommitConflict, ConfigError, InputError, SourceNotFound, TableError
from hoodie.ingestion import run
from hoodie.ingestion.checkpoint import HUDI_KEY, OWN_KEY
from hoodie.storage import storage_for
from hoodie.timeline.active import Timeline
from hoodie.timeline.tokens import RUN_KEY
from tests.support.s3_store import Store, served

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.metadata.enable": "false",
}
BUSY = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}


class Landing:
    """A folder of files of one row each, and the table that takes them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table = folder / "in", str(folder / "t")
        self.folder.mkdir()

    def put(self, name: str, ms: int, *, rows: int = 1) -> None:
        path = self.folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [f"{name}{row or ''}" for row in range(rows)]}), path)
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))

    def run(self, **given: Any) -> dict[str, Any]:
        given = {"operation": "insert", "options": OPTIONS, **given}
        return hoodie.ingest(given.pop("source", str(self.folder)), self.table, **given).to_dict()

    def ids(self) -> list[str]:
        return sorted(hoodie.read_table(self.table)["id"].to_pylist())

    def extra(self) -> dict[str, Any]:
        timeline = Timeline.load(self.table)
        assert timeline.last_commit is not None
        return dict(timeline.commit(timeline.last_commit, storage_for(self.table)).extra_metadata)


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


def taken(result: dict[str, Any]) -> tuple[str, int, int]:
    return result["status"], result["num_source_files"], result["files_left"]


def test_each_file_is_taken_once(landing: Landing) -> None:
    landing.put("a", 1000)
    landing.put("b", 2000)
    (landing.folder / "_SUCCESS").write_text("x")
    (landing.folder / "empty.parquet").write_text("")
    assert taken(landing.run()) == ("committed", 2, 0)
    assert landing.extra()[HUDI_KEY] == "2000"
    result = landing.run()
    assert (taken(result), result["instant"], result["checkpoint"]) == (("nothing_new", 0, 0), "", "2000")
    landing.put("c", 3000)
    assert landing.run()["num_inserts"] == 1
    assert landing.ids() == ["a", "b", "c"]


def test_files_of_one_time_are_neither_lost_nor_taken_twice(landing: Landing) -> None:
    for name in "abc":
        landing.put(name, 1000)
    assert taken(landing.run(max_files=1)) == ("committed", 1, 2)
    assert landing.extra()[HUDI_KEY] == "999"  # Apache Hudi would go on with all of that time
    assert taken(landing.run(max_files=1)) == ("committed", 1, 1)
    landing.put("d", 1000)
    assert taken(landing.run(max_files=1)) == ("committed", 1, 1)
    assert taken(landing.run()) == ("committed", 1, 0)
    assert landing.extra()[HUDI_KEY] == "1000"
    landing.put("e", 1000)
    assert taken(landing.run()) == ("committed", 1, 0)
    assert landing.run()["status"] == "nothing_new"
    assert landing.ids() == ["a", "b", "c", "d", "e"]


def test_bytes_bound_a_run_and_a_larger_file_is_taken_alone(landing: Landing) -> None:
    landing.put("a", 1000, rows=1000)
    landing.put("b", 2000)
    landing.put("c", 3000)
    size = (landing.folder / "b.parquet").stat().st_size
    assert taken(landing.run(max_bytes=1)) == ("committed", 1, 2)
    assert taken(landing.run(max_bytes=2 * size - 1)) == ("committed", 1, 1)
    landing.put("d", 4000)
    assert taken(landing.run(max_bytes=2 * size)) == ("committed", 2, 0)


def test_what_appears_later_with_an_older_time(landing: Landing) -> None:
    landing.put("a", 10_000)
    landing.run(lookback_s=2)
    landing.put("late", 8500)
    landing.put("too late", 7999)
    assert taken(landing.run(lookback_s=2)) == ("committed", 1, 0)
    assert landing.run(lookback_s=2)["status"] == "nothing_new"
    landing.put("b", 11_000)
    assert landing.run(lookback_s=2)["num_inserts"] == 1
    # without it: what a run before did not keep an eye on counts as taken
    landing.put("later", 10_500)
    assert landing.run()["status"] == "nothing_new"
    landing.put("c", 20_000)
    assert landing.run()["num_inserts"] == 1
    landing.put("between", 19_000)
    assert landing.run(lookback_s=5)["status"] == "nothing_new"
    assert landing.ids() == ["a", "b", "c", "late"]


def test_other_commits_and_the_archive_come_between(landing: Landing) -> None:
    landing.put("a", 1000)
    landing.run()
    for number in range(6):
        hoodie.write_table(pa.table({"id": [str(number)]}), landing.table, options={**OPTIONS, **BUSY})
    timeline, storage = Timeline.load(landing.table), storage_for(landing.table)
    assert all(HUDI_KEY.encode() not in timeline.read(instant, storage) for instant in timeline.commits())
    assert taken(landing.run()) == ("nothing_new", 0, 0)
    landing.put("b", 1000)
    assert landing.run()["num_inserts"] == 1
    assert landing.ids() == ["0", "1", "2", "3", "4", "5", "a", "b"]


def test_a_commit_that_is_rolled_back_gives_its_files_back(landing: Landing) -> None:
    landing.put("a", 1000)
    landing.run()
    landing.put("b", 2000)
    hoodie.rollback_table(landing.table, instant=landing.run()["instant"])
    assert landing.ids() == ["a"]
    assert taken(landing.run()) == ("committed", 1, 0)
    assert landing.ids() == ["a", "b"]


def test_two_runs_at_once_take_no_file_twice(landing: Landing) -> None:
    landing.put("a", 1000)
    others: list[dict[str, Any]] = []

    def meanwhile(step: str, text: str) -> None:
        if step == "ingest" and not others:
            others.append({})
            others[0] = landing.run()
            landing.put("b", 2000)

    result = landing.run(progress=meanwhile)
    assert others[0]["num_source_files"] == 1
    assert taken(result) == ("committed", 1, 0)
    assert landing.ids() == ["a", "b"]


def test_where_others_are_always_first_it_gives_up(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_ATTEMPTS", 3)
    number = 0

    def meanwhile(step: str, text: str) -> None:
        nonlocal number
        if step == "ingest" and "new file" in text and "another" not in text:
            number += 1
            landing.run()
            landing.put(str(number), 1000 * number)

    landing.put("0", 500)
    with pytest.raises(CommitConflict, match="run one at a time"):
        landing.run(progress=meanwhile)


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.write.wait.for.writer.ms": "60000"},
        {
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.write.lock.provider": "storage",
            "hoodie.write.num.retries.on.conflict.failures": "50",
            "hoodie.write.wait.for.writer.ms": "60000",
        },
    ],
    ids=["in turns", "at once"],
)
def test_processes_at_once_take_no_file_twice(landing: Landing, options: dict[str, str]) -> None:
    for number in range(12):
        landing.put(f"{number:02}", 1000 + number // 3)
    landing.run(max_files=1)
    code = """
import json, sys, hoodie
while hoodie.ingest(
    sys.argv[1], sys.argv[2], operation="insert", max_files=2, options=json.loads(sys.argv[3])
).write.status != "nothing_new":
    pass
"""
    words = [sys.executable, "-c", code, str(landing.folder), landing.table, json.dumps(options)]
    processes = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert landing.ids() == [f"{number:02}" for number in range(12)]


@pytest.mark.full
def test_a_killed_run_loses_nothing(landing: Landing) -> None:
    landing.put("a", 1000)
    landing.run()
    landing.put("b", 2000)
    code = """
import os, signal, sys, hoodie
def kill(step, text):
    if step == "commit":
        os.kill(os.getpid(), signal.SIGKILL)
hoodie.ingest(sys.argv[1], sys.argv[2], operation="insert", progress=kill)
"""
    ended = subprocess.run([sys.executable, "-c", code, str(landing.folder), landing.table], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert landing.ids() == ["a"]
    assert taken(landing.run()) == ("committed", 1, 0)
    assert landing.ids() == ["a", "b"]


def test_a_retry_of_a_run_that_committed_finds_its_commit(landing: Landing) -> None:
    landing.put("a", 1000)
    mine, other = {RUN_KEY: "d/t/-1/run=1"}, {RUN_KEY: "d/t/-1/run=2"}
    first = landing.run(extra_metadata=mine)
    again = landing.run(extra_metadata=mine)
    assert (again["status"], again["instant"], again["num_inserts"]) == (
        "already_committed",
        first["instant"],
        1,
    )
    assert landing.run(extra_metadata=other)["status"] == "nothing_new"


def test_the_checkpoint_of_apache_hudi_is_taken_over(landing: Landing) -> None:
    rows, hudi = pa.table({"id": ["hudi"]}), {HUDI_KEY: "1500"}
    hoodie.write_table(rows, landing.table, options=OPTIONS, extra_metadata=hudi)
    for number in range(1, 4):
        landing.put(str(number), 1000 * number)
    landing.put("same", 1500)
    result = landing.run()
    assert taken(result) == ("committed", 2, 0)
    assert "Apache Hudi's checkpoint 1500" in result["warnings"][0]
    assert landing.run()["warnings"] == []


@pytest.mark.parametrize(("start_after", "files"), [(0, 3), (1500, 2)])
def test_the_start_may_be_given(landing: Landing, start_after: int, files: int) -> None:
    kafka = {HUDI_KEY: "orders,0:17"}
    hoodie.write_table(pa.table({"id": ["k"]}), landing.table, options=OPTIONS, extra_metadata=kafka)
    for number in range(1, 4):
        landing.put(str(number), 1000 * number)
    assert landing.run(start_after=start_after)["num_source_files"] == files
    assert landing.run(start_after=0)["status"] == "nothing_new"


def test_sources_of_one_table_do_not_mix(landing: Landing) -> None:
    landing.put("one/a", 5000)
    landing.put("two/b", 1000)
    one, two = f"{landing.folder}/one", [f"{landing.folder}/two/"]
    assert landing.run(source=one)["num_inserts"] == 1
    assert landing.run(source=two)["num_inserts"] == 1
    assert landing.run(source=one + "/../one")["status"] == "nothing_new"
    landing.put("two/c", 1000)
    assert landing.run(source=two)["num_inserts"] == 1


def test_columns_in_the_names_of_folders_stay(landing: Landing) -> None:
    landing.put("day=1/a", 1000)
    landing.run()
    landing.put("day=2/b", 2000)
    landing.run()
    found = hoodie.read_table(landing.table, columns=["id", "day"]).sort_by("id")
    assert found["day"].to_pylist() == [1, 2]


def test_text_files_and_upserts(landing: Landing) -> None:
    for number, text in enumerate(("id,n\na,1\n", "id,n\na,2\nb,3\n")):
        (landing.folder / f"{number}.csv").write_text(text)
        os.utime(landing.folder / f"{number}.csv", (number + 1, number + 1))
    source = f"{landing.folder}/*.csv"
    result = landing.run(source=source, operation="upsert", max_files=1)
    assert (result["num_inserts"], result["files_left"]) == (1, 1)
    result = landing.run(source=source, operation="upsert")
    assert (result["num_inserts"], result["num_updates"]) == (1, 1)


def test_a_dry_run_takes_nothing(landing: Landing) -> None:
    landing.put("a", 1000)
    result = landing.run(dry_run=True)
    assert (result["status"], result["num_inserts"], result["num_source_files"]) == ("planned", 1, 1)
    assert taken(landing.run()) == ("committed", 1, 0)


def test_a_file_that_can_not_be_read_stays_new(landing: Landing) -> None:
    (landing.folder / "a.parquet").write_text("half")
    with pytest.raises(InputError, match="can't read"):
        landing.run()
    landing.put("a", 1000)
    assert landing.run()["num_inserts"] == 1


def test_what_is_refused(landing: Landing) -> None:
    for given, error, text in (
        ({"source": f"{landing.folder}/none"}, SourceNotFound, "no such source"),
        ({"operation": "delete"}, ConfigError, "can't delete; use one of upsert, insert, bulk_insert"),
        ({"source": {"path": "select 1", "format": "sql"}}, ConfigError, "takes files, no sql"),
        ({"max_files": 0}, ConfigError, "max_files is 0"),
        ({"lookback_s": -1}, ConfigError, "lookback_s is -1"),
    ):
        with pytest.raises(error, match=text):
            landing.run(**given)
    assert landing.run()["status"] == "nothing_new"  # an empty folder
    assert landing.run(source=f"{landing.folder}/*.csv")["status"] == "nothing_new"


def test_a_damaged_checkpoint_is_an_error(landing: Landing) -> None:
    landing.put("a", 1000)
    extra = {HUDI_KEY: "1", OWN_KEY: '{"source": 1}'}
    hoodie.write_table(pa.table({"id": ["x"]}), landing.table, options=OPTIONS, extra_metadata=extra)
    with pytest.raises(TableError, match=r"airflow\.checkpoint of the commit"):
        landing.run()


def test_the_command(landing: Landing, capsys: pytest.CaptureFixture[str]) -> None:
    landing.put("a", 1000)
    landing.put("b", 2000)
    words = ["ingest", "--table", landing.table, "--source", str(landing.folder), "--max-files", "1"]
    words += [word for name, value in OPTIONS.items() for word in ("--option", f"{name}={value}")]
    assert main([*words, "--write-operation", "bulk-insert"]) == 0
    said = capsys.readouterr().out
    assert "Committed bulk_insert" in said
    assert "of 1 new file, " in said
    assert "1 file left to the next run" in said
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_inserts"] == 1
    assert main(words) == 0
    assert capsys.readouterr().out == "Nothing new for t; nothing was written\n"


@pytest.fixture
def store() -> Iterator[Store]:
    with served() as store:
        yield store


def test_objects_of_a_store(store: Store, landing: Landing) -> None:
    landing.put("a", 1000)
    data = (landing.folder / "a.parquet").read_bytes()
    source = "s3://lake/in"
    storage = storage_for(source)
    landing.table = "s3://lake/t"
    with pytest.raises(SourceNotFound):
        landing.run(source=source)
    for name in "ab":  # of one second, as stores have no shorter times
        storage.write(f"{source}/{name}.parquet", data)
    assert taken(landing.run(source=source, max_files=1)) == ("committed", 1, 1)
    assert taken(landing.run(source=source)) == ("committed", 1, 0)
    assert landing.run(source=source)["status"] == "nothing_new"
    storage.write(f"{source}/c.parquet", data)
    assert taken(landing.run(source=source)) == ("committed", 1, 0)
    assert landing.ids() == ["a", "a", "a"]


def damage(landing: Landing, name: str, ms: int) -> str:
    path = landing.folder / f"{name}.parquet"
    path.write_bytes(b"PAR1 no Parquet PAR1")
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))
    return str(path)


def test_files_that_cannot_be_written_are_left_out_and_named(landing: Landing) -> None:
    """One is damaged, one lacks keys; by default they fail the run."""
    landing.put("a", 1000)
    bad = [damage(landing, "b", 2000), str(landing.folder / "c.parquet")]
    pq.write_table(pa.table({"id": pa.array([None], pa.string())}), bad[1])
    os.utime(bad[1], ns=(3_000_000_000, 3_000_000_000))
    landing.put("d", 4000)
    with pytest.raises(InputError, match=r"b\.parquet"):
        landing.run()
    with pytest.raises(
        InputError, match=r"more than max_bad_files=1 files can't be written; nothing was .*b\.parquet"
    ):
        landing.run(max_bad_files=1)
    planned = landing.run(max_bad_files=2, dry_run=True)
    assert (planned["status"], [item["file"] for item in planned["bad_files"]]) == ("planned", bad)
    assert not Path(landing.table, ".hoodie", "hoodie.properties").exists()

    result = landing.run(max_bad_files=2)
    assert taken(result) == ("committed", 2, 0)
    assert result["source_bytes"] == sum((landing.folder / f"{n}.parquet").stat().st_size for n in "ad")
    assert [item["file"] for item in result["bad_files"]] == bad
    assert "key" in result["bad_files"][1]["reason"]
    assert "2 files can't be written and were left out" in result["warnings"][0]
    assert json.loads(landing.extra()["airflow.bad_files"]) == result["bad_files"]
    assert landing.ids() == ["a", "d"]
    assert taken(landing.run()) == ("nothing_new", 0, 0)
    landing.put("b", 5000)  # written again, right
    assert taken(landing.run()) == ("committed", 1, 0)
    assert "airflow.bad_files" not in landing.extra()
    assert landing.ids() == ["a", "b", "d"]


def test_a_run_of_bad_files_alone_commits_the_checkpoint(landing: Landing) -> None:
    """But for a table that is not there, whose columns nobody knows."""
    bad = damage(landing, "a", 1000)
    with pytest.raises(InputError, match=r"a\.parquet"):
        landing.run(max_bad_files=5)
    landing.put("b", 2000)
    landing.run(max_bad_files=5)
    bad = damage(landing, "c", 3000)
    result = landing.run(max_bad_files=5, extra_metadata={RUN_KEY: "task"})
    assert (taken(result), result["num_writes"]) == (("committed", 0, 0), 0)
    again = landing.run(max_bad_files=5, extra_metadata={RUN_KEY: "task"})  # the task died before it said so
    assert (again["status"], again["instant"]) == ("already_committed", result["instant"])
    assert (
        again["bad_files"]
        == result["bad_files"]
        == [{"file": bad, "reason": result["bad_files"][0]["reason"]}]
    )
    assert landing.ids() == ["b"]


def test_files_that_do_not_fit_each_other_fail_the_run(landing: Landing) -> None:
    """None of them alone is the bad one."""
    landing.put("a", 1000)
    pq.write_table(pa.table({"id": [1]}), landing.folder / "b.parquet")
    with pytest.raises(InputError, match="column id is"):
        landing.run(max_bad_files=5)
    assert not Path(landing.table).exists()


def test_bad_files_beside_bad_rows(landing: Landing, tmp_path: Path) -> None:
    source = {"path": str(landing.folder / "*.json"), "format": "json"}
    (landing.folder / "1.json").write_text('{"id": "a"}\n{"id": \n')
    (landing.folder / "2.json").write_text('[{"id": "b"}\n')
    errors = str(tmp_path / "errors")
    result = landing.run(source=source, error_table=errors, max_bad_files=1)
    assert (result["num_inserts"], result["num_bad_rows"]) == (1, 1)
    assert [item["file"] for item in result["bad_files"]] == [str(landing.folder / "2.json")]
    assert hoodie.read_table(errors)["position"].to_pylist() == [2]


@pytest.mark.parametrize("wrong", [-1, True, "5"])
def test_what_is_no_number_of_bad_files(landing: Landing, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="max_bad_files is"):
        landing.run(max_bad_files=wrong)


def test_the_command_names_files_that_were_left_out(
    landing: Landing, capsys: pytest.CaptureFixture[str]
) -> None:
    landing.put("a", 1000)
    bad = damage(landing, "b", 2000)
    key = "hoodie.datasource.write.recordkey.field=id"
    call = ["ingest", "--table", landing.table, "--source", str(landing.folder), "--option", key]
    assert main([*call, "--option", "hoodie.table.name=t", "--max-bad-files", "1"]) == 0
    assert f"left out: {bad}: can't read {bad} as parquet" in capsys.readouterr().out
