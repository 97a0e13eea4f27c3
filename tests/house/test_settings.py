"""A process knows every setting before it checks the first option, and finding them costs nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hoodie.config.key import MODULES, declared
from scripts.environment import ROOT
from tests.support.parsed import parsed

SOURCES = ROOT / "spark_jobs" / "hoodie"

FIRST = """
import json, sys
from hoodie.config.key import Config
from hoodie.errors import ConfigError
warnings, problems, imported = [], [], []
for options in json.loads(sys.argv[1]):
    try:
        warnings += Config.of(options).warnings
    except ConfigError as error:
        problems.append(error.message)
    imported.append(sorted(name for name in sys.argv[2].split(",") if name in sys.modules))
print(json.dumps({"warnings": warnings, "problems": problems, "imported": imported[0]}))
"""
HEAVY = "obstore,pyarrow,pyspark,numpy,pandas,fastavro,duckdb,hoodie.api,hoodie.pipeline"


def fresh(home: Path, *options: dict[str, Any]) -> dict[str, list[str]]:
    """What a new process says to these options, one after the other, and what it imported for the first."""
    command = [sys.executable, "-c", FIRST, json.dumps(options), HEAVY]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=home)
    said: dict[str, list[str]] = json.loads(run.stdout)
    return said


def test_a_fresh_process_knows_every_setting(tmp_path: Path) -> None:
    names = [name for key in declared() for name in (key.name, *key.aliases)]
    assert len(names) > 150
    said = fresh(tmp_path, *({name: "\t?\t"} for name in names))
    assert said["warnings"] == []
    assert not [problem for problem in said["problems"] if "unknown setting" in problem]
    assert said["imported"] == []


def test_settings_of_an_index_are_checked_before_it_is_used(tmp_path: Path) -> None:
    name = "hoodie.bloom.index.prune.by.ranges"
    said = fresh(tmp_path, {"hoodie.index.type": "BLOOM", name: "false"}, {name: "maybe"})
    assert said["warnings"] == []
    assert [f"{name}='maybe': expected true or false" in problem for problem in said["problems"]] == [True]


def test_a_setting_that_writes_name_is_found_without_those_of_services() -> None:
    code = (
        "import sys; from hoodie.config.key import key_of; "
        "print(key_of('hoodie.table.name').name, key_of('hoodie.table.recordkey.fields').name); "
        "print('hoodie.sync.settings' in sys.modules, key_of('hoodie.none')); "
        "print('hoodie.sync.settings' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=SOURCES.parent, check=True, capture_output=True)
    assert said.stdout.decode().splitlines() == [
        "hoodie.table.name hoodie.datasource.write.recordkey.field",
        "False None",
        "True",
    ]


def test_settings_are_declared_where_the_catalogue_looks() -> None:
    places = {module for module in modules() if any(declarations(module))}
    assert places == set(MODULES)


def modules() -> Iterator[str]:
    for file in SOURCES.rglob("*.py"):
        yield ".".join(file.relative_to(SOURCES.parent).with_suffix("").parts)


def declarations(module: str) -> Iterator[str]:
    """The calls at a module's top level that make a Key."""
    file = SOURCES.parent / f"{module.replace('.', '/')}.py"
    if "Key(" not in (text := file.read_text()) and "_key(" not in text:
        return
    for node in parsed(file).body:
        made = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
            continue
        if made.func.id == "Key" or made.func.id.endswith("_key"):
            yield made.func.id
