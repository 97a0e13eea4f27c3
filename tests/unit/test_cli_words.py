"""Words of the command line: names of commands, flags, paths of tables, and what is said of wrong words."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.cli.command import parser
from hoodie.errors import HoodieError
from hoodie.services.registry import public
from hoodie.text import install
from scripts.environment import ROOT
from tests.support.cli import Run, document

KEY = "hoodie.datasource.write.recordkey.field"


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "orders")
    rows = pa.table({"id": ["a", "b"], "day": ["2024-01-01", "2024-01-02"], "v": [1, 2]})
    options = {KEY: "id", "hoodie.datasource.write.partitionpath.field": "day"}
    hoodie.write_table(rows, path, options=options)
    return path


def words(command: str) -> argparse.Namespace:
    """What a command line of these words is, with all that any command needs."""
    needed = {"restore": ["--instant", "1"], "upgrade": ["--to", "8"], "downgrade": ["--to", "6"]}
    needed |= {
        "rollback": ["--instant", "1"],
        "cancel-plan": ["--instant", "1"],
        "cancel": ["--instant", "1"],
    }
    needed |= {"index": ["show"], "delete-partitions": ["--partition", "p"]}
    needed |= {"delete-partition": ["--partition", "p"], "delete-savepoint": ["--instant", "1"]}
    first, *rest = command.split()
    return parser().parse_args([first, *rest, *needed.get(first, []), "/data/t"])


#: of the Python API, without `_table`
FUNCTIONS = (
    "archive",
    "cancel_plan",
    "clean",
    "cluster",
    "compact",
    "delete_partitions",
    "delete_savepoint",
    "downgrade",
    "expire_partitions",
    "explain_read",
    "file_groups",
    "index",
    "instants",
    "log_compact",
    "plan_services",
    "read",
    "resend_callbacks",
    "restore",
    "rollback",
    "run_services",
    "savepoint",
    "sync",
    "upgrade",
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_a_command_of_its_name(function: str) -> None:
    assert function in hoodie.__all__ or f"{function}_table" in hoodie.__all__
    found = words(function.replace("_", "-"))
    assert (found.table, found.notes) == ("/data/t", [])


@pytest.mark.parametrize("service", public().values(), ids=public())
def test_a_service_has_a_command_of_its_functions_name(service: Any) -> None:
    word = service.function.removesuffix("_table").replace("_", "-")
    assert words(word).command == (service.command or service.name)


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (["ttl"], ["expire-partitions"]),
        (
            ["delete-partition", "--partition", "2024-01-0*"],
            ["delete-partitions", "--partition", "2024-01-0*"],
        ),
        (["insert-overwrite", "--whole-table"], ["insert-overwrite-table"]),
    ],
    ids=lambda words: words[0],
)
def test_former_words_do_the_same_and_say_so(
    run: Run, table: str, tmp_path: Path, former: list[str], now: list[str]
) -> None:
    source = tmp_path / "new.csv"
    source.write_text("id,day,v\nc,2024-01-03,3\n")
    more = ["--dry-run", "--json", "--option", "hoodie.partition.ttl.strategy.days.retain=1"]
    more += ["--source", str(source)] if "overwrite" in now[0] else []
    code, out, err = run(*former, "--table", table, *more)
    new_code, new_out, new_err = run(*now, table, *more)
    assert (code, new_code, new_err) == (0, 0, "")
    old, new = document(out), document(new_out)
    assert (old["operation"], old["status"]) == (new["operation"], new["status"])
    assert old.get("num_replaced") == new.get("num_replaced")
    assert err.startswith("hoodie: warning: `hoodie ")
    assert f"goes with 0.2.0; use `hoodie {now[0]}`" in err
    assert err.count("\n") == 1


def test_paths_of_tables(run: Run, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = run("timeline", "--table", table)
    assert expected[0] == 0
    for given in (
        (table,),
        ("--path", table),
        ("--table-path", table),
        (f"--table={table}",),
    ):
        assert run("timeline", *given) == expected
    assert run("timeline", "--archived", table)[0] == 0
    os.symlink(table, "ttl")
    assert run("timeline", "ttl")[::2] == (0, "")
    for flags in ((), ("--indexes", "files")):
        code, out, _ = run("index", "show", *flags, table)
        assert (code, out.startswith("orders has")) == (0, True)
    assert run("services", "plan", "--only", "clean", table)[0] == 0
    by_path, by_flag = (
        [item["check"] for item in document(run("doctor", *given, "--json")[1])["findings"]]
        for given in ((table,), ("--table", table))
    )
    assert by_path == by_flag
    assert "timeline" in by_path
    code, _, err = run("files", table, "--table", table)
    assert (code, "the table is named twice" in err) == (2, True)
    for command in (["timeline"], ["upsert", "--source", "x"], ["index", "show"]):
        code, _, err = run(*command)
        assert code == 2
        assert "the following arguments are required: PATH, the table's folder, or --table PATH" in err
    code, _, err = run("timeline", table, "more")
    assert (code, "unrecognized arguments: more" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["upsrt"], "upsert"),
        (["bulk_insert"], "bulk-insert"),
        (["explain", "insrt"], "insert"),
        (["services", "pln"], "plan"),
        (["timeline", "t", "--archivd"], "--archived"),
        (["upsert", "--tabel", "t", "--source", "x"], "--table"),
        (["upsert", "t", "--sorce=x"], "--source"),
        (["upsert", "t", "--source", "x", "--format", "parket"], "parquet"),
        (["ingest", "t", "--source", "x", "--write-operation", "bulk_insert"], "bulk-insert"),
        (["compact", "t", "--mode", "schedul"], "schedule"),
        (["read", "t", "--format", "jsonlines"], "jsonl"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_wrong_words_of_the_command_line(run: Run, arguments: list[str], near: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.endswith(f", did you mean {near!r}?\n")
    code, out, _ = run(*arguments, "--json")
    assert document(out)["error"]["message"].endswith(f", did you mean {near!r}?")


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["read", "{t}", "--query", "incremntal"], "incremental"),
        (["services", "plan", "{t}", "--only", "compactoin"], "compaction"),
        (["clean", "{t}", "--option", "hoodie.clean.polcy=KEEP_LATEST_COMMITS"], "hoodie.clean.policy"),
        (["clean", "{t}", "--option", "hoodie.clean.policy=KEEP_LATEST_COMITS"], "KEEP_LATEST_COMMITS"),
        (["config", "hoodie.cleaner.polisy"], "hoodie.cleaner.policy"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else None,
)
def test_wrong_values(run: Run, table: str, arguments: list[str], near: str) -> None:
    code, _, err = run(*(text.format(t=table) for text in arguments))
    assert code == 1
    assert f", did you mean {near!r}?" in err


def test_a_word_that_is_like_none_has_no_advice(run: Run) -> None:
    assert "did you mean" not in run("xyzzy")[2]
    assert "did you mean" not in run("config", "xyzzy")[2]


def test_words_of_the_first_write(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "new.csv"
    source.write_text("a,b,day,ts,v\n1,1,x,5,new\n1,1,x,4,late\n")
    path = str(tmp_path / "t")
    columns = ["--key", "a", "--keys", "b", "--partition-by", "day", "--ordering", "ts"]
    code, out, err = run("upsert", path, "--source", str(source), *columns)
    assert (code, "1 inserted" in out) == (0, True), err
    text = Path(path, ".hoodie", "hoodie.properties").read_text()
    assert "hoodie.table.recordkey.fields=a,b\n" in text
    assert "hoodie.table.partition.fields=day\n" in text
    assert hoodie.read_table(path, columns=["v"]).to_pylist() == [{"v": "new"}]
    same = ["--option", f"{KEY}=a,b"]
    assert run("upsert", path, "--source", str(source), "--record-key", "a,b", *same)[0] == 0
    code, _, err = run("upsert", path, "--source", str(source), "--key", "a", *same)
    assert (code, f"--key a contradicts --option {KEY}=a,b" in err) == (1, True)
    code, _, err = run("explain", "upsert", str(tmp_path / "u"), "--source", str(source), "--key", "a")
    assert code == 0, err
    code, _, err = run("upsert", str(tmp_path / "u"), "--source", str(source))
    assert (code, f"no record key: give --key, or set {KEY}" in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            ["compact", "{t}", "--instant", "20240101000000000"],
            "--instant 20240101000000000 is for --mode execute",
        ),
        (["read", "{t}", "--end", "2024-01-01"], "needs --begin"),
        (["read", "{t}", "--query", "time_travel"], "needs --as-of"),
        (["index", "create", "{t}", "--using", "column_stats"], "--using is for mode create"),
        (["sql", "DELETE FROM x WHERE id = 'a'", "--table", "t={t}"], "x is not among --table (t)"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else None,
)
def test_errors_name_flags(run: Run, table: str, arguments: list[str], named: str) -> None:
    code, _, err = run(*(text.format(t=table) for text in arguments))
    assert (code, named in err) == (1, True), err


def test_errors_of_the_package_name_its_arguments(table: str) -> None:
    with pytest.raises(HoodieError, match="needs begin"):
        hoodie.read_table(table, end="2024-01-01")


def test_devices_and_masters(run: Run, table: str) -> None:
    for command in (["upsert"], ["insert-overwrite", "--format", "csv"]):
        code, _, err = run(*command, table, "--source", "/dev/null")
        assert (code, "the source /dev/null is a device or a pipe; write its rows to a file" in err) == (
            1,
            True,
        )
    code, _, err = run("timeline", "/dev/null")
    assert (code, "/dev/null is no Hudi table: no .hoodie folder; check the path" in err) == (1, True)
    for master in ("foo://x:1", "local[", "http://x"):
        given = ["--engine", "spark", "--master", master]
        code, _, err = run("compact", table, *given)
        assert (code, f"{master!r} is no Spark master; use local[2], spark://HOST:7077" in err) == (1, True)


def test_an_error_of_the_system_without_a_number_is_shown(
    run: Run, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("the disk is upside down")

    monkeypatch.setattr(hoodie, "file_groups", broken)
    assert run("files", table)[2] == "hoodie: storage: the disk is upside down\n"


def test_advice_names_packages_of_the_extras() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    extras = dict(re.findall(r"^([\w-]+) = \[(.*)\]$", text, re.MULTILINE))
    for extra in (
        *("local", "spark", "sql", "hbase", "s3", "gcs", "azure", "zookeeper", "hive-metastore"),
        *("dynamodb", "glue", "kafka", "pulsar"),
    ):
        assert sorted(install(extra).split()[2:]) == sorted(re.findall(r'"([\w-]+)', extras[extra]))


def test_tables_of_the_page(run: Run) -> None:
    code, _, err = run("serve")
    assert (code, "required: [NAME=]PATH, or --table NAME=PATH" in err) == (2, True)
    for given in (["/x/day=1/t", "/y/t/"], ["t=/x/a", "--table", "t=/y/b"]):
        code, _, err = run("serve", *given)
        assert (code, "two tables have the name 't'" in err) == (1, True)
