"""A clean environment of a Python, in which packages are installed and tried."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from scripts.fresh_machine import kept


class CleanEnvironment:
    """Its commands, in `folder/env`, come first on PATH; they run in `cwd`, where orders.csv has two rows."""

    def __init__(self, folder: Path, cwd: Path, limit_s: float, **extra: str) -> None:
        """`limit_s` is what a command may take: an index that answers slowly, or an installer that searches,
        fails the test. `extra` are variables of its environment.
        """
        self.env, self.folder, self._limit_s = folder / "env", cwd, limit_s
        self.environ = {
            **kept(),
            **{name: os.environ[name] for name in ("HOME", "JAVA_HOME") if name in os.environ},
            "PATH": f"{self.env / 'bin'}:{os.environ['PATH']}",
            "AIRFLOW_HOME": str(folder / "airflow"),
            **extra,
        }
        (cwd / "orders.csv").write_text("id,amount\n1,2.5\n2,3.5\n")

    def run(self, *command: str | Path) -> str:
        """What it prints. AssertionError, with the ends of both outputs, where it fails."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=self._limit_s,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout
