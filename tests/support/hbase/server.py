"""A real HBase for a test session, and a table in it for each test."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.support.jars import jars_of, missing_jar, missing_java
from tests.support.server_process import JavaServer, free_port

PROCESS = Path(__file__).with_name("process.py")


def missing() -> str | None:
    """What keeps HBase from starting here, or None."""
    if lacking := missing_jar("HBase") or missing_java("HBase"):
        return lacking
    try:
        import happybase  # noqa: F401
    except ModuleNotFoundError:
        return "no happybase; scripts/setup installs it"
    return None


class HBase(JavaServer):
    """`port` is that of the Thrift server, `zookeeper` the one for HBase's Java client."""

    start_seconds = 180.0
    stop_seconds = 20.0
    logs = ("process.log", "jvm.log")

    def command(self) -> list[str]:
        self.zookeeper = free_port()
        return [
            sys.executable,
            str(PROCESS),
            str(self.port),
            str(self.zookeeper),
            str(self.folder),
            os.pathsep.join(map(str, jars_of("HBase"))),
        ]

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
