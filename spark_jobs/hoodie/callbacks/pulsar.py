"""Messages into a topic of Apache Pulsar, as Apache Hudi's HoodieWriteCommitPulsarCallback sends them: JSON.
Unlike there, the table's name is the key, so that those of one table keep their order in a partitioned topic.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

from hoodie.callbacks import MessageCallback
from hoodie.callbacks.settings import (
    CLASS,
    PULSAR_BLOCKS,
    PULSAR_CONNECTION_TIMEOUT,
    PULSAR_OPERATION_TIMEOUT,
    PULSAR_PENDING,
    PULSAR_PENDING_TOTAL,
    PULSAR_REQUEST_TIMEOUT,
    PULSAR_ROUTE_MODE,
    PULSAR_SEND_TIMEOUT,
    PULSAR_TOPIC,
    PULSAR_URL,
    PulsarRoute,
)
from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from hoodie.text import install

_SCHEMES = ("pulsar://", "pulsar+ssl://", "http://", "https://")
#: seconds by which a producer may wait too long for a message
_SLACK_S = 0.5
#: what to do about an error, by its name
_ADVICE = {
    "AuthenticationError": ". The client has no credentials; let the broker take messages without",
    "AuthorizationError": ". Let the broker take messages without credentials",
    "InvalidTopicName": f". Mend {PULSAR_TOPIC.name}",
    "MessageTooBig": ". Raise maxMessageSize of the brokers, which the message is over",
    "TopicNotFound": f". Create the topic, or mend {PULSAR_TOPIC.name}",
}


class PulsarCallback(MessageCallback):
    """A message is delivered once the broker has stored it."""

    def __init__(self, *, config: Config) -> None:
        """Raises ConfigError for settings that can't be followed, and where pulsar-client is missing."""
        for key in (PULSAR_URL, PULSAR_TOPIC):
            if not config[key]:
                raise ConfigError(f"{CLASS.name}=pulsar needs {key.name}", setting=key.name)
        self._url, self._topic = str(config[PULSAR_URL]), str(config[PULSAR_TOPIC])
        if not self._url.startswith(_SCHEMES) or "@" in self._url:
            raise ConfigError(
                f"{PULSAR_URL.name} is no address of Pulsar; give pulsar://host:6650, or pulsar+ssl:// and "
                "so on, without a user",
                setting=PULSAR_URL.name,
            )
        self.timeout_s = float(config[PULSAR_SEND_TIMEOUT])
        self._operation_s = min(config[PULSAR_OPERATION_TIMEOUT], config[PULSAR_REQUEST_TIMEOUT])
        self._connection_s = config[PULSAR_CONNECTION_TIMEOUT]
        self._keyed = config[PULSAR_ROUTE_MODE] is PulsarRoute.ROUND_ROBIN
        self._queue = {
            "max_pending_messages": config[PULSAR_PENDING],
            "max_pending_messages_across_partitions": config[PULSAR_PENDING_TOTAL],
            "block_if_queue_full": config[PULSAR_BLOCKS],
        }
        self._library = _library()
        self._client: Any = None
        self._producer: Any = None
        #: how long the producer, which has one time for every message, waits for an answer
        self._limit = 0.0

    @classmethod
    def make(cls, *, config: Config) -> PulsarCallback:
        return cls(config=config)

    @property
    def place(self) -> str:
        return f"topic {self._topic} of Pulsar at {self._url}"

    def send(self, message: str, table: str, seconds: float) -> None:
        """Raises StorageError, which names what Pulsar said."""
        deadline = time.monotonic() + seconds
        try:
            if self._producer is not None and seconds < self._limit - _SLACK_S:
                self.close()
            if self._producer is None:
                self._connect(seconds)
            if time.monotonic() > deadline:
                raise StorageError(f"{self.place} was reached after {seconds:g} s only")
            self._producer.send(message.encode(), partition_key=table if self._keyed else None)
        except (self._library.PulsarException, ValueError) as error:
            self.close()
            name = type(error).__name__
            raise StorageError(
                f"{self.place} did not take it: {_said(error)}{_ADVICE.get(name, '')}"
            ) from error

    def close(self) -> None:
        """What was not delivered is given up; the next `send` connects anew."""
        client, self._client, self._producer = self._client, None, None
        if client is not None:
            client.shutdown()

    def _connect(self, seconds: float) -> None:
        """The client's own times are whole seconds, or bound one step of several. With TLS it trusts whom
        Python does by a file (SSL_CERT_FILE), without one those of the package certifi.
        """
        import ssl

        pulsar = self._library
        self._client = pulsar.Client(
            self._url,
            operation_timeout_seconds=max(1, math.floor(min(self._operation_s, seconds))),
            connection_timeout_ms=max(1, int(min(self._connection_s, seconds) * 1000)),
            tls_validate_hostname=True,
            tls_trust_certs_file_path=ssl.get_default_verify_paths().cafile,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )
        single = pulsar.PartitionsRoutingMode.UseSinglePartition
        spread = pulsar.PartitionsRoutingMode.RoundRobinDistribution
        self._limit = seconds
        self._producer = self._client.create_producer(
            self._topic,
            send_timeout_millis=max(1, int(seconds * 1000)),
            message_routing_mode=spread if self._keyed else single,
            batching_enabled=False,
            **self._queue,
        )


def _said(error: Exception) -> str:
    return str(error).removeprefix("Pulsar error: ") or type(error).__name__


def _library() -> Any:
    try:
        import pulsar
    except ImportError as error:
        raise ConfigError(
            f"{CLASS.name}=pulsar needs the package pulsar-client, which is not here ({error}): "
            f"{install('pulsar')} where the driver runs",
            setting=CLASS.name,
            value="pulsar",
        ) from None
    return pulsar
