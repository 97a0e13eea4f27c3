"""Which tests meet a mutant: those that execute its line, nearest first (see scripts/covered.py).

A line that runs when its module is imported (a constant, a default, a field) is met by the tests that execute
a line which names what it sets.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path("spark_jobs/hoodie")
Function = ast.FunctionDef | ast.AsyncFunctionDef
#: the variable that names the folder of notes: of each process a data file of coverage.py and lines of tests
NOTES = "MUTANTS_NOTES"
#: the variable that names the folder of coverage.py, which the tests' environment has not
PACKAGE = "MUTANTS_COVERAGE"
#: the tests of what is made from the declarations of settings and services
PAGES = "tests/house/test_pages.py"
#: so many tests of a file that imports the module come before the next test of any other file
ROUND = 8


def shared(fixture: str) -> str:
    """The context of a fixture that is made once for several tests."""
    return f"fixture {fixture}"


@dataclass(frozen=True)
class Place:
    """Lines of one statement, and the names it sets if importing the module runs it."""

    lines: range
    names: tuple[str, ...] = ()


def place(source: str, line: int) -> Place:
    """The statement at a line: its header where it has a body."""
    inside: list[ast.stmt] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and _start(node) <= line <= (node.end_lineno or 0):
            inside.append(node)
    inside.sort(key=lambda node: (_start(node), -(node.end_lineno or 0)))
    if not inside:
        return Place(range(line, line + 1))
    last = inside[-1]
    header = _header(last)
    lines = header if line in header else range(line, line + 1)
    if any(isinstance(node, Function) for node in inside if node is not last or line not in header):
        return Place(lines)
    names = [name for node in reversed(inside) for name in _names(node)]
    return Place(lines, tuple(dict.fromkeys(names)))


def _start(node: ast.stmt) -> int:
    decorated: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorated)])


def _header(node: ast.stmt) -> range:
    body = getattr(node, "body", None)
    end = _start(body[0]) - 1 if isinstance(body, list) and body else node.end_lineno or 0
    return range(_start(node), max(end, node.lineno) + 1)


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


@dataclass(frozen=True)
class Timed:
    """A test, and the CPU seconds that it takes when it runs alone: with the fixtures that others share."""

    name: str
    seconds: float

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class Tests:
    """The tests of a run under scripts/covered.py, at the commit of the sources in `root`."""

    def __init__(self, folder: Path, root: Path) -> None:
        from coverage import CoverageData

        self._root = root
        self._data = [CoverageData(str(path)) for path in sorted(folder.glob("lines-*"))]
        for data in self._data:
            data.read()
        fixtures: dict[str, float] = {}
        for path in sorted(folder.glob("fixtures-*")):
            fixtures.update(json.loads(path.read_text()))
        self._by_context: defaultdict[str, list[Timed]] = defaultdict(list)
        for path in sorted(folder.glob("tests-*")):
            for line in path.read_text().splitlines():
                name, seconds, used = json.loads(line)
                test = Timed(name, seconds + sum(fixtures.get(fixture, 0) for fixture in used))
                for context in (name, *map(shared, used)):
                    self._by_context[context].append(test)

    def __len__(self) -> int:
        return len({test for tests in self._by_context.values() for test in tests})

    def nearest(self, module: str, line: int, seconds: float) -> list[Timed]:
        """Tests for a line, so many that they take `seconds`, at least one where there is any."""
        at = place(self._text(module), line)
        found = self._executing(module, [line]) or self._executing(module, at.lines)
        near = self._imports(module)
        if at.names:
            made = {test for tests in self._by_context.values() for test in tests if test.file == PAGES}
            found, near = self._naming(module, at.names) | made, near | {PAGES}
        return within(ordered(found, near), seconds)

    def _executing(self, module: str, lines: Iterable[int]) -> set[Timed]:
        contexts = self._contexts(module)
        return {
            test for line in lines for context in contexts.get(line, ()) for test in self._by_context[context]
        }

    def _naming(self, module: str, names: Sequence[str]) -> set[Timed]:
        """Tests that execute a line which names the first of the names that any executed line has."""
        for name in names:
            word = re.compile(rf"\b{name}\b")
            found: set[Timed] = set()
            for other in self._modules():
                text = self._text(other)
                if other == module or names[-1] in text:
                    lines = [n for n, line in enumerate(text.splitlines(), 1) if word.search(line)]
                    found |= self._executing(other, lines)
            if found:
                return found
        return set()

    @functools.cache  # noqa: B019  as long as the run
    def _contexts(self, module: str) -> Mapping[int, Collection[str]]:
        found: defaultdict[int, set[str]] = defaultdict(set)
        for data in self._data:
            for file in data.measured_files():
                if file.endswith(f"/{module}"):
                    for line, contexts in data.contexts_by_lineno(file).items():
                        found[line].update(contexts)
        return found

    @functools.cache  # noqa: B019
    def _text(self, path: str) -> str:
        return (self._root / path).read_text()

    @functools.cache  # noqa: B019
    def _modules(self) -> list[str]:
        return sorted(str(path.relative_to(self._root)) for path in (self._root / LIBRARY).rglob("*.py"))

    def _imports(self, module: str) -> frozenset[str]:
        """The test files that import a module."""
        name = module.removeprefix("spark_jobs/").removesuffix(".py").replace("/", ".")
        parent, _, last = name.rpartition(".")
        found = re.compile(
            rf"^\s*(from|import) {re.escape(name)}\b|^\s*from {re.escape(parent)} import .*\b{last}\b",
            re.MULTILINE,
        )
        files = {test.file for tests in self._by_context.values() for test in tests}
        return frozenset(file for file in files if found.search(self._text(file)))


def ordered(tests: Iterable[Timed], near: Collection[str]) -> list[Timed]:
    """In turns of all files, the quickest of each first; files that are near have several a turn."""
    by_file: defaultdict[str, list[Timed]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: (test.seconds, test.name)):
        by_file[test.file].append(test)
    turns = [
        (number // ROUND if file in near else number + 1, test.seconds, test.name, test)
        for file, listed in by_file.items()
        for number, test in enumerate(listed)
    ]
    return [test for *_, test in sorted(turns, key=lambda turn: turn[:3])]


def within(tests: Sequence[Timed], seconds: float) -> list[Timed]:
    """The first of the tests, those left out that would pass the limit."""
    chosen: list[Timed] = []
    for test in tests:
        if not chosen or test.seconds <= seconds:
            chosen.append(test)
            seconds -= test.seconds
    return chosen
