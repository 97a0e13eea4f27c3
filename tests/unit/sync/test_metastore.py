"""Answers of servers that are no metastore, requests that expired, and those that are too large for one."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import LockTimeout, StorageError
from hoodie.lock import LockProvider, lock_for
from hoodie.metastore.connection import Refused, types
from hoodie.sync.hive.desired_entry import Column, Entry
from hoodie.sync.hive.metastore import HiveMetastore
from hoodie.table.handle import Table, TableRef
from tests.support.certificate import certificate
from tests.support.cli import said
from tests.support.http_server import Server, serving
from tests.support.metastore.fake import Queue, answering, listening

KEY = {"hoodie.datasource.write.recordkey.field": "id"}
ANSWER_MS = {"hoodie.meta.sync.answer.timeout.ms": "500"}
URIS = "hoodie.datasource.hive_sync.metastore.uris"
LOCK = "hoodie.write.lock.hivemetastore"


def after_a_request(answer: bytes) -> AbstractContextManager[int]:
    def serve(client: socket.socket) -> None:
        client.recv(4096)
        client.sendall(answer)

    return listening(serve)


def by_tls(folder: Path) -> AbstractContextManager[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder))
    return listening(lambda client: context.wrap_socket(client, server_side=True))


class ByHttp(BaseHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Not on stderr."""


#: how the answer begins, and what messages say of it
ANSWERS = {
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", r"answers by HTTP: 'HTTP/1\.1 400"),
    "tls alert": (b"\x15\x03\x03\x00\x02\x02\x50", "answers by TLS"),
    "sasl": (b"\x04\x00\x00\x00\x13Invalid status -128", "answers by SASL, as with Kerberos.*Invalid status"),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer as a metastore: 'SSH-2.0"),
    "huge": (b"\x80\x01\x00\x02\x7f\xff\xff\xff" + b"x" * 99, "sends what is no answer of a metastore"),
    "large": (b"\x80\x01\x00\x02\x30\x00\x00\x00" + b"x" * 99, "answers with a value of 805,"),
    "negative": (b"\x80\x01\x00\x02\xff\xff\xff\xf0" + b"x" * 99, "sends what is no answer of a metastore"),
    "no text": (b"\x80\x01\x00\x03\0\0\0\x01\xff\0\0\0\0" + b"\x7f" * 99, "sends|did not end"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_server_that_is_no_metastore(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A sync, its command and a lock say what answers at which address, and what to look at."""
    answer, message = ANSWERS[name]
    table = written(tmp_path)
    with after_a_request(answer) as port:
        with pytest.raises(StorageError, match=rf"127\.0\.0\.1:{port} ({message})") as error:
            hoodie.sync_table(table, f"thrift://127.0.0.1:{port}", options=ANSWER_MS)
        assert f"Check that {URIS} names the Thrift port" in error.value.message or name == "no text"
        code, _, err = said(capsys, ["sync", "--table", table, "--metastore", f"thrift://127.0.0.1:{port}"])
        assert (code, "Traceback" in err, str(port) in err) == (1, False, True)
        with pytest.raises(StorageError, match=rf"the lock of .*127\.0\.0\.1:{port} ({message})"):
            hoodie.write_table(pa.table({"id": ["b"]}), table, options={**KEY, **lock_settings(port)})
    assert len(hoodie.instants(table)) == 1


def test_a_server_of_http_that_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    """Python's own: the request has none."""
    with serving(Server(ByHttp)) as address, pytest.raises(StorageError, match="answers by HTTP") as error:
        hoodie.sync_table(written(tmp_path), f"thrift://{address}", options=ANSWER_MS)
    assert not error.value.transient


def test_a_server_that_speaks_tls(tmp_path: Path) -> None:
    """OpenSSL closes the connection; a metastore on Java sends an alert."""
    with by_tls(tmp_path) as port, pytest.raises(StorageError, match="TLS"):
        hoodie.sync_table(written(tmp_path), f"thrift://127.0.0.1:{port}", options=ANSWER_MS)


def test_a_thrift_service_that_is_no_metastore(tmp_path: Path) -> None:
    """As HiveServer2 without SASL: it does not know the request."""
    unknown = b"\x80\x01\x00\x03\0\0\0\x0cget_database\0\0\0\0\x0b\0\x01\0\0\0\x03who\x08\0\x02\0\0\0\x01\0"
    with (
        after_a_request(unknown) as port,
        pytest.raises(StorageError, match=r"is no metastore.*who") as error,
    ):
        hoodie.sync_table(written(tmp_path), f"thrift://127.0.0.1:{port}", options=ANSWER_MS)
    assert "10000 is that of HiveServer2" in error.value.message


def written(folder: Path) -> str:
    hoodie.write_table(pa.table({"id": ["a"]}), str(folder / "t"), options=KEY)
    return str(folder / "t")


def lock_settings(port: int) -> dict[str, str]:
    names = {"uris": f"thrift://127.0.0.1:{port}", "database": "l", "table": "t"}
    given = {f"{LOCK}.{name}": text for name, text in names.items()}
    return {"hoodie.write.lock.provider": "hivemetastore", **given}


def lock(folder: Path, port: int) -> LockProvider:
    config = Config.of(lock_settings(port))
    found = lock_for(Table(TableRef.of(str(folder / "t"), config)), config)
    assert found is not None
    return found


def gone(number: int) -> None:
    """Of the first request: the process slept for longer than hive.txn.timeout."""
    if number == 1:
        raise types("a test").NoSuchLockException(message="no such lock")


def broken(number: int) -> None:
    if number == 1:
        raise ConnectionError


@pytest.mark.parametrize(("check", "withdrawn"), [(gone, [1]), (broken, [1])])
def test_a_request_that_expired_is_made_again(
    tmp_path: Path, check: Callable[[int], object], withdrawn: list[int]
) -> None:
    queue = Queue(free=2, check=check)
    with answering(queue) as port:
        lease = lock(tmp_path, port).acquire(60)
        assert lease.held
        assert (queue.made, queue.withdrawn) == ([1, 2], withdrawn)
        lease.release()
    assert queue.withdrawn[-1] == 2


def test_requests_that_expire_until_the_time_is_over_are_a_lock_timeout(tmp_path: Path) -> None:
    def expired(number: int) -> None:
        raise types("a test").NoSuchLockException(message="no such lock")

    queue = Queue(check=expired)
    with answering(queue) as port:
        with pytest.raises(LockTimeout, match="held by process 7 on elsewhere"):
            lock(tmp_path, port).acquire(0.3)
        assert lock(tmp_path, port).try_acquire() is None
    assert len(queue.made) > 2
    assert sorted({*queue.withdrawn}) == queue.made


class Limited:
    """Requests of a metastore that fails at more than `limit` partitions in one."""

    def __init__(self, limit: int, kind: str = "MetaException") -> None:
        self.limit, self.kind = limit, kind
        self.asked: list[int] = []
        self.done: list[str] = []

    def __call__(self, request: Callable[[Any], Any]) -> Any:
        return request(self)

    def drop_partitions_req(self, request: Any) -> None:
        self._do(request.parts.names)

    def get_partitions_by_names(self, database: str, name: str, names: list[str]) -> list[Any]:
        self._do(names)
        return []

    def _do(self, names: list[str]) -> None:
        self.asked.append(len(names))
        if len(names) > self.limit:
            raise Refused(self.kind, "java.lang.StackOverflowError")
        self.done += names


ENTRY = Entry(
    name="orders",
    location="/lake/orders",
    input_format="",
    columns=(),
    partition_columns=(Column("day", "string"),),
    parameters={},
    serde_parameters={},
)
VALUES = [(f"{number:04}",) for number in range(600)]


@pytest.fixture
def names() -> list[str]:
    return [f"day={value}" for (value,) in VALUES]


@pytest.mark.parametrize(
    ("limit", "asked"),
    [(1000, [100] * 6), (99, [100, *[50] * 12]), (30, [100, 50, *[25] * 24])],
)
def test_partitions_are_dropped_in_batches_that_the_metastore_takes(
    limit: int, asked: list[int], names: list[str]
) -> None:
    metastore = Limited(limit)
    HiveMetastore(metastore, "thrift://h:9083", 1000).drop("lake", ENTRY, VALUES)
    assert (metastore.asked, metastore.done) == (asked, names)


def test_a_lookup_is_halved_too(names: list[str]) -> None:
    metastore = Limited(500)
    HiveMetastore(metastore, "thrift://h:9083", 1000).locations("lake", ENTRY, VALUES)
    assert (metastore.asked, metastore.done) == ([600, 300, 300], names)


def test_what_fails_one_by_one_is_an_error_of_the_metastore() -> None:
    metastore = Limited(0)
    with pytest.raises(
        StorageError, match=r"did not drop partitions of lake.orders: java.lang.Stack"
    ) as error:
        HiveMetastore(metastore, "thrift://h:9083", 1000).drop("lake", ENTRY, VALUES)
    assert error.value.values["kind"] == "MetaException"
    assert metastore.asked == [100, 50, 25, 12, 6, 3, 1]


def test_a_request_that_is_wrong_is_not_made_again() -> None:
    metastore = Limited(0, "NoSuchObjectException")
    with pytest.raises(StorageError, match="NoSuchObjectException"):
        HiveMetastore(metastore, "thrift://h:9083", 1000).drop("lake", ENTRY, VALUES)
    assert metastore.asked == [100]


def test_a_sync_by_jdbc_is_refused(tmp_path: Path) -> None:
    for name, text in (("mode", "jdbc"), ("use_jdbc", "true")):
        setting = f"hoodie.datasource.hive_sync.{name}"
        with pytest.raises(
            hoodie.errors.ConfigError, match=f"{setting}.*sync speaks with the metastore itself"
        ):
            hoodie.sync_table(written(tmp_path), "thrift://127.0.0.1:1", options={setting: text})
