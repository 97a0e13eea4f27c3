"""Every lock provider: one lease at a time, and what a write and a service do with it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.concurrency import table_lock
from hoodie.concurrency.table_lock import TableLock
from hoodie.config.key import Config
from hoodie.errors import ConfigError, ConflictError, Fenced, LockTimeout, StorageError
from hoodie.lock import Lease, LockProvider, lock_for
from hoodie.progress import silent
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.time import InstantTime
from scripts.environment import ROOT
from tests.support import webhdfs_store
from tests.support.hdfs.server import Hdfs
from tests.support.later_tables import new_tables_of
from tests.support.objects import SCHEME, stored
from tests.support.processes import all_forked, forked
from tests.support.storages import Delegating, wrapped
from tests.support.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from tests.support.dynamodb import DynamoDB
    from tests.support.metastore.server import Metastore

PROVIDER = "hoodie.write.lock.provider"
FILE_PATH = "hoodie.write.lock.filesystem.path"
EXPIRE = "hoodie.write.lock.filesystem.expire"
#: one try, which does not wait
NO_WAIT = {
    "hoodie.write.lock.wait_time_ms": "0",
    "hoodie.write.lock.client.num_retries": "0",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "0",
}
#: several tries, a second in all
SHORT = {**NO_WAIT, "hoodie.write.lock.client.num_retries": "20"}
SHORT["hoodie.write.lock.client.wait_time_ms_between_retry"] = "50"
KINDS = (
    "in_process",
    "filesystem",
    "a folder",
    SCHEME,
    "storage",
    "webhdfs",
    pytest.param("hdfs", marks=pytest.mark.full),
    pytest.param("dynamodb", marks=pytest.mark.full),
    pytest.param("zookeeper", marks=[pytest.mark.full, pytest.mark.interop]),
    pytest.param("hivemetastore", marks=[pytest.mark.full, pytest.mark.interop]),
)
Open = Callable[[], LockProvider]


def provider(path: str, options: dict[str, str]) -> LockProvider:
    config = Config.of(options)
    found = lock_for(Table(TableRef.of(path, config)), config)
    assert found is not None
    return found


def settings(kind: str, tmp_path: Path) -> dict[str, str]:
    options = {PROVIDER: kind if kind in ("in_process", "storage") else "filesystem"}
    if kind == "a folder":
        options[FILE_PATH] = f"{tmp_path}/locks/t"
    return options


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Makes the lock of one table, anew for everybody who wants it."""
    found = settings(request.param, tmp_path)
    if request.param in ("zookeeper", "hivemetastore", "dynamodb"):
        server: ZooKeeper | Metastore | DynamoDB = request.getfixturevalue(request.param)
        found = server.new_lock()
    with folder(request, tmp_path) as place:
        yield lambda: provider(f"{place}/t", found)


@contextmanager
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == SCHEME:
        with stored(tmp_path) as place:
            yield place
    elif request.param == "webhdfs":
        with webhdfs_store.served() as store:
            yield store.uri
    elif request.param == "hdfs":
        server: Hdfs = request.getfixturevalue("hdfs")
        with server.new_folder() as place:
            yield place
    else:
        yield str(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t/.hoodie/lock"


def files(tmp_path: Path, minutes: int = 1) -> LockProvider:
    return provider(f"{tmp_path}/t", {PROVIDER: "filesystem", EXPIRE: str(minutes)})


def aged(path: Path, minutes: float = 2) -> None:
    then = time.time() - minutes * 60
    os.utime(path, (then, then))


def test_one_thread_at_a_time(opened: Open) -> None:
    inside: list[int] = []

    def work(number: int) -> None:
        lock = opened()
        for _ in range(5):
            lease = lock.acquire(30)
            inside.append(number)
            assert inside == [number]
            assert lease.held
            inside.remove(number)
            lease.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_leases_differ(opened: Open) -> None:
    first = opened().acquire(0)
    assert opened().try_acquire() is None
    first.release()
    second = opened().acquire(0)
    assert (first.held, second.held, first.token != second.token) == (False, True, True)
    second.release()
    assert opened().holder() is None


def test_who_does_not_hold_it_releases_nothing(opened: Open) -> None:
    first = opened().acquire(0)
    first.release()
    first.release()
    second = opened().acquire(0)
    first.release()
    assert second.held
    assert opened().try_acquire() is None
    second.release()
    second.release()
    opened().acquire(0).release()


def test_a_timeout_names_the_holder(opened: Open) -> None:
    lease = opened().acquire(0)
    with pytest.raises(LockTimeout, match=r"was not free within 0\.05 s") as error:
        opened().acquire(0.05)
    holder, values = lease.holder, error.value.values
    assert isinstance(error.value, ConflictError)
    assert (values["holder"], values["host"], values["since"]) == (
        holder.process,
        socket.gethostname(),
        holder.since,
    )
    assert f"held by {holder.process} on {holder.host} since {holder.since}" in error.value.message
    assert values["path"].endswith("/t")
    assert str(opened().holder()) == str(holder)
    lease.release()


def test_who_waits_is_next(opened: Open) -> None:
    lease = opened().acquire(0)
    timer = threading.Timer(0.1, lease.release)
    timer.start()
    opened().acquire(30).release()
    timer.join()


#: seconds that one waits, and what becomes of it
SLEEPERS = {120: "held", 10: "lock_timeout"}
SLEEPER = """
import json, sys
from hoodie.errors import LockTimeout
from tests.contract.test_lock import provider

try:
    lease = provider(sys.argv[1], json.loads(sys.argv[2])).acquire(float(sys.argv[3]))
    print("held" if lease.held else "lost")
    lease.release()
except LockTimeout as error:
    print(error.code)
"""
SERVERS = [
    pytest.param(kind, marks=[pytest.mark.full, pytest.mark.interop])
    for kind in ("zookeeper", "hivemetastore")
]


@pytest.mark.parametrize("wait", SLEEPERS)
@pytest.mark.parametrize("kind", SERVERS)
def test_one_that_sleeps_while_it_waits_asks_again(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, wait: int
) -> None:
    """Its request expires in the meantime: it gets the lock in the time that is left, else a lock timeout."""
    server: ZooKeeper | Metastore = request.getfixturevalue(kind)
    table, options = str(tmp_path / "t"), server.new_lock()
    lease = provider(table, options).acquire(30)
    command = [sys.executable, "-c", SLEEPER, table, json.dumps(options), str(wait)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as sleeper:
        try:
            await_requests(server, options, lease, 2)
            os.kill(sleeper.pid, signal.SIGSTOP)
            over = time.monotonic() + wait
            await_requests(server, options, lease, 1)
            if SLEEPERS[wait] == "held":
                lease.release()
            while SLEEPERS[wait] != "held" and time.monotonic() < over:
                await_requests(server, options, lease, 1)
        finally:
            os.kill(sleeper.pid, signal.SIGCONT)
        answer, _ = sleeper.communicate(timeout=120)
    lease.release()
    assert answer.strip() == SLEEPERS[wait]


def await_requests(server: ZooKeeper | Metastore, options: dict[str, str], lease: Lease, count: int) -> None:
    """Until so many hold the lock, or wait for it, in the server."""
    for _ in range(600):
        lease.renew()
        time.sleep(0.2)
        if server.requests_of(options) == count:
            return
    raise AssertionError(f"{server.requests_of(options)} requests of {options}")


def test_renewing_keeps_a_lease(opened: Open) -> None:
    lease = opened().acquire(0)
    lease.renew()
    assert lease.held
    assert opened().try_acquire() is None
    lease.release()
    lease.renew()
    assert not lease.held
    assert opened().holder() is None


def test_each_table_has_its_own(tmp_path: Path) -> None:
    for kind in ("in_process", "filesystem"):
        leases = [provider(f"{tmp_path}/{name}", {PROVIDER: kind}).acquire(0) for name in "ab"]
        for lease in leases:
            lease.release()


def test_a_forked_process_has_no_lease_of_its_parent(tmp_path: Path) -> None:
    lease = provider(f"{tmp_path}/t", {PROVIDER: "in_process"}).acquire(0)
    assert forked(partial(_take, f"{tmp_path}/t")) == 0
    assert lease.held
    lease.release()


def _take(path: str) -> None:
    assert provider(path, {PROVIDER: "in_process"}).try_acquire() is not None


def test_equal_process_numbers_of_two_containers_are_two_processes(tmp_path: Path) -> None:
    """Writers of one table with locks of other names are refused."""
    container = ["unshare", "--pid", "--uts", "--fork"]
    if subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("unshare is not permitted")
    script = (
        "import os, sys; from tests.contract.test_lock import PROVIDER, provider\n"
        "print(os.getpid(), provider(sys.argv[1], {PROVIDER: 'in_process'}).name)"
    )
    command = [*container, sys.executable, "-c", script, str(tmp_path / "t")]
    run = partial(subprocess.run, command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = [run().stdout for _ in "ab"]
    (first, one), (second, other) = (line.split(" ", 1) for line in told)
    assert first == second
    assert one != other
    assert len({provider(f"{tmp_path}/t", {PROVIDER: "in_process"}).name for _ in "ab"}) == 1


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Each process appends to one file when it enters and when it leaves."""
    assert all_forked([partial(_enter, f"{tmp_path}/t")] * 4) == [0] * 4
    lines = Path(f"{tmp_path}/t/log").read_text().split()
    assert len(lines) == 4 * 5 * 2
    assert lines[::2] == lines[1::2]
    assert sorted(os.listdir(tmp_path / "t/.hoodie")) == []


def _enter(path: str) -> None:
    lock = provider(path, {PROVIDER: "filesystem"})
    for number in range(5):
        lease = lock.acquire(30)
        for _ in range(2):
            with open(f"{path}/log", "a") as log:
                log.write(f"{os.getpid()}-{number}\n")
        lease.release()


def test_the_file_is_as_that_of_apache_hudi(tmp_path: Path, file: Path) -> None:
    """LockInfo of Hudi 0.15: three fields, the time as yyyy-MM-dd HH:mm:ss.SSS."""
    lease = files(tmp_path).acquire(0)
    found = json.loads(file.read_text())
    assert list(found) == ["lockCreateTime", "lockThreadName", "lockStacksInfo"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", found["lockCreateTime"])
    assert found["lockThreadName"] == threading.current_thread().name
    assert all(isinstance(line, str) for line in found["lockStacksInfo"])
    lease.release()
    assert not file.exists()


@pytest.mark.parametrize(
    ("content", "holder"),
    [
        (b"", "an unknown process since 20"),
        (
            b'{"lockCreateTime" : "2024-05-31 10:30:00.000", "lockThreadName" : "main", '
            b'"lockStacksInfo" : [ "java.lang.Thread.getStackTrace (Thread.java:1559)" ]}',
            "thread main since 2024-05-31 10:30:00.000",
        ),
        (b"[" * 5000, "an unknown process since 20"),
        (b'{"lockStacksInfo": 7}', "an unknown process since 20"),
        (b"\xff\xfe", "an unknown process since 20"),
        (b"[]", "an unknown process since 20"),
    ],
)
def test_the_file_of_another_writer_is_respected(
    tmp_path: Path, file: Path, content: bytes, holder: str
) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(LockTimeout, match=re.escape(f"{file}, was not free")) as error:
        files(tmp_path).acquire(0)
    assert f"is held by {holder}" in error.value.message
    assert "if its process is gone, delete that file" in error.value.message
    assert file.read_bytes() == content
    aged(file)
    files(tmp_path).acquire(0).release()


def test_an_expired_lock_is_taken_over(tmp_path: Path, file: Path) -> None:
    first = files(tmp_path).acquire(0)
    aged(file, 0.9)
    assert files(tmp_path).try_acquire() is None
    aged(file)
    assert files(tmp_path, minutes=0).try_acquire() is None
    second = files(tmp_path).acquire(0)
    assert (first.held, second.held) == (False, True)
    first.renew()
    first.release()
    assert second.held
    second.release()
    assert os.listdir(file.parent) == []


def test_a_renewed_lock_does_not_expire(tmp_path: Path, file: Path) -> None:
    lease = files(tmp_path).acquire(0)
    assert lease.lasts_s == 60
    aged(file)
    lease.renew()
    assert files(tmp_path).try_acquire() is None
    lease.release()


def test_of_many_one_takes_an_expired_lock(tmp_path: Path, file: Path) -> None:
    for _ in range(10):
        files(tmp_path).acquire(0)
        aged(file)
        start = threading.Barrier(8)

        def take(_: int, start: threading.Barrier = start) -> Any:
            lock = files(tmp_path)
            start.wait()
            return lock.try_acquire()

        with ThreadPoolExecutor(8) as pool:
            leases = [lease for lease in pool.map(take, range(8)) if lease is not None]
        taken = leases or [files(tmp_path).acquire(0)]
        assert [lease.held for lease in taken] == [True]
        taken[0].release()


def test_a_process_that_is_killed_while_it_takes_over_blocks_others_for_the_same_time(
    tmp_path: Path, file: Path
) -> None:
    files(tmp_path).acquire(0)
    aged(file)
    (file.parent / ".lock.hoodie-tmp").touch()
    assert files(tmp_path).try_acquire() is None
    aged(file.parent / ".lock.hoodie-tmp")
    files(tmp_path).acquire(5).release()
    assert os.listdir(file.parent) == []


class Sweeping(Delegating):
    """A writer repairs the table: it sweeps what is unfinished while the lock is created."""

    left = 1

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        def sweep() -> None:
            if Sweeping.left and path.endswith("/lock"):
                Sweeping.left -= 1
                self.inner.sweep_partial(os.path.dirname(path))

        self.inner.create(path, data, sweep)


def test_a_sweep_does_no_harm(tmp_path: Path) -> None:
    with wrapped(Sweeping):
        lease = files(tmp_path).acquire(5)
    assert (lease.held, Sweeping.left) == (True, 0)
    lease.release()


class Failing(Delegating):
    """The lock is made, and its creator does not get to know."""

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        self.inner.create(path, data)
        raise KeyboardInterrupt


def test_a_lock_that_was_made_all_the_same_is_removed(tmp_path: Path, file: Path) -> None:
    with wrapped(Failing), pytest.raises(KeyboardInterrupt):
        files(tmp_path).acquire(0)
    assert os.listdir(file.parent) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {PROVIDER: "redis"},
            "'redis' is no lock provider known here; use one of dynamodb, filesystem, ",
        ),
        (
            {PROVIDER: "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"},
            r"needs .*hivemetastore\.uris",
        ),
        ({PROVIDER: "hivemetastore", "hoodie.write.lock.hivemetastore.uris": "thrift://h:1"}, r"\.database"),
        (
            {
                PROVIDER: "hivemetastore",
                **{
                    f"hoodie.write.lock.hivemetastore.{name}": "hdfs://h:1"
                    for name in ("uris", "database", "table")
                },
            },
            "'hdfs://h:1', which is no address of a metastore",
        ),
        ({PROVIDER: "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"}, r"dynamodb\.table"),
        (
            {PROVIDER: "dynamodb", "hoodie.write.lock.dynamodb.table": "t", "hoodie.aws.access.key": "k"},
            "belong together",
        ),
        ({PROVIDER: "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"}, r"needs .*\.url"),
        ({PROVIDER: "zookeeper", "hoodie.write.lock.zookeeper.url": "zk:1"}, r"needs .*\.base_path"),
        ({"hoodie.write.lock.zookeeper.url": "zk:1"}, "set that to zookeeper, or leave this out"),
        ({PROVIDER: "storage", "hoodie.write.lock.storage.validity.timeout.secs": "299"}, "10 times"),
        ({PROVIDER: "filesystem", EXPIRE: "1", "hoodie.client.heartbeat.interval_in_ms": "60001"}, "sooner"),
        ({PROVIDER: "filesystem", FILE_PATH: f"{SCHEME}://bucket/locks"}, "no storage for|another storage"),
        ({PROVIDER: "nowhere:Mine"}, "can't be imported"),
        ({FILE_PATH: "locks"}, "'locks' is no absolute path of a folder"),
        ({FILE_PATH: "gopher://locks"}, "no storage for scheme 'gopher'"),
        ({EXPIRE: "-1"}, "must be at least 0"),
        ({EXPIRE: "5"}, "expire='5' is of a lock, and hoodie.write.lock.provider names none"),
        ({FILE_PATH: "/locks"}, "path='/locks' is of a lock, and"),
        (
            {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"},
            "needs a lock that all writers",
        ),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    table = str(tmp_path / "t")
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match=message):
            hoodie.write_table(rows(1), table, options={**KEY, **options}, dry_run=dry_run)
    assert not os.path.exists(table)
    hoodie.write_table(rows(1), table, options=KEY)
    for service in (hoodie.clean_table, hoodie.archive_table, hoodie.savepoint_table):
        with pytest.raises(ConfigError, match=message):
            service(table, options=options)


def unreachable(kind: str, server: str) -> dict[str, str]:
    """Settings of a lock by a server, host:port."""
    names = {
        "zookeeper": {"url": server, "base_path": "/l", "lock_key": "t", "connection_timeout_ms": "300"},
        "hivemetastore": {"uris": f"thrift://{server}", "database": "l", "table": "t"},
        "dynamodb": {"table": "l", "partition_key": "t", "endpoint_url": f"http://{server}"},
    }[kind]
    keys = {"hoodie.aws.access.key": SECRETS[0], "hoodie.aws.secret.key": SECRETS[1]}
    options = {f"hoodie.write.lock.{kind}.{name}": text for name, text in names.items()}
    return {PROVIDER: kind, **options, **(keys if kind == "dynamodb" else {})}


SECRETS = ("AKIAPLANTED7EXAMPLE0", "planted/secret+of=locks")
MUTE = [pytest.param(kind, True, marks=pytest.mark.full) for kind in ("hivemetastore", "dynamodb")]


@pytest.mark.parametrize(
    ("kind", "mute"),
    [("zookeeper", False), ("zookeeper", True), ("hivemetastore", False), ("dynamodb", False), *MUTE],
)
def test_a_server_that_is_not_there(tmp_path: Path, kind: str, mute: bool) -> None:
    """Nobody listens, or somebody who never answers: an error, with nothing committed."""
    with socket.socket() as silent, ThreadPoolExecutor(1) as pool:
        silent.bind(("127.0.0.1", 0))
        if mute:
            silent.listen(16)
        options = {**KEY, **unreachable(kind, f"127.0.0.1:{silent.getsockname()[1]}")}
        write = pool.submit(hoodie.write_table, rows(1), str(tmp_path / "t"), options=options)
        with pytest.raises(StorageError, match=f"the lock of {tmp_path}/t, .* can't be reached: ") as error:
            write.result(60)
    assert re.search(r"Check .*hoodie\.write\.lock\..*then run again", error.value.message)
    assert not any(secret in json.dumps(error.value.to_dict()) for secret in SECRETS)
    assert hoodie.instants(str(tmp_path / "t")) == []


KEY = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "v"}


def rows(value: int) -> pa.Table:
    return pa.table({"id": ["a", "b"], "v": [value, value]})


def values(table: Path) -> set[int]:
    return set(hoodie.read_table(str(table)).column("v").to_pylist())


class Watching(Delegating):
    """Notes what appears on the timeline, or goes from it, and whether the lock is there then."""

    seen: list[tuple[str, bool]]

    def _note(self, path: str) -> None:
        folder, name = os.path.split(path)
        meta = folder.removesuffix("/timeline")
        if meta.endswith("/.hoodie") and name[:1].isdigit():
            self.seen.append((name.partition(".")[2], self.inner.exists(f"{meta}/lock")))

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        self._note(path)
        self.inner.create(path, data, check)

    def delete(self, path: str) -> None:
        self._note(path)
        self.inner.delete(path)


@pytest.fixture(params=[6, 9])
def version(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of the tables."""
    with new_tables_of(request.param):
        yield request.param


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, version: int) -> Iterator[list[tuple[str, bool]]]:
    found: list[tuple[str, bool]] = []
    monkeypatch.setattr(Watching, "seen", found, raising=False)
    with wrapped(Watching):
        yield found


@pytest.mark.parametrize("kind", ["in_process", "filesystem"])
def test_a_write_with_a_lock(tmp_path: Path, kind: str) -> None:
    options = {**KEY, PROVIDER: kind}
    for value in (1, 2):
        result = hoodie.write_table(rows(value), str(tmp_path / "t"), options=options)
        assert result.warnings == []
    assert values(tmp_path / "t") == {2}
    assert not (tmp_path / "t/.hoodie/lock").exists()


def test_writes_and_services_begin_and_publish_under_the_lock(
    tmp_path: Path, seen: list[tuple[str, bool]], version: int
) -> None:
    table, lock = str(tmp_path / "t"), {PROVIDER: "filesystem"}
    options = {**KEY, **lock, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    for value in range(4):
        hoodie.write_table(rows(value), table, options=options)
    hoodie.compact_table(table, options={**lock, "hoodie.compact.inline.max.delta.commits": "1"})
    for value in (8, 9):
        hoodie.write_table(rows(value), table, options=options)
    retained = {**lock, "hoodie.cleaner.commits.retained": "1"}
    hoodie.clean_table(table, options=retained)
    hoodie.savepoint_table(table, options=lock)
    newest = hoodie.write_table(rows(10), table, options=options).instant
    assert newest is not None
    hoodie.rollback_table(table, newest, options=lock)
    hoodie.cluster_table(table, options={**lock, "hoodie.clustering.inline.max.commits": "1"})
    kept = {**retained, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    assert hoodie.archive_table(table, options=kept).archived
    done = {name: held for name, held in seen if not name.endswith("inflight")}
    wanted = {"deltacommit", "commit", "replacecommit", "clean", "savepoint", "rollback"}
    planned = wanted - {"savepoint", "commit"} | {"compaction"}
    if version == 9:
        planned = planned - {"replacecommit"} | {"clustering"}
    requested = {f"{name}.requested" for name in planned}
    assert set(done) >= wanted | requested
    assert [item for item in seen if not item[1] and not item[0].endswith("inflight")] == []
    assert not os.path.exists(f"{table}/.hoodie/lock")


def test_inline_services_publish_under_the_lock(tmp_path: Path, seen: list[tuple[str, bool]]) -> None:
    options = {
        **KEY,
        PROVIDER: "filesystem",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.cleaner.commits.retained": "1",
    }
    for value in range(4):
        hoodie.write_table(rows(value), str(tmp_path / "t"), options=options)
    assert {("compaction.requested", True), ("commit", True), ("clean", True)} <= set(seen)
    assert [item for item in seen if not item[1] and not item[0].endswith("inflight")] == []


def test_a_restore_publishes_under_the_lock(tmp_path: Path, seen: list[tuple[str, bool]]) -> None:
    table, lock = str(tmp_path / "t"), {PROVIDER: "filesystem"}
    first, *_ = [hoodie.write_table(rows(value), table, options={**KEY, **lock}) for value in (1, 2)]
    assert first.instant is not None
    del seen[:]
    hoodie.restore_table(table, InstantTime(first.instant), options=lock)
    assert ("restore", True) in seen
    assert [item for item in seen if not item[1] and not item[0].endswith("inflight")] == []
    assert values(tmp_path / "t") == {1}


def test_without_a_provider_no_lock_is_looked_for(tmp_path: Path, file: Path) -> None:
    table = str(tmp_path / "t")
    hoodie.write_table(rows(1), table, options=KEY)
    file.write_bytes(b"")
    hoodie.write_table(rows(2), table, options=KEY)
    assert (values(tmp_path / "t"), file.read_bytes()) == ({2}, b"")


def test_a_writer_that_does_not_get_the_lock_changes_nothing(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says whom it waits for every 30 seconds."""
    table, options = str(tmp_path / "t"), {**KEY, **SHORT, PROVIDER: "filesystem"}
    said: list[str] = []
    hoodie.write_table(rows(1), table, options=KEY)
    before = sorted(os.listdir(file.parent))
    file.write_bytes(b"")
    for every, waits in ((30.0, 0), (0.0, 20)):
        monkeypatch.setattr(table_lock, "_REPORT_S", every)
        with pytest.raises(LockTimeout, match="an unknown process since 20") as refused:
            hoodie.write_table(
                rows(2), table, options=options, progress=lambda step, text: said.append(f"{step}: {text}")
            )
        waited = re.search(r"was not free within ([\d.]+) s", str(refused.value))
        assert waited is not None
        assert float(waited[1]) >= 1
        lines = [line for line in said if line.startswith("wait: the lock is held by an unknown process")]
        assert len(lines) == waits
    with pytest.raises(LockTimeout):
        hoodie.savepoint_table(table, options={**NO_WAIT, PROVIDER: "filesystem"})
    file.unlink()
    assert sorted(os.listdir(file.parent)) == before
    assert values(tmp_path / "t") == {1}
    hoodie.write_table(rows(2), table, options=options)
    assert values(tmp_path / "t") == {2}


class Stealing(Delegating):
    """Somebody else has the lock by the time the commit is published."""

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        def steal() -> None:
            if path.endswith(".commit"):
                self.inner.write(f"{os.path.dirname(path).removesuffix('/timeline')}/lock", b"")
            if check is not None:
                check()

        self.inner.create(path, data, steal)


def test_a_writer_that_lost_the_lock_publishes_nothing(tmp_path: Path, file: Path, version: int) -> None:
    table, options = str(tmp_path / "t"), {**KEY, PROVIDER: "filesystem"}
    hoodie.write_table(rows(1), table, options=options)
    with wrapped(Stealing), pytest.raises(Fenced, match="was lost: it is held by an unknown process"):
        hoodie.write_table(rows(2), table, options=options)
    assert values(tmp_path / "t") == {1}
    assert file.read_bytes() == b""  # it is the other one's
    file.unlink()
    hoodie.write_table(rows(3), table, options=options)
    assert values(tmp_path / "t") == {3}


class Refusing(Delegating):
    """The lock can't be deleted."""

    def delete(self, path: str) -> None:
        if path.endswith("/lock"):
            raise OSError("no")
        self.inner.delete(path)


def test_a_lock_that_can_not_be_released_does_not_undo_the_commit(tmp_path: Path, file: Path) -> None:
    said: list[str] = []
    options = Config.of({PROVIDER: "filesystem"})
    with wrapped(Refusing):
        table = Table(TableRef.of(str(tmp_path / "t"), options))
        lock = TableLock(table, options, lambda stage, text: said.append(text))
        with lock.taken():
            pass
    with lock.taken():  # its own process goes on with it
        assert file.exists()
        lock.check()
    assert said == [f"{file} could not be released, others wait for it: no"] * 2


def test_a_lease_that_lasts_is_renewed_while_it_is_held(tmp_path: Path, file: Path) -> None:
    config = Config.of({PROVIDER: "filesystem", EXPIRE: "1"})
    lock = TableLock(Table(TableRef.of(str(tmp_path / "t"), config)), config, silent)
    renewed = threading.Event()

    class Often(Delegating):
        def write(self, path: str, data: bytes) -> None:
            self.inner.write(path, data)
            renewed.set()

    with pytest.MonkeyPatch.context() as patch, wrapped(Often):
        patch.setattr("hoodie.concurrency.table_lock._RENEWED", 0.0001)
        lock = TableLock(Table(TableRef.of(str(tmp_path / "t"), config)), config, silent)
        with lock.taken(), lock.taken():
            aged(file)
            renewed.clear()
            assert renewed.wait(30)
            assert time.time() - file.stat().st_mtime < 60
            lock.check()
    assert not file.exists()


LOCK_FILE = ".hoodie/.locks/table_lock.json"


def storage_lock(tmp_path: Path) -> LockProvider:
    return provider(
        f"{tmp_path}/t", {PROVIDER: "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"}
    )


def test_the_storage_locks_file_is_as_that_of_apache_hudi(tmp_path: Path) -> None:
    """StorageLockData of Hudi 1.2: three fields, compact JSON, which is never deleted."""
    lease = storage_lock(tmp_path).acquire(0)
    found = json.loads((tmp_path / "t" / LOCK_FILE).read_text())
    assert list(found) == ["expired", "validUntil", "owner"]
    assert found["expired"] is False
    assert abs(found["validUntil"] - time.time() * 1000 - 300_000) < 60_000
    assert found["owner"].startswith(lease.token)
    lease.release()
    assert json.loads((tmp_path / "t" / LOCK_FILE).read_text())["expired"] is True


@pytest.mark.parametrize(
    ("content", "free"),
    [
        ({"expired": True, "validUntil": 1 << 47, "owner": "x"}, True),
        ({"expired": False, "validUntil": 0, "owner": "x"}, True),
        ({"expired": False, "validUntil": 1 << 47, "owner": "5e1a"}, False),
        ({"expired": False, "validUntil": "soon", "owner": "x"}, True),
        ([], True),
    ],
)
def test_the_storage_lock_of_another_writer(tmp_path: Path, content: Any, free: bool) -> None:
    path = tmp_path / "t" / LOCK_FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    if free:
        storage_lock(tmp_path).acquire(0).release()
        return
    with pytest.raises(LockTimeout, match=r"held by owner 5e1a, until 64\d\d"):
        storage_lock(tmp_path).acquire(0)
    assert json.loads(path.read_text()) == content


def test_a_storage_lock_beyond_the_calendar_is_held(tmp_path: Path) -> None:
    """The years of Python's calendar end with 9999."""
    path = tmp_path / "t" / LOCK_FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"expired": False, "validUntil": (1 << 48) - 1, "owner": "5e1a"}))
    with pytest.raises(LockTimeout, match="held by owner 5e1a, until 9999-12-31"):
        storage_lock(tmp_path).acquire(0)


def test_an_expired_storage_lock_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "t" / LOCK_FILE
    first = storage_lock(tmp_path).acquire(0)
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "validUntil": int(time.time() * 1000) - 1000}))
    assert not first.held
    second = storage_lock(tmp_path).acquire(0)
    first.renew()
    first.release()
    assert (first.held, second.held) == (False, True)
    second.release()
    assert sorted(os.listdir(path.parent)) == ["table_lock.json"]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["storage", "filesystem"])
def test_processes_that_count(tmp_path: Path, kind: str) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/count").write_text("0")
    assert all_forked([partial(_count, tmp_path / "t", kind)] * 4) == [0] * 4
    assert (tmp_path / "t/count").read_text() == "40"


def _count(path: Path, kind: str) -> None:
    for _ in range(10):
        lease = provider(str(path), {PROVIDER: kind}).acquire(60)
        number = int((path / "count").read_text())
        time.sleep(0.001)
        (path / "count").write_text(str(number + 1))
        assert lease.held
        lease.release()


def test_a_zookeeper_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("kazoo")
    options = {
        PROVIDER: "zookeeper",
        "hoodie.write.lock.zookeeper.url": "127.0.0.1",
        "hoodie.write.lock.zookeeper.port": "1",
        "hoodie.write.lock.zookeeper.base_path": "locks/",
        "hoodie.write.lock.zookeeper.lock_key": "t",
        "hoodie.write.lock.zookeeper.connection_timeout_ms": "100",
    }
    with pytest.raises(
        StorageError, match=r"/locks/t in ZooKeeper 127\.0\.0\.1:1, can't be reached"
    ) as error:
        provider(f"{tmp_path}/t", options).try_acquire()
    assert error.value.values["transient"]


def test_without_the_package_of_zookeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    options = {PROVIDER: "zookeeper", **{f"hoodie.write.lock.zookeeper.{name}": "a" for name in ZOOKEEPER}}
    with pytest.raises(ConfigError, match="pip install kazoo where"):
        provider(f"{tmp_path}/t", options).try_acquire()


ZOOKEEPER = ("url", "base_path", "lock_key")


@pytest.mark.full
@pytest.mark.interop
def test_the_next_one_is_in_once_the_session_of_a_killed_holder_is_over(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    options = zookeeper.new_lock(session_ms=2000)

    def die() -> None:
        provider(f"{tmp_path}/t", options).acquire(5)
        os._exit(7)

    assert forked(die) == 7
    began = time.monotonic()
    provider(f"{tmp_path}/t", options).acquire(30).release()
    assert time.monotonic() - began < 20


@pytest.mark.full
@pytest.mark.interop
def test_a_zookeeper_session_that_ended_holds_nothing(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    options = zookeeper.new_lock()
    first = provider(f"{tmp_path}/t", options).acquire(5)
    from kazoo.client import KazooClient

    other = KazooClient(f"127.0.0.1:{zookeeper.port}")
    other.start(5)
    path = "/hudi/locks/" + options["hoodie.write.lock.zookeeper.lock_key"]
    (child,) = other.get_children(path)
    assert "-lock-" in child
    other.delete(f"{path}/{child}")
    other.stop()
    other.close()
    assert not first.held
    provider(f"{tmp_path}/t", options).acquire(5).release()
    first.release()
