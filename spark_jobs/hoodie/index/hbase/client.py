"""A connection to HBase through its Thrift server. The only module that knows the client library."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError, HoodieError, InputError, StorageError
from hoodie.index.settings import (
    HBASE_AUTOCOMPUTE,
    HBASE_CONNECT_MS,
    HBASE_GET_BATCH,
    HBASE_HOST,
    HBASE_MAX_QPS,
    HBASE_PORT,
    HBASE_PROTOCOL,
    HBASE_PUT_BATCH,
    HBASE_QPS_FRACTION,
    HBASE_REQUEST_MS,
    HBASE_TABLE,
    HBASE_TRANSPORT,
    INDEX_TYPE,
)
from hoodie.text import install

#: the column family of Apache Hudi's index
FAMILY = b"_s"
_ZOOKEEPER = "hoodie.index.hbase.zkquorum"
#: HBase takes no longer row keys
_MAX_KEY = 32_767

Cells = Mapping[bytes, bytes]


@dataclass(frozen=True)
class Server:
    """Where the index is, and how it is asked. Picklable: every task opens a connection of its own.

    Times are milliseconds; batches are rows of one request. `max_puts`: rows that may be written in a second
    for each region server; None: as many as can be.
    """

    host: str
    port: int
    table: str
    transport: str
    protocol: str
    connect_ms: int
    request_ms: int
    get_batch: int
    put_batch: int
    max_puts: float | None

    @classmethod
    def of(cls, config: Config) -> Server:
        """Raises ConfigError where the settings don't name a server and a table."""
        for key in (HBASE_HOST, HBASE_TABLE):
            if config[key]:
                continue
            hint = ""
            if key is HBASE_HOST and config.text(_ZOOKEEPER):
                hint = f": {_ZOOKEEPER} is for HBase's Java client, which does not run here"
            raise ConfigError(
                f"{INDEX_TYPE.name}=HBASE needs {key.name}{hint}; set it to "
                + ("the host of an HBase Thrift server" if key is HBASE_HOST else "the table of the index"),
                setting=key.name,
            )
        paced = config[HBASE_MAX_QPS] * config[HBASE_QPS_FRACTION] if config[HBASE_AUTOCOMPUTE] else None
        return cls(
            host=str(config[HBASE_HOST]),
            port=config[HBASE_PORT],
            table=str(config[HBASE_TABLE]),
            transport=config[HBASE_TRANSPORT].value,
            protocol=config[HBASE_PROTOCOL].value,
            connect_ms=config[HBASE_CONNECT_MS],
            request_ms=config[HBASE_REQUEST_MS],
            get_batch=config[HBASE_GET_BATCH],
            put_batch=config[HBASE_PUT_BATCH],
            max_puts=paced,
        )

    def connect(self) -> Client:
        return Client(self)

    def __str__(self) -> str:
        return f"HBase's Thrift server {self.host}:{self.port}"


class Client:
    """One connection, for one thread; a context manager.

    Raises StorageError where the server can't be reached, does not answer in time or fails, and ConfigError
    where it has no such table.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._batch = 0
        self._next = 0.0

    def __enter__(self) -> Client:
        server, library = self.server, _library()
        with self._requests("connect", server.connect_ms, HBASE_CONNECT_MS.name):
            # the library has one time-out for the connection and for its requests
            socket.create_connection((server.host, server.port), server.connect_ms / 1000).close()
        with self._requests("connect"):
            self._connection = library.Connection(
                server.host,
                server.port,
                timeout=server.request_ms,
                transport=server.transport,
                protocol=server.protocol,
            )
        self._table = self._connection.table(server.table)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()

    def rows(self, keys: Sequence[bytes], columns: Sequence[bytes]) -> Iterator[tuple[bytes, Cells]]:
        """Those of the rows that are there, in any order."""
        for part in _batches(keys, self.server.get_batch):
            _check(part)
            with self._requests("read the index"):
                found = self._table.rows(part, list(columns))
            yield from found

    def row(self, key: bytes, columns: Sequence[bytes], before_ms: int) -> Cells:
        """The newest cells of a row that were written before a time; without any there is none."""
        with self._requests("read the index"):
            found: Cells = self._table.row(key, list(columns), timestamp=before_ms)
        return found

    def scan(
        self, columns: Sequence[bytes], *, prefix: bytes | None = None, where: str | None = None
    ) -> Iterator[tuple[bytes, Cells]]:
        """Rows by the beginning of their keys, or by a filter, which the region servers apply."""
        with self._requests("scan the index"):
            yield from self._table.scan(
                row_prefix=prefix, filter=where, columns=list(columns), batch_size=self.server.get_batch
            )

    def put(self, rows: Sequence[tuple[bytes, Cells]]) -> None:
        """Each row is written at once, whole."""
        for part in _batches(rows, self._puts_at_once()):
            _check([key for key, _ in part])
            self._wait(len(part))
            with self._requests("write the index"):
                batch = self._table.batch()
                for key, cells in part:
                    batch.put(key, cells)
                batch.send()

    def delete(self, keys: Sequence[bytes], columns: Sequence[bytes] = (FAMILY,)) -> None:
        """Delete columns of rows, or all that there is."""
        for part in _batches(keys, self._puts_at_once()):
            self._wait(len(part))
            with self._requests("write the index"):
                batch = self._table.batch()
                for key in part:
                    batch.delete(key, columns=list(columns))
                batch.send()

    def _puts_at_once(self) -> int:
        """Rows of a request that writes; where the settings bound what a region server may get, as many as
        it may get in a second.
        """
        if self.server.max_puts is None:
            return self.server.put_batch
        if not self._batch:
            with self._requests("read the regions of the index"):
                servers = {(item["server_name"], item["port"]) for item in self._table.regions()}
            self._batch = put_batch(len(servers), self.server.max_puts)
        return self._batch

    def _wait(self, rows: int) -> None:
        """Where the settings bound how many rows may be written, until it is the turn of these."""
        if self.server.max_puts is not None:
            time.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + rows / self._batch

    @contextlib.contextmanager
    def _requests(self, what: str, ms: int = 0, setting: str = HBASE_REQUEST_MS.name) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._failure(error, what, ms or self.server.request_ms, setting) from error

    def _failure(self, error: Exception, what: str, ms: int, setting: str) -> HoodieError:
        server = self.server
        text = _text(error)
        values = {"host": server.host, "port": server.port, "table": server.table}
        if "TableNotFoundException" in text or "NoSuchColumnFamilyException" in text:
            return ConfigError(
                f"{server} has no table {server.table!r} with the column family '_s'; create it in the HBase "
                f"shell: create '{server.table}', '_s', and look at {HBASE_TABLE.name}",
                **values,
            )
        if isinstance(error, TimeoutError):
            text = f"no answer within {ms} ms, see {setting}"
        first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
        return StorageError(
            f"{server} could not {what} ({server.table!r}): {first}. Check that it runs, that this machine "
            f"reaches it ({HBASE_HOST.name}, {HBASE_PORT.name}) and that {HBASE_TRANSPORT.name} and "
            f"{HBASE_PROTOCOL.name} are its own; then run again",
            transient=True,
            **values,
        )


def put_batch(servers: int, max_puts: float) -> int:
    """Rows that a process may write in a second to a table on so many region servers."""
    return max(1, math.ceil(int(max_puts * servers)))


def _text(error: Exception) -> str:
    message = getattr(error, "message", None)
    if isinstance(message, bytes):
        message = message.decode(errors="replace")
    return str(message or error)


def _check(keys: Sequence[bytes]) -> None:
    for key in keys:
        if not 0 < len(key) <= _MAX_KEY:
            raise InputError(
                f"a record key of {len(key)} bytes, {key[:40].decode(errors='replace')!r}…, can't be a row "
                f"key of HBase, which has 1 to {_MAX_KEY}; use another index, or a shorter key",
                key=key[:200].decode(errors="replace"),
            )


def _batches(items: Sequence[Any], size: int) -> Iterator[Any]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _library() -> Any:
    try:
        import happybase
    except ImportError as error:
        raise ConfigError(
            f"{INDEX_TYPE.name}=HBASE needs the package happybase, which is not here ({error}): "
            f"{install('hbase')} where the driver and the executors run",
            value="HBASE",
        ) from None
    return happybase
