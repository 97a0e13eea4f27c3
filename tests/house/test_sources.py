"""Sizes and places of source files, as the house wants them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.environment import ROOT

MODULE_LINES = 500
FUNCTION_LINES = 60
PACKAGES = (ROOT / "airflow_hoodie", ROOT / "spark_jobs" / "hoodie")
SOURCES = [file for package in (*PACKAGES, ROOT / "scripts") for file in sorted(package.rglob("*.py"))]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_modules_and_functions_are_short(source: Path) -> None:
    text = source.read_text()
    assert len(text.splitlines()) < MODULE_LINES
    functions = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    long = {
        node.name: size for node in functions if (size := node.end_lineno - node.lineno + 1) >= FUNCTION_LINES
    }
    assert long == {}


def test_every_folder_of_modules_is_a_package() -> None:
    """Import contracts overlook a folder that has no __init__.py."""
    folders = {file.parent for package in PACKAGES for file in package.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
