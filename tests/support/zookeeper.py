"""A real ZooKeeper for a test session, from the jars of pyspark, and a lock in it for each test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scripts import environment
from tests.support.jars import missing_java
from tests.support.server_process import JavaServer

_CONFIG = """tickTime=500
dataDir={folder}/data
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
minSessionTimeout=1000
"""


def missing() -> str | None:
    """What keeps ZooKeeper from starting here, or None."""
    if lacking := missing_java("ZooKeeper"):
        return lacking
    try:
        import kazoo  # noqa: F401
        import pyspark  # noqa: F401
    except ModuleNotFoundError as error:
        return f"no {error.name}; scripts/setup installs it"
    return None


class ZooKeeper(JavaServer):
    start_seconds = 60.0

    def command(self) -> list[str]:
        import pyspark

        config = self.folder / "zoo.cfg"
        config.write_text(_CONFIG.format(folder=self.folder, port=self.port))
        java = environment.spark_java(environment.spark_environment() | os.environ)
        jars = Path(pyspark.__file__).with_name("jars")
        return [
            str(java),
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{jars}/*",
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(config),
        ]

    def new_lock(self, session_ms: int = 4000) -> dict[str, Any]:
        """The settings of a lock that no other test has."""
        return {
            "hoodie.write.lock.provider": "zookeeper",
            "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{self.port}",
            "hoodie.write.lock.zookeeper.base_path": "/hudi/locks",
            "hoodie.write.lock.zookeeper.lock_key": f"t{next(self._numbers)}",
            "hoodie.write.lock.zookeeper.session_timeout_ms": str(session_ms),
        }

    def requests_of(self, options: dict[str, Any]) -> int:
        """How many hold the lock or wait for it."""
        from kazoo.client import KazooClient

        names = [options[f"hoodie.write.lock.zookeeper.{name}"] for name in ("base_path", "lock_key")]
        client = KazooClient(f"127.0.0.1:{self.port}")
        client.start()
        try:
            return len(client.get_children("/".join(names)))
        finally:
            client.stop()
            client.close()
