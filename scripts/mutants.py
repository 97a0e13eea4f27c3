"""Mutants: small changes of the library's code that the fast tests are to notice.

    scripts/mutants [--sample 200] [--seed 1] [--processes 2] [--packages codec format ...] [--seconds 30]
                    [--redo FILE]

A sample of the places that cosmic-ray's operators change, each with one of the changes there, equally drawn
from all packages. First the fast tests (TESTS, MARKS) run once, and scripts/covered.py notes which lines each
of them executes; the notes are kept by commit. Then each mutant meets, in a worktree of HEAD, the tests that
execute its line, nearest first (scripts/nearest.py), as many as take --seconds of CPU without a mutant, until
one fails. Where no test executes the line it has survived. Writes a JSON line a mutant to .cache/mutants, a
file for a commit and a sample: a run that was stopped goes on. Prints a table; `--redo` runs the survivors of
such a file again on HEAD. Runs with .venv-mutants, the tests with .venv.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import itertools
import json
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.environment import MAIN, ROOT, interpreter, spark_environment
from scripts.nearest import LIBRARY, NOTES, PACKAGE, Tests, within

PACKAGES = (
    "codec",
    "concurrency",
    "format",
    "merge",
    "metadata",
    "read",
    "services",
    "table",
    "timeline",
    "write",
)
#: the fast tests without a JVM and without Airflow
TESTS = [
    *(f"tests/{folder}" for folder in ("unit", "contract", "crash", "security", "golden", "model")),
    "tests/house/test_pages.py",
    "tests/house/test_requests.py",
]
MARKS = "not full and not spark and not interop and not airflow"
#: of no use: the same at run time, or noticed by the first import
NOT_DRAWN = re.compile(
    r"_Is$|_IsNot$|_Is_Eq$|_IsNot_NotEq$|RemoveDecorator|VariableReplacer|VariableInserter"
)
HOUR = 3600
#: CPU seconds of the tests that run before the others are even imported
FIRST = 2
CACHE = ROOT / ".cache" / "mutants"


@dataclass(frozen=True)
class Mutant:
    """One change: the `number`th that an operator can make in a module."""

    module: str
    operator: str
    number: int
    line: int


def not_code(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a module's text does nothing for users: annotations, assertions, decorators of classes (frozen or
    not), imports of types.
    """
    found: list[ast.AST] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.append(node.returns)
        elif isinstance(node, ast.ClassDef):
            found += node.decorator_list
        elif isinstance(node, ast.Assert) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ):
            found.append(node)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in found
        if isinstance(node, ast.expr | ast.stmt)
    ]


def places(module: Path) -> dict[tuple[int, int], list[Mutant]]:
    """The mutants of a module by the place that they change."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    source = module.read_text()
    tree, left_out = get_ast(source), not_code(source)
    found: defaultdict[tuple[int, int], list[Mutant]] = defaultdict(list)
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if NOT_DRAWN.search(name) or kind.arguments():
            continue
        operator, number = kind(), 0
        for node in ast_nodes(tree):
            for start, _ in operator.mutation_positions(node):
                if not any(begin <= start < end for begin, end in left_out):
                    mutant = Mutant(str(module), name, number, start[0])
                    found[start].append(mutant)
                number += 1
    return found


def drawn(packages: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """As many of each package, each at a place of its own."""
    chance = random.Random(seed)
    chosen: list[Mutant] = []
    for number, package in enumerate(packages):
        share = count // len(packages) + (number < count % len(packages))
        modules = sorted(path for path in (LIBRARY / package).rglob("*.py") if path.name != "spark.py")
        all_places = [group for module in modules for _, group in sorted(places(module).items())]
        chance.shuffle(all_places)
        made = (mutant for group in all_places if (mutant := one_of(group, chance)) is not None)
        chosen += itertools.islice(made, share)
    chance.shuffle(chosen)
    return chosen


def one_of(group: Sequence[Mutant], chance: random.Random) -> Mutant | None:
    """A mutant that Python compiles; some operators make none of a place."""
    for mutant in chance.sample(group, len(group)):
        with contextlib.suppress(SyntaxError, AttributeError):
            compile(mutated(mutant, Path(mutant.module).read_text()), mutant.module, "exec")
            return mutant
    return None


def mutated(mutant: Mutant, source: str) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = mutate_code(source, get_operator(mutant.operator)(), mutant.number)
    assert isinstance(code, str)
    return code


def change(before: str, after: str) -> list[str]:
    """The lines that go and those that come."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def again(old: Mapping[str, Any]) -> Mutant | None:
    """A mutant of an earlier commit in today's code, where its line is still there."""
    module = Path(old["module"])
    if not module.exists():
        return None
    source, found = module.read_text(), []
    for group in places(module).values():
        for mutant in group:
            if mutant.operator == old["operator"] and old["change"] == change(
                source, mutated(mutant, source)
            ):
                found.append(mutant)
    return min(found, key=lambda mutant: abs(mutant.line - old["line"]), default=None)


class Copy:
    """A worktree of HEAD in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder], cwd=ROOT, check=True)

    def close(self) -> None:
        subprocess.run(["git", "worktree", "remove", "--force", self.root], cwd=ROOT, check=True)

    def pytest(
        self, arguments: Sequence[str], extra: Mapping[str, str], seconds: int = resource.RLIM_INFINITY
    ) -> tuple[int, str]:
        """Exit code and output, with `extra` in the environment; pytest itself may use so many CPU seconds.

        TimeoutError where it needs more, or an hour.
        """
        path = os.pathsep.join([str(self.root / "spark_jobs"), str(self.root)])
        environ = {**os.environ, **spark_environment(), "PYTHONPATH": path, "CI": "true", **extra}
        environ["TMPDIR"] = str(self.root.parent)
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                [interpreter(MAIN), "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *arguments],
                cwd=self.root,
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))
            try:
                code = process.wait(HOUR)
            except subprocess.TimeoutExpired as error:
                raise TimeoutError from error
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)  # what a test left behind, too
                process.wait()
            if code in (-signal.SIGXCPU, -signal.SIGKILL):
                raise TimeoutError
            log.seek(0)
            return code, log.read()

    def test(self, names: Sequence[str], seconds: int) -> str | None:
        """The first failing test ("time" where they take too long), None where all pass."""
        chosen = self.root.parent / "chosen"
        chosen.write_text("\n".join(names))
        try:
            code, said = self.pytest(["-x", f"@{chosen}"], {}, seconds)
        except TimeoutError:
            return "time"
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
        return None if code == 0 else failed[1] if failed else said[-300:]

    def meet(self, mutant: Mutant, tests: Tests, seconds: float) -> dict[str, Any]:
        """What became of a mutant: its change, how many tests it met, and the one that failed."""
        file = self.root / mutant.module
        before = file.read_text()
        after = mutated(mutant, before)
        chosen = tests.nearest(mutant.module, mutant.line, seconds)
        first = within(chosen, FIRST)
        started, killer = time.monotonic(), None
        file.write_text(after)
        try:
            for some in (first, [test for test in chosen if test not in first]):
                limit = 30 + 3 * sum(test.seconds for test in some)
                if some and killer is None:
                    killer = self.test([test.name for test in some], int(limit))
        finally:
            file.write_text(before)
        spent = round(time.monotonic() - started, 1)
        told = {"change": change(before, after), "tests": len(chosen), "killer": killer, "seconds": spent}
        return asdict(mutant) | told


def noted(copy: Copy, folder: Path, processes: int) -> Tests:
    """The notes on the tests at this commit, made where they are missing. RuntimeError where none passes."""
    if not folder.exists():
        import coverage

        print("which lines does each test execute? ...", flush=True)
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        where = {NOTES: str(new), PACKAGE: str(Path(coverage.__file__).parent.parent)}
        workers = ["-n", str(processes), "--dist", "loadgroup"]
        _, said = copy.pytest(["-p", "scripts.covered", *workers, "-m", MARKS, *TESTS], where)
        if not len(Tests(new, copy.root)):
            raise RuntimeError(f"no test passed without a mutant: {said[-3000:]}")
        print(said.splitlines()[-1], flush=True)
        new.rename(folder)
    return Tests(folder, copy.root)


def run(
    mutants: Sequence[Mutant],
    notes: Path,
    processes: int,
    seconds: float,
    told: Callable[[dict[str, Any]], None],
) -> None:
    """Every mutant in one of the copies, so many at a time."""
    waiting: queue.Queue[Mutant] = queue.Queue()
    for mutant in mutants:
        waiting.put(mutant)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder, str(number), "work")) for number in range(processes)]
        try:
            tests = noted(copies[0], notes, processes)

            def work(copy: Copy) -> None:
                while True:
                    try:
                        mutant = waiting.get_nowait()
                    except queue.Empty:
                        return
                    told(copy.meet(mutant, tests, seconds))

            threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for copy in copies:
                copy.close()


def table(results: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Markdown: mutants and killed of each package."""
    made: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    for result in results:
        package = Path(result["module"]).relative_to(LIBRARY).parts[0]
        made[package] += 1
        killed[package] += result["killer"] is not None
    yield "| package | mutants | killed |"
    yield "|---|---|---|"
    for package in sorted(made):
        yield f"| {package} | {made[package]} | {killed[package]} |"
    yield f"| all | {made.total()} | {killed.total()} ({100 * killed.total() // max(1, made.total())} %) |"


def head() -> str:
    """The commit that the mutants are drawn from. RuntimeError where the code or its tests are another."""
    git = ["git", "status", "--porcelain", "--", "spark_jobs", "tests", "benchmarks"]
    if subprocess.run(git, capture_output=True, check=True).stdout:
        raise RuntimeError("commit first: mutants are changes of HEAD, and its tests run")
    line = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(line, capture_output=True, check=True, text=True).stdout.strip()


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=PACKAGES)
    parser.add_argument("--seconds", type=float, default=30, help="CPU seconds of tests a mutant")
    parser.add_argument("--redo", type=Path, help="run the survivors of this file again")
    arguments = parser.parse_args()
    redo = arguments.redo.resolve() if arguments.redo else None
    os.chdir(ROOT)
    commit = head()
    CACHE.mkdir(parents=True, exist_ok=True)
    if redo:
        found = [again(old) for old in read(redo) if old["killer"] is None]
        mutants = [mutant for mutant in found if mutant is not None]
        print(f"{len(found) - len(mutants)} survivors are of code that is gone")
        out = CACHE / f"{commit}-redo-{redo.name}"
    else:
        packages = "-".join(sorted(arguments.packages))
        out = CACHE / f"{commit}-seed-{arguments.seed}-sample-{arguments.sample}-{packages}.jsonl"
        sample = out.with_suffix(".drawn")
        if not sample.exists():
            mutants = drawn(arguments.packages, arguments.sample, arguments.seed)
            sample.write_text("".join(json.dumps(asdict(mutant)) + "\n" for mutant in mutants))
        mutants = [Mutant(**item) for item in read(sample)]
    results = read(out)
    done = {tuple(item[name] for name in Mutant.__dataclass_fields__) for item in results}
    left = [mutant for mutant in mutants if tuple(asdict(mutant).values()) not in done]

    def told(result: dict[str, Any]) -> None:
        results.append(result)
        with out.open("a") as file:
            file.write(json.dumps(result) + "\n")
        outcome = "survived" if result["killer"] is None else f"killed by {result['killer']}"
        met = f"{result['tests']} tests, {result['seconds']} s"
        print(
            f"{len(results)}/{len(mutants)} {result['module']}:{result['line']} {outcome} ({met})", flush=True
        )

    run(left, CACHE / f"{commit}-notes", arguments.processes, arguments.seconds, told)
    print("\n".join(table(results)))
    for result in results:
        if result["killer"] is None:
            print(f"\n{result['module']}:{result['line']} {result['operator']}", *result["change"], sep="\n")
    print(f"\n{out.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
