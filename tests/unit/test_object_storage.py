"""Object stores: lost answers, failures, refusals, the store's clock, and how many requests there are."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiReadOptions, HudiTableBuilder

import hoodie
from hoodie.cli import doctor, main
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, CommitConflict, ConfigError, HoodieError, StorageError
from hoodie.format.base_file import footer_of
from hoodie.format.bloom import BLOOM_FILTER_KEY, BloomFilter
from hoodie.storage import Storage, normalize, source_storage_for, storage_for
from hoodie.table import properties
from hoodie.table.doctor import check_table
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import Heartbeat
from hoodie.table.listing import StorageListing
from hoodie.timeline.active import Timeline
from tests.support.processes import forked
from tests.support.s3_store import (
    FAILS,
    KEY,
    LOST,
    RESET,
    SECRET,
    TORN,
    Object,
    Request,
    Store,
    environment,
    served,
)

TABLE = "s3://lake/table"
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
def storage(store: Store) -> Storage:
    return storage_for(TABLE)


def rows(count: int, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [str(number) for number in range(count)],
            "region": [("eu", "us")[number % 2] for number in range(count)],
            "ts": [version] * count,
        }
    )


def upsert(count: int, version: int, **options: str) -> hoodie.WriteResult:
    return hoodie.write_table(rows(count, version), TABLE, operation="upsert", options={**OPTIONS, **options})


def once(outcome: str, method: str) -> Callable[[Request], str | None]:
    """The outcome of the first request of a kind."""
    left = [outcome]
    return lambda request: left.pop() if left and request.kind == method else None


def test_a_path_names_its_bucket() -> None:
    assert normalize("S3A://lake//a/") == "s3://lake/a"
    assert normalize("gcs://lake/a") == "gs://lake/a"
    assert normalize("abfs://c@a.dfs.core.windows.net/x") == "abfss://c@a.dfs.core.windows.net/x"
    assert normalize("az://c/x") == "az://c/x"
    for path in ("s3://lake/a", "gs://lake/a", "az://c/x", "abfss://c@a.dfs.core.windows.net/x"):
        assert storage_for(path).conditional
    for path in ("s3://", f"s3://{KEY}:{SECRET}@lake/a", "abfss://container/x"):
        with pytest.raises(ConfigError, match="names no bucket") as raised:
            storage_for(path)
        assert SECRET not in raised.value.message


def test_a_storage_costs_nothing_before_it_is_used(store: Store) -> None:
    storage_for(TABLE)
    assert not store.requests


@pytest.mark.parametrize("data", [b"content", b""])
@pytest.mark.parametrize("outcome", [FAILS, RESET, LOST])
def test_an_answer_that_is_lost_makes_no_second_file(
    store: Store, storage: Storage, data: bytes, outcome: str
) -> None:
    """... and whoever made the file hears so, also where nothing but the token tells it from another's."""
    store.plan = once(outcome, "PUT")
    storage.create(f"{TABLE}/file", data)
    for other in (data, b"other"):
        store.plan = once(outcome, "PUT")
        with pytest.raises(AlreadyExists):
            storage_for(TABLE).create(f"{TABLE}/file", other)
    store.plan = once(outcome, "PUT")
    version = storage.put_if(f"{TABLE}/lease", b"1", None)
    store.plan = once(outcome, "PUT")
    version = storage.put_if(f"{TABLE}/lease", b"2", version)
    assert version is not None
    store.plan = once(outcome, "PUT")
    assert storage.put_if(f"{TABLE}/lease", b"3", '"another"') is None
    assert (storage.read(f"{TABLE}/file"), storage.read(f"{TABLE}/lease")) == (data, b"2")


@pytest.mark.parametrize("outcome", [FAILS, RESET, LOST, TORN])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("PUT", marks=pytest.mark.full),
        pytest.param("GET", marks=pytest.mark.full),
        pytest.param("HEAD", marks=pytest.mark.full),
        pytest.param("LIST", marks=pytest.mark.full),
        pytest.param("POST delete", marks=pytest.mark.full),
        pytest.param("POST uploads", marks=pytest.mark.full),
        pytest.param("PUT uploadId", marks=pytest.mark.full),
        "POST uploadId",
    ],
)
def test_each_request_may_fail_once(store: Store, storage: Storage, kind: str, outcome: str) -> None:
    store.plan = once(outcome, kind)
    for exclusive in (True, False):
        output = storage.output(f"{TABLE}/large", exclusive=exclusive)
        output.write(b"x" * (17 << 20))
        output.commit()
    storage.write(f"{TABLE}/small", b"12345")
    assert storage.read(f"{TABLE}/small") == b"12345"
    assert storage.exists(f"{TABLE}/small")
    with storage.open_input(f"{TABLE}/large") as source:
        assert source.read(3) == b"xxx"
    assert [item.size for item in storage.list(TABLE)] == [17 << 20, 5]
    storage.delete_many([f"{TABLE}/small"])
    assert list(storage.names(TABLE)) == ["large"]


def test_what_is_refused_is_not_asked_again(store: Store, storage: Storage) -> None:
    storage.list(TABLE)
    for status, code in ((403, "AccessDenied"), (404, "NoSuchKey")):
        store.refusal = (status, code, "")
        store.requests.clear()
        with pytest.raises((StorageError, FileNotFoundError)):
            storage.read(f"{TABLE}/file")
        assert len(store.requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "more", "said"),
    [
        (403, "InvalidAccessKeyId", f"<AWSAccessKeyId>{KEY}</AWSAccessKeyId>", "the credentials are wrong"),
        (403, "SignatureDoesNotMatch", f"<StringToSign>{SECRET}</StringToSign>", "the credentials are wrong"),
        (403, "AccessDenied", "", "access is denied"),
        (403, "RequestTimeTooSkewed", "", "this machine's clock is off"),
        (400, "ExpiredToken", "<Token>sessionsession</Token>", "the credentials have expired"),
        (404, "NoSuchBucket", "", "there is no bucket s3://lake"),
        (404, "", "", "there is no bucket s3://lake"),
        (301, "PermanentRedirect", "", "the bucket is of another region; set hoodie.storage.s3.region"),
        (400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>", "of another region, eu-west-1"),
        (501, "NotImplemented", "", "has no conditional writes"),
        (503, "SlowDown", "", "the store is busy or failing"),
    ],
)
@pytest.mark.parametrize("session", ["sessionsession", None])
def test_refusals_name_the_path_the_cause_and_the_step(
    store: Store, status: int, code: str, more: str, said: str, session: str | None
) -> None:
    store.refusal = (status, code, more)
    options = {
        **QUICK,
        "hoodie.storage.s3.access.key": KEY,
        "hoodie.storage.s3.secret.key": SECRET,
        **({"hoodie.storage.s3.session.token": session} if session else {}),
    }
    for use in (
        lambda: hoodie.write_table(rows(3, 1), TABLE, options={**OPTIONS, **options}),
        lambda: hoodie.read_table(TABLE, options=options),
    ):
        with pytest.raises(StorageError, match=said) as raised:
            use()
        assert TABLE in raised.value.message
        for text in (KEY, SECRET, "sessionsession"):
            shown = f"{raised.value!r}{raised.value.to_dict()}{raised.value.__cause__}"
            assert text not in shown
    assert not store.objects


def test_no_credentials(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """None in the environment, and no machine's role to be had."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(
        StorageError, match=r"s3://lake/table.* no credentials were found; set AWS_ACCESS_KEY_ID"
    ):
        hoodie.read_table(TABLE, options=QUICK)
    with pytest.raises(ConfigError, match="belong together"):
        hoodie.read_table(TABLE, options={"hoodie.storage.s3.access.key": KEY})


def test_an_endpoint_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and says nothing, or there is none."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for name, text in environment(endpoint).items():
            monkeypatch.setenv(name, text)
        with pytest.raises(StorageError, match=r"endpoint does not answer; check hoodie\.storage") as raised:
            hoodie.read_table(TABLE, options=QUICK)
        assert raised.value.values["transient"]
    with pytest.raises(StorageError, match="endpoint does not answer"):
        hoodie.read_table(TABLE, options=QUICK)


@pytest.mark.parametrize("endpoint", ["minio:9000", "localhost", "http://", "s3://lake", "http:///minio"])
def test_an_endpoint_that_is_no_url(store: Store, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    for options in ({"hoodie.storage.s3.endpoint": endpoint}, {}):
        if not options:
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(ConfigError, match="which is no URL: give it with http://"):
            hoodie.read_table(TABLE, options=options)
    secret = {"hoodie.storage.s3.endpoint": f"minio://{KEY}:{SECRET}@host:9000"}
    with pytest.raises(ConfigError, match="which is no URL") as raised:
        hoodie.read_table(TABLE, options=secret)
    assert SECRET not in raised.value.message


@pytest.mark.parametrize(
    ("path", "options", "said"),
    [
        ("az://lake/t", {}, "Account must be specified"),
        (
            "az://lake/t",
            {"hoodie.storage.azure.account.key": "no secret!"},
            "check the settings hoodie.storage",
        ),
        ("gs://lake/t", {"hoodie.storage.gcs.service.account.file": "/none.json"}, "/none.json"),
    ],
)
def test_other_stores_without_credentials(
    monkeypatch: pytest.MonkeyPatch, path: str, options: dict[str, str], said: str
) -> None:
    for name in list(os.environ):
        if name.startswith(("AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match=said) as raised:
        hoodie.read_table(path, options=options)
    assert path.rpartition("/")[0] in raised.value.message
    assert "no secret!" not in raised.value.message


@pytest.mark.full
@pytest.mark.parametrize("write", [True, False])
def test_no_credentials_are_an_error_within_15_seconds(monkeypatch: pytest.MonkeyPatch, write: bool) -> None:
    """... also where the address that would give those of the machine's role is silent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", silent)
        monkeypatch.setenv("AWS_ENDPOINT_URL", silent)
        use: Callable[[], object] = partial(upsert, 3, 1) if write else partial(hoodie.read_table, TABLE)
        began = time.monotonic()
        with pytest.raises(StorageError, match="no credentials were found"):
            use()
        assert time.monotonic() - began < 15


@pytest.mark.full
@pytest.mark.parametrize("silent", [True, False])
def test_an_endpoint_that_does_not_answer_is_an_error_within_15_seconds(
    monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """... with the settings as they are by default."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name, text in environment(f"http://127.0.0.1:{server.getsockname()[1]}").items():
            monkeypatch.setenv(name, text)
        if not silent:
            server.close()
        began = time.monotonic()
        with pytest.raises(StorageError, match="endpoint does not answer"):
            hoodie.read_table(TABLE)
        assert time.monotonic() - began < 15


def test_a_store_without_conditional_writes(store: Store) -> None:
    """It takes the condition and does not heed it: the first object that a process creates shows it."""
    upsert(3, 1)
    store.heeds = False
    before = dict(store.objects)
    again = {"hoodie.storage.request.timeout.ms": "50000"}  # another client than the one that has the proof
    with pytest.raises(StorageError, match="its store has no conditional writes"):
        upsert(3, 2, **again)
    assert {name for name in store.objects if not name.startswith("lake/table/.hoodie/.")} == {
        name for name in before if not name.startswith("lake/table/.hoodie/.")
    }
    found = [finding for finding in check_table(TABLE) if finding.check == "storage"]
    assert [finding.status for finding in found] == ["error"]
    store.heeds = True
    found = [finding for finding in check_table(TABLE) if finding.check == "storage"]
    assert [finding.status for finding in found] == ["ok"]
    assert upsert(3, 3).num_updates == 3


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for path in (TABLE, "gs://lake/t", "az://lake/t"):
        with pytest.raises(ConfigError, match="pip install obstore where the driver"):
            hoodie.read_table(path)


def test_a_fork_of_a_process_that_used_a_store(store: Store, storage: Storage) -> None:
    storage.write(f"{TABLE}/file", b"x")

    def child() -> int:
        with contextlib.suppress(StorageError):
            storage_for(TABLE).read(f"{TABLE}/file")
            return 0
        return 7

    assert forked(child) == 7


def test_the_clock_is_the_stores(store: Store, storage: Storage) -> None:
    for ahead in (0, 7200, -7200):
        store.ahead_s = ahead
        storage.write(f"{TABLE}/beat", str(ahead).encode())
        beat = storage.list(TABLE)[0]
        assert abs(storage.now_ms() - beat.mtime_ms) < 5000


def test_listings_in_pages_and_deletes_in_batches(store: Store, storage: Storage) -> None:
    paths = [f"{TABLE}/p/{number:05}" for number in range(2500)]
    for path in paths:
        store.objects[path.removeprefix("s3://")] = _object()
    assert len(storage.list(f"{TABLE}/p")) == len(storage.tree(TABLE)) == 2500
    assert Counter(request.kind for request in store.requests) == {"LIST": 6}
    store.requests.clear()
    storage.delete_many(paths[:2200])
    assert Counter(request.kind for request in store.requests) == {"POST delete": 3}
    storage.delete_tree(f"{TABLE}/p")
    assert not store.objects


def test_a_file_of_more_than_16_mib_is_sent_in_parts(store: Store, storage: Storage) -> None:
    storage.create(f"{TABLE}/first", b"x")  # the store's conditions are tried once
    for size, requests in ((16 << 20, {"PUT": 1}), (17 << 20, _PARTS)):
        store.requests.clear()
        output = storage.output(f"{TABLE}/file")
        output.write(b"x" * size)
        output.commit()
        assert Counter(request.kind for request in store.requests) == requests


@pytest.mark.parametrize(
    ("partitions", "files", "lists"),
    [
        (300, 3, 1 + 2),
        # 4 pages of 1,000 names instead of 91 requests
        (90, 40, 1 + 4),
        # 8,000 files: after two pages each folder by itself
        (20, 400, 1 + 2 + 20),
        (7, 3, 1 + 7),
    ],
)
def test_listing_many_partitions(store: Store, partitions: int, files: int, lists: int) -> None:
    """One listing of the whole table instead of one for each, where that takes fewer requests."""
    mark = ".hoodie_partition_metadata"
    for number in range(partitions):
        for name in (mark, *(f"{file:04}.parquet" for file in range(files))):
            store.objects[f"lake/table/year=2026/p{number:03}/{name}"] = _object()
    for number in range(2500):
        store.objects[f"lake/table/.hoodie/{number:04}.commit"] = _object()
    listing = StorageListing(storage_for(TABLE), TABLE)
    names = listing.partitions()
    found = listing.many(names)
    assert len(store.requests) == lists + 1, store
    assert names == [f"year=2026/p{number:03}" for number in range(partitions)]
    alone = StorageListing(storage_for(TABLE), TABLE)
    some = names[:: partitions // 5]
    assert {name: found[name] for name in some} == {name: alone.files(name) for name in some}
    store.requests.clear()
    again = StorageListing(storage_for(TABLE), TABLE).many(names)
    assert again == found
    assert len(store.requests) == lists - 1, store
    del store.objects[f"lake/table/year=2026/p000/{mark}"]
    assert StorageListing(storage_for(TABLE), TABLE).partitions() == names[1:]


_PARTS = {"POST uploads": 1, "PUT uploadId": 3, "POST uploadId": 1}


def test_marks_of_folders_are_no_files(store: Store, storage: Storage) -> None:
    """Which Hadoop's clients leave."""
    for name in ("lake/table/", "lake/table/p/", "lake/table/p/q/"):
        store.objects[name] = _object(b"")
    store.objects["lake/table/p/file"] = _object()
    assert [(item.name, item.is_dir) for item in storage.list(TABLE)] == [("p", True)]
    assert [(item.name, item.is_dir) for item in storage.list(f"{TABLE}/p")] == [("file", False), ("q", True)]
    assert storage.exists(f"{TABLE}/p/q")


@pytest.mark.table_version(6)
def test_a_table_s_requests(store: Store) -> None:
    """An upsert of three rows into two partitions, and a query, beside what they write and read."""
    for version in range(4):
        upsert(20, version)
    store.requests.clear()
    assert upsert(3, 9).num_updates == 3
    asked = Counter(request.kind for request in store.requests)
    assert asked.total() <= UPSERT, f"{asked}\n{store}"
    store.requests.clear()
    assert hoodie.read_table(TABLE).num_rows == 20
    asked = Counter(request.kind for request in store.requests)
    assert asked.total() <= QUERY, f"{asked}\n{store}"


UPSERT, QUERY = 25, 12


def test_a_footer_with_the_largest_filter_of_apache_hudis_defaults_takes_one_request(
    store: Store, storage: Storage
) -> None:
    """More keys than a filter is for make a second one, and then no third."""
    text = BloomFilter.create(60_000, 1e-9, max_entries=100_000).to_string() * 2
    sink = io.BytesIO()
    values = np.random.default_rng(1).integers(0, 1 << 62, 200_000)
    with pq.ParquetWriter(sink, pa.schema([("id", pa.int64())]), store_schema=False) as writer:
        writer.write_table(pa.table({"id": values}))
        writer.add_key_value_metadata({BLOOM_FILTER_KEY: text})
    assert len(sink.getvalue()) > 2 << 20
    storage.write(f"{TABLE}/p/file.parquet", sink.getvalue())
    store.requests.clear()
    assert footer_of(storage, f"{TABLE}/p/file.parquet")[BLOOM_FILTER_KEY] == text
    assert [request.kind for request in store.requests] == ["GET"]


def test_a_file_of_a_table_is_opened_twice_by_one_request(store: Store, storage: Storage) -> None:
    """Where the storage holds what it has read; a file of a source may be another one the next time."""
    path = f"{TABLE}/p/file.parquet"

    def opened(from_: Storage, times: int) -> tuple[list[bytes], int]:
        store.requests.clear()
        found = []
        for _ in range(times):
            with from_.open_input(path) as file:
                found.append(file.read())
        return found, len(store.requests)

    storage.write(path, b"stored")
    with storage.holding():
        with storage.holding():
            assert opened(storage, 1) == ([b"stored"], 1)
        assert opened(storage, 1) == ([b"stored"], 0)
        assert opened(storage, 2) == ([b"stored", b"stored"], 1), "held once more, for one opening"
        source = source_storage_for(path)
        assert opened(source, 2) == ([b"stored", b"stored"], 2)
        assert opened(storage, 1)[1] == 1
    storage.write(path, b"other")
    assert opened(storage, 2) == ([b"other", b"other"], 2)


def test_properties_that_a_listing_shows_as_unchanged_are_not_read_again(store: Store) -> None:
    upsert(3, 1)
    table = Table.open(TABLE)
    table.for_writing()
    table.refresh()
    store.requests.clear()
    table.refresh()
    assert not [request for request in store.requests if request.kind == "GET"]
    properties.update(table.storage, TABLE, {"hoodie.table.create.schema": '"string"'})
    store.requests.clear()
    table.refresh()
    read = [request for request in store.requests if request.kind == "GET"]
    assert len(read) == 1
    assert table.properties["hoodie.table.create.schema"] == '"string"'


def test_a_heartbeat_that_another_writer_removed_is_not_made_anew(store: Store) -> None:
    """... also where that happens between its two requests."""
    upsert(3, 1)
    table = Table.open(TABLE)
    beat = Heartbeat(table, "20990101000000000", interval_ms=20, misses=1)
    beat.start()
    path = "lake/table/.hoodie/.heartbeat/20990101000000000"
    gone = threading.Event()

    def remove(request: Request) -> None:
        if request.method == "PUT" and "/.heartbeat/" in request.key:
            del store.objects[path]
            store.plan = lambda _: None
            gone.set()

    store.plan = remove
    assert gone.wait(10)
    beat._thread.join(10)
    assert not beat._thread.is_alive()
    assert path not in store.objects
    beat.stop()


def test_properties_that_another_writer_changes_meanwhile(store: Store, storage: Storage) -> None:
    upsert(3, 1)
    name = "lake/table/.hoodie/hoodie.properties"

    def change(request: Request) -> None:
        if request.kind == "PUT" and request.key.endswith("/hoodie.properties"):
            store.objects[name] = Object(store.objects[name].data + b"# another\n", {}, 0.0)

    store.plan = change
    with pytest.raises(
        CommitConflict, match=r"hoodie\.properties was changed while s3://lake/table was being"
    ):
        properties.update(storage, TABLE, {"hoodie.table.comment": "new"})
    store.plan = lambda _: None
    assert store.objects[name].data.endswith(b"# another\n")
    assert (
        properties.update(storage, TABLE, {"hoodie.table.comment": "new"}).get("hoodie.table.comment")
        == "new"
    )


def test_what_watches_a_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "check_machine", lambda binary: [])  # in test_docs.py it runs
    upsert(3, 1)
    assert {finding.status for finding in check_table(TABLE)} == {"ok"}
    timeline = Timeline.load(TABLE)
    upsert(3, 2)
    assert len(Timeline.load(TABLE, storage_for(TABLE), timeline).commits()) == 2
    assert main(["timeline", "--table", TABLE]) == 0
    assert main(["doctor", "--table", TABLE]) == 0


def test_hudi_rs_reads_the_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    upsert(20, 1)
    upsert(5, 2)
    batches = HudiTableBuilder.from_base_uri(TABLE).build().read(HudiReadOptions())
    found = pa.Table.from_batches(map(pa.record_batch, batches)).sort_by("ts")
    assert found["ts"].to_pylist() == [1] * 15 + [2] * 5


def test_credentials_travel_unseen(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    """In the options of a call: to executors, and to no object, message or text of the table's reference."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        os.environ.pop(name)
    given = {
        "hoodie.storage.s3.endpoint": store.endpoint,
        "hoodie.storage.s3.access.key": KEY,
        "hoodie.storage.s3.secret.key": SECRET,
        "hoodie.storage.s3.session.token": "sessionsession",
        "hoodie.storage.s3.region": "eu-west-1",
    }
    result = upsert(5, 1, **given)
    ref = pickle.loads(pickle.dumps(TableRef.of(TABLE, Config.of(given))))
    assert ref.storage().exists(f"{TABLE}/.hoodie/hoodie.properties")
    assert hoodie.read_table(TABLE, options=given).num_rows == 5
    shown = [repr(ref), repr(ref.storage()), str(result), *capfd.readouterr()]
    shown += [item.data.decode("latin-1") + str(item.tags) for item in store.objects.values()]
    for secret in (KEY, SECRET, "sessionsession"):
        assert not [text for text in shown if secret in text]


def _object(data: bytes = b"x") -> Object:
    return Object(data, {}, 0.0)


def test_errors_survive_pickling(store: Store, storage: Storage) -> None:
    store.refusal = (403, "AccessDenied", "")
    with pytest.raises(HoodieError) as raised:
        storage.read(f"{TABLE}/x")
    assert pickle.loads(pickle.dumps(raised.value)).message == raised.value.message
