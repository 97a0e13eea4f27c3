"""An HTTP server in this process, on loopback, that closes its connections when it ends."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any


class Server(http.server.ThreadingHTTPServer):
    """Clients keep connections open for later requests: each would leave a thread behind."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for request in list(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away."""


@contextlib.contextmanager
def serving(server: Server) -> Iterator[str]:
    """The address of the server, which answers inside."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
