"""A real Apache Pulsar for a test session: one process on loopback, a broker with a bookie of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

from scripts import environment
from tests.support.jars import jars_of, missing_jar, missing_java
from tests.support.server_process import JavaServer, free_port

_SECTION = "Pulsar"
_CONFIG = """clusterName=standalone
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
brokerServicePort={port}
webServicePort={web}
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerCacheSizeMB=16
allowAutoTopicCreation=false
brokerDeleteInactiveTopicsEnabled=false
loadBalancerOverrideBrokerNicSpeedGbps=1
systemTopicEnabled=false
topicLevelPoliciesEnabled=false
numIOThreads=1
numHttpServerThreads=4
numOrderedExecutorThreads=1
numExecutorThreadPoolSize=1
numCacheExecutorThreadPoolSize=1
numWorkerThreadsForNonPersistentTopic=1
bookkeeperClientNumIoThreads=1
bookkeeperClientNumWorkerThreads=1
"""


def missing() -> str | None:
    """What keeps Pulsar from starting here, or None."""
    if lacking := missing_java(_SECTION) or missing_jar(_SECTION):
        return lacking
    try:
        import pulsar  # noqa: F401
    except ModuleNotFoundError as error:
        return f"no {error.name}; scripts/setup installs it"
    return None


class Pulsar(JavaServer):
    """Topics are made by `new_topic` only. `web` is the port of the administration."""

    start_seconds = 120.0

    def __init__(self) -> None:
        super().__init__()
        self.web, self._bookie = free_port(), free_port()

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        config = self.folder / "standalone.conf"
        config.write_text(_CONFIG.format(port=self.port, web=self.web))
        java = environment.spark_java(environment.spark_environment() | os.environ)
        return [
            str(java),
            "-Xmx256m",
            "-XX:MaxDirectMemorySize=256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            os.pathsep.join(map(str, jars_of(_SECTION))),
            "org.apache.pulsar.PulsarStandaloneStarter",
            "--config",
            str(config),
            "--no-functions-worker",
            "--no-stream-storage",
            "--bookkeeper-port",
            str(self._bookie),
            "--bookkeeper-dir",
            str(self.folder / "bookie"),
            "--metadata-dir",
            str(self.folder / "metadata"),
        ]

    def start(self) -> None:
        """Until topics can be made: the port answers before."""
        super().start()
        end = time.monotonic() + self.start_seconds
        while True:
            try:
                self.ask("GET", "")
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self.folder / "process.log").read_text()[-3000:]) from None
            threading.Event().wait(0.1)

    @contextlib.contextmanager
    def halted(self) -> Iterator[None]:
        """The process takes connections inside, and answers nothing."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def ask(self, method: str, what: str, body: str = "") -> None:
        """A request of the administration, about a topic."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.web}/admin/v2/persistent/public/default{what}",
            body.encode() or None,
            {"Content-Type": "application/json"},
            method=method,
        )
        urllib.request.urlopen(request, timeout=30).close()

    def new_topic(self, partitions: int = 0) -> str:
        """0: a topic without partitions."""
        name = f"commits{next(self._numbers)}"
        if partitions:
            self.ask("PUT", f"/{name}/partitions", str(partitions))
        else:
            self.ask("PUT", f"/{name}")
        return name

    def messages(self, topic: str, count: int) -> list[tuple[str, str]]:
        """Key and value of what a topic without partitions has, oldest first, once it has so many."""
        import pulsar

        client = pulsar.Client(self.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
        found: list[tuple[str, str]] = []
        try:
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            while len(found) < count or reader.has_message_available():
                message = reader.read_next(timeout_millis=30_000)
                found.append((message.partition_key(), message.data().decode()))
        finally:
            client.close()
        return found
