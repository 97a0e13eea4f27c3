"""Files created exclusively where there are no hard links, or no renames that replace nothing, or neither."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import hoodie
from hoodie.errors import AlreadyExists, Fenced, StorageError
from hoodie.storage import LOCKS, exclusive
from hoodie.storage.exclusive import LOCK_SUFFIX, Way
from hoodie.storage.local import LocalStorage
from hoodie.table.doctor import check_table
from tests.support.mounts import WAYS, mounted, refusing
from tests.support.processes import all_forked, forked
from tests.unit.write.merge_on_read import put

DATA = b"content" * 1000
STEPS = ("open", "link", "rename", "unlink", "lstat")


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    with mounted(request.param):
        yield request.param


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES])
def test_a_file_system_without_hard_links(tmp_path: Path, code: int) -> None:
    for way in (Way.RENAME, Way.LOCK):
        with mounted(way, code):
            storage, path = LocalStorage(), str(tmp_path / way.name)
            storage.create(path, DATA)
            with pytest.raises(AlreadyExists, match=f"{way.name} exists already"):
                storage.create(path, b"other")
            assert storage.read(path) == DATA
            assert storage.creation(str(tmp_path)) == way.value
    assert sorted(os.listdir(tmp_path)) == ["LOCK", "RENAME"]


def test_the_way_is_looked_for_once(tmp_path: Path) -> None:
    with mounted(Way.LOCK), mock.patch.object(os, "link", side_effect=refusing(errno.EPERM)) as link:
        storage = LocalStorage()
        for number in range(3):
            storage.create(f"{tmp_path}/{number}", DATA)
    assert link.call_count == 1


def test_without_any_way_nothing_is_created(tmp_path: Path) -> None:
    refused = pytest.raises(StorageError, match=r"no hard links, no renames .* and no locks, so two writers")
    with mounted(Way.LOCK), mock.patch.object(fcntl, "flock", refusing(errno.ENOTSUP)), refused:
        LocalStorage().create(f"{tmp_path}/file", DATA)
    assert not (tmp_path / "file").exists()


def _create(folder: str, writer: int, names: int) -> None:
    storage, won = LocalStorage(), []
    for number in range(names):
        try:
            storage.create(f"{folder}/{number}", str(writer).encode() * 3000)
            won.append(str(number))
        except AlreadyExists:
            assert len(storage.read(f"{folder}/{number}")) == 3000
    Path(folder, f"won{writer}").write_text(" ".join(won))


def test_of_racing_processes_one_creates_each_file(tmp_path: Path, way: Way) -> None:
    names, writers = 40, range(4)
    codes = all_forked(partial(_create, str(tmp_path), writer, names) for writer in writers)
    assert codes == [0] * len(writers)
    won = [(int(number), str(w)) for w in writers for number in (tmp_path / f"won{w}").read_text().split()]
    assert sorted(number for number, _ in won) == list(range(names))
    for number, writer in won:
        assert (tmp_path / str(number)).read_text() == writer * 3000
    assert len(os.listdir(tmp_path)) == names + len(writers), "no temporary and no lock is left"


def _killed(path: str, at: int, done: str) -> None:
    """Dies before its `at`-th call of the system while it creates a file."""
    left = at

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for step in STEPS:
        setattr(os, step, counting(getattr(os, step)))
    fcntl.flock = counting(fcntl.flock)
    LocalStorage().create(path, DATA)
    Path(done).touch()


def test_a_kill_between_any_two_steps(tmp_path: Path, way: Way) -> None:
    storage, steps = LocalStorage(), 0
    while not (tmp_path / "done").exists():
        steps += 1
        folder = tmp_path / str(steps)
        folder.mkdir()
        path = str(folder / "file")
        code = forked(partial(_killed, path, steps, str(tmp_path / "done")))
        assert code in (0, -signal.SIGKILL)
        there = os.path.exists(path)
        assert not there or storage.read(path) == DATA
        if there:
            with pytest.raises(AlreadyExists):
                storage.create(path, b"another")
        else:
            storage.create(path, b"another")
        storage.sweep_partial(str(folder))
        assert os.listdir(folder) == ["file"]
        assert storage.read(path) == (DATA if there else b"another")
    assert steps >= {Way.LINK: 3, Way.RENAME: 3, Way.LOCK: 7}[way]


def test_who_slept_while_the_folder_was_swept_is_fenced(tmp_path: Path) -> None:
    """Its temporary is gone; its lock stays, as it holds it, until it wakes up."""
    storage, path = LocalStorage(), str(tmp_path / "file")
    asleep, go, found = threading.Event(), threading.Event(), []
    real = os.rename

    def slow(source: str, target: str) -> None:
        asleep.set()
        assert go.wait(30)
        real(source, target)

    def sleeper() -> None:
        try:
            LocalStorage().create(path, DATA)
        except Fenced as error:
            found.append(error)

    with mounted(Way.LOCK), mock.patch.object(os, "rename", slow):
        thread = threading.Thread(target=sleeper)
        thread.start()
        assert asleep.wait(30)
        assert storage.sweep_partial(str(tmp_path)) == 1
        assert os.listdir(tmp_path) == [f".file{LOCK_SUFFIX}"]
        with mock.patch.object(exclusive, "_WAIT_S", 0.05), pytest.raises(StorageError) as waited:
            storage.create(path, b"another")
        assert "file can't be created: another process has been at it" in waited.value.message
        assert waited.value.transient
        go.set()
        thread.join()
        assert len(found) == 1
        assert os.listdir(tmp_path) == []
        storage.create(path, b"another")
    assert storage.read(path) == b"another"


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "table", tmp_path / "outside"
    folder.mkdir()
    (folder / f".file{LOCK_SUFFIX}").symlink_to(outside)
    with mounted(Way.LOCK), pytest.raises(StorageError, match="can't be written"):
        LocalStorage(str(folder)).create(str(folder / "file"), DATA)
    assert not outside.exists()


def test_a_table(tmp_path: Path, way: Way) -> None:
    """The doctor says how its files are created, and leaves it as it was."""
    path = tmp_path / "t"
    put(path, ("a", 1, "x"))
    put(path, ("a", 2, "y"), ("b", 1, "x"))
    assert sorted(hoodie.read_table(str(path))["id"].to_pylist()) == ["a", "b"]
    before = sorted(os.walk(path))
    (finding,) = [item for item in check_table(str(path)) if item.check == "storage"]
    assert way.value in finding.text
    assert (finding.status, bool(finding.remedy)) == (("note", True) if way is Way.LOCK else ("ok", False))
    assert sorted(os.walk(path)) == before
    assert way.value != LOCKS or "run on one machine" in finding.remedy


def test_waiting_takes_no_longer_than_the_other_needs(tmp_path: Path) -> None:
    storage, path = LocalStorage(), f"{tmp_path}/file"
    with mounted(Way.LOCK), open(f"{tmp_path}/.file{LOCK_SUFFIX}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.1, lambda: fcntl.flock(lock, fcntl.LOCK_UN)).start()
        began = time.monotonic()
        storage.create(path, DATA)
    assert time.monotonic() - began < 10
    assert os.listdir(tmp_path) == ["file"]
