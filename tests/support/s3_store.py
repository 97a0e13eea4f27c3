"""An S3 in this process: what the storage asks of one, with conditional writes, and failures as planned.

It keeps objects in memory, checks no signature, and answers as S3 does where the library looks: e-tags,
ranges, listings by prefix and delimiter in pages, uploads in parts, deletion of many, and its error codes.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import re
import socket
import struct
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cached_property
from typing import Any
from unittest import mock
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.support.http_server import Server, serving

#: what happens to a request: it fails or its connection is reset before anything is done, or its answer is
#: lost or cut off afterwards
FAILS, RESET, LOST, TORN = "fails", "reset", "lost", "torn"
REGION = "us-east-1"
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
_PAGE = 1000
_SIGNER = re.compile("Credential=([^/]*)/")


@dataclass(frozen=True)
class Request:
    method: str
    key: str
    query: dict[str, str]

    @property
    def kind(self) -> str:
        """Listing, or the method, with what is special."""
        if self.method == "GET" and "list-type" in self.query:
            return "LIST"
        return f"{self.method} {next(iter(set(self.query) & {'uploads', 'uploadId', 'delete'}), '')}".strip()

    def __str__(self) -> str:
        return f"{self.kind:16} {self.key or self.query.get('prefix', '')}"


@dataclass
class Object:
    data: bytes
    tags: dict[str, str]
    modified: float

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'


@dataclass
class Store:
    """The objects of all buckets, by bucket and key, and the requests in their order.

    `plan` says what happens to a request. `heeds`: are conditions looked at. `ahead_s`: its clock.
    `delay_s`: what each answer takes. `spans`: when each request began and was answered.
    """

    endpoint: str = ""
    buckets: set[str] = field(default_factory=lambda: {"lake"})
    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, tuple[dict[str, str], dict[int, bytes]]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    plan: Callable[[Request], str | None] = lambda _: None
    #: (status, code, further elements of the body) in place of every answer
    refusal: tuple[int, str, str] | None = None
    heeds: bool = True
    ahead_s: float = 0.0
    delay_s: float = 0.0
    spans: list[tuple[float, float]] = field(default_factory=list)
    #: access keys that requests were signed with
    signers: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def uri(self) -> str:
        return "s3://lake"

    def __str__(self) -> str:
        return "\n".join(map(str, self.requests))


@contextlib.contextmanager
def served() -> Iterator[Store]:
    """A store with the bucket `lake`, which the environment names inside."""
    store = Store()
    with serving(_Server(store)) as address:
        store.endpoint = f"http://{address}"
        with mock.patch.dict(os.environ, environment(store.endpoint)):
            yield store


def environment(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class _Server(Server):
    def __init__(self, store: Store) -> None:
        self.store = store
        super().__init__(_Handler)


class _Refused(Exception):
    def __init__(self, status: int, code: str, more: str = "") -> None:
        self.status, self.code, self.more = status, code, more


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
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        body = self._body()
        request = Request(self.command, key, query)
        with store.lock:
            store.requests.append(request)
            store.signers.update(_SIGNER.findall(self.headers.get("Authorization") or ""))
            outcome = store.plan(request)
        if outcome == RESET:
            self._reset()
            return
        began = time.monotonic()
        if store.delay_s:
            time.sleep(store.delay_s)
        try:
            if store.refusal is not None:
                raise _Refused(*store.refusal)
            if outcome == FAILS:
                raise _Refused(500, "InternalError")
            if bucket not in store.buckets:
                raise _Refused(404, "NoSuchBucket")
            with store.lock:
                status, headers, data = self._answer(store, bucket, request, body)
        except _Refused as error:
            status, headers = error.status, {}
            data = f"<Error><Code>{error.code}</Code>{error.more}</Error>".encode()
        if outcome == LOST:
            self.close_connection = True
            return
        if outcome == TORN:
            headers.setdefault("Content-Length", str(len(data)))
            self._send(status, headers, data[: len(data) // 2])
            self._reset()
            return
        self._send(status, headers, data)
        store.spans.append((began, time.monotonic()))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _do

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()

    def _answer(
        self, store: Store, bucket: str, request: Request, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        name, query = f"{bucket}/{request.key}", request.query
        if request.kind == "LIST":
            return 200, {}, _listing(store, bucket, query)
        if "delete" in query:
            keys = [
                node.text or "" for node in ElementTree.fromstring(body).iter() if node.tag.endswith("Key")
            ]
            for key in keys:
                store.objects.pop(f"{bucket}/{key}", None)
            gone = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            return 200, {}, f"<DeleteResult>{gone}</DeleteResult>".encode()
        if "uploads" in query:
            number = uuid.uuid4().hex
            store.uploads[number] = (self._tags(), {})
            begun = f"<UploadId>{number}</UploadId>"
            return 200, {}, f"<InitiateMultipartUploadResult>{begun}</InitiateMultipartUploadResult>".encode()
        if "uploadId" in query:
            return self._part(store, name, request, body)
        if self.command == "PUT":
            return self._put(store, name, body, self._tags())
        if self.command == "DELETE":
            store.objects.pop(name, None)
            return 204, {}, b""
        return self._get(store, name)

    def _part(
        self, store: Store, name: str, request: Request, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        number = request.query["uploadId"]
        if number not in store.uploads:
            raise _Refused(404, "NoSuchUpload")
        tags, parts = store.uploads[number]
        if self.command == "PUT":
            parts[int(request.query["partNumber"])] = body
            return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""
        del store.uploads[number]
        if self.command == "DELETE":
            return 204, {}, b""
        _, headers, _ = self._put(store, name, b"".join(data for _, data in sorted(parts.items())), tags)
        tag = f"<ETag>{escape(headers['ETag'])}</ETag>"
        return 200, {}, f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>".encode()

    def _put(
        self, store: Store, name: str, data: bytes, tags: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        there = store.objects.get(name)
        if store.heeds and self.headers.get("If-None-Match") == "*" and there is not None:
            raise _Refused(412, "PreconditionFailed")
        wanted = self.headers.get("If-Match")
        if store.heeds and wanted is not None:
            if there is None:
                raise _Refused(404, "NoSuchKey")
            if there.tag != wanted:
                raise _Refused(412, "PreconditionFailed")
        store.objects[name] = made = Object(data, tags, time.time() + store.ahead_s)
        return 200, {"ETag": made.tag}, b""

    def _get(self, store: Store, name: str) -> tuple[int, dict[str, str], bytes]:
        found = store.objects.get(name)
        if found is None:
            raise _Refused(404, "NoSuchKey")
        headers = {
            "ETag": found.tag,
            "Last-Modified": formatdate(found.modified, usegmt=True),
            "Accept-Ranges": "bytes",
            **found.tags,
        }
        data, asked = found.data, self.headers.get("Range")
        if asked is None:
            return 200, {**headers, "Content-Length": str(len(data))}, data
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first and last else len(data)
        if start >= len(data):
            raise _Refused(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        return 206, {**headers, "Content-Length": str(end - start)}, data[start:end]

    def _tags(self) -> dict[str, str]:
        return {name: text for name, text in self.headers.items() if name.lower().startswith("x-amz-meta-")}


def _listing(store: Store, bucket: str, query: dict[str, str]) -> bytes:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token") or query.get("start-after") or ""
    found: list[str] = []
    last, more, folders = "", False, set[str]()
    for name in sorted(name for name in store.objects if name.startswith(f"{bucket}/{prefix}")):
        key = name.removeprefix(f"{bucket}/")
        rest = key.removeprefix(prefix)
        folder = prefix + rest.partition(delimiter)[0] + delimiter if delimiter and delimiter in rest else ""
        place = folder or key
        if place <= after or place in folders:
            continue
        if len(found) == _PAGE:
            more = True
            break
        last = place
        if folder:
            folders.add(folder)
            found.append(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>")
            continue
        item = store.objects[name]
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(item.modified))
        found.append(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
            f"<ETag>{escape(item.tag)}</ETag><Size>{len(item.data)}</Size></Contents>"
        )
    token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
    truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
    return f"<ListBucketResult>{truncated}{''.join(found)}</ListBucketResult>".encode()
