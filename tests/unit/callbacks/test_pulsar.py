"""The callback for Pulsar, without a broker: settings, one that is gone, and what is asked of the client."""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.callbacks import CALLBACKS
from hoodie.callbacks.pulsar import PulsarCallback
from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from tests.support.certificate import certificate

PREFIX = "hoodie.write.commit.callback."
NEEDED = {"broker.service.url": "pulsar://127.0.0.1:9", "topic": "commits"}


class Failure(Exception):
    pass


class Asked:
    """What stands in for the package: it notes what it is asked, and fails where it is told."""

    PulsarException = Failure
    LoggerLevel = SimpleNamespace(Error="error")
    PartitionsRoutingMode = SimpleNamespace(RoundRobinDistribution="spread", UseSinglePartition="single")

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.fails = False

    def FileLogger(self, level: str, place: str) -> tuple[str, str]:
        return level, place

    def Client(self, url: str, **given: Any) -> Asked:
        self.calls.append(("client", {"url": url, **given}))
        return self

    def create_producer(self, topic: str, **given: Any) -> Asked:
        self.calls.append(("producer", {"topic": topic, **given}))
        return self

    def send(self, content: bytes, partition_key: str | None) -> None:
        if self.fails:
            raise Failure("Pulsar error: TopicNotFound")
        self.calls.append(("send", (content, partition_key)))

    def shutdown(self) -> None:
        self.calls.append(("shutdown", None))


@pytest.fixture
def pulsar(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setitem(sys.modules, "pulsar", found)
    return found


def made(**more: str) -> PulsarCallback:
    settings = {**NEEDED, **{name.replace("__", "-").replace("_", "."): text for name, text in more.items()}}
    return PulsarCallback(
        config=Config.of({f"{PREFIX}pulsar.{name}": each for name, each in settings.items()})
    )


def test_messages_have_the_key_of_their_table(pulsar: Asked) -> None:
    callback = made(producer_send__timeout="5s", operation__timeout="2min", connection__timeout="500ms")
    callback.send('{"a": 1}', "orders", 5.0)
    callback.send("{}", "orders", 5.0)
    callback.close()
    names = [name for name, _ in pulsar.calls]
    assert names == ["client", "producer", "send", "send", "shutdown"]
    asked = dict(pulsar.calls[:3])
    assert (asked["client"]["url"], asked["client"]["operation_timeout_seconds"]) == (
        "pulsar://127.0.0.1:9",
        5,
    )
    assert asked["client"]["connection_timeout_ms"] == 500
    assert asked["producer"] == {
        "topic": "commits",
        "send_timeout_millis": 5000,
        "message_routing_mode": "spread",
        "batching_enabled": False,
        "max_pending_messages": 1000,
        "max_pending_messages_across_partitions": 50_000,
        "block_if_queue_full": True,
    }
    assert asked["send"] == (b'{"a": 1}', "orders")
    assert callback.timeout_s == 5.0


def test_a_message_with_less_time_has_a_producer_with_less(pulsar: Asked) -> None:
    callback = made()
    for seconds in (5.0, 4.9, 2.0):
        callback.send("{}", "t", seconds)
    times = [asked["send_timeout_millis"] for name, asked in pulsar.calls if name == "producer"]
    assert times == [5000, 2000]


def test_one_partition_has_no_key(pulsar: Asked) -> None:
    made(producer_route__mode="SinglePartition").send("{}", "orders", 5.0)
    asked = dict(pulsar.calls)
    assert (asked["producer"]["message_routing_mode"], asked["send"]) == ("single", (b"{}", None))


def test_after_a_failure_the_client_connects_anew(pulsar: Asked) -> None:
    callback = made()
    pulsar.fails = True
    with pytest.raises(StorageError, match=r"topic commits of Pulsar at .*: TopicNotFound"):
        callback.send("{}", "t", 5.0)
    pulsar.fails = False
    callback.send("{}", "t", 5.0)
    assert [name for name, _ in pulsar.calls] == [
        "client",
        "producer",
        "shutdown",
        "client",
        "producer",
        "send",
    ]


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed(name: str) -> None:
    with pytest.raises(ConfigError, match=f"pulsar needs hoodie.write.commit.callback.pulsar.{name}"):
        made(**{name: ""})


@pytest.mark.parametrize(
    "more",
    [
        {"broker.service.url": "localhost:6650"},
        {"broker.service.url": "pulsar://me:secret-word@localhost:6650"},
        {"producer_route__mode": "CustomPartition"},
        {"producer_send__timeout": "soon"},
        {"producer_send__timeout": "0s"},
        {"keepalive__interval": "30s"},
        {"producer_pending__queue__size": "0"},
    ],
)
def test_settings_that_can_not_be_followed(more: dict[str, str], pulsar: Asked) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.write\.commit\.callback\.pulsar\.") as refused:
        made(**more)
    assert "secret-word" not in str(refused.value)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    options = {f"{PREFIX}pulsar.{name}": value for name, value in NEEDED.items()}
    options |= {"hoodie.datasource.write.recordkey.field": "id"}
    options |= {f"{PREFIX}on": "true", f"{PREFIX}class": "pulsar"}
    with pytest.raises(ConfigError, match="pip install pulsar-client where"):
        hoodie.write_table(pa.table({"id": ["a"]}), str(tmp_path / "t"), options=options)
    assert not (tmp_path / "t").exists()


def test_hudis_class_is_an_alias(pulsar: Asked) -> None:
    name = "org.apache.hudi.utilities.callback.pulsar.HoodieWriteCommitPulsarCallback"
    config = Config.of({f"{PREFIX}pulsar.{key}": value for key, value in NEEDED.items()})
    assert isinstance(CALLBACKS.load("setting", name)(config=config), PulsarCallback)


@pytest.mark.parametrize(("host", "greeted"), [("127.0.0.1", True), ("localhost", False)])
def test_a_certificate_is_for_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, greeted: bool
) -> None:
    """By the package itself; the server has one for an address, and only greets."""
    pytest.importorskip("pulsar")
    pytest.importorskip("cryptography")
    file, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    messages: list[bytes] = []

    def greet(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = server.accept()
                raw.settimeout(1)
                with raw, contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as safe:
                    messages.append(safe.recv(100))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet, args=(server,), daemon=True)
        thread.start()
        callback = made(broker_service_url=f"pulsar+ssl://{host}:{server.getsockname()[1]}")
        with pytest.raises(StorageError, match="did not take it"):
            callback.send("{}", "t", 1.0)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    assert any(messages) == greeted


def test_a_broker_that_is_gone_costs_the_time_out() -> None:
    """By the package itself, where it is installed."""
    pytest.importorskip("pulsar")
    callback, started = made(), time.monotonic()
    with pytest.raises(
        StorageError, match=r"topic commits of Pulsar at pulsar://127\.0\.0\.1:9 did not take"
    ):
        callback.send("{}", "t", 1.0)
    callback.close()
    assert time.monotonic() - started < 3
