"""A real HBase for a test session, and a table in it for each test."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from scripts import environment

PROCESS = Path(__file__).with_name("process.py")
START_SECONDS = 180.0


def jars() -> list[Path]:
    """The jars of HBase in the local Maven repository (they may not be there)."""
    text = (environment.ROOT / "requirements/jars.lock").read_text()
    _, _, listed = text.partition("# HBase")
    found = []
    for line in listed.splitlines()[1:]:
        group, artifact, version = line.split()[0].split(":")
        folder = environment.maven_repository().joinpath(*group.split("."), artifact, version)
        found.append(folder / f"{artifact}-{version}.jar")
    return found


def missing() -> str | None:
    """What keeps HBase from starting here, or None."""
    for jar in jars():
        if not jar.exists():
            return f"HBase needs {jar}, which is not there; scripts/setup fetches it"
    if environment.spark_java(environment.spark_environment() | os.environ) is None:
        return "HBase needs Java; scripts/setup makes one"
    try:
        import happybase  # noqa: F401
    except ModuleNotFoundError:
        return "no happybase; scripts/setup installs it"
    return None


class HBase:
    """A context manager. `port` is that of the Thrift server, `zookeeper` the one for HBase's Java client."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def __enter__(self) -> HBase:
        self.folder = Path(tempfile.mkdtemp(prefix="hbase-"))
        self.port, self.zookeeper = _free_port(), _free_port()
        self._log = open(self.folder / "process.log", "wb")
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(PROCESS),
                str(self.port),
                str(self.zookeeper),
                str(self.folder),
                os.pathsep.join(map(str, jars())),
            ],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment.spark_environment()},
            cwd=self.folder,
        )
        try:
            self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=20)
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self) -> Any:
        import happybase

        return happybase.Connection("127.0.0.1", self.port, timeout=60_000)

    def new_table(self, versions: int = 1) -> dict[str, Any]:
        """An empty table of the index; the settings that lead to it."""
        name = f"index{next(self._numbers)}"
        connection = self.connect()
        connection.create_table(name, {"_s": {"max_versions": versions}})
        connection.close()
        return {
            "hoodie.index.type": "HBASE",
            "hoodie.index.hbase.table": name,
            "hoodie.index.hbase.thrift.host": "127.0.0.1",
            "hoodie.index.hbase.thrift.port": str(self.port),
        }

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self._process.poll() is not None or time.monotonic() > end:
                said = [(self.folder / name) for name in ("process.log", "jvm.log")]
                raise RuntimeError("\n".join(file.read_text()[-3000:] for file in said if file.exists()))
            threading.Event().wait(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
