"""Servers that tests start as processes: each has a folder of its own, and is there once its port answers."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

from scripts import environment

if TYPE_CHECKING:
    from typing_extensions import Self


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_port(process: subprocess.Popen[bytes], port: int, seconds: float, logs: Sequence[Path]) -> None:
    """Raises RuntimeError, with the ends of the logs, for a process that ends or takes longer."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("\n".join(log.read_text()[-3000:] for log in logs if log.exists()))
        threading.Event().wait(0.05)


class JavaServer(ABC):
    """A context manager. `folder` and `port` are there before the process is."""

    start_seconds: ClassVar[float]
    #: how long the process may take to end by itself, once its standard input is closed
    stop_seconds: ClassVar[float] = 0.0
    #: files of the folder that an error shows
    logs: ClassVar[tuple[str, ...]] = ("process.log",)

    def __init__(self) -> None:
        self._numbers = itertools.count()

    @abstractmethod
    def command(self) -> list[str]:
        """The program, which listens at the port, and its arguments."""

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{type(self).__name__.lower()}-"))
        self.port = free_port()
        self.start()
        return self

    def start(self) -> None:
        """The process, until its port answers; after `stop` another one at the same port and folder."""
        with open(self.folder / "process.log", "wb") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment.spark_environment()},
                cwd=self.folder,
            )
        try:
            await_port(
                self._process, self.port, self.start_seconds, [self.folder / name for name in self.logs]
            )
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def stop(self) -> None:
        """End the process; the folder stays."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=self.stop_seconds)
        self._process.kill()
        self._process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
