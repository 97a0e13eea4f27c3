"""Settings of commit callbacks."""

from __future__ import annotations

from hoodie.config.key import Key, bool_key, float_key, str_key

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
    "`http`, Apache Hudi's name of it, or a callback of your own, `module:Class`, derived from "
    "hoodie.callbacks.MessageCallback or CommitCallback. Unset: `http`.",
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
