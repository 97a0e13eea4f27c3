"""HDFS: lost answers, writers that die or were swept, refusals, addresses, how many requests there are."""

from __future__ import annotations

import http.client
import io
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.cli import main
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConfigError, Fenced, HoodieError, StorageError, TableError
from hoodie.source import Source
from hoodie.source.arrow import read
from hoodie.source.fingerprint import fingerprint
from hoodie.storage import Storage, normalize, storage_for
from hoodie.storage.hdfs import cluster_of
from hoodie.table.doctor import check_table
from hoodie.table.handle import TableRef
from hoodie.timeline.active import Timeline
from tests.support.hdfs.server import Hdfs
from tests.support.processes import forked
from tests.support.webhdfs_store import DROPPED, FAILS, LOST, Request, Store, served, silent

ADDRESS = "hoodie.storage.hdfs.http.address"
TOKEN = "hoodie.storage.hdfs.delegation.token"
SECRET = "HAAEcm9vdARyb290AIoBnS1pXXXXXXXX"
QUICK = {"hoodie.storage.request.timeout.ms": "300", "hoodie.storage.retry.timeout.ms": "200"}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}


@pytest.fixture
def store() -> Iterator[Store]:
    with served() as store:
        yield store


@pytest.fixture
def table(store: Store) -> str:
    return f"{store.uri}/lake/table"


@pytest.fixture
def storage(table: str) -> Storage:
    return storage_for(table)


def once(outcome: str, kind: str) -> Callable[[Request], str | None]:
    """The outcome of the first request of a kind."""
    left = [outcome]
    return lambda request: left.pop() if left and request.kind == kind else None


def upsert(table: str, count: int, version: int, **options: str) -> hoodie.WriteResult:
    columns = {
        "id": [str(number) for number in range(count)],
        "region": [("eu", "us")[number % 2] for number in range(count)],
        "ts": [version] * count,
    }
    return hoodie.write_table(pa.table(columns), table, operation="upsert", options={**OPTIONS, **options})


def test_a_path_names_its_name_node() -> None:
    assert normalize("HDFS://nn:8020//lake/a/") == "hdfs://nn:8020/lake/a"
    assert normalize("swebhdfs://nn/lake") == "swebhdfs://nn/lake"
    for path in ("hdfs:///lake/a", f"hdfs://root:{SECRET}@nn/a", "webhdfs://a b/c"):
        with pytest.raises(
            ConfigError, match=r"names no name node; give (web)?hdfs://host:port/folder"
        ) as raised:
            storage_for(path)
        assert SECRET not in raised.value.message


def test_where_webhdfs_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(path: str, **options: str) -> tuple[str, ...]:
        return cluster_of(normalize(path), Config(options)).addresses

    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert found("webhdfs://nn:50070/a") == ("http://nn:50070",)
    assert found("swebhdfs://nn/a") == ("https://nn:9871",)
    assert found("hdfs://nn:8020/a") == ("http://nn:9870",)
    assert found("hdfs://lake/a", **{ADDRESS: "a:1, https://b:2/"}) == ("http://a:1", "https://b:2")
    with pytest.raises(ConfigError, match="is no list of addresses"):
        found("hdfs://lake/a", **{ADDRESS: "http://a:1/webhdfs"})
    properties = {
        "dfs.ha.namenodes.lake": "one,two",
        "dfs.namenode.http-address.lake.one": "a:9870",
        "dfs.namenode.http-address.lake.two": "b:9870",
        "dfs.namenode.http-address": "0.0.0.0:50070",
    }
    text = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{text}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert found("hdfs://lake/a") == ("http://a:9870", "http://b:9870")
    assert found("hdfs://nn:8020/a") == ("http://nn:50070",)
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError, match=r"hdfs-site\.xml can't be read"):
        found("hdfs://nn/a")


def test_a_local_table_needs_no_client_of_hdfs(tmp_path: Path) -> None:
    code = "import sys; from hoodie.storage import storage_for; storage_for(sys.argv[1]).list(sys.argv[1])"
    code += "; assert not {'http.client', 'ssl', 'fsspec', 'requests'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_a_storage_costs_nothing_before_it_is_used(store: Store, table: str) -> None:
    storage_for(table)
    assert not store.requests


@pytest.mark.parametrize("outcome", [FAILS, LOST, DROPPED])
@pytest.mark.parametrize(
    "kind",
    [
        "RENAME",
        *(pytest.param(kind, marks=pytest.mark.full) for kind in ("CREATE", "CREATE data", "OPEN data")),
    ],
)
def test_an_answer_that_is_lost_makes_no_second_file(
    store: Store, table: str, storage: Storage, kind: str, outcome: str
) -> None:
    """... and whoever made the file hears so."""
    path = f"{table}/file"
    store.plan = once(outcome, kind)
    storage.create(path, b"content")
    store.plan = once(outcome, kind)
    with pytest.raises(AlreadyExists):
        storage.create(path, b"other")
    assert storage.read(path) == b"content"
    store.plan = once(outcome, kind)
    storage.write(path, b"new")
    assert storage.read(path) == b"new"
    assert [item.name for item in storage.list(table)] == ["file"]


@pytest.mark.parametrize("outcome", [LOST, DROPPED])
def test_it_is_said_where_an_empty_file_may_have_been_made(
    store: Store, table: str, storage: Storage, outcome: str
) -> None:
    """Nothing tells it from another writer's."""
    store.plan = once(outcome, "CREATE data")
    with pytest.raises(StorageError, match="It is not known whether it was done") as raised:
        storage.create(f"{table}/mark", b"")
    assert raised.value.transient
    assert not isinstance(raised.value, AlreadyExists)


def test_a_rename_that_stays_unknown(store: Store, table: str, storage: Storage) -> None:
    store.plan = lambda request: LOST if request.kind in ("RENAME", "OPEN data") else None
    patient = storage_for(table, QUICK)
    with pytest.raises(StorageError) as raised:
        patient.create(f"{table}/file", b"content")
    assert raised.value.transient
    store.plan = lambda _: None
    assert storage.read(f"{table}/file") == b"content"


def test_a_writer_that_was_swept_is_fenced(store: Store, table: str, storage: Storage) -> None:
    """It sleeps between its check and the rename, and another one sweeps."""
    assert storage.fences

    def sweep() -> None:
        assert storage_for(table).sweep_partial(table, of="file") == 1

    with pytest.raises(Fenced, match="swept away the unfinished"):
        storage.create(f"{table}/file", b"content", sweep)
    assert not store.objects


def test_a_check_that_refuses_leaves_no_file(store: Store, table: str, storage: Storage) -> None:
    def refuse() -> None:
        raise KeyError

    for data in (b"", b"content"):
        with pytest.raises(KeyError):
            storage.create(f"{table}/file", data, refuse)
    assert not store.objects


def test_half_a_file_never_has_the_name(
    store: Store, table: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data node completes what it got of a file whose writer died."""

    def die(connection: http.client.HTTPConnection, data: bytes) -> None:
        if len(data) > 100_000:
            assert connection.sock is not None
            connection.sock.sendall(data[:50_000])
            os._exit(7)
        connection.sock.sendall(data)

    def write(action: Callable[[str, bytes], None]) -> None:
        monkeypatch.setattr(http.client.HTTPConnection, "send", die)
        action(f"{table}/file", b"x" * 200_000)

    storage.write(f"{table}/other", b"old")
    for action in (storage.create, storage.write):
        assert forked(partial(write, action)) == 7
    end = time.monotonic() + 60
    while sum(name.endswith(".hoodie-tmp") for name in storage.names(table)) < 2:
        assert time.monotonic() < end
    assert not storage.exists(f"{table}/file")
    assert storage.sweep_partial(table) == 2
    assert [item.name for item in storage.list(table)] == ["other"]


REFUSALS = [
    (
        "StandbyException",
        "Operation category READ is not supported in state standby",
        "is in standby",
        "standby",
    ),
    ("SafeModeException", "Cannot create file. Name node is in safe mode.", "is in safe mode", "safe_mode"),
    ("AccessControlException", 'Permission denied: user=x, inode="/"', "denied .*user=x", "denied"),
    ("SecretManager$InvalidToken", f"token {SECRET} can't be found", "delegation token is wrong", "expired"),
    ("DSQuotaExceededException", "The quota of /lake is exceeded", "a quota is used up", "quota"),
    ("IOException", "/a could only be written to 0 of the 1 minReplication", "no data node takes it", "full"),
    ("IOException", "something", "IOException: something", "other"),
]


@pytest.mark.parametrize(("exception", "text", "said", "cause"), REFUSALS)
def test_refusals_name_the_path_the_cause_and_the_step(
    store: Store, table: str, exception: str, text: str, said: str, cause: str
) -> None:
    store.refusal = (exception, text)
    with pytest.raises(StorageError, match=said) as raised:
        storage_for(table, {**QUICK, TOKEN: SECRET}).create(f"{table}/file", b"x")
    assert raised.value.values["cause"] == cause
    assert f"{table}/" in raised.value.message
    assert "; " in raised.value.message
    assert SECRET not in f"{raised.value.message}{raised.value.values}"
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), StorageError)


def test_a_name_that_hdfs_does_not_take(table: str, storage: Storage) -> None:
    with pytest.raises(TableError, match=r"partitionpath\.urlencode=true"):
        storage.create(f"{table}/2024-01-01 10:00/file", b"x")


def test_names_of_every_kind(table: str, storage: Storage) -> None:
    for name in ("a b", "a%2Fb", "é+;&=?#", "[x]{y}", "'\"\\"):
        storage.create(f"{table}/{name}/file", name.encode())
        assert storage.read(f"{table}/{name}/file") == name.encode()
        assert storage.exists(f"{table}/{name}")
    assert len(storage.names(table)) == 5


def test_another_name_node_is_asked_where_one_is_in_standby(store: Store) -> None:
    with served() as standby:
        standby.refusal = ("StandbyException", "standby")
        addresses = f"127.0.0.1:1,127.0.0.1:{standby.port},127.0.0.1:{store.port}"
        storage = storage_for("hdfs://lake/table", {ADDRESS: addresses})
        storage.create("hdfs://lake/table/file", b"x")
        asked = len(standby.requests)
        assert storage.read("hdfs://lake/table/file") == b"x"
        assert len(standby.requests) == asked == 1


def test_a_gateway_that_can_not_replace_a_file(store: Store, table: str, storage: Storage) -> None:
    """HttpFS does not heed options of a rename."""
    store.options = False
    storage.create(f"{table}/file", b"x")
    with pytest.raises(AlreadyExists):
        storage.create(f"{table}/file", b"y")
    with pytest.raises(StorageError, match="can't replace a file at once"):
        storage.write(f"{table}/file", b"z")
    assert storage.read(f"{table}/file") == b"x"


def test_a_name_node_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"webhdfs://127.0.0.1:{unused.getsockname()[1]}/t"
        with pytest.raises(StorageError, match=r"name node .* does not answer .*9870") as raised:
            storage_for(uri, QUICK).exists(uri)
    assert (raised.value.values["cause"], raised.value.transient) == ("unreachable", True)


def test_a_server_that_never_answers() -> None:
    with silent() as port:
        uri = f"webhdfs://127.0.0.1:{port}/t"
        with pytest.raises(StorageError, match=r"does not answer .time-out"):
            storage_for(uri, QUICK).exists(uri)


@pytest.mark.full
@pytest.mark.parametrize("how", ["closed", "silent", "data node", "safe mode"])
def test_what_does_not_work_is_an_error_within_15_seconds(store: Store, how: str) -> None:
    """With the settings as they are; a test of the clock, whose limit is a promise."""
    uri = f"{store.uri}/t"
    with silent() as port:
        if how == "closed":
            uri = "webhdfs://127.0.0.1:1/t"
        elif how == "silent":
            uri = f"webhdfs://127.0.0.1:{port}/t"
        elif how == "data node":
            store.data_port = port
        else:
            store.refusal = ("SafeModeException", "safe mode")
        began = time.monotonic()
        with pytest.raises(StorageError):
            storage_for(uri).create(f"{uri}/file", b"x")
        assert time.monotonic() - began < 15


def test_the_rpc_port_in_place_of_the_http_port() -> None:
    """A name node's RPC server says so in plain text."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        text = "It looks like you are making an HTTP request to a Hadoop IPC port."

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(f"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\n{text}".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        uri = f"webhdfs://127.0.0.1:{server.getsockname()[1]}/t"
        with pytest.raises(StorageError, match=r"does not answer as WebHDFS .*not the one of its RPC"):
            storage_for(uri).list(uri)
        thread.join()


def test_a_user_without_rights(store: Store, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store.only = "hoodie"
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    with pytest.raises(StorageError, match=r"access is denied .*user=stranger"):
        storage_for(table).create(f"{table}/file", b"x")
    storage_for(table, {"hoodie.storage.hdfs.user": "hoodie"}).create(f"{table}/file", b"x")


def test_a_fork_of_a_process_that_used_it(store: Store, table: str, storage: Storage) -> None:
    storage.create(f"{table}/file", b"x")

    def read() -> None:
        assert storage.read(f"{table}/file") == b"x"

    assert forked(read) == 0
    read()


def test_the_clock_is_the_name_nodes(store: Store, table: str) -> None:
    store.ahead_s = -3600.0
    storage = storage_for(table, {"hoodie.storage.hdfs.user": "clock"})
    storage.write(f"{table}/file", b"x")
    assert abs(storage.now_ms() - (time.time() - 3600) * 1000) < 60_000


@pytest.mark.table_version(6)
def test_a_table_s_requests(store: Store, table: str) -> None:
    """Each exchange with a data node is two requests."""
    upsert(table, 10, 1)
    upsert(table, 10, 2)
    store.requests.clear()
    assert upsert(table, 3, 3).num_updates == 3
    assert len(store.requests) <= 60, f"\n{store}"
    store.requests.clear()
    assert hoodie.read_table(table).num_rows == 10
    assert len(store.requests) <= 19, f"\n{store}"


def test_a_table_reference_travels_to_executors(store: Store, table: str) -> None:
    upsert(table, 10, 1)
    ref = pickle.loads(pickle.dumps(TableRef.of(table, Config.of({TOKEN: SECRET}))))
    assert Timeline.load(table, ref.storage()).last_commit is not None
    assert SECRET not in repr(cluster_of(table, Config.of({TOKEN: SECRET})))
    assert any(request.query.get("delegation") == SECRET for request in store.requests)


def test_sources(store: Store, table: str) -> None:
    """... by a glob; their fingerprint changes with a file."""
    storage = storage_for(table)
    for number in range(3):
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": [str(number)], "ts": [number]}), sink)
        storage.write(f"{table}/day={number}/{number}.parquet", sink.getvalue())
    source = {"path": f"{table}/day=[12]/*.parquet", "format": "parquet"}
    found = read(Source.of(source))
    assert not isinstance(found, pa.RecordBatchReader)
    rows = found if isinstance(found, pa.Table) else found.to_table()
    assert rows.sort_by("id")["id"].to_pylist() == ["1", "2"]
    before = fingerprint("upsert", source)
    assert fingerprint("upsert", source) == before
    storage.write(f"{table}/day=1/1.parquet", sink.getvalue())
    assert fingerprint("upsert", source) != before


def test_what_watches_a_table(store: Store, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    upsert(table, 10, 1)
    assert {finding.status for finding in check_table(table)} == {"ok"}
    timeline = Timeline.load(table)
    upsert(table, 3, 2)
    assert len(Timeline.load(table, storage_for(table), timeline).commits()) == 2
    assert main(["timeline", "--table", table]) == 0
    assert "commit" in capsys.readouterr().out


def test_writers_at_once(store: Store, table: str) -> None:
    """Optimistic concurrency control by the lock file; the lock that needs conditional writes is refused."""
    together = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
    }
    upsert(table, 10, 1)
    result = upsert(table, 4, 2, **together, **{"hoodie.write.lock.provider": "filesystem"})
    assert result.num_updates == 4
    with pytest.raises(HoodieError, match="needs a storage with conditional writes"):
        upsert(table, 4, 3, **together, **{"hoodie.write.lock.provider": "storage"})


@pytest.mark.full
def test_a_real_hdfs_says_the_same(hdfs: Hdfs) -> None:
    """Its name nodes in standby and in safe mode, its rights and names."""
    short = {"hoodie.storage.retry.timeout.ms": "8000"}
    with hdfs.new_folder() as folder:
        storage = storage_for(folder)
        storage.create(f"{folder}/file", b"x")
        with pytest.raises(TableError, match=r"partitionpath\.urlencode=true"):
            storage.create(f"{folder}/a:b/file", b"x")
        with pytest.raises(StorageError, match=r"access is denied .*user=stranger"):
            storage_for(folder, {"hoodie.storage.hdfs.user": "stranger"}).create(f"{folder}/other", b"x")
        rpc = f"webhdfs://127.0.0.1:{hdfs.port}/t"
        with pytest.raises(StorageError, match="not the one of its RPC"):
            storage_for(rpc, short).list(rpc)
        standby = f"webhdfs://127.0.0.1:{hdfs.others[1]}/t"
        with pytest.raises(StorageError, match="is in standby"):
            storage_for(standby, short).list(standby)
        hdfs.tell("safe_mode on")
        with pytest.raises(StorageError, match="is in safe mode"):
            storage_for(folder, short).create(f"{folder}/other", b"x")
        hdfs.tell("safe_mode off")
        both = {ADDRESS: f"127.0.0.1:{hdfs.http},127.0.0.1:{hdfs.others[1]}"}
        storage = storage_for(folder, both)
        hdfs.tell("activate 1")
        storage.create(f"{folder}/other", b"y")
        assert sorted(storage.names(folder)) == ["file", "other"]
        hdfs.tell("activate 0")
        assert storage.read(f"{folder}/other") == b"y"
