"""Every storage, and one of a scheme of its own: what a table needs from it, and a table on it."""

from __future__ import annotations

import io
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import AlreadyExists, ConfigError, TableError
from hoodie.storage import Storage, normalize, storage_for
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import TableRef
from tests.support import webhdfs_store
from tests.support.hdfs.server import Hdfs
from tests.support.moto_server import bucket_on, moto
from tests.support.objects import SCHEME, Objects, stored
from tests.support.processes import all_forked
from tests.support.races import race
from tests.support.s3_store import served
from tests.support.storages import registered


@pytest.fixture(scope="module")
def moto_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto(tmp_path_factory.mktemp("moto")) as endpoint:
        yield endpoint


MOTO = pytest.param("moto", marks=pytest.mark.full)
HDFS = pytest.param("hdfs", marks=pytest.mark.full)


ROOTS = [*map(pytest.param, ("file", SCHEME, "memory", "s3", "webhdfs")), MOTO, HDFS]


@pytest.fixture(params=ROOTS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The path of a folder that nobody made, below what the storage of the path may touch."""
    if request.param == "file":
        yield f"{tmp_path}/table/new"
    elif request.param == "memory":
        yield f"memory://{tmp_path.name.replace('_', '-')}/table/new"
    elif request.param == "s3":
        with served():
            yield "s3://lake/table/new"
    elif request.param == "moto":
        with bucket_on(request.getfixturevalue("moto_endpoint")) as bucket:
            yield f"{bucket}/table/new"
    elif request.param == "webhdfs":
        with webhdfs_store.served() as store:
            yield f"{store.uri}/lake/table/new"
    elif request.param == "hdfs":
        server: Hdfs = request.getfixturevalue("hdfs")
        with server.new_folder() as folder:
            yield f"{folder}/table/new"
    else:
        with stored(tmp_path) as bucket:
            yield f"{bucket}/table/new"


@pytest.fixture
def storage(root: str) -> Storage:
    return TableRef.of(root.rpartition("/")[0]).storage()


def test_a_path_keeps_its_scheme(tmp_path: Path) -> None:
    assert isinstance(storage_for(str(tmp_path)), LocalStorage)
    with pytest.raises(ConfigError, match="no storage for scheme 'objects' in 'objects://bucket/t'"):
        normalize("objects://bucket/t")
    with registered(SCHEME, Objects):
        assert normalize("objects://bucket/t/") == normalize("OBJECTS://bucket//t") == "objects://bucket/t"
        assert TableRef.of("objects://bucket/t").uri == "objects://bucket/t"
    with stored(tmp_path):
        assert isinstance(storage_for("objects://bucket/t"), Objects)


def test_a_missing_place_is_empty(root: str, storage: Storage) -> None:
    assert not storage.list(root)
    assert not storage.names(root)
    assert not storage.tree(root)
    assert not storage.exists(root)
    assert storage.info(root) is None
    assert storage.sweep_partial(root) == 0
    storage.delete(f"{root}/file")
    storage.delete_many([f"{root}/file", f"{root}/other"])
    storage.delete_tree(root)
    storage.sync(root)
    for read in (storage.read, storage.open_input, lambda path: storage.read_range(path, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read(f"{root}/file")


def test_listings(root: str, storage: Storage) -> None:
    storage.create(f"{root}/b", b"12345")
    storage.create(f"{root}/a/c", b"")
    storage.write(f"{root}/a/d/e", b"x")
    assert [(item.name, item.is_dir, item.size) for item in storage.list(root)] == [
        ("a", True, 0),
        ("b", False, 5),
    ]
    assert sorted(storage.names(root)) == ["a", "b"]
    assert {item.path: item.size for item in storage.tree(root)} == {
        f"{root}/{name}": size for name, size in (("a/c", 0), ("a/d/e", 1), ("b", 5))
    }
    assert storage.list(root)[1] == storage.info(f"{root}/b")
    assert all(map(storage.exists, (root, f"{root}/a", f"{root}/a/c", f"{root}/b")))
    assert not storage.list(f"{root}/b")


def test_reads(root: str, storage: Storage) -> None:
    path = f"{root}/file"
    storage.create(path, b"0123456789")
    assert storage.read(path) == b"0123456789"
    assert (storage.read_range(path, 3, 4), storage.read_range(path, 8, 9)) == (b"3456", b"89")
    with storage.open_input(path) as source:
        assert (source.seek(0, os.SEEK_END), source.seek(2), source.read(3)) == (10, 2, b"234")


def test_write_replaces(root: str, storage: Storage) -> None:
    for data in (b"old", b"newer", b""):
        storage.write(f"{root}/file", data)
        assert storage.read(f"{root}/file") == data


@pytest.mark.parametrize("data", [b"", b"content"])
def test_create_refuses_a_taken_name(root: str, storage: Storage, data: bytes) -> None:
    storage.create(f"{root}/file", data)
    for other in (b"", b"other"):
        for create in (storage.create, storage.create_mark):
            with pytest.raises(AlreadyExists, match="file exists already"):
                create(f"{root}/file", other)
    assert storage.read(f"{root}/file") == data
    assert list(storage.names(root)) == ["file"]


def test_deletes(root: str, storage: Storage) -> None:
    for name in ("a", "b", "c", "d/e", "d/f/g"):
        storage.create(f"{root}/{name}", b"x")
    storage.delete(f"{root}/a")
    storage.delete_many([f"{root}/b", f"{root}/missing", f"{root}/d/e"])
    assert {item.path for item in storage.tree(root)} == {f"{root}/c", f"{root}/d/f/g"}
    storage.delete_tree(f"{root}/d")
    assert [item.name for item in storage.list(root)] == ["c"]


def test_the_clock_is_that_of_modification_times(root: str, storage: Storage) -> None:
    storage.write(f"{root}/file", b"x")
    written = storage.info(f"{root}/file")
    assert written is not None
    assert abs(storage.now_ms() - written.mtime_ms) < 2500
    before = storage.now_ms()
    time.sleep(0.01)
    assert before < storage.now_ms()


def test_arrow_reads_and_writes(root: str, storage: Storage) -> None:
    rows = pa.table({"id": list(range(1000))})
    sink = storage.output(f"{root}/file.parquet")
    pq.write_table(rows, cast("BinaryIO", sink))
    sink.commit()
    with storage.open_input(f"{root}/file.parquet") as source:
        assert pq.read_table(pa.PythonFile(cast("io.IOBase", source), "r")).equals(rows)


@pytest.mark.parametrize("exclusive", [False, True])
def test_outputs(root: str, storage: Storage, exclusive: bool) -> None:
    output = storage.output(f"{root}/a/file", exclusive=exclusive)
    output.write(b"12")
    output.write(b"345")
    assert output.tell() == 5
    output.commit()
    output.abandon()
    assert output.closed
    assert storage.read(f"{root}/a/file") == b"12345"
    if exclusive:
        with pytest.raises(AlreadyExists, match="a/file exists already"):
            storage.output(f"{root}/a/file", exclusive=True).commit()
        assert storage.read(f"{root}/a/file") == b"12345"
    with storage.output(f"{root}/given up", exclusive=exclusive) as given_up:
        given_up.write(b"half")
        given_up.abandon()
    other = storage.output(f"{root}/a/file")
    other.write(b"6")
    other.commit()
    assert storage.read(f"{root}/a/file") == b"6"


def test_of_racing_threads_one_creates(root: str, storage: Storage) -> None:
    def create(path: str, writer: int) -> bytes | None:
        data = bytes([writer]) * 5000
        try:
            storage.create(path, data)
        except AlreadyExists:
            return None
        return data

    for number in range(10):
        path = f"{root}/file{number}"
        with ThreadPoolExecutor(4) as pool:
            won = [data for data in pool.map(create, [path] * 4, range(4)) if data]
        assert won == [storage.read(path)]
    assert len(storage.names(root)) == 10


@pytest.mark.parametrize("root", ["file", SCHEME, HDFS], indirect=True)
def test_of_racing_processes_one_creates(root: str) -> None:
    ref, names, writers = TableRef.of(root.rpartition("/")[0]), 40, range(4)
    assert all_forked(partial(race, ref, root, writer, names) for writer in writers) == [0] * len(writers)
    check_race(ref.storage(), root, names, writers)


@pytest.mark.full
@pytest.mark.parametrize("root", ["s3", MOTO, HDFS], indirect=True)
def test_of_racing_new_processes_one_creates(root: str) -> None:
    ref, names, writers = TableRef.of(root.rpartition("/")[0]), 40, range(4)
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=race, args=(ref, root, writer, names)) for writer in writers]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(writers)
    check_race(ref.storage(), root, names, writers)


def check_race(storage: Storage, root: str, names: int, writers: range) -> None:
    won = {number: writer for writer in writers for number in storage.read(f"{root}/won{writer}").split()}
    assert sorted(map(int, won)) == list(range(names))
    for number, writer in won.items():
        assert storage.read(f"{root}/file{int(number)}") == str(writer).encode() * 5000


@pytest.mark.parametrize("root", ["file", "memory", "s3", MOTO], indirect=True)
def test_a_file_is_replaced_on_a_condition(root: str, storage: Storage) -> None:
    path = f"{root}/file"
    assert storage.conditional
    first = storage.put_if(path, b"1", None)
    assert first is not None
    assert storage.put_if(path, b"other", None) is None
    assert storage.read_version(path) == (b"1", first)
    second = storage.put_if(path, b"2", first)
    assert second not in (None, first)
    assert storage.put_if(path, b"other", first) is None
    assert storage.read(path) == b"2"
    storage.delete(path)
    assert storage.put_if(path, b"other", second) is None
    assert not storage.exists(path)


@pytest.mark.parametrize("root", ["memory", "s3", MOTO, "webhdfs", HDFS], indirect=True)
def test_a_large_output(root: str, storage: Storage) -> None:
    """... is sent in parts; on an object store there is no file before its commit."""
    part, shown = os.urandom(1 << 20), "hdfs" in root
    for exclusive in (True, False):
        output = storage.output(f"{root}/large", exclusive=exclusive)
        for _ in range(20):
            output.write(part)
        assert output.tell() == 20 << 20
        assert shown or storage.exists(f"{root}/large") is not exclusive
        output.commit()
    with storage.output(f"{root}/other") as given_up:
        given_up.write(part * 20)
        given_up.abandon()
    assert shown or list(storage.names(root)) == ["large"]
    with storage.open_input(f"{root}/large") as source:
        assert (source.seek(5 << 20), source.read(9 << 20) == part * 9) == (5 << 20, True)
        assert (source.seek(-7, os.SEEK_END), source.read()) == ((20 << 20) - 7, part[-7:])
        assert (source.seek((1 << 20) - 3), source.read(6)) == ((1 << 20) - 3, part[-3:] + part[:3])


@pytest.mark.parametrize("root", ["file", "memory", "s3", MOTO, "webhdfs", HDFS], indirect=True)
def test_nothing_outside_the_table_is_touched(root: str, storage: Storage) -> None:
    table = root.rpartition("/")[0]
    for path in (
        f"{table}/../other",
        f"{table}/a/../../other",
        f"{table}x/y",
        f"{table}/./a",
        f"{table}/a\0b",
    ):
        for use in (
            storage.read,
            storage.open_input,
            storage.delete,
            storage.list,
            storage.info,
            lambda path: storage.write(path, b"x"),
            lambda path: storage.create(path, b"x"),
            lambda path: storage.output(path).commit(),
            lambda path: storage.delete_many([path]),
            lambda path: storage.delete_tree(path),
            *(
                (
                    storage.read_version,
                    lambda path: storage.put_if(path, b"x", None),
                    lambda path: storage.put_if(path, b"x", "version"),
                )
                if storage.conditional
                else ()
            ),
        ):
            with pytest.raises(TableError, match="lies outside the table"):
                use(path)
    for path in (table, f"{table}/.hoodie"):
        with pytest.raises(TableError, match="is not deleted as a folder"):
            storage.delete_tree(path)


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        *(pytest.param(*root.values, "MERGE_ON_READ", marks=root.marks) for root in ROOTS),
        ("file", "COPY_ON_WRITE"),
        *(pytest.param(*root.values, "COPY_ON_WRITE", marks=pytest.mark.full) for root in ROOTS[1:]),
    ],
    indirect=["root"],
)
def test_a_table(root: str, kind: str) -> None:
    """All of the library goes through the storage: nothing of a table opens a path by itself."""
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.bloom.num_entries": "100",
    }

    eager = {
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.clustering.plan.strategy.sort.columns": "ts",
    }

    def upsert(count: int, version: int) -> hoodie.WriteResult:
        columns = {
            "id": [str(number) for number in range(count)],
            "region": [("eu", "us")[number % 2] for number in range(count)],
            "ts": [version] * count,
        }
        return hoodie.write_table(pa.table(columns), root, operation="upsert", options=options)

    assert upsert(20, 1).num_inserts == 20
    assert upsert(10, 2).num_updates == 10
    assert hoodie.read_table(root, where="ts = 2").num_rows == 10
    if kind == "MERGE_ON_READ":
        assert hoodie.compact_table(root, options=eager).status == "compacted"
    assert hoodie.cluster_table(root, options=eager).status == "clustered"
    assert sorted(hoodie.read_table(root)["ts"].to_pylist()) == [1] * 10 + [2] * 10
    last = hoodie.instants(root)[-1]["instant"]
    assert upsert(5, 3).num_updates == 5
    rolled_back = hoodie.rollback_table(root, hoodie.instants(root)[-1]["instant"])
    assert rolled_back.status == "rolled_back"
    assert sorted(hoodie.read_table(root)["ts"].to_pylist()) == [1] * 10 + [2] * 10
    assert hoodie.savepoint_table(root, last).status == "created"
    assert not hoodie.run_services(root).failed
    assert upsert(20, 4).num_updates == 20
    assert not storage_for(root).tree(f"{root}/.hoodie/.temp")
