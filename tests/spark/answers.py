"""Asks the programs of this folder, which run in interpreters with a Spark session each (see server.py)."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from scripts import environment
from tests.conftest import require

SECONDS = 900


def interpreter(version: str) -> Path:
    """Spark 4 is that of this process, or of HOODIE_TESTS_SPARK (scripts/other_spark); 3.5 is beside Hudi."""
    main = Path(os.environ.get("HOODIE_TESTS_SPARK") or sys.executable)
    python = main if version == "4" else environment.interpreter(environment.HUDI)
    require(python.exists(), f"no interpreter with Spark {version}: {python}; run scripts/setup")
    return python


class Server:
    """One interpreter with one session."""

    def __init__(self, python: Path, mode: str) -> None:
        env = {**os.environ, **environment.spark_environment(python.parent.parent)}
        env["TZ"] = os.environ["TZ"]  # writers of a table are in one time zone
        env["PYTHONPATH"] = os.pathsep.join([str(environment.ROOT), str(environment.ROOT / "spark_jobs")])
        self._log = tempfile.TemporaryFile("w+", prefix=f"spark-{mode}-")  # noqa: SIM115  until close()
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", "tests.spark.server", mode],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("ANSWER ", "FAILED ")):
                self._lines.put(line)
        self._lines.put("ENDED")

    def ask(self, program: str, *arguments: Any, driver_bytes: int = 0) -> dict[str, Any]:
        """What the program answers; AssertionError with its traceback, or with Spark's log where it ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([program, arguments, driver_bytes]) + "\n")
        self._process.stdin.flush()
        kind, _, text = self._lines.get(timeout=SECONDS).partition(" ")
        if kind != "ANSWER":
            self._log.seek(0)
            raise AssertionError(json.loads(text) if kind == "FAILED" else self._log.read()[-3000:])
        answer: dict[str, Any] = json.loads(text)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._log.close()


class Servers:
    """One server for each interpreter and mode, from the first question to it on."""

    def __init__(self) -> None:
        self._servers: dict[tuple[Path, str], Server] = {}

    def ask(
        self, program: str, mode: str, *arguments: Any, python: Path | None = None, driver_bytes: int = 0
    ) -> dict[str, Any]:
        """What `answer(spark, *arguments)` of a program gives by `python`, else on Spark 4; `version` is
        Spark's. Tasks do the steps of its writes, also of few rows, save where `driver_bytes` says what
        hoodie.spark.driver.max.bytes does.

        The mode is classic or connect. AssertionError where the program fails.
        """
        key = (python or interpreter("4"), mode)
        if key not in self._servers:
            self._servers[key] = Server(*key)
        return self._servers[key].ask(program, *arguments, driver_bytes=driver_bytes)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
