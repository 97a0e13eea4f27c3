"""A connection to a Hive metastore, by the package thriftpy2, which is imported when one is made."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from hoodie.errors import ConfigError
from hoodie.metastore.definitions import DEFINITIONS

PORT = 9083
#: for all servers together
_CONNECT_MS = 3_000
_MODULE = "hoodie_hive_metastore_thrift"

#: host and port
Server = tuple[str, int]
#: carries out one request of the service's client
Ask = Callable[[Callable[[Any], Any]], Any]


class Unreachable(Exception):
    """No server answers, or none in time; the text says why."""


class Refused(Exception):
    """The metastore answered with an error. `kind`: its class, such as NoSuchObjectException."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def server(uri: str, setting: str) -> Server:
    """Host and port of `thrift://host:port`. Raises ConfigError, which names the setting."""
    text = uri.strip()
    parts = urlsplit(text if "://" in text else f"thrift://{text}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme != "thrift" or not host:
        raise ConfigError(
            f"{setting} has {text!r}, which is no address of a metastore; give "
            f"thrift://host:{PORT}, several with commas",
            setting=setting,
            value=text,
        )
    return host, port or PORT


@contextlib.contextmanager
def connected(servers: Sequence[Server], answer_ms: int, wanted: str) -> Iterator[Ask]:
    """Asks the first of the servers that answers, from any thread. Raises Unreachable, Refused; ConfigError
    as `types`. `answer_ms`: how long one answer may take.
    """
    client, thriftpy = None, _library(wanted)
    for number, (host, port) in enumerate(servers, 1):
        try:
            client = _client(host, port, max(500, _CONNECT_MS // len(servers)), answer_ms, wanted)
            break
        except (thriftpy.thrift.TException, OSError) as error:
            if number == len(servers):
                raise Unreachable(_text(error)) from error
    guard = threading.Lock()

    def ask(request: Callable[[Any], Any]) -> Any:
        with guard:
            try:
                return request(client)
            except (thriftpy.thrift.TException, OSError, EOFError) as error:
                if isinstance(error, thriftpy.thrift.TApplicationException) or _is_declared(error):
                    raise Refused(type(error).__name__, _text(error)) from error
                raise Unreachable(_text(error)) from error

    try:
        yield ask
    finally:
        assert client is not None
        client.close()


_LOADED: list[Any] = []


def types(wanted: str) -> Any:
    """The service's module; it lies in a text, as the package may be run from a zip. Raises ConfigError where
    thriftpy2 is missing, for what is `wanted`.
    """
    if not _LOADED:
        _LOADED.append(_library(wanted).parser.load_fp(io.StringIO(DEFINITIONS), _MODULE))
    return _LOADED[0]


def _client(host: str, port: int, connect_ms: int, answer_ms: int, wanted: str) -> Any:
    """Raises TException, OSError."""
    thriftpy = _library(wanted)
    socket = thriftpy.transport.TSocket(host, port, socket_timeout=answer_ms, connect_timeout=connect_ms)
    buffered = thriftpy.transport.TBufferedTransportFactory().get_transport(socket)
    buffered.open()
    protocol = thriftpy.protocol.TBinaryProtocolFactory().get_protocol(buffered)
    return thriftpy.thrift.TClient(types(wanted).ThriftHiveMetastore, protocol)


def _is_declared(error: BaseException) -> bool:
    return type(error).__module__ == _MODULE


def _text(error: BaseException) -> str:
    text = str(getattr(error, "message", "") or error)
    return " ".join(text.split())[:500] or type(error).__name__


def _library(wanted: str) -> Any:
    try:
        import thriftpy2
        import thriftpy2.parser
        import thriftpy2.protocol
        import thriftpy2.thrift
        import thriftpy2.transport
    except ImportError as error:
        raise ConfigError(
            f"{wanted} needs the package thriftpy2, which is not here ({error}); "
            "install airflow-hoodie[hive-metastore] where the driver runs",
            value="hivemetastore",
        ) from None
    return thriftpy2
