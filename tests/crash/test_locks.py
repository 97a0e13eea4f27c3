"""A process that dies with the lock of a table: others are kept out until it expires, and then go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hoodie.errors import LockTimeout
from tests.crash.checks import counted, hudi_rs_rows, leftovers, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import LOCK, SCENARIOS, age_lock
from tests.crash.worker import Worker
from tests.support.faults import Phase, wait_for

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("ending", [".commit.requested", ".commit"])
def test_the_lock_of_a_killed_process_expires(
    bench: Bench, worker: Worker, tmp_path: Path, ending: str
) -> None:
    """Killed while it held the lock: at its beginning, and while it published."""
    locked = SCENARIOS["locked"]
    path = bench.table(locked)
    pid = worker.start(locked, path, bench.place(locked, "create", ending), Phase.BEFORE, tmp_path)
    wait_for(tmp_path / "holding")
    os.kill(pid, signal.SIGKILL)
    assert worker.wait(pid) == -signal.SIGKILL
    left = (path / LOCK).read_bytes()
    with pytest.raises(LockTimeout, match=f"held by process {pid} on .* since 20") as error:
        locked.run(path)
    assert error.value.values["holder"] == f"process {pid}"
    assert (path / LOCK).read_bytes() == left
    age_lock(path)
    assert len(locked.run(path).rolled_back) <= 1
    assert our_rows(path) == bench.new(locked)
    assert hudi_rs_rows(path) == counted(locked.new(bench))
    assert leftovers(path) == []
