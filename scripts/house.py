"""Measures what a reader of the code has to open: the files that an operation enters, and sizes.

    .venv/bin/python -m scripts.house [--json] [WALK...]

A walk is the sequence of the functions of `hoodie` and `airflow_hoodie` that the main thread enters during an
operation. `files` and `functions` count each once. `moves` counts each function whose file is another than
that of the function before. Comprehensions and lambdas belong to the function around them.

Each walk is done twice in a fresh process, on a table of its own, and the second one counts: modules are
imported by then. The operator is the exception: a task has a process of its own, so the first call counts,
with the modules that it imports. Hashes of texts are fixed, and the garbage collector is off, so that a
repetition gives the same figures. The default settings count, with a metadata table, on the local engine.

tests/house/test_walks.py compares the figures with upper bounds.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

from scripts.environment import ROOT

LIBRARY, GLUE = ROOT / "spark_jobs" / "hoodie", ROOT / "airflow_hoodie"
LONG_FUNCTION = 60
ROWS = 100
#: option of the process that measures the walks
WALKED = "--walked"
OPERATOR = "UpsertOperator, to spark-submit"
SETTINGS = {
    "hoodie.table.name": "walked",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
}
MERGE_ON_READ = {**SETTINGS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
CHANGE_LOG = {**SETTINGS, "hoodie.table.cdc.enabled": "true"}


# --- walks ------------------------------------------------------------------------------------------------


@dataclass
class Walk:
    """A context manager that counts while it is open."""

    entered: set[CodeType] = field(default_factory=set)
    moves: int = 0
    _last: str = ""
    _packages: tuple[str, ...] = tuple(f"{package}{os.sep}" for package in (LIBRARY, GLUE))

    def __enter__(self) -> Walk:
        gc.disable()
        sys.setprofile(self._noted)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _noted(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        named = code.co_name[0] != "<" or code.co_name == "<module>"
        if event == "call" and named and code.co_filename.startswith(self._packages):
            self.entered.add(code)
            self.moves += code.co_filename != self._last
            self._last = code.co_filename

    @property
    def figures(self) -> dict[str, int]:
        files = {code.co_filename for code in self.entered}
        return {"files": len(files), "functions": len(self.entered), "moves": self.moves}


#: does one operation in an empty folder, and opens the walk around it
Operation = Callable[[Path, Walk], None]


def rows(first: int = 0, number: int = ROWS) -> Any:
    """Rows of two partitions, with consecutive keys."""
    import pyarrow as pa

    keys = range(first, first + number)
    return pa.table(
        {
            "id": [f"key{key:04}" for key in keys],
            "day": [f"2026-01-0{1 + key % 2}" for key in keys],
            "ts": list(keys),
            "amount": [key / 4 for key in keys],
        }
    )


def table(folder: Path, *firsts: int, options: Mapping[str, str] = SETTINGS) -> str:
    """Path of a table with upserts of 100 rows each, whose first keys are given."""
    import hoodie

    path = str(folder / "table")
    for first in firsts:
        hoodie.write_table(rows(first), path, options=options)
    return path


def upsert(folder: Path, walk: Walk) -> None:
    import hoodie

    path, given = table(folder, 0), rows(ROWS // 2)
    with walk:
        hoodie.write_table(given, path, options=SETTINGS)


def commit(folder: Path, walk: Walk) -> None:
    import hoodie
    from hoodie.write.commit import Commits

    path, made = table(folder, 0), Commits.commit

    def walked(*arguments: Any, **options: Any) -> None:
        with walk:
            made(*arguments, **options)

    with mock.patch.object(Commits, "commit", walked):
        hoodie.write_table(rows(ROWS // 2), path, options=SETTINGS)


def snapshot(folder: Path, walk: Walk) -> None:
    import hoodie

    path = table(folder, 0, ROWS // 2)
    with walk:
        hoodie.read_table(path, where="day = '2026-01-01' and amount > 10")


def snapshot_merge_on_read(folder: Path, walk: Walk) -> None:
    import hoodie

    path = table(folder, 0, 0, options=MERGE_ON_READ)  # updates are logged
    with walk:
        hoodie.read_table(path)


def cdc(folder: Path, walk: Walk) -> None:
    import hoodie

    path = table(folder, 0, ROWS // 2, options=CHANGE_LOG)
    options = {"hoodie.datasource.query.incremental.format": "cdc"}
    with walk:
        hoodie.read_table(path, query="incremental", begin="earliest", options=options)


def clean(folder: Path, walk: Walk) -> None:
    """Nothing is due."""
    import hoodie

    path = table(folder, 0, ROWS // 2)
    with walk:
        result = hoodie.clean_table(path)
    assert not result.instant, result


def compaction(folder: Path, walk: Walk) -> None:
    import hoodie

    path = table(folder, 0, 0, options=MERGE_ON_READ)  # updates are logged
    with walk:
        result = hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": "1"})
    assert result.instant, result


class _Started(Exception):
    """A process would start now."""


def operator(folder: Path, walk: Walk) -> None:
    import pyarrow.parquet as pq

    from airflow_hoodie import HoodieTable, UpsertOperator

    source = folder / "rows.parquet"
    pq.write_table(rows(), source)
    where = HoodieTable(
        name="walked",
        path=str(folder / "table"),
        record_keys="id",
        partition_fields="day",
        ordering_field="ts",
    )
    task = UpsertOperator(
        task_id="upsert", table=where, source=str(source), master="local[2]", spark_binary="spark-submit"
    )

    real = subprocess.Popen

    def start(command: Sequence[str], *given: Any, **named: Any) -> Any:
        if command[0] != "spark-submit":  # modules of the bundle are compiled by a process of their own
            return real(command, *given, **named)
        sys.setprofile(None)
        raise _Started

    with mock.patch("subprocess.Popen", start), contextlib.suppress(_Started), walk:
        task.execute(context={})


WALKS: Mapping[str, Operation] = {
    OPERATOR: operator,
    "upsert": upsert,
    "commit alone": commit,
    "filtered snapshot": snapshot,
    "snapshot, merge-on-read": snapshot_merge_on_read,
    "CDC read": cdc,
    "clean, nothing due": clean,
    "compaction, merge-on-read": compaction,
}


def walked(name: str) -> dict[str, int]:
    for _ in range(1 if name == OPERATOR else 2):
        walk = Walk()
        with tempfile.TemporaryDirectory() as folder:
            WALKS[name](Path(folder), walk)
    return walk.figures


# --- sizes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """`depth`: the most own classes that an own class inherits from, counted in its MRO without itself.

    `long_functions` have more than 60 lines. `imported_once` are modules, no packages, that exactly one other
    imports; imports inside functions and for type checkers count.
    """

    modules: int
    lines: int
    long_functions: int
    depth: int
    imported_once: int


class Sources:
    """Both packages as syntax trees, by dotted names."""

    def __init__(
        self, parse: Callable[[Path], ast.Module] = lambda path: ast.parse(path.read_text())
    ) -> None:
        self.paths: dict[str, Path] = {}
        for package in (LIBRARY, GLUE):
            for path in sorted(package.rglob("*.py")):
                parts = path.relative_to(package.parent).with_suffix("").parts
                self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        self.trees = {name: parse(path) for name, path in self.paths.items()}
        #: of each module, its imports: a name there, and the module or the name of one that it stands for
        self.imports = {name: list(_imported(tree)) for name, tree in self.trees.items()}

    def sizes(self) -> Sizes:
        return Sizes(
            modules=len(self.paths),
            lines=sum(path.read_bytes().count(b"\n") for path in self.paths.values()),
            long_functions=len(self.long_functions()),
            depth=max(map(len, self.ancestors().values())),
            imported_once=len(self.imported_once()),
        )

    def long_functions(self) -> list[str]:
        return [
            f"{name}:{node.lineno}"
            for name, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= LONG_FUNCTION
        ]

    def imported_once(self) -> list[str]:
        importers: defaultdict[str, set[str]] = defaultdict(set)
        for importer, imports in self.imports.items():
            for _, target in imports:
                found = target if target in self.paths else target.rpartition(".")[0]
                if found in self.paths and found != importer:
                    importers[found].add(importer)
        modules = [name for name, path in self.paths.items() if path.name != "__init__.py"]
        return [name for name in modules if len(importers[name]) == 1]

    def ancestors(self) -> dict[str, frozenset[str]]:
        """Own classes that each own class inherits from."""
        bases = {
            f"{module}.{node.name}": [self._meant(module, ast.unparse(base)) for base in node.bases]
            for module, tree in self.trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }

        @cache
        def above(name: str) -> frozenset[str]:
            own = [base for base in bases[name] if base in bases]
            return frozenset(own).union(*map(above, own))

        return {name: above(name) for name in bases}

    def _meant(self, module: str, base: str) -> str:
        first, _, rest = base.partition("[")[0].partition(".")
        meant = dict(self.imports[module]).get(first, f"{module}.{first}")
        return f"{meant}.{rest}" if rest else meant


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name


# --- report -----------------------------------------------------------------------------------------------


def measured_here(names: Collection[str]) -> dict[str, Any]:
    ordered = [name for name in WALKS if name in names]  # the operator comes before anything is imported
    return {name: walked(name) for name in ordered}


def repeatable(home: str) -> dict[str, str]:
    """Variables of a process whose figures do not depend on this machine's user or on chance."""
    dropped = ("AIRFLOW", "HOODIE", "HADOOP", "YARN", "SPARK", "PYSPARK", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name.partition("_")[0] not in dropped}
    airflow = {"AIRFLOW_HOME": home, "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL"}
    path = os.pathsep.join([str(ROOT), str(LIBRARY.parent)])
    return {**kept, **airflow, "HADOOP_CONF_DIR": home, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}


def measured(names: Collection[str] = tuple(WALKS)) -> dict[str, dict[str, int]]:
    """The figures of each walk, in a process of their own."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "scripts.house", WALKED, *names]
        run = subprocess.run(command, env=repeatable(home), cwd=ROOT, check=True, stdout=subprocess.PIPE)
    found: dict[str, dict[str, int]] = json.loads(run.stdout)
    return found


def main() -> None:
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m scripts.house", description=summary)
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"all by default: {', '.join(WALKS)}")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(WALKED, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.walks) - set(WALKS):
        parser.error(f"no walk {', '.join(sorted(unknown))}")
    if arguments.walked:
        print(json.dumps(measured_here(arguments.walks)))
        return
    found: dict[str, Any] = {
        "walks": measured(arguments.walks or tuple(WALKS)),
        "sizes": asdict(Sources().sizes()),
    }
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'walk':<32}{'files':>8}{'functions':>11}{'moves':>8}")
    for name, figures in found["walks"].items():
        print(f"{name:<32}{figures['files']:>8}{figures['functions']:>11}{figures['moves']:>8}")
    print()
    for name, value in found["sizes"].items():
        print(f"{name.replace('_', ' '):<32}{value:>8}")


if __name__ == "__main__":
    main()
