"""Settings of commit callbacks."""

from __future__ import annotations

from hoodie.config.key import Key, bool_key, float_key, int_key, str_key

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
    "`http`, `kafka`, Apache Hudi's name of one of them, or a callback of your own, `module:Class`, derived "
    "from hoodie.callbacks.MessageCallback or CommitCallback. Unset: `http`.",
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
