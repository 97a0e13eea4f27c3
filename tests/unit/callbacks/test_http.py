"""Messages by HTTP, to a real server: what it gets, tries, time-outs, settings, secrets."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.callbacks import CALLBACKS, MessageCallback
from hoodie.callbacks.http import HttpCallback
from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from hoodie.mask import is_secret
from tests.support.certificate import certificate
from tests.support.http_server import Server, serving
from tests.support.receiver import Receiver

PREFIX = "hoodie.write.commit.callback.http."


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.callbacks.http._PAUSE_S", 0.01)


@pytest.fixture
def address(receiver: Receiver) -> Iterator[str]:
    with receiver.listening() as address:
        yield address


def made(url: str, **more: str) -> HttpCallback:
    settings = {f"{PREFIX}{name.replace('_', '.')}": value for name, value in more.items()}
    return HttpCallback(config=Config.of({f"{PREFIX}url": url, **settings}))


def test_a_message_and_its_headers(receiver: Receiver, address: str) -> None:
    callback = made(
        f"{address}/hook?team=a%20b", api_key="s3cret", custom_headers="X-Team: data; X-Url:http://a/b;"
    )
    callback.send('{"commitTime": "1", "tableName": "tä"}', "t", 5)
    assert receiver.messages == [{"commitTime": "1", "tableName": "tä"}]
    (headers,) = receiver.headers
    assert headers["HUDI-CALLBACK-KEY"] == "s3cret"
    assert headers["Content-Type"] == "application/json; charset=UTF-8"
    assert (headers["X-Team"], headers["X-Url"]) == ("data", "http://a/b")
    assert receiver.paths == ["/hook?team=a%20b"]


def test_hudis_key_is_the_default(receiver: Receiver, address: str) -> None:
    made(address).send("{}", "t", 5)
    assert receiver.headers[0]["HUDI-CALLBACK-KEY"] == "hudi_write_commit_http_callback"


def test_a_server_that_fails_for_a_moment_is_asked_again(receiver: Receiver, address: str) -> None:
    receiver.statuses = [503, 429]
    made(address).send("{}", "t", 5)
    assert (len(receiver.messages), receiver.statuses) == (1, [])


def test_tries_are_bounded(receiver: Receiver, address: str) -> None:
    receiver.statuses = [500] * 9
    with pytest.raises(StorageError, match="answered 500"):
        made(address).send("{}", "t", 5)
    assert len(receiver.statuses) == 6


@pytest.mark.parametrize("status", [302, 400, 401, 413])
def test_what_is_refused_is_not_tried_again(receiver: Receiver, address: str, status: int) -> None:
    receiver.statuses, receiver.answer = [status], b"no,\nthanks"
    with pytest.raises(StorageError, match=rf"http://127\.0\.0\.1:\d+ answered {status}: no,\\nthanks"):
        made(address).send("{}", "t", 5)
    assert receiver.messages == []


def test_an_answer_that_announces_another_one_does_not_take_the_message(
    receiver: Receiver, address: str
) -> None:
    receiver.statuses = [103]
    with pytest.raises(StorageError, match="answered 103"):
        made(address).send("{}", "t", 5)


@pytest.mark.parametrize("how", ["hangs", "drips"])
def test_a_server_that_does_not_answer_costs_the_time_out(receiver: Receiver, address: str, how: str) -> None:
    setattr(receiver, how, True)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        made(address).send("{}", "t", 0.2)
    assert 0.2 <= time.monotonic() - started < 0.7


def test_a_server_that_greets_slowly_costs_the_time_out() -> None:
    """TLS: it says that much will come, and sends a byte now and then."""
    ended = threading.Event()

    def greet(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"\x16\x03\x03\x40\x00")
            while not ended.wait(0.02):
                connection.sendall(b"\x00")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet, args=(server,))
        thread.start()
        started = time.monotonic()
        try:
            with pytest.raises(TimeoutError):
                made(f"https://127.0.0.1:{server.getsockname()[1]}").send("{}", "t", 0.2)
            assert 0.2 <= time.monotonic() - started < 0.9
        finally:
            ended.set()
            thread.join()


def test_an_answer_that_repeats_a_secret_shows_no_part_of_it(receiver: Receiver, address: str) -> None:
    """Answers are shown to their 200th character, which is inside of the key here."""
    receiver.statuses, receiver.answer = [400], b"x" * 190 + b"abcdefghijklmnop-and-more"
    with pytest.raises(StorageError) as error:
        made(address, api_key="abcdefghijklmnop-and-more").send("{}", "t", 5)
    assert "abcd" not in error.value.message
    assert "x" * 190 in error.value.message


def test_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StorageError, match=rf"http://127\.0\.0\.1:{port}/x is out of reach: .*refused"):
        made(f"http://127.0.0.1:{port}/x?token=hunter-2").send("{}", "t", 5)


def test_a_certificate_that_fails(tmp_path: Path) -> None:
    """It is its own issuer, whom nobody knows; the message is not sent."""
    pytest.importorskip("cryptography")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))
    server = Server(http.server.BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server) as address, pytest.raises(StorageError, match="certificate verify failed"):
        made(f"https://{address}").send("{}", "t", 5)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"url": "ftp://host/x"},
        {"url": "host:80"},
        {"url": "http://"},
        {"url": "http://host:port/"},
        {"url": "http://host/ä"},
        {"url": "http://host/a\r\nX: y"},
        {"url": "http://user:hunter-2@host/"},
        {"url": "http://user:hunter-2@host:port/"},
        {"url": "http://host", "api.key": "a\r\nX: y"},
        {"url": "http://host", "api.key": "€"},
        {"url": "http://host", "custom.headers": "no header"},
        {"url": "http://host", "custom.headers": "X-A:"},
        {"url": "http://host", "custom.headers": "X A:1"},
        {"url": "http://host", "custom.headers": "X-A:1\n2"},
    ],
)
def test_settings_that_can_not_be_followed(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.write\.commit\.callback\.http") as error:
        HttpCallback(config=Config.of({f"{PREFIX}{name}": value for name, value in settings.items()}))
    assert "hunter-2" not in error.value.message


@pytest.mark.parametrize("value", ["0", "soon", "nan"])
def test_time_outs_that_are_none(value: str) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        made("http://host", timeout_seconds=value)


def test_headers_are_secrets() -> None:
    callback = made("http://host", api_key="hunter-2", custom_headers="X-Mine:letmein")
    assert set(callback.secrets) == {"hunter-2", "letmein"}
    assert is_secret(f"{PREFIX}custom.headers")
    assert is_secret(f"{PREFIX}api.key")


def test_hudis_class_is_an_alias() -> None:
    name = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
    callback = CALLBACKS.load("setting", name)(config=Config.of({f"{PREFIX}url": "http://host"}))
    assert isinstance(callback, HttpCallback)
    assert isinstance(callback, MessageCallback)
    assert callback.timeout_s == 30
