"""A metastore of a test's own in this process: what its handler does not define breaks the connection."""

from __future__ import annotations

import contextlib
import importlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from hoodie.metastore.connection import types


@contextlib.contextmanager
def answering(handler: object) -> Iterator[int]:
    """The port of a metastore whose requests are methods of the handler, by their names in Thrift."""
    parts = ("thrift", "protocol", "transport")
    thrift, protocols, transports = (importlib.import_module(f"thriftpy2.{part}") for part in parts)
    processor = thrift.TProcessor(types("a test").ThriftHiveMetastore, handler)

    def serve(client: socket.socket) -> None:
        inner = transports.TSocket(sock=client)
        protocol = protocols.TBinaryProtocol(transports.TBufferedTransport(inner))
        while True:
            processor.process(protocol, protocol)

    with listening(serve) as port:
        yield port


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port whose connections, each in a thread, are served until that returns or fails, and closed."""
    opened: list[socket.socket] = []

    def serve_one(client: socket.socket) -> None:
        with client, contextlib.suppress(Exception):
            serve(client)

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            opened.append(client)
            threading.Thread(target=serve_one, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            for client in opened:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
            thread.join()


class Queue:
    """Locks of a metastore: every one waits, but that of number `free`. check: what a look at a lock does
    before it is answered.
    """

    def __init__(self, free: int = 0, check: Callable[[int], object] = lambda number: None) -> None:
        self.free, self.check = free, check
        self.made: list[int] = []
        self.withdrawn: list[int] = []

    def lock(self, request: Any) -> Any:
        self.made.append(len(self.made) + 1)
        return self._answer(self.made[-1])

    def check_lock(self, request: Any) -> Any:
        self.check(request.lockid)
        return self._answer(request.lockid)

    def unlock(self, request: Any) -> None:
        self.withdrawn.append(request.lockid)

    def show_locks(self, request: Any) -> Any:
        thrift = types("a test")
        held = thrift.ShowLocksResponseElement(
            lockid=99,
            dbname="l",
            state=thrift.LockState.ACQUIRED,
            user="other",
            hostname="elsewhere",
            agentInfo="token process 7",
        )
        return thrift.ShowLocksResponse(locks=[held])

    def _answer(self, number: int) -> Any:
        thrift = types("a test")
        state = thrift.LockState.ACQUIRED if number == self.free else thrift.LockState.WAITING
        return thrift.LockResponse(lockid=number, state=state)
