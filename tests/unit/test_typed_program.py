"""Type checkers know what the table object takes and returns: mypy, and Pyright as basedpyright has it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.environment import ROOT

PROGRAM = """
import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

import hoodie
from hoodie import Operation, Table, WriteResult, errors

table = hoodie.Table("/data/orders", storage_options={}, engine="local")
schema = pa.schema([("id", pa.string())])
created = Table.create("/data/t", schema, keys=["id"], type="MERGE_ON_READ", version=8)
result: WriteResult = table.upsert([{"id": "a"}], keys="id", partition_by=["day"], dry_run=True)
answer = table.read(["id"], pc.field("id") == "a", as_of=dt.datetime.now(dt.timezone.utc))
reveal_type(created)
reveal_type(result)
reveal_type(result.num_inserts)
reveal_type(answer)
reveal_type(answer.to_arrow())
reveal_type(answer.to_duckdb())
reveal_type(table.batches())
reveal_type(table.changes("earliest", format="cdc"))
reveal_type(table.history())
reveal_type(table.history()[0].inserts)
reveal_type(table.files()[0].slices[0].logs)
reveal_type(table.schema)
reveal_type(table.properties)
reveal_type(table.version)
reveal_type(table.exists())
reveal_type(table.delete(pa.table({"id": ["a"]})))
reveal_type(table.delete_where(pc.field("id") == "a", dry_run=True))
reveal_type(table.update({"id": "1"}))
reveal_type(table.merge(result, on="id").when_matched_update_all().execute())
reveal_type(table.compact())
reveal_type(table.cluster())
reveal_type(table.clean())
reveal_type(table.archive())
reveal_type(table.restore("1"))
reveal_type(table.savepoint())
reveal_type(table.rollback("1"))
reveal_type(table.sync())
reveal_type(table.create_index("files"))
reveal_type(table.doctor())
reveal_type(table.explain("id = 'a'"))
reveal_type(table.explain_write([], Operation.DELETE))
reveal_type(errors.TableMismatch("").message)
"""
#: of each line of the program that reveals a type, in order
TYPES = (
    *("Table", "WriteResult", "int", "QueryResult", "Table", "DuckDBPyRelation", "RecordBatchReader"),
    *("QueryResult", "Records[HistoryEntry]", "int | None", "list[LogFile]", "Schema", "dict[str, str]"),
    *(
        "int",
        "bool",
        "WriteResult",
        "WriteResult",
        "WriteResult",
        "WriteResult",
        "CompactionResult",
        "ClusteringResult",
        "CleanResult",
    ),
    *("ArchiveResult", "RestoreResult", "SavepointResult", "RollbackResult", "SyncResult", "IndexResult"),
    *("Records[Finding]", "ReadExplanation", "WriteExplanation", "str"),
)
#: a line that is refused, and what it is refused for
REFUSED = {
    'table.upsert([], key="id")': "key",
    'table.upsert([], "id")': "argument",
    "table.read(as_of=5)": "as_of",
    'table.read(query="incremental")': "query",
    'table.changes(format="rows")': "format",
    "table.merge([]).when_matched_update({1: 2})": "Dict entry",
    "table.nothing()": "nothing",
    "hoodie.nothing": "nothing",
    'Table.create("/data/t", pa.schema([]))': "keys",
}


@pytest.mark.full
def test_a_program_has_precise_types(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("\n".join([PROGRAM, *REFUSED, ""]))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    library = str(ROOT / "spark_jobs")
    env = {**os.environ, "MYPYPATH": library}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=env, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith("program.py:")]
    types = [match[1] for line in lines if (match := re.search(r'Revealed type is "(.*)"', line))]
    assert [re.sub(r"[\w.]*\.(\w)", r"\1", text) for text in types] == list(TYPES), run.stdout
    wrong: dict[int, str] = {}
    for line in lines:
        if match := re.search(r"program\.py:(\d+): error: (.*)", line):
            wrong.setdefault(int(match[1]), match[2])
    first = PROGRAM.count("\n") + 2
    assert sorted(wrong) == [first + number for number in range(len(REFUSED))], run.stdout
    for number, said in enumerate(REFUSED.values()):
        assert said in wrong[first + number]


@pytest.mark.full
def test_pyright_knows_the_same_types(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("\n".join([PROGRAM, *REFUSED, ""]))
    settings = {"extraPaths": [str(ROOT / "spark_jobs")], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "program.py",
    ]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    said = json.loads(run.stdout)["generalDiagnostics"]
    types = [
        match[1]
        for item in said
        if item["severity"] == "information" and (match := re.search(r' is "(.*)"$', item["message"]))
    ]
    assert types == list(TYPES), run.stdout
    wrong = {item["range"]["start"]["line"] + 1 for item in said if item["severity"] == "error"}
    first = PROGRAM.count("\n") + 2
    assert wrong == {first + number for number in range(len(REFUSED))}, run.stdout
