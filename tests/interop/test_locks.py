"""The file of our file system lock is that of Apache Hudi's: each excludes the other, and both go on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import LockTimeout
from hoodie.lock import LockProvider, lock_for
from hoodie.table.handle import Table, TableRef
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.shared_table import KEYS, OFF, PAYLOAD
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = pytest.mark.interop

JAVA = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
LOCK = {
    "hoodie.write.lock.provider": JAVA,
    "hoodie.write.lock.client.num_retries": "2",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
}


def lock(path: Path, expire: int = 0) -> LockProvider:
    config = Config.of({**LOCK, "hoodie.write.lock.filesystem.expire": str(expire)})
    found = lock_for(Table(TableRef.of(str(path), config)), config)
    assert found is not None
    return found


def age(path: Path) -> None:
    then = time.time() - 120
    os.utime(path / ".hoodie/lock", (then, then))


@pytest.mark.full
def test_the_providers_exclude_each_other(tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    for server in (hudi_015, hudi_12):
        path = tmp_path / server.version
        (path / ".hoodie").mkdir(parents=True)
        lease = lock(path).acquire(0)
        taken, owner = server.try_lock(path)
        assert (taken, lease.held) == (False, True)
        assert f"process {os.getpid()}" in str(owner)
        assert set(json.loads(str(owner))) == {"lockCreateTime", "lockThreadName", "lockStacksInfo"}
        lease.release()

        assert server.try_lock(path) == (True, None)
        assert (path / ".hoodie/lock").read_bytes() == b""  # local: Hudi 0.15 and 1.2 leave it empty
        with pytest.raises(LockTimeout, match="held by an unknown process since 20"):
            lock(path).acquire(0)
        server.unlock(path)
        lock(path).acquire(0).release()
        assert server.try_lock(path) == (True, None)
        age(path)
        lease = lock(path, expire=1).acquire(0)
        assert server.try_lock(path)[0] is False
        assert lease.held
        server.close_lock(path)
        assert not lease.held  # Hudi's close deletes the file, and we see it

        lease = lock(path).acquire(0)
        assert server.try_lock(path, expire=1)[0] is False
        age(path)
        assert server.try_lock(path, expire=1) == (True, None)
        lease.release()
        assert (lease.held, lock(path).try_acquire()) == (False, None)
        server.close_lock(path)
        assert [name for name in os.listdir(path / ".hoodie") if "lock" in name] == []


@pytest.mark.full
def test_writers_meet_the_other_ones_lock(tmp_path: Path, hudi_015: HudiServer) -> None:
    path, rows = tmp_path / "t", [*small_rows(range(20), 1)]

    def ours(*numbers: int) -> None:
        hoodie.write_table(
            as_table(small_rows(numbers, 2), SMALL_SCHEMA), str(path), options={**KEYS, **OFF, **LOCK}
        )

    def theirs(*numbers: int) -> None:
        options = {
            **{name: str(value) for name, value in {**KEYS, **OFF, **LOCK}.items()},
            "hoodie.table.name": "t",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.payload.class": PAYLOAD,
            "hoodie.metadata.enable": "false",
        }
        hudi_015.write(path, as_table(small_rows(numbers, 3), SMALL_SCHEMA), options, operation="upsert")

    def timeline() -> list[str]:
        return sorted(name for name in os.listdir(path / ".hoodie") if name[0].isdigit())

    hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(path), options={**KEYS, **OFF})
    before = timeline()
    lease = lock(path).acquire(0)
    with pytest.raises(HudiError, match="Unable to acquire lock"):
        theirs(0)
    failed = [name.partition(".")[2] for name in timeline() if name not in before]
    assert failed == ["commit.requested"]  # Hudi makes it without the lock
    assert not lease.held  # Hudi deletes the file when it gives up
    lease.release()
    before = timeline()
    assert hudi_015.try_lock(path)[0]
    with pytest.raises(LockTimeout):
        ours(1)
    assert timeline() == before
    hudi_015.unlock(path)
    theirs(0, 1, 30)
    ours(1, 2, 31)
    theirs(2, 32)
    found: pa.Table = hoodie.read_table(str(path))
    assert found.num_rows == 23
    assert hudi_015.read(path).num_rows == 23
    assert not (path / ".hoodie/lock").exists()
