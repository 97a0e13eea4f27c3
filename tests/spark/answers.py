"""Runs a program of this folder in an interpreter of its own and takes what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts import environment

SECONDS = 300


def ask(program: str, *arguments: str, python: Path | None = None) -> dict[str, Any]:
    """The JSON object behind ANSWER on the program's stdout; AssertionError with its stderr without one."""
    interpreter = python or Path(sys.executable)
    env = {**os.environ, **environment.spark_environment(interpreter.parent.parent)}
    env["PYTHONPATH"] = os.pathsep.join([str(environment.ROOT), str(environment.ROOT / "spark_jobs")])
    command = [str(interpreter), "-W", "ignore", str(Path(__file__).with_name(program)), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS)
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert lines, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(lines[0].removeprefix("ANSWER "))
    return answer
