"""Sources on an object store: the same rows as from local files, and exactly once by their e-tags."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.backend.local import LocalBackend
from hoodie.cli import main
from hoodie.errors import InputError, StorageError
from hoodie.jobs._main import parse_request, run
from hoodie.progress import silent
from hoodie.source import Format, Source
from hoodie.source.arrow import parquet_dataset, read
from hoodie.source.fingerprint import fingerprint
from hoodie.storage import storage_for
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import TokenCommit
from tests.support.s3_store import KEY, SECRET, Store, environment, served

IN = "s3://lake/in"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
QUICK = {"hoodie.storage.request.timeout.ms": "300", "hoodie.storage.retry.timeout.ms": "200"}


@pytest.fixture
def store() -> Iterator[Store]:
    with served() as store:
        yield store


@pytest.fixture
def landed(store: Store, tmp_path: Path) -> Path:
    """A folder of files, which the store has, too, below s3://lake/in."""
    days = tmp_path / "days"
    for number, name in enumerate(("day=1/a.parquet", "day=2/b.parquet", "day=2/_hidden.parquet")):
        (days / name).parent.mkdir(parents=True, exist_ok=True)
        rows = {"id": [f"{number}{row}" for row in range(3)], "ts": [number] * 3}
        pq.write_table(pa.table(rows), days / name)
    (days / "_SUCCESS").write_text("")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.csv").write_text("id,ts\nx,1\n")
    (tmp_path / "text" / "b.csv.gz").write_bytes(gzip.compress(b"id,ts\ny,2.5\n"))
    (tmp_path / "text" / "c.json").write_text('{"id": "z", "n": {"a": [1]}}\n')
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            storage_for(IN).write(f"{IN}/{path.relative_to(tmp_path)}", path.read_bytes())
    return tmp_path


def rows(source: Any, settings: dict[str, str] | None = None) -> pa.Table:
    found = read(Source.of(source, settings))
    assert not isinstance(found, pa.RecordBatchReader)
    return found if isinstance(found, pa.Table) else found.to_table()


@pytest.mark.parametrize(
    "path",
    [
        "days", "days/day=2", "days/day=*/*.parquet", "days/*", "days/day=1/a.parquet", "days/**",
        "text/*.csv*", "text/b.csv.gz", "text/c.json",
    ],
)  # fmt: skip
def test_rows_are_those_of_local_files(landed: Path, path: str) -> None:
    assert rows(f"{IN}/{path}") == rows(f"{landed}/{path}")
    assert Source.of(f"{IN}/{path}").format is Source.of(f"{landed}/{path}").format


def test_several_paths_of_several_storages(landed: Path) -> None:
    found = rows([f"{IN}/days/day=1", f"{landed}/days/day=2", "s3a://lake/in/days/day=1/a.parquet"])
    assert sorted(map(str, found["id"].to_pylist())) == ["00", "01", "02", "10", "11", "12"]


def test_files_that_executors_read_without_spark(landed: Path) -> None:
    found = parquet_dataset(Source.of(f"{IN}/days/day=1"))
    assert found is not None
    assert found.to_table() == parquet_dataset(Source.of(f"{landed}/days/day=1")).to_table()  # type: ignore[union-attr]
    assert parquet_dataset(Source.of(f"{IN}/days")) is None  # a column of the folders' names


def test_what_a_source_costs(store: Store, landed: Path) -> None:
    """One LIST for all files, and not more for each than its footer, twice, and its rows."""
    asked: dict[str, Counter[str]] = {}
    for path in ("days", "text/*.csv*"):
        store.requests.clear()
        rows({"path": f"{IN}/{path}", "format": "parquet" if path == "days" else "csv"})
        asked[path] = Counter(request.kind for request in store.requests)
    # beside: is it a table, is the path a file; the folder, or the path and the folder of the glob
    assert asked["days"]["LIST"] == 3
    assert asked["text/*.csv*"]["LIST"] == 3
    assert asked["days"]["GET"] <= 2 * 4
    assert asked["text/*.csv*"]["GET"] <= 2 * 2


def only_of_the_call(store: Store) -> dict[str, str]:
    """Settings with the credentials, which the environment lacks then; the fixture puts them back."""
    for name in environment(""):
        os.environ.pop(name)
    return {
        "hoodie.storage.s3.endpoint": store.endpoint,
        "hoodie.storage.s3.access.key": KEY,
        "hoodie.storage.s3.secret.key": SECRET,
    }


def test_credentials_are_those_of_the_call(landed: Path, store: Store) -> None:
    given = only_of_the_call(store)
    source = Source.of(f"{IN}/days", given)
    assert SECRET not in repr(source)
    assert rows(f"{IN}/days", given).num_rows == 6
    assert fingerprint("upsert", {"path": f"{IN}/days"}, given).count("-") == 1


def test_a_source_that_is_not_there(store: Store) -> None:
    with pytest.raises(InputError, match=r"no such source: s3://lake/none/\*.parquet; check the path"):
        rows("s3://lake/none/*.parquet")
    with pytest.raises(StorageError, match="there is no bucket s3://other"):
        rows("s3://other/in.csv", QUICK)
    storage_for(IN).write(f"{IN}/bad.parquet", b"no parquet")
    with pytest.raises(InputError, match=r"lake/in/bad\.parquet as parquet"):
        rows(f"{IN}/bad.parquet")


def test_a_table_is_refused_as_files(store: Store) -> None:
    hoodie.write_table(pa.table({"id": ["a"], "ts": [1]}), "s3://lake/t", options=OPTIONS)
    with pytest.raises(InputError, match="s3://lake/t is a Hudi table"):
        rows("s3://lake/t")
    assert rows({"path": "s3a://lake/t", "format": "table"}).to_pylist() == [{"id": "a", "ts": 1}]


def test_the_command_line(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [part for name, text in OPTIONS.items() for part in ("--option", f"{name}={text}")]
    given = [
        "upsert",
        "--engine",
        "local",
        "--table",
        "s3://lake/t",
        "--source",
        f"{IN}/days/day=*/?.parquet",
    ]
    assert main([*given, *options]) == 0
    assert "6 inserted" in capsys.readouterr().out
    assert main(["read", "--table", "s3a://lake/t", "--limit", "4", "--output", "s3://lake/out.parquet"]) == 0
    assert "4 rows of 6 written to s3://lake/out.parquet" in capsys.readouterr().out
    assert rows("s3://lake/out.parquet").num_rows == 4


def test_the_output_has_the_credentials_of_the_call(store: Store) -> None:
    hoodie.write_table(pa.table({"id": ["a"], "ts": [1]}), "s3://lake/t", options=OPTIONS)
    given = only_of_the_call(store)
    options = [part for name, text in given.items() for part in ("--option", f"{name}={text}")]
    out = "s3://lake/out.parquet"
    assert main(["read", "--table", "s3://lake/t", "--output", out, *options]) == 0
    assert rows(out, given).num_rows == 1


def test_a_write_of_the_same_objects_is_done_once(store: Store, landed: Path) -> None:
    """Known by size and e-tag: one that was put again is the same, another one of the same size is not."""
    source = {"path": f"{IN}/text/a.csv", "format": "csv"}
    request = {"table": "s3://lake/t", "source": source, "options": OPTIONS, "token": "dag/task/-1/day"}

    def write() -> dict[str, Any]:
        return run(LocalBackend(), parse_request(request, "upsert"), silent)

    storage, path = storage_for(IN), f"{IN}/text/a.csv"
    assert write()["status"] == "committed"
    assert write()["status"] == "already_committed"
    storage.write(path, storage.read(path))
    assert write()["status"] == "already_committed"
    storage.write(path, b"id,ts\nx,2\n")
    again = write()
    assert again["status"] == "committed"
    assert "its source changed" in again["warnings"][0]
    assert hoodie.read_table("s3://lake/t")["ts"].to_pylist() == [2]


def test_files_that_one_run_does_not_see_are_no_change(store: Store, landed: Path) -> None:
    """A job with credentials of Spark's own, or an operator without any."""
    source = {"path": [f"{IN}/days", str(landed / "days")]}
    seen = fingerprint("upsert", source)
    storage_for(IN).write(f"{IN}/days/more.parquet", b"x")
    changed = fingerprint("upsert", source)
    store.refusal = (403, "AccessDenied", "")
    unseen = fingerprint("upsert", source)
    (landed / "days" / "_SUCCESS").write_text("more")
    other = fingerprint("upsert", source)

    def same(then: str, now: str) -> bool:
        return TokenCommit("t", InstantTime("20260101000000000"), "commit", then, "upsert", {}).is_of(now)

    assert same(seen, seen)
    assert same(seen, unseen)
    assert same(unseen, seen)
    assert same(unseen, unseen)
    assert not same(seen, changed)
    assert not same(unseen, other)
    assert not same(seen, other)


def test_the_first_object_tells_the_format(landed: Path, store: Store) -> None:
    assert Source.of(f"{IN}/text").format is Format.CSV
    store.refusal = (403, "AccessDenied", "")
    assert Source.of(f"{IN}/text").format is Format.PARQUET
