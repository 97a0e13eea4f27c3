"""What is no path, no name, no text, or too much for the disk: a typed error that names it, and no change."""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.cli.command import main
from hoodie.errors import ConfigError, InputError, StorageError
from hoodie.timeline.time import InstantTime
from tests.conftest import require
from tests.support.tiers import crossed_but, full_but
from tests.unit.write.support import listing

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.name": "t",
}
ROWS = pa.table({"id": ["a"], "part": ["x"], "text": ["b"]})
LATIN = "Köln".encode("latin-1")
NO_PATHS = [None, "", " ", 5, b"/tmp/t", "/tmp/a\0b", "/tmp/a\udc80b"]
ON_PATHS: dict[str, Callable[[Any], Any]] = {
    "write_table": lambda path: hoodie.write_table(ROWS, path, options=OPTIONS),
    "delete_partitions": lambda path: hoodie.delete_partitions(path, "x"),
    "rollback_table": lambda path: hoodie.rollback_table(path, "20260101000000000"),
    "restore_table": lambda path: hoodie.restore_table(path, InstantTime("20260101000000000")),
    "delete_savepoint": lambda path: hoodie.delete_savepoint(path, InstantTime("20260101000000000")),
    **{
        name: getattr(hoodie, name)
        for name in (
            "read_table",
            "read_batches",
            "compact_table",
            "cluster_table",
            "clean_table",
            "archive_table",
            "savepoint_table",
            "plan_services",
            "run_services",
            "instants",
            "file_groups",
        )
    },
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is made in the folder that the process is in."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield
    assert os.listdir() == []


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing that is refused changes it."""
    path = tmp_path_factory.mktemp("refused") / "t"
    hoodie.write_table(ROWS, str(path), options=OPTIONS)
    return path


@pytest.mark.parametrize("name", ON_PATHS)
def test_what_is_no_path(name: str) -> None:
    for path in NO_PATHS:
        with pytest.raises(ConfigError) as raised:
            ON_PATHS[name](path)
        assert f"path is {path!r}; give the path of a folder" in raised.value.message


def test_a_path_object_is_a_path(tmp_path: Path) -> None:
    assert hoodie.write_table(ROWS, tmp_path / "p", options=OPTIONS).base_path == str(tmp_path / "p")  # type: ignore[arg-type]
    assert hoodie.read_table(tmp_path / "p").num_rows == 1  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "operation": (lambda path: hoodie.write_table(ROWS, path, operation=None), "unknown operation None"),  # type: ignore[arg-type]
    "columns": (lambda path: hoodie.read_table(path, columns=[None]), r"columns are \[None\]"),  # type: ignore[list-item]
    "no columns": (lambda path: hoodie.read_table(path, columns=5), "columns are 5"),  # type: ignore[arg-type]
    "where": (lambda path: hoodie.read_table(path, where=5), "where is 5"),  # type: ignore[arg-type]
    "options": (lambda path: hoodie.write_table(ROWS, path, options=["a"]), r"options are \['a'\]"),  # type: ignore[arg-type]
    "option name": (lambda path: hoodie.write_table(ROWS, path, options={5: "a"}), "5 is no text"),  # type: ignore[dict-item]
    "option text": (
        lambda path: hoodie.write_table(ROWS, path, options={"hoodie.table.name": "\udc80"}),
        r"hoodie.table.name='\\udc80' is no valid text",
    ),
    "extra": (lambda path: hoodie.write_table(ROWS, path, extra_metadata=["a"]), "extra metadata is"),  # type: ignore[arg-type]
    "extra name": (lambda path: hoodie.write_table(ROWS, path, extra_metadata={5: "x"}), "metadata 5: 'x'"),  # type: ignore[dict-item]
    "extra text": (
        lambda path: hoodie.write_table(ROWS, path, extra_metadata={"a": "\udc80"}),
        "metadata 'a': '.udc80'",
    ),
    "extra of a service": (
        lambda path: hoodie.cluster_table(path, extra_metadata={5: "x"}),  # type: ignore[dict-item]
        "metadata 5: 'x'",
    ),
    "partitions": (lambda path: hoodie.delete_partitions(path, [None]), r"partitions are \[None\]"),  # type: ignore[list-item]
    "services": (lambda path: hoodie.plan_services(path, only=[5]), r"services are \[5\]"),  # type: ignore[list-item]
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(table: Path, name: str) -> None:
    before, (call, text) = listing(table), WRONG[name]
    with pytest.raises((ConfigError, InputError), match=text):
        call(str(table))
    assert listing(table) == before


def as_text(data: bytes) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.string(), 1, pa.array([data]).buffers())


NO_UTF8: dict[str, tuple[str, Any]] = {
    "key": ("id", as_text(LATIN)),
    "partition": ("part", as_text(LATIN)),
    "value": ("text", as_text(LATIN)),
    "struct": ("more", pa.StructArray.from_arrays([as_text(LATIN)], ["inner"])),
    "list": ("more", pa.ListArray.from_arrays([0, 1], as_text(LATIN))),
    "dictionary": ("text", pa.DictionaryArray.from_arrays([0], as_text(LATIN))),
}


@pytest.mark.parametrize(
    ("case", "operation"),
    crossed_but(
        {
            *(f"{case}-upsert" for case in NO_UTF8),
            *(f"{case}-bulk_insert" for case in ("key", "list")),
            *(f"{case}-insert_overwrite" for case in ("partition", "dictionary")),
        },
        {case: case for case in NO_UTF8},
        {name: name for name in ("upsert", "bulk_insert", "insert_overwrite")},
    ),
)
def test_texts_that_are_no_utf8(table: Path, case: str, operation: str) -> None:
    before, (name, column) = listing(table), NO_UTF8[case]
    rows = ROWS.drop_columns([name]) if name in ROWS.column_names else ROWS
    with pytest.raises(InputError, match=f"column {name}: .* no UTF-8.*; decode the texts") as raised:
        hoodie.write_table(rows.append_column(name, column), str(table), operation=operation)
    if case in ("key", "partition", "value"):
        assert f"row 0 holds {LATIN!r}" in raised.value.message
    assert listing(table) == before


def test_keys_to_delete_that_are_no_utf8(table: Path) -> None:
    rows = pa.table({"id": as_text(LATIN), "part": ["x"]})
    with pytest.raises(InputError, match="column id: row 0 holds"):
        hoodie.write_table(rows, str(table), operation="delete")


@pytest.mark.parametrize("path", ["", " ", "/tmp/a\udc80b"])
def test_the_command_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", "--table", path]) != 0
    assert "give the path of a folder" in capsys.readouterr().err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    libc, folder = ctypes.CDLL(None, use_errno=True), tmp_path / "disk"
    folder.mkdir()
    done = libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=2m")
    require(done == 0, "no right to mount a small file system")
    yield folder
    assert libc.umount2(os.fsencode(folder), 2) == 0


@pytest.mark.parametrize("kind", full_but({"COPY_ON_WRITE"}, ["COPY_ON_WRITE", "MERGE_ON_READ"]))
def test_a_full_disk(small_disk: Path, kind: str) -> None:
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.parquet.small.file.limit": "0",
    }
    chance, path = random.Random(0), small_disk / "t"

    def rows(count: int) -> pa.Table:
        return pa.table(
            {"id": [f"k{n}" for n in range(count)], "v": [chance.randbytes(100) for _ in range(count)]}
        )

    hoodie.write_table(rows(1000), str(path), options=options)
    before = hoodie.read_table(str(path))
    files = {file.relative_to(path) for file in path.rglob("*") if file.is_file()}
    with pytest.raises(StorageError, match=r"can't be written \(No space left.*free some space") as raised:
        hoodie.write_table(rows(20_000), str(path), options=options)
    assert str(raised.value.values["path"]).startswith(str(path))
    assert {file.relative_to(path) for file in path.rglob("*") if file.is_file()} == files
    assert hoodie.read_table(str(path)).equals(before)
    assert hoodie.write_table(rows(1000), str(path), options=options).num_updates == 1000
