"""The local storage: what is atomic, what is forgiven, what is left behind."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hoodie.errors import AlreadyExists, ConfigError, Fenced, StorageError
from hoodie.storage import normalize
from hoodie.storage.local import TMP_SUFFIX, LocalStorage

STORAGE = LocalStorage()


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def refuse(code: int) -> Any:
    def call(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


def test_of_racing_creators_one_wins_with_its_whole_content(tmp_path: Path) -> None:
    for number in range(20):
        path = str(tmp_path / f"file{number}")

        def create(writer: int, path: str = path) -> bytes | None:
            data = bytes([writer]) * 5000
            try:
                STORAGE.create(path, data)
            except AlreadyExists:
                return None
            return data

        with ThreadPoolExecutor(4) as pool:
            won = [data for data in pool.map(create, range(4)) if data]
        assert won == [STORAGE.read(path)]
    assert len(names(tmp_path)) == 20


def test_a_replacement_that_can_not_take_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "file")
    version = STORAGE.put_if(path, b"1", None)
    monkeypatch.setattr("hoodie.storage.local.locked", refuse(errno.EROFS))
    with pytest.raises(StorageError, match=r"/file can't be written \(Read-only"):
        STORAGE.put_if(path, b"2", version)


@pytest.mark.parametrize("data", [b"", b"content"])
def test_create_refuses_a_taken_path_and_makes_folders(tmp_path: Path, data: bytes) -> None:
    path = str(tmp_path / "a" / "b" / "file")
    STORAGE.create(path, data)
    with pytest.raises(AlreadyExists, match="file exists already"):
        STORAGE.create(path, b"other")
    with pytest.raises(AlreadyExists):
        STORAGE.create(path, b"")
    assert STORAGE.read(path) == data
    assert names(tmp_path / "a" / "b") == ["file"]


def test_write_replaces_and_takes_the_checksum_file_away(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / ".file.crc").write_bytes(b"sum")
    STORAGE.write(str(tmp_path / "file"), b"new")
    assert names(tmp_path) == ["file"]
    assert STORAGE.read(str(tmp_path / "file")) == b"new"


def test_a_full_disk_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refuse(errno.ENOSPC))
    for action in (STORAGE.write, STORAGE.create):
        with pytest.raises(StorageError, match=r"/file can't be written \(No space left .*free some space"):
            action(str(tmp_path / "file"), b"data")
    assert names(tmp_path) == []


@pytest.mark.parametrize("step", ["link", "replace"])
def test_a_writer_whose_temporary_was_swept_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = getattr(os, step)

    def late(source: str, target: str) -> None:
        assert STORAGE.sweep_partial(str(tmp_path)) == 1
        real(source, target)

    monkeypatch.setattr(os, step, late)
    action = STORAGE.create if step == "link" else STORAGE.write
    with pytest.raises(Fenced, match=r"swept away the unfinished .*file"):
        action(str(tmp_path / "file"), b"data")
    assert names(tmp_path) == []


def test_sweep_takes_temporaries_only(tmp_path: Path) -> None:
    for name in ("file", f".file.1{TMP_SUFFIX}", f".other.2{TMP_SUFFIX}"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / f".deep.3{TMP_SUFFIX}").touch()
    assert STORAGE.sweep_partial(str(tmp_path)) == 2
    assert names(tmp_path) == ["file", "folder"]
    assert names(tmp_path / "folder") == [f".deep.3{TMP_SUFFIX}"]
    assert STORAGE.sweep_partial(str(tmp_path / "missing")) == 0


def test_delete_forgives_a_missing_path_and_takes_the_checksum_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / ".file.crc").touch()
    order: list[str] = []
    real = os.unlink

    def unlink(path: str) -> None:
        order.append(os.path.basename(path))
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    STORAGE.delete(str(tmp_path / "file"))
    STORAGE.delete(str(tmp_path / "file"))
    assert order[:2] == [".file.crc", "file"]
    assert names(tmp_path) == []


def test_delete_tree(tmp_path: Path) -> None:
    (tmp_path / "tree" / "branch").mkdir(parents=True)
    (tmp_path / "tree" / "branch" / "leaf").touch()
    STORAGE.delete_tree(str(tmp_path / "tree"))
    STORAGE.delete_tree(str(tmp_path / "tree"))
    assert names(tmp_path) == []


def test_delete_tree_tries_again_when_a_late_file_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    calls: list[str] = []
    real = shutil.rmtree

    def rmtree(path: str) -> None:
        calls.append(path)
        if len(calls) < 3:
            refuse(errno.ENOTEMPTY)()
        real(path)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    STORAGE.delete_tree(str(tmp_path / "tree"))
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "message"), [(errno.ENOTEMPTY, "files keep appearing"), (errno.EACCES, "Permission denied")]
)
def test_delete_tree_tells_when_it_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    monkeypatch.setattr(shutil, "rmtree", refuse(code))
    with pytest.raises(StorageError, match=f"can't be deleted.*{message}"):
        STORAGE.delete_tree(str(tmp_path))


@pytest.mark.parametrize("root", [True, False], ids=["a table", "no table"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE, errno.EIO])
def test_what_the_file_system_refuses_is_a_storage_error_that_names_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, root: bool
) -> None:
    storage = LocalStorage(str(tmp_path) if root else None)
    path = f"{tmp_path}/file"
    storage.create(path, b"x")
    calls: list[tuple[Callable[[str], object], str, str]] = [
        (storage.info, "stat", "looked at"),
        (storage.list, "scandir", "listed"),
        (storage.names, "listdir", "listed"),
        (storage.delete, "unlink", "deleted"),
        (storage.sync, "open", "synced"),
    ]
    if root:
        calls += [(storage.read, "open", "read"), (storage.open_input, "open", "read")]
    for call, refusing, done in calls:
        with monkeypatch.context() as patch:
            patch.setattr(os, refusing, refuse(code))
            with pytest.raises(
                StorageError, match=rf"{path} can't be {done} \({os.strerror(code)}\)"
            ) as error:
                call(path)
        assert error.value.transient == (code == errno.ESTALE and done != "listed")
        assert error.value.values["errno"] == code


def test_a_folder_is_no_file_to_read(tmp_path: Path) -> None:
    for storage in (STORAGE, LocalStorage(str(tmp_path))):
        (tmp_path / "folder").mkdir(exist_ok=True)
        for read in (storage.read, storage.open_input):
            with pytest.raises(StorageError, match="folder where a file belongs"):
                read(f"{tmp_path}/folder")
        for name in ("file/below", "n" * 300):
            with pytest.raises(FileNotFoundError):
                storage.read(f"{tmp_path}/{name}")


def test_tree_has_the_files_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("x", "a/y", "a/b/z"):
        (tmp_path / name).touch()
    assert {item.path for item in STORAGE.tree(str(tmp_path))} == {
        f"{tmp_path}/{name}" for name in ("x", "a/y", "a/b/z")
    }
    assert not STORAGE.tree(str(tmp_path / "none"))


def test_list_is_sorted_and_tells_sizes_and_times(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"12345")
    (tmp_path / "a").mkdir()
    os.utime(tmp_path / "b", (7, 7))
    folder, file = STORAGE.list(str(tmp_path))
    assert (folder.name, folder.is_dir, folder.size) == ("a", True, 0)
    assert (file.name, file.is_dir, file.size, file.mtime_ms) == ("b", False, 5, 7000)
    assert file.path == str(tmp_path / "b")
    assert STORAGE.info(file.path) == file
    assert STORAGE.list(str(tmp_path / "missing")) == STORAGE.list(file.path) == []
    assert STORAGE.info(str(tmp_path / "missing")) is None


def test_reads(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    path = str(tmp_path / "file")
    assert STORAGE.read_range(path, 3, 4) == b"3456"
    assert STORAGE.exists(path)
    with STORAGE.open_input(path) as source:
        assert source.read() == b"0123456789"
    sink = STORAGE.output(str(tmp_path / "new" / "file"))
    sink.write(b"x")
    sink.commit()
    assert STORAGE.read(str(tmp_path / "new" / "file")) == b"x"
    with pytest.raises(FileNotFoundError):
        STORAGE.read(str(tmp_path / "missing"))


def test_normalize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert normalize("file:///a/b/") == normalize("file:/a/b") == normalize("/a//b") == "/a/b"
    assert normalize("table") == str(tmp_path / "table")
    with pytest.raises(ConfigError, match="no storage for scheme 'ftp'"):
        normalize("ftp://bucket/table")
