"""The client of one HDFS, by WebHDFS: requests, retries, time-outs. Standard library only.

A name node answers by itself, or sends the client to a data node, with which bytes are exchanged. Of several
name nodes the active one is found by asking. Until name nodes and data nodes have answered this process once
they get little time, so that a wrong address shows within seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import os
import random
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from hoodie.errors import AlreadyExists
from hoodie.mask import Mask
from hoodie.storage.failure import BeyondEnd, failure
from hoodie.storage.settings import REQUEST_TIMEOUT_MS, RETRY_TIMEOUT_MS
from hoodie.storage.webhdfs_errors import Failure, Request, Unsure, refused, unreachable

T = TypeVar("T")

#: before the first answer
_FIRST_REQUEST_S, _FIRST_RETRY_S = 5.0, 8.0
_CONNECT_S = 3.0
_SHORTEST_S, _LONGEST_S = 0.1, 10.0
#: connections that wait for the next request
_IDLE = 8
_OK = frozenset({200, 201, 204, 307})
#: modification times may be as coarse
_CLOCK_MS = 2_000
_CLOCK_LASTS_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One HDFS: `root` is the beginning of every path in it, `addresses` are URLs of its name nodes."""

    root: str
    addresses: tuple[str, ...]
    user: str
    token: str | None = field(default=None, repr=False)
    request_ms: int = REQUEST_TIMEOUT_MS.default
    retry_ms: int = RETRY_TIMEOUT_MS.default


@dataclass(frozen=True, kw_only=True)
class Status:
    """A file or a folder (then `length` is 0); `name` within the folder that was listed."""

    name: str
    kind: str
    length: int
    modified_ms: int


class Client:
    """For all storages of this process that have the same HDFS and settings; threads share it.

    Paths are URIs. Each call raises FileNotFoundError, AlreadyExists, TableError for a name that HDFS does
    not take, and StorageError for everything else.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.mask = Mask({"delegation.token": cluster.token or ""})
        #: by how much the clock of the name node is ahead of this machine's
        self.ahead_ms = 0
        self._clock_read = -_CLOCK_LASTS_S
        self._active = 0
        self._answered: set[str] = set()
        self._idle: list[tuple[str, http.client.HTTPConnection]] = []
        self._guard = threading.Lock()

    def status(self, path: str) -> Status:
        answer = self._ask(Request(path=path, op="GETFILESTATUS", done="looked at"))
        return _status(json.loads(answer)["FileStatus"])

    def list(self, path: str) -> list[Status]:
        """What is in a folder; a file has one entry without a name."""
        answer = self._ask(Request(path=path, op="LISTSTATUS", done="listed"))
        return [_status(item) for item in json.loads(answer)["FileStatuses"]["FileStatus"]]

    def read(self, path: str, start: int = 0, length: int | None = None, most: int | None = None) -> bytes:
        """Bytes of a file. Raises TooLarge where the answer has more than `most`."""
        params = {"offset": str(start)} | ({} if length is None else {"length": str(length)})
        request = Request(path=path, op="OPEN", done="read", params=params)
        return self._repeated(request, lambda: self._from_data_node(request, most))

    def create(self, path: str, data: bytes, *, overwrite: bool, sync: bool) -> None:
        """A whole file. Raises Unsure where it may have been made and is not to be overwritten."""
        request = _creation(path, overwrite=overwrite, sync=sync)

        def send() -> bytes:
            upload = self._upload(request, len(data))
            upload.send(data)
            return upload.finish()

        self._repeated(request, send)

    def upload(self, path: str, *, overwrite: bool, sync: bool) -> Upload:
        """A file to send in parts."""
        request = _creation(path, overwrite=overwrite, sync=sync)
        return self._repeated(request, lambda: self._upload(request, None))

    def rename(self, path: str, target: str, *, replace: bool) -> None:
        """Raises AlreadyExists where the target is there and is not to be replaced, and Unsure where it may
        have been done.
        """
        params = {"destination": self._name(target), "renameoptions": "OVERWRITE" if replace else "NONE"}
        request = Request(path=path, op="RENAME", done="renamed", method="PUT", once=True, params=params)
        answer = self._ask(request)
        if answer.strip() and json.loads(answer).get("boolean") is not True:
            raise self._not_renamed(path, target, replace=replace)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """A missing one is ignored."""
        params = {"recursive": str(recursive).lower()}
        self._ask(Request(path=path, op="DELETE", done="deleted", method="DELETE", params=params))

    def make_dirs(self, path: str) -> None:
        self._ask(Request(path=path, op="MKDIRS", done="made", method="PUT"))

    def now_ms(self) -> int:
        return _local_ms() + self.ahead_ms

    def wants_clock(self) -> bool:
        return time.monotonic() - self._clock_read >= _CLOCK_LASTS_S

    def set_clock(self, before_ms: int, stamped_ms: int, after_ms: int) -> None:
        """Of a file that was written in between by this machine's clock, the time that it was given."""
        self._clock_read = time.monotonic()
        least, most = stamped_ms - after_ms, stamped_ms - before_ms
        near = least - _CLOCK_MS <= 0 <= most + _CLOCK_MS
        self.ahead_ms = 0 if near else (least + most) // 2

    def heard(self, kind: str) -> None:
        """Of a name node (`name`) or a data node (`data`): they get more time from now on."""
        self._answered.add(kind)

    def forget_connections(self) -> None:
        """In a process that was forked, or ends: those that wait are closed."""
        self._guard = threading.Lock()
        for _, connection in self._idle:
            connection.close()
        self._idle = []

    def _ask(self, request: Request) -> bytes:
        return self._repeated(request, lambda: self._of_name_node(request)[1])

    def _repeated(self, request: Request, attempt: Callable[[], T]) -> T:
        began, pause, turned = time.monotonic(), _SHORTEST_S, 0
        while True:
            try:
                return attempt()
            except Failure as failed:
                if isinstance(failed.error, (FileNotFoundError, AlreadyExists, BeyondEnd)):
                    self.heard("name")
                if request.once and failed.unsure:
                    raise Unsure(
                        f"{failed.error}. It is not known whether it was done",
                        path=request.path,
                        cause="unsure",
                        transient=True,
                    ) from None
                passed = time.monotonic() - began
                if not failed.again or passed + pause > self._patience_s(long=failed.long):
                    raise failed.error from None
                if failed.elsewhere and len(self.cluster.addresses) > 1:
                    self._active = (self._active + 1) % len(self.cluster.addresses)
                    turned += 1
                    if turned % len(self.cluster.addresses):
                        continue
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LONGEST_S)

    def _patience_s(self, *, long: bool) -> float:
        given = self.cluster.retry_ms / 1000
        return min(given, _FIRST_RETRY_S) if long or len(self._answered) < 2 else given

    def _of_name_node(self, request: Request) -> tuple[str, bytes]:
        """Where it sends the client to, if it does, and what it says. Raises Failure."""
        server = self.cluster.addresses[self._active]
        known = {"delegation": self.cluster.token} if self.cluster.token else {"user.name": self.cluster.user}
        query = urlencode({"op": request.op, **request.params, **known})
        url = f"/webhdfs/v1{quote(self._name(request.path))}?{query}"
        reused = None if request.once else self._taken(server)
        if reused is not None:
            try:
                return self._exchange(request, server, reused, url)
            except Failure as failed:
                if not isinstance(failed.__cause__, _CLOSED):
                    raise
        return self._exchange(request, server, self._connect(request, server, data=False), url)

    def _exchange(
        self, request: Request, server: str, connection: http.client.HTTPConnection, url: str
    ) -> tuple[str, bytes]:
        keep = False
        try:
            connection.request(request.method, url)
            answer = connection.getresponse()
            body = answer.read()
            keep = not answer.will_close
        except (OSError, http.client.HTTPException) as error:
            sent = request.op != "CREATE"  # of which a name node only says where to send it
            raise unreachable(request, server, error, data=False, sent=sent) from error
        finally:
            if keep:
                self._give_back(server, connection)
            else:
                connection.close()
        if answer.status not in _OK:
            raise self.refusal(request, answer.status, body, server)
        self.heard("name")
        return answer.getheader("Location") or "", body

    def _from_data_node(self, request: Request, most: int | None) -> bytes:
        place, body = self._of_name_node(request)
        if not place:  # a gateway that answers itself
            return body
        server, connection = self._to_data_node(request, place)
        try:
            connection.request("GET", _target(place))
            answer = connection.getresponse()
            if most is not None and answer.status in _OK and (answer.length or 0) > most:
                raise TooLarge(answer.length or 0)
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(request, server, error, data=True, sent=True) from error
        finally:
            connection.close()
        if answer.status not in _OK:
            raise self.refusal(request, answer.status, data, server)
        self.heard("data")
        return data

    def _upload(self, request: Request, size: int | None) -> Upload:
        place, _ = self._of_name_node(request)
        if not place:
            step = "name the HTTP address of the name node in hoodie.storage.hdfs.http.address"
            what = "the server names no data node to send it to"
            raise Failure(failure(request.path, request.done, what, step, cause="no_webhdfs"))
        server, connection = self._to_data_node(request, place)
        return Upload(self, request, server, connection, _target(place), size)

    def _to_data_node(self, request: Request, place: str) -> tuple[str, http.client.HTTPConnection]:
        parts = urlsplit(place)
        server = f"{parts.scheme}://{parts.netloc}"
        return server, self._connect(request, server, data=True)

    def _connect(self, request: Request, server: str, *, data: bool) -> http.client.HTTPConnection:
        parts = urlsplit(server)
        given = self.cluster.request_ms / 1000
        limit = given if ("data" if data else "name") in self._answered else min(given, _FIRST_REQUEST_S)
        made = (
            http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=_CONNECT_S, context=ssl.create_default_context()
            )
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_CONNECT_S)
        )
        try:
            made.connect()
            made.sock.settimeout(limit)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            made.close()
            raise unreachable(request, server, error, data=data, sent=False) from error
        return made

    def refusal(self, request: Request, status: int, body: bytes, server: str) -> Failure:
        """The error for an answer that is none of success."""
        return refused(status, body, request, server, self.mask)

    def _taken(self, server: str) -> http.client.HTTPConnection | None:
        """A connection that waits."""
        with self._guard:
            for number, (where, connection) in enumerate(self._idle):
                if where == server:
                    del self._idle[number]
                    return connection
        return None

    def _give_back(self, server: str, connection: http.client.HTTPConnection) -> None:
        if connection.sock is not None:
            connection.sock.settimeout(self.cluster.request_ms / 1000)
        with self._guard:
            self._idle.append((server, connection))
            oldest = self._idle.pop(0)[1] if len(self._idle) > _IDLE else None
        if oldest is not None:
            oldest.close()

    def _not_renamed(self, path: str, target: str, *, replace: bool) -> Exception:
        """Gateways (HttpFS) rename without options: what that did not do."""
        if replace:
            step = "name the HTTP address of a name node in hoodie.storage.hdfs.http.address"
            what = "this server of WebHDFS can't replace a file at once (HttpFS)"
            return failure(target, "written", what, step, cause="no_webhdfs")
        with contextlib.suppress(FileNotFoundError):
            self.status(path)
            return AlreadyExists(f"{target} exists already", path=target)
        return FileNotFoundError(path)

    def _name(self, path: str) -> str:
        return path[len(self.cluster.root) :] or "/"


class TooLarge(Exception):
    """A file has `size` bytes, more than are read of it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Upload:
    """A file that is sent to a data node, in parts where its size is not known at the beginning.

    A data node completes the file also where the connection ends before, with what it has got.
    """

    def __init__(
        self,
        client: Client,
        request: Request,
        server: str,
        connection: http.client.HTTPConnection,
        target: str,
        size: int | None,
    ) -> None:
        self._client, self._request, self._server, self._connection = client, request, server, connection
        self._chunked = size is None
        try:
            connection.putrequest("PUT", target)
            connection.putheader("Content-Type", "application/octet-stream")
            if size is None:
                connection.putheader("Transfer-Encoding", "chunked")
            else:
                connection.putheader("Content-Length", str(size))
            connection.endheaders()
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from error

    def send(self, data: bytes | memoryview) -> None:
        """Raises Failure."""
        if not len(data):
            return
        try:
            if self._chunked:
                self._connection.send(b"%x\r\n" % len(data))
            self._connection.send(data)
            if self._chunked:
                self._connection.send(b"\r\n")
        except OSError as error:
            raise self._broken(error) from error

    def finish(self) -> bytes:
        """Raises Failure."""
        try:
            if self._chunked:
                self._connection.send(b"0\r\n\r\n")
            self._answer()
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from error
        finally:
            self._connection.close()
        return b""

    def close(self) -> None:
        self._connection.close()

    def _answer(self) -> None:
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status not in _OK:
            raise self._client.refusal(self._request, answer.status, body, self._server)
        self._client.heard("data")

    def _broken(self, error: Exception) -> Failure:
        """What the data node says, which may answer before all is sent; else that it does not."""
        found = unreachable(self._request, self._server, error, data=True, sent=True)
        try:
            if not isinstance(error, TimeoutError):
                self._answer()
        except Failure as said:
            found = said
        except (OSError, http.client.HTTPException):
            pass
        finally:
            self._connection.close()
        return found


#: how a server's end of a kept connection shows
_CLOSED = (http.client.RemoteDisconnected, ConnectionError, http.client.BadStatusLine)
_CLIENTS: dict[Cluster, Client] = {}
_GUARD = threading.Lock()


def client_of(cluster: Cluster) -> Client:
    """This process's client; nothing is asked."""
    with _GUARD:
        return _CLIENTS.setdefault(cluster, Client(cluster))


def _creation(path: str, *, overwrite: bool, sync: bool) -> Request:
    params = {"overwrite": str(overwrite).lower()}
    if sync:  # data nodes sync each block to their disks when it is complete
        params["createflag"] = "CREATE,OVERWRITE,SYNC_BLOCK" if overwrite else "CREATE,SYNC_BLOCK"
    return Request(path=path, op="CREATE", done="written", method="PUT", once=not overwrite, params=params)


def _status(found: dict[str, Any]) -> Status:
    return Status(
        name=str(found.get("pathSuffix") or ""),
        kind=str(found["type"]),
        length=int(found["length"]),
        modified_ms=int(found["modificationTime"]),
    )


def _target(place: str) -> str:
    parts = urlsplit(place)
    return f"{parts.path}?{parts.query}"


def _forget_connections() -> None:
    global _GUARD
    _GUARD = threading.Lock()
    for client in list(_CLIENTS.values()):
        client.forget_connections()


os.register_at_fork(after_in_child=_forget_connections)
atexit.register(_forget_connections)


def _local_ms() -> int:
    return int(time.time() * 1000)
