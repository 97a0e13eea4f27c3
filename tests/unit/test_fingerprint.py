"""The fingerprint of a source: by it a task that runs again sees whether its source has changed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

import hoodie
from hoodie.source.fingerprint import fingerprint, partition_source, token_metadata
from hoodie.storage import Storage, source_storage_for, storage_for
from hoodie.storage.local import LocalStorage
from tests.support.objects import stored
from tests.unit.write.support import PLAIN, plain

GLOBS = (
    "*.csv", "*", "?.csv", "[ab].csv", "[!a].csv", "[a", "**/*.csv", "**/day=1/*", "day=*/**/c.csv", "**",
    ".*", "day=1", "day=1/*.csv", "none/*", "day=1/a.csv/*", "[^a].csv", "[]].csv", "a.csv*", "d.y=1/*",
)  # fmt: skip


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("id\n1\n")
    seen = {fingerprint("upsert", {"path": str(folder)})}
    assert fingerprint("upsert", {"path": str(folder)}) in seen
    seen.add(fingerprint("insert", {"path": str(folder)}))
    seen.add(fingerprint("upsert", {"path": str(folder), "format": "csv"}))
    seen.add(fingerprint("upsert", {"path": str(folder / "*.csv")}))
    (folder / "2.csv").write_text("id\n2\n")
    seen.add(fingerprint("upsert", {"path": str(folder)}))
    os.utime(folder / "1.csv", ns=(1, 1))
    seen.add(fingerprint("upsert", {"path": str(folder)}))
    assert len(seen) == 6


def test_the_fingerprint_of_a_table_is_its_newest_commit(tmp_path: Path) -> None:
    path = {"path": str(tmp_path / "t"), "format": "table"}
    missing = fingerprint("upsert", path)
    hoodie.write_table(plain(("a", 1, "x")), str(tmp_path / "t"), options=PLAIN)
    before = fingerprint("upsert", path)
    hoodie.write_table(plain(("a", 2, "x")), str(tmp_path / "t"), options=PLAIN)
    assert len({missing, before, fingerprint("upsert", path)}) == 3


def test_of_local_files_it_is_that_of_every_release(tmp_path: Path) -> None:
    """A task that runs again after an upgrade finds its commit."""
    (tmp_path / "in" / ".hidden").mkdir(parents=True)
    for name in ("b.csv", "a.csv", ".hidden/c.csv", "_SUCCESS"):
        (tmp_path / "in" / name).write_text(name)
    (tmp_path / "elsewhere.csv").write_text("linked")
    (tmp_path / "in" / "link.csv").symlink_to(tmp_path / "elsewhere.csv")
    (tmp_path / "in" / "linked").symlink_to(tmp_path)

    def of(operation: str, source: object, *names: str) -> str:
        seen = [str(tmp_path / "in" / name) for name in names]
        state = [[file, os.stat(file).st_size, os.stat(file).st_mtime_ns] for file in seen]
        text = json.dumps([operation, source, state], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    folder = {"path": str(tmp_path / "in"), "format": "csv", "options": {"sep": ";"}}
    below = (".hidden/c.csv", "_SUCCESS", "a.csv", "b.csv", "link.csv")
    assert fingerprint("upsert", folder) == of("upsert", folder, *below)
    some = {"path": str(tmp_path / "in" / "[ab].csv")}
    assert fingerprint("insert", some) == of("insert", some, "a.csv", "b.csv")
    missing = {"path": str(tmp_path / "in" / "x*.csv")}
    assert fingerprint("insert", missing) == of("insert", missing)
    nothing = hashlib.sha256(json.dumps(["delete_partition", {"partitions": ["a", "b"]}]).encode())
    assert fingerprint("delete_partition", partition_source(["b", "a"])) == nothing.hexdigest()[:32]


def test_it_follows_the_objects_of_an_object_store(tmp_path: Path) -> None:
    with stored(tmp_path) as bucket:
        storage = storage_for(bucket)
        seen = [fingerprint("upsert", {"path": f"{bucket}/in"})]
        for key in ("in/day=1/a.parquet", "in/day=2/a.parquet"):
            storage.write(f"{bucket}/{key}", b"rows")
            seen.append(fingerprint("upsert", {"path": f"{bucket}/in"}))
        assert len(set(seen)) == 3
        assert fingerprint("upsert", {"path": f"{bucket}/in"}) == seen[-1]
        day = {"path": f"{bucket}/in/day=*/a.parquet"}
        before = fingerprint("upsert", day)
        storage.write(f"{bucket}/in/day=2/b.parquet", b"rows")
        assert fingerprint("upsert", day) == before
        storage.write(f"{bucket}/in/day=2/a.parquet", b"more rows")
        assert fingerprint("upsert", day) != before


def test_the_newest_commit_stands_for_a_table_in_an_object_store(tmp_path: Path) -> None:
    with stored(tmp_path) as bucket:
        source = {"path": f"{bucket}/t", "format": "table"}
        seen = {fingerprint("upsert", source)}
        for version in range(2):
            hoodie.write_table(plain(("a", version, "x")), f"{bucket}/t", options=PLAIN)
            seen.add(fingerprint("upsert", source))
        assert len(seen) == 3


@pytest.mark.parametrize(
    "glob",
    GLOBS,
)
def test_globs_are_those_of_local_files(tmp_path: Path, glob: str) -> None:
    """Whatever the storage: as sets, for `**` finds a file once for each folder that it is in."""
    names = ("a.csv", "b.csv", "[a", "^.csv", "].csv", ".hidden.csv", "day=1/a.csv", "day=1/.b.csv")
    for name in (*names, "day=1/x/c.csv", "day=2/c.csv", ".h/a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    storage = source_storage_for(str(tmp_path))
    assert isinstance(storage, LocalStorage)
    every = [each.find(storage, f"{tmp_path}/{glob}") for each in (Storage, LocalStorage)]
    paths, local = [{file.path for file in found} for found in every]
    assert paths == local
    if "**" not in glob:
        assert len({frozenset((file.path, file.folder) for file in found) for found in every}) == 1


def test_no_token_adds_nothing() -> None:
    assert token_metadata("", "upsert", {"path": "/in"}) == {}
