"""Values between the steps of the local engine: in memory up to a limit, then in files without a name."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.engine.local import LocalEngine
from hoodie.engine.spool import Room, Spool
from hoodie.errors import StorageError
from hoodie.read.spill import spill_error
from tests.support.verbs import check_verbs

VALUES: pa.Array[Any] = pa.array([b"abc", None, b"", b"hello"], pa.binary())


@pytest.mark.parametrize("limit", [None, 10, 0])
def test_values_are_the_same_in_memory_and_on_disk(tmp_path: Path, limit: int | None) -> None:
    room = Room(limit, str(tmp_path))
    spool = Spool(room)
    first, second = spool.add(VALUES), spool.add(VALUES.slice(2))
    assert spool.read(first).to_pylist() == VALUES.to_pylist()
    assert spool.read(second.slice(1)).to_pylist() == [b"hello"]
    both = pa.concat_arrays([second, first]).take(pa.array([5, 1, 0, None, 2]))
    assert spool.read(both).to_pylist() == [b"hello", b"hello", b"", None, b"abc"]
    assert spool.sizes(first).tolist() == [3, 0, 0, 5]
    assert room.held + room.spilled == 13
    assert room.peak <= (13 if limit is None else limit)
    assert len(spool.add(pa.array([], pa.binary()))) == 0


def test_files_have_no_name_and_end_with_the_spool(tmp_path: Path) -> None:
    room = Room(0, str(tmp_path / "made"))
    before = len(os.listdir("/proc/self/fd"))
    spool = Spool(room)
    spool.add(VALUES)
    assert room.spilled == 8
    assert os.listdir(tmp_path / "made") == []
    assert len(os.listdir("/proc/self/fd")) == before + 1
    spool.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_forgotten_leaves_the_room(tmp_path: Path) -> None:
    room = Room(100, str(tmp_path))
    spool = Spool(room)
    spool.add(VALUES)
    assert room.held == 8
    del spool
    gc.collect()
    assert (room.held, room.peak) == (0, 8)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    spool = Spool(Room(0, str(tmp_path / "file"), spill_error))
    with pytest.raises(StorageError, match=r"can't spill to .*file: .*hoodie\.memory\.spillable\.map\.path"):
        spool.add(VALUES)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_verbs_of_an_engine_that_holds_nothing(tmp_path: Path, parallelism: int) -> None:
    check_verbs(LocalEngine(parallelism, Room(0, str(tmp_path / "spill"))), tmp_path)


def test_fewer_tasks_run_at_once_where_memory_is_little() -> None:
    engine = LocalEngine(8)
    for memory, tasks in ((1 << 30, 8), (128 << 20, 4), (50 << 20, 1), (1 << 16, 1)):
        limited = engine.limited(memory, "", spill_error)
        assert limited.parallelism == tasks
        assert limited.task_memory(memory) * tasks <= memory // 2


def test_more_tasks_run_at_once_where_they_wait_for_a_storage() -> None:
    for cores, tasks in ((1, 4), (2, 8), (4, 16), (8, 16), (32, 32)):
        engine = LocalEngine(cores)
        assert engine.for_storage(local=True).parallelism == cores
        waiting = engine.for_storage(local=False)
        assert (waiting.parallelism, engine.parallelism) == (tasks, cores)
        assert waiting.limited(128 << 20, "", spill_error).parallelism == min(tasks, 4)
