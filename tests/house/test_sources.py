"""Sizes and places of source files, as the house wants them."""

from __future__ import annotations

import ast

from scripts.environment import ROOT
from tests.support.parsed import parsed

MODULE_LINES = 500
FUNCTION_LINES = 60
PACKAGES = (ROOT / "airflow_hoodie", ROOT / "spark_jobs" / "hoodie")
SOURCES = [file for package in (*PACKAGES, ROOT / "scripts") for file in sorted(package.rglob("*.py"))]


def test_modules_and_functions_are_short() -> None:
    long = {}
    for source in SOURCES:
        name, text = str(source.relative_to(ROOT)), source.read_text()
        if (lines := len(text.splitlines())) >= MODULE_LINES:
            long[name] = lines
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines >= FUNCTION_LINES:
                    long[f"{name}:{node.name}"] = lines
    assert long == {}


def test_every_folder_of_modules_is_a_package() -> None:
    """Import contracts overlook a folder that has no __init__.py."""
    folders = {file.parent for package in PACKAGES for file in package.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
