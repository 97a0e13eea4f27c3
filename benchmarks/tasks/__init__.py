"""Twenty tasks of a user of tables, with `hoodie.Table`, delta-rs and pyiceberg: steps and answers.

Each contestant is a module beside this one with a function for each task that it has, written by its own
documentation. The steps of a task are the statements in its function, counted in the syntax tree (a docstring
is none; `with` is one, and so is each statement in it), and the calls. Imports, names of constants, and what
runs beside (a killed writer, rows that come between) are not counted. After each task the rows of all
contestants are compared, and the answers of those tasks that give rows.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa

from benchmarks import output

NAME = "tasks"
#: by name: the module, and the packages that it needs
CONTESTANTS = {
    "hoodie": ("ours", ()),
    "delta-rs": ("delta_rs", ("deltalake", "polars")),
    "pyiceberg": ("iceberg", ("pyiceberg", "sqlalchemy", "polars")),
}
#: by function: what the task is
TASKS = {
    "create": "create a partitioned table",
    "upsert": "upsert a DataFrame of pandas",
    "read_polars": "read to polars",
    "filtered": "read two columns of the rows of a condition",
    "time_travel": "read an earlier state",
    "change_feed": "what a commit did to which key",
    "incremental": "rows written since a commit",
    "merge": "merge: delete, update columns, insert",
    "delete": "delete by a condition",
    "overwrite_partitions": "replace partitions",
    "add_column": "write rows with a new column",
    "history": "the commits with their operations",
    "files": "the data files",
    "savepoint": "keep a state from the cleaner",
    "restore": "take the table back to a state",
    "compact": "rewrite small files into larger ones",
    "clean": "remove what old states need",
    "create_index": "make an index",
    "why_late": "say why no commit came: the last one, writes that are not completed",
    "fix_failed_write": "remove what a killed writer left",
}
FIELDS: dict[str, pa.DataType] = {
    "order_id": pa.string(),
    "order_date": pa.string(),
    "amount": pa.float64(),
    "status": pa.string(),
    "updated_at": pa.int64(),
}
SCHEMA = pa.schema(FIELDS)
KNOWN = (*SCHEMA.names, "note")
#: tasks whose package is missing here
WITHOUT = () if find_spec("polars") else ("read_polars",)
_FIRST = [
    (f"o{number}", 1 + number % 3, float(number), ("paid", "open")[number % 2], 1) for number in range(6)
]
FOLDER = Path(__file__).parent
Row = dict[str, Any]


@dataclass(frozen=True)
class Steps:
    statements: int
    calls: int


@dataclass
class Contestant:
    """One of them, at work on a table of its own. answers: by task, None where it has none."""

    name: str
    module: ModuleType
    place: Any
    answers: dict[str, Any] = field(default_factory=dict)

    def do(self, task: str, *given: Any) -> None:
        found = getattr(self.module, task, None)
        if found is not None:
            self.answers[task] = found(self.place, *given)

    def rows(self) -> list[Row]:
        return plain(self.module.rows(self.place))


def steps() -> dict[str, dict[str, Steps]]:
    """By contestant and task, from the sources alone."""
    found: dict[str, dict[str, Steps]] = {}
    for name, (module, _) in CONTESTANTS.items():
        tree = ast.parse((FOLDER / f"{module}.py").read_text())
        made = {item.name: item for item in tree.body if isinstance(item, ast.FunctionDef)}
        found[name] = {task: _counted(made[task]) for task in TASKS if task in made}
    return found


def _counted(function: ast.FunctionDef) -> Steps:
    nodes = [node for item in function.body for node in ast.walk(item)]
    return Steps(
        statements=sum(isinstance(node, ast.stmt) for node in nodes),
        calls=sum(isinstance(node, ast.Call) for node in nodes),
    )


def table_text(found: Mapping[str, Mapping[str, Steps]]) -> str:
    """Markdown: a row for each task, `statements / calls` of each contestant."""
    lines = [f"| task | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for task, said in TASKS.items():
        cells = (_cell(tasks.get(task)) for tasks in found.values())
        lines.append(f"| {said} | {' | '.join(cells)} |")
    sums = (
        f"{len(tasks)} tasks, {sum(step.statements for step in tasks.values())} / "
        f"{sum(step.calls for step in tasks.values())}"
        for tasks in found.values()
    )
    return "\n".join([*lines, f"| all | {' | '.join(sums)} |"])


def _cell(found: Steps | None) -> str:
    return "not there" if found is None else f"{found.statements} / {found.calls}"


def plain(answer: Any) -> list[Row]:
    """Rows in one order, without the columns in which contestants differ."""
    listed = answer if isinstance(answer, list) else pa.table(answer).to_pylist()
    rows = [{name: value for name, value in row.items() if name in KNOWN} for row in listed]
    return sorted(rows, key=lambda row: str(row["order_id"]))


def orders(*given: tuple[str, int, float, str, int]) -> pd.DataFrame:
    """Each: id, day of January, amount, status, updated_at."""
    rows = [
        {
            "order_id": key,
            "order_date": f"2024-01-{day:02}",
            "amount": amount,
            "status": status,
            "updated_at": at,
        }
        for key, day, amount, status, at in given
    ]
    return pd.DataFrame(rows)


def run(contestants: Sequence[Contestant], without: Sequence[str] = WITHOUT) -> list[str]:
    """All tasks in turn; what is wrong, nothing where all is right. `without`: tasks that are left out."""
    wrong: list[str] = []

    def each(task: str, *given: Any, answers: Callable[[Any], Any] | None = None) -> None:
        if task in without:
            return
        for one in contestants:
            one.do(task, *(item(one) if callable(item) else item for item in given))
        wrong.extend(differences(f"rows after {task}", {one.name: one.rows() for one in contestants}))
        if answers is not None:
            found = {one.name: answers(one.answers[task]) for one in contestants if task in one.answers}
            wrong.extend(differences(task, found))
            wrong.extend(f"{task}: {name} has no answer" for name, answer in found.items() if not answer)

    def between(rows: pd.DataFrame) -> None:
        for one in contestants:
            one.module.upsert(one.place, rows)

    def marked() -> Callable[[Contestant], Any]:
        versions = {one.name: one.module.newest(one.place) for one in contestants}
        return lambda one: versions[one.name]

    for one in contestants:
        one.do("create", SCHEMA)
    each("upsert", orders(*_FIRST))
    each("read_polars", answers=plain)
    each("filtered", answers=plain)
    start = marked()
    between(orders(("o1", 2, 10.0, "paid", 2), ("o7", 1, 7.0, "void", 2)))
    each("time_travel", start, answers=plain)
    each("change_feed", start, answers=sorted)
    each("incremental", start, answers=plain)
    each(
        "merge", orders(("o1", 2, 0.0, "cancelled", 3), ("o2", 3, 0.0, "late", 3), ("o8", 2, 8.0, "open", 3))
    )
    each("delete")
    each("overwrite_partitions", orders(("o9", 2, 9.0, "open", 4), ("o10", 2, 1.0, "open", 4)))
    each("add_column", orders(("o11", 1, 3.0, "open", 5)).assign(note="new"))
    each("history", answers=lambda found: len(found) > 5)
    each("files", answers=lambda found: len(found) > 2)
    each("savepoint", answers=bool)
    kept = marked()
    between(orders(("o0", 1, 99.0, "wrong", 6)).assign(note=""))
    each("restore", kept)
    each("compact")
    each("clean")
    each("create_index", answers=bool)
    for one in contestants:
        one.module.kill_a_writer(one.place)
    wrong += [f"{one.name}: nothing was left" for one in contestants if not one.module.left(one.place)]
    each("why_late", answers=lambda found: "a failed write" in " ".join(found))
    each("fix_failed_write")
    fixed = [one for one in contestants if "fix_failed_write" in one.answers]
    wrong += [f"{one.name}: {left} is left" for one in fixed if (left := one.module.left(one.place))]
    return wrong


def differences(what: str, found: Mapping[str, Any]) -> list[str]:
    (name, first), *others = found.items()
    return [f"{what}: {name} has {first}, {other} {value}" for other, value in others if value != first]


def installed() -> tuple[list[str], list[str]]:
    """(contestants whose packages are here, packages that are missing)"""
    missing = {
        name: [item for item in needs if not find_spec(item)] for name, (_, needs) in CONTESTANTS.items()
    }
    return [name for name in CONTESTANTS if not missing[name]], sorted({*chain(*missing.values())})


def begun(name: str, folder: Path) -> Contestant:
    """A contestant with a new table below the folder."""
    module = importlib.import_module(f"{__name__}.{CONTESTANTS[name][0]}")
    return Contestant(name, module, module.place(folder))


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 where rows or answers differ."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, help="keep the tables here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    names, missing = installed()
    if missing:
        print(f"without those who need them: pip install {' '.join(missing)}", file=sys.stderr)
    with output.folder(args.work, NAME) as work:
        wrong = run([begun(name, work) for name in names])
    found = steps()
    counted = {name: {task: asdict(step) for task, step in tasks.items()} for name, tasks in found.items()}
    output.write({"compared": names, "wrong": wrong, "steps": counted}, args.out)
    print(table_text(found), file=sys.stderr)
    return 1 if wrong else 0
