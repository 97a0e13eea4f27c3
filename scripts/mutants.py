"""Mutants: small changes of the library's code that the fast tests are to notice.

    scripts/mutants [--sample 200] [--seed 1] [--processes 2] [--packages codec format ...] [--redo FILE]

A sample of the places that cosmic-ray's operators change, each with one of the changes there, equally drawn
from all packages. Each mutant meets the fast tests of its package (TESTS) in a worktree of HEAD: first those
that import its module, until one fails. Without a mutant they must pass. Writes a JSON line a mutant to
.cache/mutants and prints a table; `--redo` runs the survivors of such a file again. Runs with .venv-mutants,
the tests with .venv.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.environment import MAIN, ROOT, interpreter, spark_environment

LIBRARY = Path("spark_jobs/hoodie")
UNIT = "tests/unit"
#: the fast tests of a package, those of its own first
TESTS = {
    package: names.split()
    for package, names in {
        "codec": "codec log keygen test_bloom.py test_plans.py test_commit_metadata.py test_parquet_pages.py"
        " test_hfile.py write/test_types.py",
        "format": "log test_bloom.py test_schema.py test_evolution.py test_internal_schema.py"
        " test_parquet_pages.py test_hfile.py write/test_base_file.py write/test_sizing.py"
        " read/test_log_scan.py write/test_evolution_end_to_end.py write/test_validators.py"
        " read/test_schema_on_read.py write/test_schema_on_read.py",
        "read": "read write/test_read.py write/test_merge_on_read.py write/test_partition_values.py",
        "timeline": "test_tokens.py test_clock.py test_plans.py test_conditions.py test_archived.py"
        " test_commit_metadata.py test_compaction_plan.py test_damaged_commits.py"
        " test_impossible_timelines.py read services/test_archive.py services/test_clean.py",
        "write": "write test_transaction.py test_rollback.py test_rollback_logs.py",
        "services": "services test_service_transaction.py test_rollback.py test_rollback_logs.py",
    }.items()
}
#: what the settings' page and the requests of an upsert and a query are, which every package may change
ALWAYS = ["tests/house/test_pages.py", "tests/house/test_requests.py"]
#: of no use: the same at run time, or noticed by the first import
NOT_DRAWN = re.compile(r"_Is$|_IsNot$|RemoveDecorator|VariableReplacer|VariableInserter")
SECONDS = 600


@dataclass(frozen=True)
class Mutant:
    """One change: the `number`th that an operator can make in a module."""

    module: str
    operator: str
    number: int
    line: int

    @property
    def package(self) -> str:
        return Path(self.module).relative_to(LIBRARY).parts[0]


def not_code(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a module's text does nothing for users: annotations, assertions, imports of types."""
    found: list[ast.AST] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.append(node.returns)
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
    chance, chosen = random.Random(seed), []
    for number, package in enumerate(packages):
        share = count // len(packages) + (number < count % len(packages))
        modules = sorted(path for path in (LIBRARY / package).rglob("*.py") if path.name != "spark.py")
        all_places = [group for module in modules for _, group in sorted(places(module).items())]
        chosen += [chance.choice(group) for group in chance.sample(all_places, min(share, len(all_places)))]
    chance.shuffle(chosen)
    return chosen


def mutated(mutant: Mutant, source: str) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = mutate_code(source, get_operator(mutant.operator)(), mutant.number)
    assert isinstance(code, str)
    return code


def tests_of(module: str, root: Path) -> list[str]:
    """Test files of a module, those that import it first, and of them those of its name."""
    package = Path(module).relative_to(LIBRARY).parts[0]
    name = re.escape(module.removeprefix("spark_jobs/").removesuffix(".py").replace("/", "."))
    parent, _, last = name.rpartition(r"\.")
    imports = re.compile(rf"^\s*(from|import) {name}\b|^from {parent} import .*\b{last}\b", re.MULTILINE)
    listed = [f"{UNIT}/{test}" for test in TESTS[package]]
    files = [path for test in listed for path in _files(root / test)]
    first = [path for path in _files(root / UNIT) if imports.search(path.read_text())]
    first.sort(key=lambda path: (last not in path.stem, root / UNIT / package not in path.parents))
    return [str(path.relative_to(root)) for path in dict.fromkeys([*first, *files])] + ALWAYS


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


class Copy:
    """A worktree of HEAD in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder], cwd=ROOT, check=True)

    def close(self) -> None:
        subprocess.run(["git", "worktree", "remove", "--force", self.root], cwd=ROOT, check=True)

    def test(self, files: Sequence[str], seconds: float) -> str | None:
        """The first failing test ("time" where they take too long), None where all pass."""
        marks = "not full and not spark and not interop and not airflow"
        options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "-m", marks]
        path = os.pathsep.join([str(self.root / "spark_jobs"), str(self.root)])
        environ = {**os.environ, **spark_environment(), "PYTHONPATH": path, "CI": "true"}
        environ["TMPDIR"] = str(self.root.parent)
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                [interpreter(MAIN), "-m", "pytest", *options, *files],
                cwd=self.root,
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return "time"
            log.seek(0)
            if code == 0:
                return None
            said = log.read()
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
            return failed[1] if failed else said[-300:]

    def meet(self, mutant: Mutant) -> dict[str, Any]:
        """What became of a mutant: its change, and the test that failed."""
        file = self.root / mutant.module
        before = file.read_text()
        after = mutated(mutant, before)
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        change = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        started = time.monotonic()
        file.write_text(after)
        try:
            killer = self.test(tests_of(mutant.module, self.root), SECONDS)
        finally:
            file.write_text(before)
        seconds = round(time.monotonic() - started, 1)
        return {**asdict(mutant), "change": change, "killer": killer, "seconds": seconds}


def run(mutants: Sequence[Mutant], processes: int, told: Callable[[dict[str, Any]], None]) -> None:
    """Every mutant in one of the copies, so many at a time. RuntimeError where tests fail without one."""
    waiting: queue.Queue[Mutant] = queue.Queue()
    for mutant in mutants:
        waiting.put(mutant)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder, str(number), "work")) for number in range(processes)]
        try:
            every = sorted({test for mutant in mutants for test in tests_of(mutant.module, copies[0].root)})
            print(f"{len(mutants)} mutants; {len(every)} test files without one ...", flush=True)
            if failed := copies[0].test(every, 6 * SECONDS):
                raise RuntimeError(f"without a mutant {failed} fails")

            def work(copy: Copy) -> None:
                while True:
                    try:
                        mutant = waiting.get_nowait()
                    except queue.Empty:
                        return
                    told(copy.meet(mutant))

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


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--packages", nargs="+", choices=sorted(TESTS), default=sorted(TESTS))
    parser.add_argument("--redo", type=Path, help="run the survivors of this file again")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.redo:
        old = [json.loads(line) for line in arguments.redo.read_text().splitlines()]
        names = Mutant.__dataclass_fields__
        mutants = [Mutant(**{name: item[name] for name in names}) for item in old if item["killer"] is None]
    else:
        mutants = drawn(arguments.packages, arguments.sample, arguments.seed)
    out = ROOT / ".cache" / "mutants" / f"{time.strftime('%Y%m%d-%H%M%S')}-seed-{arguments.seed}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []

    def told(result: dict[str, Any]) -> None:
        results.append(result)
        with out.open("a") as file:
            file.write(json.dumps(result) + "\n")
        outcome = "survived" if result["killer"] is None else f"killed by {result['killer']}"
        print(f"{len(results)}/{len(mutants)} {result['module']}:{result['line']} {outcome}", flush=True)

    run(mutants, arguments.processes, told)
    print("\n".join(table(results)))
    for result in results:
        if result["killer"] is None:
            print(f"\n{result['module']}:{result['line']} {result['operator']}", *result["change"], sep="\n")
    print(f"\n{out.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
