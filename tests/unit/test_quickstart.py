"""The quickstart as a new user takes it: Python in a new process and an empty folder, then commands."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hoodie
from hoodie.cli import main
from scripts.environment import ROOT
from tests.house.test_docs import blocks, commands

PAGE = ROOT / "docs" / "quickstart.md"
PROGRAMS = [text for text in blocks(PAGE, "python") if "airflow" not in text]


def test_python_and_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first.py").write_text("\n".join(PROGRAMS))
    command = [sys.executable, "first.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "num_inserts:   3" in done.stdout
    assert "[{'order_id': 'b', 'amount': 20.0}, {'order_id': 'd', 'amount': 40.0}]" in done.stdout
    monkeypatch.chdir(tmp_path)
    rows = hoodie.Table("lake/orders").read(["order_id", "amount"]).to_arrow().to_pylist()
    assert {row["order_id"]: row["amount"] for row in rows} == {"a": 11.0, "b": 20.0, "c": 30.0, "d": 40.0}
    here = [line for line in commands(PAGE) if "lake/orders" in line]
    assert [line[1] for line in here] == ["read", "timeline", "doctor", "services"]
    for line in here:
        assert main(line[1:]) == 0, capsys.readouterr()
    assert "the table has 2 commits" in capsys.readouterr().out


def test_programs_need_no_more_than_is_installed() -> None:
    [install] = [text for text in blocks(PAGE, "bash") if "pip install" in text]
    tops = {
        name.split(".")[0]
        for text in blocks(PAGE, "python")
        for node in ast.walk(ast.parse(text))
        for name in (
            [item.name for item in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert tops - set(sys.stdlib_module_names) == {"hoodie", "airflow_hoodie", "airflow", "pandas"}
    assert "[airflow,local,sql]" in install
    assert " pandas" in install
