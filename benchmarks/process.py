"""The parent's end of one worker process."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil  # type: ignore[import-untyped]

from .contestants import ROOT, Contestant


class WorkerFailed(Exception):
    """A worker answered with an error, died or took too long; the message says which and names its log."""


class WorkerProcess:
    """One worker in its own interpreter, as a context manager; leaving it ends the whole process tree."""

    def __init__(self, contestant: Contestant, session: dict[str, str], log: Path, timeout: float) -> None:
        self.contestant, self._timeout, self._log = contestant, timeout, log
        interpreter, environment = str(contestant.interpreter), contestant.environment()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [interpreter, "-m", f"{__package__}.workers"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._pump, daemon=True).start()
        self._session = session

    @property
    def pid(self) -> int:
        return self._process.pid

    def _pump(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def __enter__(self) -> WorkerProcess:
        contestant = self.contestant
        try:
            self.versions: dict[str, str] = self.call(
                "setup",
                kind=contestant.kind,
                session=self._session,
                options=contestant.options,
                engine=contestant.engine,
            )["versions"]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._end()

    def call(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send one request and wait for its answer (errors: WorkerFailed)."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"command": command, **fields}) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=self._timeout)
        except queue.Empty:
            raise WorkerFailed(f"{command} took longer than {self._timeout:.0f} s; see {self._log}") from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise WorkerFailed(f"the worker died during {command}; see {self._log}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise WorkerFailed(f"{command}: {answer['error']}; see {self._log}")
        return answer

    def _end(self) -> None:
        tree = []
        with contextlib.suppress(psutil.NoSuchProcess):
            tree = psutil.Process(self.pid).children(recursive=True)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write('{"command": "exit"}\n')
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=30)
        self._process.kill()
        self._process.wait()
        _, alive = psutil.wait_procs(tree, timeout=10)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
