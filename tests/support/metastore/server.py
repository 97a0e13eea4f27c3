"""A real Hive metastore for a test session, and a lock in it for each test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hoodie.metastore.connection import connected, types
from scripts import environment
from tests.support.jars import missing_java
from tests.support.server_process import JavaServer

PROCESS = Path(__file__).with_name("process.py")
#: a lock is taken from a holder that was silent for so long
SILENCE_S = 6


def missing() -> str | None:
    """What keeps a metastore from starting here, or None."""
    if lacking := missing_java("Hive's metastore"):
        return lacking
    try:
        import pyspark  # noqa: F401
        import thriftpy2  # noqa: F401
    except ModuleNotFoundError as error:
        return f"no {error.name}; scripts/setup installs it"
    return None


class Metastore(JavaServer):
    start_seconds = 120.0
    stop_seconds = 20.0
    logs = ("process.log", "jvm.log")

    def command(self) -> list[str]:
        import pyspark

        java = environment.spark_java(environment.spark_environment() | os.environ)
        jars = Path(pyspark.__file__).with_name("jars")
        arguments = [self.port, self.folder, jars, java, f"{SILENCE_S}s"]
        return [sys.executable, str(PROCESS), *map(str, arguments)]

    def new_lock(self, heartbeat_ms: int = 1000) -> dict[str, str]:
        """The settings of a lock that no other test has."""
        return {
            "hoodie.write.lock.provider": "hivemetastore",
            "hoodie.write.lock.hivemetastore.uris": f"thrift://127.0.0.1:{self.port}",
            "hoodie.write.lock.hivemetastore.database": "lake",
            "hoodie.write.lock.hivemetastore.table": f"t{next(self._numbers)}",
            "hoodie.write.lock.heartbeat_interval_ms": str(heartbeat_ms),
        }

    def requests_of(self, options: dict[str, str]) -> int:
        """How many hold the lock or wait for it."""
        names = {name: options[f"hoodie.write.lock.hivemetastore.{name}"] for name in ("database", "table")}
        wanted = types("a test").ShowLocksRequest(dbname=names["database"], tablename=names["table"])
        with connected([("127.0.0.1", self.port)], 10_000, "a test") as ask:
            return len(ask(lambda client: client.show_locks(wanted)).locks or ())
