"""Apache Hudi as one of several optimistic writers, under its own locks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import LockTimeout
from hoodie.timeline.active import Timeline
from tests.support.at_once import LOCK, OPTIONS, as_rows
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.metadata import disagreements, has_metadata_table
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.full]

_CLASSES = "org.apache.hudi.client.transaction.lock."
_ROUNDS = 4


def settings(kind: str, zookeeper: ZooKeeper) -> dict[str, Any]:
    if kind == "filesystem":
        return {**LOCK, "hoodie.write.lock.provider": f"{_CLASSES}FileSystemBasedLockProvider"}
    found = zookeeper.new_lock(session_ms=10_000)
    return {**found, "hoodie.write.lock.provider": f"{_CLASSES}ZookeeperBasedLockProvider"}


def theirs(options: dict[str, Any], metadata: str = "false") -> dict[str, str]:
    more = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.metadata.enable": metadata,
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    return {name: str(value) for name, value in {**options, **more}.items()}


@pytest.mark.parametrize(
    ("kind", "metadata"), [("filesystem", "false"), ("zookeeper", "false"), ("zookeeper", "true")]
)
def test_hudi_and_two_of_ours(
    tmp_path: Path, hudi_015: HudiServer, zookeeper: ZooKeeper, kind: str, metadata: str
) -> None:
    path = tmp_path / "t"
    options = {**OPTIONS, **settings(kind, zookeeper), "hoodie.clean.automatic": "false"}
    options["hoodie.metadata.enable"] = metadata
    hoodie.write_table(as_rows({"a-0": 0, "b-0": 0}), str(path), options=options)
    first = {item.time for item in Timeline.load(str(path)).commits()}
    done: dict[str, dict[str, int]] = {}
    hudi: list[dict[str, int]] = []
    failures: list[str] = []

    def ours(number: int) -> None:
        for turn in range(_ROUNDS):
            rows = {"a-0": 100 * number + turn, "b-0": 100 * number + turn, f"c-{number}-{turn}": turn}
            result = hoodie.write_table(as_rows(rows), str(path), options=options)
            done[str(result.instant)] = rows

    def java() -> None:
        for turn in range(_ROUNDS):
            rows = {"a-0": 1000 + turn, f"d-{turn}": turn}
            for _ in range(50):
                try:
                    hudi_015.write(path, as_rows(rows), theirs(options, metadata))
                    hudi.append(rows)
                    break
                except HudiError as error:
                    failures.append(str(error))

    threads = [threading.Thread(target=ours, args=(1,)), threading.Thread(target=ours, args=(2,))]
    threads.append(threading.Thread(target=java))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(done), len(hudi)) == (2 * _ROUNDS, _ROUNDS), failures
    assert [text for text in failures if "onflict" not in text and "lock" not in text] == []
    times = {str(item.time) for item in Timeline.load(str(path)).commits()}
    others = sorted(times - first - set(done))
    assert len(others) == _ROUNDS
    done.update(zip(others, hudi, strict=True))
    expected: dict[str, int] = {}
    for instant in sorted(done):
        expected.update(done[instant])
    assert has_metadata_table(path) == (metadata == "true")
    assert disagreements(path) == []
    for found in (hoodie.read_table(str(path)), hudi_015.read(path)):
        keys = found.column("id").to_pylist()
        assert len(keys) == len(set(keys))
        assert dict(zip(keys, found.column("v").to_pylist(), strict=True)) == expected


def test_the_lock_in_zookeeper_is_apache_hudis(
    tmp_path: Path, hudi_015: HudiServer, zookeeper: ZooKeeper
) -> None:
    """A write of Hudi's does not get the lock that we hold."""
    from hoodie.config.key import Config
    from hoodie.lock import lock_for
    from hoodie.table.handle import Table, TableRef

    path = tmp_path / "t"
    options = {**OPTIONS, **settings("zookeeper", zookeeper)}
    hoodie.write_table(as_rows({"a-0": 0}), str(path), options=options)
    few = {
        "hoodie.write.lock.wait_time_ms": "500",
        "hoodie.write.lock.client.num_retries": "0",
        "hoodie.write.lock.num_retries": "1",
    }
    config = Config.of({**options, **few})
    provider = lock_for(Table(TableRef.of(str(path), config)), config)
    assert provider is not None
    lease = provider.acquire(10)
    with pytest.raises(HudiError, match=r"nable to acquire|FAILED_TO_ACQUIRE"):
        hudi_015.write(path, as_rows({"a-0": 1}), theirs({**options, **few}))
    assert lease.held
    with pytest.raises(LockTimeout, match="held by process"):
        hoodie.write_table(as_rows({"a-0": 2}), str(path), options={**options, **few})
    lease.release()
    hudi_015.write(path, as_rows({"a-0": 3}), theirs(options))
    assert hoodie.read_table(str(path)).column("v").to_pylist() == [3]
