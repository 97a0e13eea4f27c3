"""A real Kafka for a test session: one broker on loopback that is its own controller."""

from __future__ import annotations

import base64
import os
import uuid
from typing import Any

from scripts import environment
from tests.support.jars import jars_of, missing_jar, missing_java
from tests.support.server_process import JavaServer, free_port

_SECTION = "Kafka"
_CONFIG = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=2
background.threads=1
log.cleaner.enable=false
auto.create.topics.enable=false
"""


def missing() -> str | None:
    """What keeps Kafka from starting here, or None."""
    if lacking := missing_java(_SECTION) or missing_jar(_SECTION):
        return lacking
    try:
        import confluent_kafka  # noqa: F401
    except ModuleNotFoundError as error:
        return f"no {error.name}; scripts/setup installs it"
    return None


class Kafka(JavaServer):
    """Topics are made by `new_topic` only."""

    start_seconds = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._controller = free_port()

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        data, config = self.folder / "data", self.folder / "server.properties"
        data.mkdir(exist_ok=True)
        config.write_text(_CONFIG.format(folder=self.folder, port=self.port, controller=self._controller))
        meta = data / "meta.properties"
        if not meta.exists():  # what `kafka-storage format` writes
            cluster, place = (
                base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode() for _ in "12"
            )
            meta.write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\ndirectory.id={place}\n")
        java = environment.spark_java(environment.spark_environment() | os.environ)
        return [
            str(java),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            os.pathsep.join(map(str, jars_of(_SECTION))),
            "kafka.Kafka",
            str(config),
        ]

    def new_topic(self, **settings: str) -> str:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        name = f"commits{next(self._numbers)}"
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(30)
        return name

    def messages(self, topic: str, count: int) -> list[tuple[str, str]]:
        """Key and value of what a topic has, oldest first, once it has so many."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "g", "log_level": 0})
        found: list[Any] = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            for _ in range(100):
                found += [each for each in consumer.consume(100, 0.3) if not each.error()]
                if len(found) >= count:
                    break
        finally:
            consumer.close()
        return [(each.key().decode(), each.value().decode()) for each in found]
