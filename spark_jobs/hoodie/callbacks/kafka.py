"""Messages into a topic of Kafka, as Apache Hudi's HoodieWriteCommitKafkaCallback sends them: JSON, with the
table's name as key, so that those of one table keep their order.
"""

from __future__ import annotations

import time
from typing import Any

from hoodie.callbacks import MessageCallback
from hoodie.callbacks.settings import (
    CLASS,
    KAFKA_ACKS,
    KAFKA_PARTITION,
    KAFKA_PROPERTIES,
    KAFKA_RETRIES,
    KAFKA_SERVERS,
    KAFKA_TIMEOUT_S,
    KAFKA_TOPIC,
)
from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from hoodie.mask import is_secret
from hoodie.text import install

#: bytes of a message that the producer takes: what is too large is the broker's to say
_LARGEST = 1_000_000_000
_QUIET = 0
#: what to do about an error, by its name
_ADVICE = {
    "MSG_SIZE_TOO_LARGE": ". Raise max.message.bytes of the topic, which the message is over",
    "UNKNOWN_TOPIC_OR_PART": f". Create the topic, or mend {KAFKA_TOPIC.name}",
    "_UNKNOWN_TOPIC": f". Create the topic, or mend {KAFKA_TOPIC.name}",
    "_UNKNOWN_PARTITION": f". Mend {KAFKA_PARTITION.name}",
}
#: how long a topic that is not there may take to be made by its broker
_TOPIC_S = 10.0


class KafkaCallback(MessageCallback):
    """A message is delivered once the brokers that `acks` names have it. Retries are the producer's own."""

    def __init__(self, *, config: Config) -> None:
        """Raises ConfigError for settings that can't be followed, and where confluent-kafka is missing."""
        for key in (KAFKA_SERVERS, KAFKA_TOPIC):
            if not config[key]:
                raise ConfigError(f"{CLASS.name}=kafka needs {key.name}", setting=key.name)
        self.timeout_s = config[KAFKA_TIMEOUT_S]
        self._topic, self._partition = str(config[KAFKA_TOPIC]), config[KAFKA_PARTITION]
        self._servers = str(config[KAFKA_SERVERS])
        own = _properties(config[KAFKA_PROPERTIES] or "")
        self.secrets = tuple(value for name, value in own.items() if is_secret(name))
        self._settings: dict[str, Any] = {
            "message.max.bytes": _LARGEST,
            "topic.metadata.propagation.max.ms": int(min(_TOPIC_S, self.timeout_s / 2) * 1000),
            "log_level": _QUIET,
            **own,
            "bootstrap.servers": self._servers,
            "acks": config[KAFKA_ACKS],
            "retries": config[KAFKA_RETRIES],
            "error_cb": self._heard,
        }
        self._library = _library()
        self._producer: Any = None
        self._error = ""
        self._closed(self._made())

    @classmethod
    def make(cls, *, config: Config) -> KafkaCallback:
        return cls(config=config)

    @property
    def place(self) -> str:
        return f"topic {self._topic} of Kafka at {self._servers}"

    def send(self, message: str, table: str, seconds: float) -> None:
        """Raises StorageError, which names what Kafka said last."""
        self._error, answers, deadline = "", [], time.monotonic() + seconds
        if self._producer is None:
            self._producer = self._made()
        where = {"partition": self._partition} if self._partition >= 0 else {}
        try:
            self._producer.produce(
                self._topic,
                key=table.encode(),
                value=message.encode(),
                on_delivery=lambda error, _: answers.append(error),
                **where,
            )
        except (BufferError, self._library.KafkaException) as error:
            raise StorageError(f"{self.place} can't take the message: {error}") from error
        while not answers and (left := deadline - time.monotonic()) > 0:
            self._producer.poll(left)
        if not answers:
            self.close()
            raise StorageError(
                f"{self.place} did not take it within {self.timeout_s:g} s"
                + (f"; {self._error}" if self._error else "")
            )
        if answers[0] is not None:
            raise StorageError(
                f"{self.place} did not take it: {_said(answers[0])}{_ADVICE.get(answers[0].name(), '')}"
            )

    def close(self) -> None:
        """What was not delivered is given up; the next `send` connects anew."""
        if self._producer is not None:
            self._closed(self._producer)
            self._producer = None

    def _made(self) -> Any:
        try:
            return self._library.Producer(self._settings)
        except (self._library.KafkaException, ValueError, TypeError) as error:
            raise ConfigError(
                f"Kafka's producer can't be made: {error}; look at {KAFKA_PROPERTIES.name}, "
                f"{KAFKA_ACKS.name} and {KAFKA_RETRIES.name}",
                setting=KAFKA_PROPERTIES.name,
            ) from None

    @staticmethod
    def _closed(producer: Any) -> None:
        producer.purge()
        producer.poll(0)

    def _heard(self, error: Any) -> None:
        """What goes wrong behind the calls: a broker that is gone, a certificate that fails."""
        self._error = _said(error)


def _said(error: Any) -> str:
    return f"{error.name()}: {error.str()}"


def _properties(text: str) -> dict[str, str]:
    found = {}
    for part in filter(str.strip, text.split(";")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ConfigError(
                f"{KAFKA_PROPERTIES.name} has a part that is no property; give name=value;name=value",
                setting=KAFKA_PROPERTIES.name,
            )
        found[name.strip()] = value.strip()
    return found


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise ConfigError(
            f"{CLASS.name}=kafka needs the package confluent-kafka, which is not here ({error}): "
            f"{install('kafka')} where the driver runs",
            setting=CLASS.name,
            value="kafka",
        ) from None
    return confluent_kafka
