"""Kills real processes cheaply: imports everything once, then forks for every write that is to be killed.

Run as `python -m tests.crash.worker`; a request is a JSON line, the answer the child's exit status. The parent
never computes, so it has one thread only when it forks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType

from tests.crash.scenarios import SCENARIOS, Scenario
from tests.support.faults import Faults, Phase

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "spark_jobs")])}


class Worker:
    """The pytest side."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            python("-m", "tests.crash.worker"),
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate(timeout=60)

    def kill(self, scenario: Scenario, path: str | Path, at: int, phase: Phase = Phase.BEFORE) -> int:
        """Exit code of a process that runs the scenario; minus the signal when that killed it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"scenario": scenario.name, "path": str(path), "at": at, "phase": phase.value}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


def _run(scenario: str, path: str, at: int, phase: str) -> None:
    code = 1
    try:
        SCENARIOS[scenario].run(path, Faults(at=at, phase=Phase(phase), kill=True))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
