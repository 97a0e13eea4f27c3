"""Kills real processes cheaply: one process warms up, then forks for every write that is to be killed.

Run as `python -m tests.crash.worker LINK 6`: a way to create files, the version of new tables. A request is a
line of JSON (start a writer, or wait for one), the answer a number (its process id, its exit code).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from hoodie.config.versions import EARLIEST
from hoodie.errors import HoodieError
from hoodie.storage.exclusive import Way
from tests.crash import (  # noqa: F401  scenarios
    clustering,
    late,
    later_indexes,
    metadata,
    operations,
    participants,
    rings,
    services,
    undo,
)
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.support.defaults import metadata_tables
from tests.support.faults import Faults, Phase
from tests.support.later_tables import new_tables_of
from tests.support.mounts import mounted

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "spark_jobs")])}


def answer(pause: Path) -> dict[str, Any]:
    """What a process that was started with this folder told when it ended."""
    found: dict[str, Any] = json.loads((pause / "result.json").read_text())
    return found


class Worker:
    """The pytest side."""

    def __init__(self, way: Way = Way.LINK, version: int = EARLIEST.number) -> None:
        """`version`: of new tables."""
        self._process = subprocess.Popen(
            python("-m", "tests.crash.worker", way.name, str(version)),
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
        """Exit code of a process that dies at this change of the scenario: minus the signal."""
        return self.wait(self._ask(self._order(scenario, path, at, phase)))

    def start(self, scenario: Scenario, path: str | Path, at: int, phase: Phase, pause: Path) -> int:
        """Process id of a writer that waits at this change for the file `go` in the folder `pause`.

        It leaves `result.json` there: its WriteResult, or its error.
        """
        pause.mkdir(parents=True, exist_ok=True)
        return self._ask({**self._order(scenario, path, at, phase), "pause": str(pause)})

    def wait(self, pid: int) -> int:
        return self._ask({"pid": pid})

    @staticmethod
    def _order(scenario: Scenario, path: str | Path, at: int, phase: Phase) -> dict[str, Any]:
        return {"scenario": scenario.name, "path": str(path), "at": at, "phase": phase.value}

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


def _run(scenario: str, path: str, at: int, phase: str, pause: str | None = None) -> None:
    code = 1
    answer: dict[str, Any] = {}
    hold = Path(pause) if pause else None
    try:
        faults = Faults(at=at, phase=Phase(phase), kill=hold is None, pause=hold)
        answer = SCENARIOS[scenario].run(path, faults).to_dict()
        code = 0
    except HoodieError as error:
        answer = error.to_dict()
    except Exception:  # noqa: BLE001 - the exit code tells
        traceback.print_exc()
    finally:
        if hold is not None:
            (hold / "result.json").write_text(json.dumps(answer))
        os._exit(code)


def main() -> None:
    metadata_tables(made=False)  # steps are those that the test has counted
    with mounted(Way[sys.argv[1]]), new_tables_of(int(sys.argv[2])):
        _serve()


def _serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        SCENARIOS["first"].run(f"{folder}/table")
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            _, status = os.waitpid(request["pid"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        child = os.fork()
        if child == 0:
            _run(**request)
        print(child, flush=True)


if __name__ == "__main__":
    main()
