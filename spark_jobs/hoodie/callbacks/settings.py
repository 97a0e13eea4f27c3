"""Settings of commit callbacks."""

from __future__ import annotations

import enum
import re

from hoodie.config.key import Key, bool_key, float_key, int_key, parse_enum, str_key

_PREFIX = "hoodie.write.commit.callback"

ON = bool_key(
    f"{_PREFIX}.on",
    False,
    "Call the callback of hoodie.write.commit.callback.class after every commit of a write. Its failure is a "
    "warning of the result and never harms the commit.",
    group="write",
)
CLASS: Key[str | None] = Key(
    f"{_PREFIX}.class",
    None,
    "`http`, `kafka`, `pulsar`, Apache Hudi's name of one of them, or a callback of your own, "
    "`module:Class`, derived from hoodie.callbacks.MessageCallback or CommitCallback. Unset: `http`.",
    str.strip,
    group="write",
)
SERVICES = bool_key(
    f"{_PREFIX}.services",
    False,
    "Call it after every instant that a service completes, too: compactions, clusterings, cleans, rollbacks, "
    "restores, savepoints.",
    group="write",
)
HTTP_URL = str_key(
    f"{_PREFIX}.http.url", None, "`http`: where messages are posted, http:// or https://.", group="write"
)
HTTP_KEY = str_key(
    f"{_PREFIX}.http.api.key",
    "hudi_write_commit_http_callback",
    "`http`: the value of the header HUDI-CALLBACK-KEY.",
    group="write",
)
HTTP_TIMEOUT_S = float_key(
    f"{_PREFIX}.http.timeout.seconds",
    30.0,
    "`http`: how long a commit waits for all of its messages, those that are delivered late included.",
    minimum=0.1,
    group="write",
)
HTTP_HEADERS = str_key(
    f"{_PREFIX}.http.custom.headers", None, "`http`: other headers, `Name:value;Name:value`.", group="write"
)
KAFKA_SERVERS = str_key(
    f"{_PREFIX}.kafka.bootstrap.servers", None, "`kafka`: brokers, `host:port,host:port`.", group="write"
)
KAFKA_TOPIC = str_key(f"{_PREFIX}.kafka.topic", None, "`kafka`: the topic.", group="write")
KAFKA_PARTITION: Key[int] = int_key(
    f"{_PREFIX}.kafka.partition",
    -1,
    "`kafka`: the partition. -1: by the key of the message, which is the table's name.",
    minimum=-1,
    group="write",
)
KAFKA_ACKS = str_key(
    f"{_PREFIX}.kafka.acks",
    "all",
    "`kafka`: which brokers must have a message: `all`, `1` or `0`.",
    group="write",
)
KAFKA_RETRIES = int_key(
    f"{_PREFIX}.kafka.retries", 3, "`kafka`: how often a message is sent again.", minimum=0, group="write"
)
KAFKA_TIMEOUT_S = float_key(
    f"{_PREFIX}.kafka.timeout.seconds",
    30.0,
    "`kafka`: how long a commit waits for all of its messages, those that are delivered late included.",
    minimum=0.1,
    group="write",
)
KAFKA_PROPERTIES = str_key(
    f"{_PREFIX}.kafka.properties",
    None,
    "`kafka`: other properties of the producer by librdkafka's names, "
    "`security.protocol=SSL;ssl.ca.location=...`.",
    group="write",
)


class PulsarRoute(enum.Enum):
    """Pulsar's names, by which messages find a partition of a topic."""

    ROUND_ROBIN = "RoundRobinPartition"
    SINGLE = "SinglePartition"


_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d{1,9})\s*(ms|sec|s|min|m|h)?", re.ASCII)


class Seconds(float):
    """Shown as users write it."""

    def __format__(self, how: str) -> str:
        return f"{float(self):{how}}s"


def _seconds(text: str) -> float:
    """Of a duration as Apache Hudi writes it, `30s`; a bare number is milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise ValueError("expected a duration such as 30s or 500ms")
    return int(found[1]) * _UNITS[found[2] or "ms"]


def _duration(name: str, default: float, doc: str) -> Key[float]:
    return Key(f"{_PREFIX}.pulsar.{name}", Seconds(default), f"`pulsar`: {doc}", _seconds, group="write")


PULSAR_URL = str_key(
    f"{_PREFIX}.pulsar.broker.service.url",
    None,
    "`pulsar`: the brokers, `pulsar://host:6650`, or with TLS `pulsar+ssl://host:6651`.",
    group="write",
)
PULSAR_TOPIC = str_key(f"{_PREFIX}.pulsar.topic", None, "`pulsar`: the topic.", group="write")
PULSAR_ROUTE_MODE: Key[PulsarRoute] = Key(
    f"{_PREFIX}.pulsar.producer.route-mode",
    PulsarRoute.ROUND_ROBIN,
    "`pulsar`: the partition of a message: RoundRobinPartition, here by the key, which is the table's "
    "name, or SinglePartition, one that the client chooses.",
    parse_enum(PulsarRoute),
    group="write",
)
PULSAR_PENDING = int_key(
    f"{_PREFIX}.pulsar.producer.pending-queue-size",
    1000,
    "`pulsar`: the most messages that wait in the client.",
    minimum=1,
    group="write",
)
PULSAR_PENDING_TOTAL = int_key(
    f"{_PREFIX}.pulsar.producer.pending-total-size",
    50_000,
    "`pulsar`: the same of all partitions.",
    minimum=1,
    group="write",
)
PULSAR_BLOCKS = bool_key(
    f"{_PREFIX}.pulsar.producer.block-if-queue-full",
    True,
    "`pulsar`: wait for room in the client's queue; else a full one is a failure.",
    group="write",
)
PULSAR_SEND_TIMEOUT = _duration(
    "producer.send-timeout",
    30.0,
    "how long a commit waits for all of its messages, those that are delivered late included, as `30s`.",
)
PULSAR_OPERATION_TIMEOUT = _duration(
    "operation-timeout", 30.0, "how long the client tries to find the topic, at least a second, as `30s`."
)
PULSAR_REQUEST_TIMEOUT = _duration(
    "request-timeout",
    60.0,
    "the client has one time for both: the shorter one of this and operation-timeout.",
)
PULSAR_CONNECTION_TIMEOUT = _duration("connection-timeout", 10.0, "how long a connection may take, as `10s`.")
