"""A real HDFS for a test session, and a folder in it for each test."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.support.jars import jars_of, missing_jar, missing_java
from tests.support.server_process import JavaServer, free_port

PROCESS = Path(__file__).with_name("process.py")
_SITE = "<configuration><property><name>{}</name><value>{}</value></property></configuration>"


def missing() -> str | None:
    """What keeps HDFS from starting here, or None."""
    return missing_jar("HDFS") or missing_java("HDFS")


class Hdfs(JavaServer):
    """`port` is that of the active name node's RPC, `http` its WebHDFS; `others` those of the standby one."""

    start_seconds = 180.0
    stop_seconds = 20.0
    logs = ("process.log", "jvm.log")

    def command(self) -> list[str]:
        self.http = free_port()
        self.others = (free_port(), free_port())
        self._said = 0
        ports = map(str, (self.port, self.http, *self.others))
        return [
            sys.executable,
            str(PROCESS),
            *ports,
            str(self.folder),
            os.pathsep.join(map(str, jars_of("HDFS"))),
        ]

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    @property
    def web_uri(self) -> str:
        return f"webhdfs://127.0.0.1:{self.http}"

    def tell(self, command: str) -> None:
        """Have it done (`Cluster` of the process)."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        done, end = self.folder / f"done-{self._said}", time.monotonic() + 120
        self._said += 1
        while not done.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("\n".join((self.folder / name).read_text()[-3000:] for name in self.logs))
            threading.Event().wait(0.02)

    @contextlib.contextmanager
    def new_folder(self) -> Iterator[str]:
        """The URI of a folder that is not there; the environment leads to its HDFS inside."""
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        site = _SITE.format("dfs.namenode.http-address", f"127.0.0.1:{self.http}")
        (conf / "hdfs-site.xml").write_text(site)
        with mock.patch.dict(os.environ, {"HADOOP_CONF_DIR": str(conf)}):
            yield f"{self.uri}/test{next(self._numbers)}"
