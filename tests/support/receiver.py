"""An HTTP server that keeps what is posted to it, and answers as a test says."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from tests.support.http_server import Server, serving


class Receiver:
    """`statuses`: of the next answers, 200 afterwards. `hangs`: no answer; `drips`: a byte now and then."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.statuses: list[int] = []
        self.answer = b""
        self.hangs = self.drips = False
        self._ended = threading.Event()

    @property
    def instants(self) -> list[str]:
        return [message["commitTime"] for message in self.messages]

    @contextlib.contextmanager
    def listening(self) -> Iterator[str]:
        """The address of a new server."""
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.hangs:
                    receiver._ended.wait(20)
                    return
                while receiver.drips and not receiver._ended.is_set():
                    self.wfile.write(b"H")
                    time.sleep(0.02)
                    if not receiver.drips:
                        return
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                if status < 300:
                    receiver.bodies.append(body.decode())
                    if self.headers["Content-Type"].startswith("application/json"):
                        receiver.messages.append(json.loads(body))
                    receiver.headers.append(dict(self.headers))
                    receiver.paths.append(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(receiver.answer)))
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._ended.clear()
        try:
            with serving(Server(Handler)) as address:
                yield f"http://{address}"
        finally:
            self._ended.set()
