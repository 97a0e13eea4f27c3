"""`hoodie serve`: the page without Airflow, with the standard library's server.

It has no sign-in, so it listens on this machine only, unless the caller chooses otherwise. Requests whose
Host is a name that is not this machine's are refused: a foreign page could otherwise have its own name lead
here and read the answers.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Collection
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from hoodie.errors import ConfigError
from hoodie.serve.page import Page, Reply

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT_S = 30
#: for a request that is refused: others wait
_REFUSED_S = 1


class PageServer(ThreadingHTTPServer):
    """Serves `page` at `url`. `hosts` are names that requests may use besides this machine's own."""

    daemon_threads = True

    def __init__(
        self, page: Page, host: str = "127.0.0.1", port: int = 0, hosts: Collection[str] = ()
    ) -> None:
        """Raises ConfigError where the address can't be had."""
        self.page = page
        self.host = host
        self.names = {*LOOPBACK, host, *hosts, socket.gethostname(), socket.getfqdn()}
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"can't listen on {host}:{port} ({error}); choose another --host or --port", port=port
            ) from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own; where none can be started, the request is refused."""
        try:
            super().process_request(request, client_address)
        except (RuntimeError, MemoryError):
            with contextlib.suppress(OSError):
                _Refusing(request, client_address, self)
            self.shutdown_request(request)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "hoodie"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the command's output is its own."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For requests that are none of a page: its answers, with its headers."""
        self.close_connection = True
        error = {"code": "http", "message": message or HTTPStatus(code).phrase}
        self._send(Reply.of({"error": error}, code), with_body=self.command != "HEAD")

    def _answer(self, with_body: bool) -> None:
        self._send(self._reply(), with_body)

    def _send(self, reply: Reply, with_body: bool) -> None:
        """A browser that went elsewhere meanwhile is no error."""
        try:
            self._write(reply, with_body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _write(self, reply: Reply, with_body: bool) -> None:
        self.send_response(reply.status)
        for name, text in reply.headers.items():
            self.send_header(name, text)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(reply.body)

    def _reply(self) -> Reply:
        host = self._host()
        if host not in self.server.names and not _is_address(host):
            message = f"this server is {self.server.url}, use that address, or start it with --host-name"
            error = {"code": "host", "message": message}
            return Reply.of({"error": error}, HTTPStatus.MISDIRECTED_REQUEST)
        path, _, query = self.path.partition("?")
        return self.server.page.get(path, query)

    def _host(self) -> str | None:
        try:
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname
        except ValueError:
            return None


class _Refusing(_Handler):
    """For a request that no thread can be started for."""

    timeout = _REFUSED_S

    def _reply(self) -> Reply:
        self.close_connection = True
        message = "no thread can be started for this request; ask again when the server has less to do"
        return Reply.of({"error": {"code": "busy", "message": message}}, HTTPStatus.SERVICE_UNAVAILABLE)


def _is_address(host: str | None) -> bool:
    """A number can't be made to lead here by a foreign name server."""
    try:
        ipaddress.ip_address(host or "")
    except ValueError:
        return False
    return True
