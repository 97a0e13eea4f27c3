"""An HDFS in this process, as WebHDFS shows it: a name node and a data node, and failures as planned.

It keeps files in memory, and answers as Hadoop does where the storage looks: redirects to the data node,
exceptions by name, renames with options, and a file that is complete with what came where its writer died.
`tests/contract/test_storage.py` runs the same on a real HDFS.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.http_server import Server, serving

#: what happens to a request: it is refused as by a busy server; it is done, and its answer is lost; it is
#: lost itself
FAILS, LOST, DROPPED = "fails", "lost", "dropped"
_HADOOP = "org.apache.hadoop"
_STATUS = {"FileNotFoundException": 404, "IllegalArgumentException": 400, "RetriableException": 503}


@dataclass(frozen=True)
class Request:
    """`data`: it came to the data node."""

    method: str
    path: str
    query: dict[str, str]
    data: bool

    @property
    def kind(self) -> str:
        return f"{self.query.get('op', '')} {'data' if self.data else ''}".strip()

    def __str__(self) -> str:
        return f"{self.kind:16} {self.path} {self.query.get('destination', '')}"


@dataclass
class File:
    data: bytes
    modified: float


@dataclass
class Store:
    """All files by path, the folders, and the requests in their order.

    `plan` says what happens to a request, `refusal` is (exception, message) in place of every answer of the
    name node, `only` a user whom it lets write. `options`: are those of renames heeded. `ahead_s`: its clock.
    """

    port: int = 0
    data_port: int = 0
    objects: dict[str, File] = field(default_factory=dict)
    folders: set[str] = field(default_factory=lambda: {"/"})
    requests: list[Request] = field(default_factory=list)
    plan: Callable[[Request], str | None] = lambda _: None
    refusal: tuple[str, str] | None = None
    only: str | None = None
    options: bool = True
    ahead_s: float = 0.0
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def uri(self) -> str:
        return f"webhdfs://127.0.0.1:{self.port}"

    def __str__(self) -> str:
        return "\n".join(map(str, self.requests))


@contextlib.contextmanager
def served() -> Iterator[Store]:
    store = Store()
    server = _Server(store)
    store.port = store.data_port = server.server_port
    with serving(server):
        yield store


class _Server(Server):
    def __init__(self, store: Store) -> None:
        self.store = store
        super().__init__(_Handler)


class _Refused(Exception):
    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: Any) -> None:
        pass

    def _do(self) -> None:
        store = self.server.store
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        data = query.pop("onDataNode", "") == "true"
        path = urllib.parse.unquote(url.path).removeprefix("/webhdfs/v1") or "/"
        request = Request(self.command, path, query, data)
        with store.lock:
            store.requests.append(request)
            outcome = store.plan(request)
        if outcome == DROPPED:
            self.close_connection = True
            return
        location = ""
        body, whole = self._body()
        try:
            if outcome == FAILS:
                raise _Refused("RetriableException", "busy")
            if store.refusal is not None and not data:
                raise _Refused(*store.refusal)
            if not data and query["op"] in ("OPEN", "CREATE"):
                location = self._redirect(store, request)
            with store.lock:
                status, answer = (307, b"") if location else _answer(store, request, body)
        except _Refused as error:
            status = _STATUS.get(error.name, 403)
            found = {
                "exception": error.name,
                "javaClassName": f"{_HADOOP}.{error.name}",
                "message": error.text,
            }
            answer = json.dumps({"RemoteException": found}).encode()
        if outcome == LOST or not whole:
            self.close_connection = True
            return
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(answer)))
        if data:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(answer)
        self.wfile.flush()

    do_GET = do_PUT = do_POST = do_DELETE = _do

    def _redirect(self, store: Store, request: Request) -> str:
        if request.query["op"] == "OPEN":
            _readable(store, request)
        else:
            _allow(store, request)
        query = urllib.parse.urlencode({**request.query, "onDataNode": "true"})
        return f"http://127.0.0.1:{store.data_port}/webhdfs/v1{urllib.parse.quote(request.path)}?{query}"

    def _body(self) -> tuple[bytes, bool]:
        """What came, and whether it is all."""
        with contextlib.suppress(ConnectionError):
            if self.headers.get("Transfer-Encoding") != "chunked":
                size = int(self.headers.get("Content-Length") or 0)
                found = self.rfile.read(size)
                return found, len(found) == size
            data = b""
            while line := self.rfile.readline().strip():
                size = int(line, 16)
                data += self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    return data, True
            return data, False
        return b"", False


def _answer(store: Store, request: Request, body: bytes) -> tuple[int, bytes]:
    path, query = request.path, request.query
    op = query["op"]
    if op == "GETFILESTATUS":
        return 200, _json(FileStatus=_status(store, path, ""))
    if op == "LISTSTATUS":
        if path in store.objects:
            found = [_status(store, path, "")]
        else:
            _status(store, path, "")
            below = [name for name in (*store.objects, *store.folders) if _parent(name) == path != name]
            found = [_status(store, name, name.rpartition("/")[2]) for name in sorted(below)]
        return 200, _json(FileStatuses={"FileStatus": found})
    if op == "OPEN":
        return 200, _readable(store, request)
    _allow(store, request)
    if op == "CREATE":
        if path in store.folders or (path in store.objects and query["overwrite"] != "true"):
            raise _Refused("FileAlreadyExistsException", f"{path} for client 127.0.0.1 already exists")
        _make_folders(store, _parent(path))
        store.objects[path] = File(body, time.time() + store.ahead_s)
        return 201, b""
    if op == "MKDIRS":
        _make_folders(store, path)
        return 200, _json(boolean=True)
    if op == "DELETE":
        return 200, _json(boolean=_delete(store, path, query["recursive"] == "true"))
    assert op == "RENAME", op
    return _rename(store, path, query["destination"], query["renameoptions"])


def _rename(store: Store, path: str, target: str, option: str) -> tuple[int, bytes]:
    if not store.options:  # a gateway's: as Hadoop's FileSystem.rename
        if path not in store.objects or target in store.objects:
            return 200, _json(boolean=False)
    elif path not in store.objects:
        raise _Refused("FileNotFoundException", f"rename source {path} is not found.")
    elif target in store.objects and option != "OVERWRITE":
        raise _Refused("FileAlreadyExistsException", f"rename destination {target} already exists")
    store.objects[target] = store.objects.pop(path)
    return 200, b"" if store.options else _json(boolean=True)


def _delete(store: Store, path: str, recursive: bool) -> bool:
    if store.objects.pop(path, None) is not None:
        return True
    if path not in store.folders:
        return False
    below = [name for name in (*store.objects, *store.folders) if name.startswith(f"{path}/")]
    if below and not recursive:
        raise _Refused("PathIsNotEmptyDirectoryException", f"`{path} is non empty': Directory is not empty")
    for name in below:
        store.objects.pop(name, None)
    store.folders -= {path, *below}
    return True


def _readable(store: Store, request: Request) -> bytes:
    path, query = request.path, request.query
    if path not in store.objects:
        raise _Refused("FileNotFoundException", f"File does not exist: {path}")
    data, start = store.objects[path].data, int(query.get("offset", 0))
    if start >= len(data) and start > 0:
        raise _Refused("IOException", f"Offset={start} out of the range [0, {len(data)}); OPEN, path={path}")
    return data[start : start + int(query["length"]) if "length" in query else None]


def _status(store: Store, path: str, name: str) -> dict[str, Any]:
    if path in store.objects:
        file = store.objects[path]
        size, modified, kind = len(file.data), file.modified, "FILE"
    elif path in store.folders:
        size, modified, kind = 0, 0.0, "DIRECTORY"
    else:
        raise _Refused("FileNotFoundException", f"File does not exist: {path}")
    return {"pathSuffix": name, "type": kind, "length": size, "modificationTime": int(modified * 1000)}


def _allow(store: Store, request: Request) -> None:
    user = request.query.get("user.name", "")
    if store.only not in (None, user):
        raise _Refused("AccessControlException", f'Permission denied: user={user}, access=WRITE, inode="/"')
    if ":" in request.path:
        raise _Refused("InvalidPathException", f"Invalid path name {request.path}")


def _make_folders(store: Store, path: str) -> None:
    while path not in store.folders:
        store.folders.add(path)
        path = _parent(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _json(**found: Any) -> bytes:
    return json.dumps(found).encode()


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        port: int = server.getsockname()[1]
        yield port
