"""Heartbeats: who counts as alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie.errors import AlreadyExists
from hoodie.storage.local import LocalStorage
from hoodie.table import heartbeat as module
from hoodie.table.heartbeat import (
    Heartbeat,
    HeartbeatFile,
    has_heartbeat,
    heartbeat_path,
    read_heartbeats,
    remove_heartbeat,
    start_time,
)
from tests.support.handles import table_at

STORAGE = LocalStorage()
HOUR = 3_600_000
INSTANT = "20260101000000000"


@pytest.fixture
def beating(tmp_path: Path) -> Iterator[Callable[..., Heartbeat]]:
    started: list[Heartbeat] = []

    def start(instant: str = INSTANT, interval_ms: int = HOUR, storage: LocalStorage = STORAGE) -> Heartbeat:
        heartbeat = Heartbeat(table_at(tmp_path, storage), instant, interval_ms, 2)
        heartbeat.start()
        started.append(heartbeat)
        return heartbeat

    yield start
    for heartbeat in started:
        heartbeat.stop()


def only(path: Path) -> HeartbeatFile:
    (beat,) = read_heartbeats(table_at(path))
    return beat


def rewritten(path: Path, **changes: object) -> HeartbeatFile:
    """The beat as if another process had written it."""
    file = Path(heartbeat_path(str(path), INSTANT))
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return only(path)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_running_heartbeat_is_alive_and_names_its_owner(
    tmp_path: Path, beating: Callable[..., Heartbeat]
) -> None:
    heartbeat = beating()
    beat = only(tmp_path)
    assert beat.instant == INSTANT
    assert beat.alive(1, 1), "its own tolerance counts, not the reader's"
    assert beat.tolerance(1, 1) == 2 * HOUR
    assert beat.owner == f"process {os.getpid()} on {beat.host}"
    assert heartbeat.on_storage()
    assert has_heartbeat(STORAGE, str(tmp_path), INSTANT)
    heartbeat.stop()
    assert read_heartbeats(table_at(tmp_path)) == []
    assert not has_heartbeat(STORAGE, str(tmp_path), INSTANT)


def test_silence_beyond_the_tolerance_is_death(tmp_path: Path, beating: Callable[..., Heartbeat]) -> None:
    beating()
    os.utime(heartbeat_path(str(tmp_path), INSTANT), (1, 1))
    assert not only(tmp_path).alive(HOUR, 2)


def test_stopped_in_this_process_is_dead_though_its_file_could_not_be_removed(
    tmp_path: Path, beating: Callable[..., Heartbeat]
) -> None:
    class Gone(LocalStorage):
        def delete(self, path: str) -> None:
            raise OSError("the storage is gone")

    heartbeat = Heartbeat(table_at(tmp_path, Gone()), INSTANT, HOUR, 2)
    heartbeat.start()
    assert only(tmp_path).alive(HOUR, 2)
    with pytest.raises(OSError, match="gone"):
        heartbeat.stop()
    assert not only(tmp_path).alive(HOUR, 2)
    remove_heartbeat(table_at(tmp_path), INSTANT)
    beating()
    assert only(tmp_path).alive(HOUR, 2)


def test_another_live_process_is_alive(tmp_path: Path, beating: Callable[..., Heartbeat]) -> None:
    beating()
    beat = rewritten(tmp_path, pid=os.getppid(), started=start_time(os.getppid()))
    assert beat.alive(HOUR, 2)


def test_a_process_that_is_gone_is_dead_at_once(tmp_path: Path, beating: Callable[..., Heartbeat]) -> None:
    beating()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert not rewritten(tmp_path, pid=child.pid, started="1").alive(HOUR, 2)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_ended_and_is_not_reaped_is_dead(
    tmp_path: Path, beating: Callable[..., Heartbeat]
) -> None:
    beating()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        beat = rewritten(tmp_path, pid=child.pid, started=start_time(child.pid))
        assert beat.alive(HOUR, 2)
        child.kill()
        until(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
        assert not beat.alive(HOUR, 2)


def test_a_number_that_another_process_has_now_is_dead(
    tmp_path: Path, beating: Callable[..., Heartbeat]
) -> None:
    beating()
    assert not rewritten(tmp_path, pid=os.getppid(), started="1").alive(HOUR, 2)


def test_a_process_of_another_machine_is_judged_by_its_beats(
    tmp_path: Path, beating: Callable[..., Heartbeat]
) -> None:
    """Same host name, other process namespace: containers."""
    beating()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    machine = json.loads(Path(heartbeat_path(str(tmp_path), INSTANT)).read_text())["machine"]
    assert rewritten(tmp_path, pid=child.pid, machine=f"{machine}-other").alive(HOUR, 2)
    os.utime(heartbeat_path(str(tmp_path), INSTANT), (1, 1))
    assert not only(tmp_path).alive(HOUR, 2)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b'{"pid": null}'])
def test_of_an_unknown_writer_only_the_age_counts(tmp_path: Path, content: bytes) -> None:
    """Apache Hudi's heartbeats are empty."""
    path = heartbeat_path(str(tmp_path), INSTANT)
    STORAGE.create(path, content)
    beat = only(tmp_path)
    assert beat.owner == "an unknown process"
    assert beat.alive(HOUR, 2)
    os.utime(path, (1, 1))
    assert not only(tmp_path).alive(HOUR, 2)


def test_other_files_are_no_heartbeats(tmp_path: Path) -> None:
    STORAGE.create(heartbeat_path(str(tmp_path), ".x.hoodie-tmp"), b"")
    STORAGE.make_dirs(heartbeat_path(str(tmp_path), "1"))
    assert read_heartbeats(table_at(tmp_path)) == []


def test_two_writers_can_not_take_one_instant(tmp_path: Path, beating: Callable[..., Heartbeat]) -> None:
    first = beating()
    live = set(module._LIVE)
    with pytest.raises(AlreadyExists):
        Heartbeat(table_at(tmp_path), INSTANT, HOUR, 2).start()
    assert live == module._LIVE
    assert only(tmp_path).alive(HOUR, 2)
    assert first.on_storage()


def test_one_whose_unfinished_file_is_deleted_makes_it_again(
    tmp_path: Path, beating: Callable[..., Heartbeat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that begins right then takes it for what a killed one left."""
    link, swept = os.link, list[int]()

    def sweep_first(source: str, target: str, **how: Any) -> None:
        if not swept:
            swept.append(STORAGE.sweep_partial(os.path.dirname(target)))
        link(source, target, **how)

    monkeypatch.setattr(os, "link", sweep_first)
    heartbeat = beating()
    assert swept == [1]
    assert heartbeat.is_ours()
    assert only(tmp_path).alive(HOUR, 2)


def test_it_beats_on_after_a_hiccup_of_the_storage(tmp_path: Path, beating: Callable[..., Heartbeat]) -> None:
    class Hiccups(LocalStorage):
        calls = 0

        def write(self, path: str, data: bytes) -> None:
            self.calls += 1
            if self.calls < 3:
                raise OSError("hiccup")
            super().write(path, data)

        def exists(self, path: str) -> bool:
            if self.calls == 1:
                self.calls += 1
                raise OSError("hiccup")
            return super().exists(path)

    path = heartbeat_path(str(tmp_path), INSTANT)
    beating(interval_ms=5, storage=Hiccups())
    os.utime(path, (1, 1))
    until(lambda: os.stat(path).st_mtime > 1)


def test_it_does_not_come_back_once_another_writer_removed_it(
    tmp_path: Path, beating: Callable[..., Heartbeat]
) -> None:
    heartbeat = beating(interval_ms=5)
    remove_heartbeat(table_at(tmp_path), INSTANT)
    until(lambda: not heartbeat._thread.is_alive())
    assert read_heartbeats(table_at(tmp_path)) == []
    assert not heartbeat.on_storage()


@pytest.mark.parametrize("hours", [-1, 1])
def test_silence_is_told_by_the_clock_of_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Modification times are those of the machine that serves a mount: this one's clock may differ."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - hours * 3600)
    storage = LocalStorage()
    heartbeat = Heartbeat(table_at(tmp_path, storage), INSTANT, HOUR, 2)
    heartbeat.start()
    (beat,) = read_heartbeats(table_at(tmp_path, storage))
    heartbeat.stop()
    assert abs(beat.age_ms) < 5000
    assert abs(storage.now_ms() - now() * 1000) < 5000
    monkeypatch.undo()
    storage.write(f"{tmp_path}/file", b"x")
    assert storage.now_ms() == pytest.approx(now() * 1000, abs=50)
