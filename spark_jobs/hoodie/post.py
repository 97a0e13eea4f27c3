"""One HTTP request that ends in time, whatever the server does. Standard library only."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from hoodie.mask import Mask
from hoodie.text import visible

if TYPE_CHECKING:
    import http.client

#: bytes of an answer that are read, and characters that are shown
_READ, _SHOWN = 4096, 200


def address(text: str) -> urllib.parse.SplitResult | None:
    """The parts of an http:// or https:// address; None of any other text."""
    try:
        url = urllib.parse.urlsplit(text)
        _ = url.port
        text.encode("ascii")
    except ValueError:
        return None
    return (
        url if url.scheme in ("http", "https") and url.hostname and not set(text) & set(" \r\n\t") else None
    )


def post(
    url: urllib.parse.SplitResult,
    body: bytes,
    headers: Mapping[str, str],
    deadline: float,
    secrets: Collection[str] = (),
) -> tuple[int, str]:
    """POST; status and beginning of the answer, on one line and without the `secrets`. `deadline` is a time
    of time.monotonic: the connection is cut then, also of a server that sends a byte now and then. Only the
    lookup of the host's name may take longer.

    Raises OSError, TimeoutError where the time is over.
    """
    import http.client  # with TLS, which few writes need

    seconds = max(0.001, deadline - time.monotonic())
    connection, encrypt = _connection(url, seconds)
    cut = threading.Timer(seconds, _cut, (connection,))
    cut.daemon = True
    cut.start()
    try:
        encrypt()
        target = urllib.parse.urlunsplit(("", "", url.path or "/", url.query, ""))
        connection.request("POST", target, body, dict(headers))
        answer = connection.getresponse()
        # secrets first: of one that is cut off a part would stay
        text = Mask({"password": list(secrets)}).text(answer.read(_READ).decode(errors="replace"))
        return answer.status, visible(text)[:_SHOWN].strip()
    except (OSError, http.client.HTTPException) as error:
        if time.monotonic() >= deadline:
            raise TimeoutError from error
        raise OSError(str(error) or type(error).__name__) from error
    finally:
        cut.cancel()
        connection.close()


def _connection(
    url: urllib.parse.SplitResult, seconds: float
) -> tuple[http.client.HTTPConnection, Callable[[], None]]:
    """One that is not open yet, and what opens it with TLS, of http:// nothing: by its own way it could not
    be cut while a server greets it slowly.
    """
    import http.client
    import ssl

    host, port = str(url.hostname), url.port
    if url.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=seconds), lambda: None
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=context)

    def encrypt() -> None:
        raw = socket.create_connection((host, connection.port), seconds)
        connection.sock = context.wrap_socket(raw, server_hostname=host, do_handshake_on_connect=False)
        connection.sock.do_handshake()

    return connection, encrypt


def _cut(connection: http.client.HTTPConnection) -> None:
    with contextlib.suppress(OSError, TypeError):
        # not as TLS does it, which takes its state away from the thread that reads; no socket: TypeError
        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
