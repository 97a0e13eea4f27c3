"""What differs between table versions is asked in few places.

Numbers of table versions and layouts are in `config/versions.py`. What the files of commits contain and when
an instant was completed is known to `timeline/`. The order of instants is checked by types (`InstantTime`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.house.test_walls import GLUE, HOODIE
from tests.support.parsed import parsed

NUMBERS = HOODIE / "config/versions.py"
TIMELINE = HOODIE / "timeline"
#: these have versions of their own: of log blocks, HFiles and Avro models
OTHER_VERSIONS = (HOODIE / "format", HOODIE / "codec")
#: their file times are those of heartbeats, of reports of jobs, of files that are shown as files, and of log
#: files that are appended to
FILE_TIMES = (
    TIMELINE / "active.py",
    TIMELINE / "job_reports.py",
    TIMELINE / "running_jobs.py",
    TIMELINE / "staged_rows.py",
    HOODIE / "storage",
    HOODIE / "table/heartbeat.py",
    HOODIE / "lock/filesystem.py",
    HOODIE / "serve/details.py",
    HOODIE / "services/ttl/plan.py",
    HOODIE / "spark/staging.py",
)

READERS = {("CommitMetadata", "parse"), ("CommitMetadata", "completed"), ("CommitDetails", "parse")}


def sources(*without: Path, having: Sequence[str] = ("",)) -> Iterator[tuple[Path, ast.Module]]:
    """Modules whose text has one of these words, which is asked first: it costs little."""
    for folder in (HOODIE, GLUE):
        for path in sorted(folder.rglob("*.py")):
            if any(path.is_relative_to(place) for place in without):
                continue
            text = path.read_text()
            if any(word in text for word in having):
                yield path, parsed(path)


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(HOODIE.parent.parent)}:{getattr(node, 'lineno', 0)}"


def named(node: ast.AST | None) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_number(node: ast.AST | None) -> bool:
    """A digit of a version above those that many things begin with, also as text or Apache Hudi's name."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    return str(node.value).lower() in {"5", "6", "7", "8", "9", "six", "seven", "eight", "nine"}


def test_numbers_of_versions_are_in_one_module() -> None:
    found = []
    for path, tree in sources(NUMBERS, *OTHER_VERSIONS, having=("ersion", "VERSION", "SIX", "EIGHT", "NINE")):
        for node in ast.walk(tree):
            pairs: list[tuple[ast.AST | None, ast.AST | None]] = []
            if isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
                pairs = [(a, b) for a in operands for b in operands]
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                pairs = [(target, node.value) for target in targets]
            elif isinstance(node, ast.Dict):
                pairs = list(zip(node.keys, node.values, strict=True))
            if any("version" in named(name).lower() and is_number(number) for name, number in pairs):
                found.append(place(path, node))
            if isinstance(node, ast.Constant) and str(node.value) in ("SIX", "EIGHT", "NINE"):
                found.append(place(path, node))
    assert found == []


def test_files_of_commits_are_parsed_by_the_timeline() -> None:
    """Timeline.commit, details, parse_state, value; read_commit."""
    found = [
        place(path, node)
        for path, tree in sources(
            TIMELINE, having=("CommitMetadata", "CommitDetails", "json_object", "ReadValue")
        )
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and (named(node.value), node.attr) in READERS)
        or (isinstance(node, ast.alias) and node.name in ("json_object", "ReadValue"))
    ]
    assert found == []


def test_completion_times_are_the_timelines() -> None:
    """Timeline.completion_of, changed_ms: only layout one has them as modification times of files."""
    found = []
    for path, tree in sources(*FILE_TIMES, having=("mtime",)):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "mtime_ms":
                found.append(place(path, node))
            times = node.value if isinstance(node, (ast.Subscript, ast.Attribute)) else None
            of_files = isinstance(times, ast.Attribute) and times.attr == "mtimes"
            if of_files and not path.is_relative_to(TIMELINE) and getattr(node, "attr", "get") == "get":
                found.append(place(path, node))
    assert found == []
