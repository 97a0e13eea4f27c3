"""One HTTP request that ends in time, whatever the server does. Standard library only."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING

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
    url: urllib.parse.SplitResult, body: bytes, headers: Mapping[str, str], deadline: float
) -> tuple[int, str]:
    """POST; status and beginning of the answer, on one line. `deadline` is a time of time.monotonic: the
    connection is cut then, also of a server that sends a byte now and then. Only the lookup of the host's
    name may take longer.

    Raises OSError, TimeoutError where the time is over.
    """
    import http.client  # with TLS, which few writes need

    seconds = max(0.001, deadline - time.monotonic())
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    assert url.hostname is not None
    connection = kind(url.hostname, url.port, timeout=seconds)
    cut = threading.Timer(seconds, _cut, (connection,))
    cut.daemon = True
    cut.start()
    try:
        target = urllib.parse.urlunsplit(("", "", url.path or "/", url.query, ""))
        connection.request("POST", target, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, visible(answer.read(_READ).decode(errors="replace"))[:_SHOWN].strip()
    except (OSError, http.client.HTTPException) as error:
        if time.monotonic() >= deadline:
            raise TimeoutError from error
        raise OSError(str(error) or type(error).__name__) from error
    finally:
        cut.cancel()
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
