"""docs/extending.md, followed: a module in the folder and a line in its registry, and nothing else.

A service is a folder without a line (tests/house/test_services.py).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pyarrow as pa
import pytest

import hoodie
from hoodie.callbacks import CALLBACKS
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError, LockTimeout
from hoodie.index import INDEXES
from hoodie.lock import LOCKS
from hoodie.storage import STORAGES

KEY = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "v"}

#: folder: (registry, name, class, module)
TOYS: dict[str, tuple[Plugins[Any], str, str, str]] = {
    "index": (
        INDEXES,
        "INMEMORY",
        "ToyIndex",
        """
from hoodie.index.simple import SimpleIndex
LOOKED = []
class ToyIndex(SimpleIndex):
    def locate(self, table, slices, keys):
        LOOKED.extend(keys.to_pylist())
        return super().locate(table, slices, keys)
""",
    ),
    "lock": (
        LOCKS,
        "toy",
        "ToyLock",
        """
from hoodie.lock import Holder, Lease, LockProvider
HELD, SAID = [], []
class ToyLock(LockProvider):
    name = "a list"
    def try_acquire(self):
        if HELD:
            return None
        SAID.append("acquired")
        HELD.append(ToyLease(holder=Holder(process="toy", host="shelf", since="noon"), token=str(len(SAID))))
        return HELD[0]
    def holder(self):
        return HELD[0].holder if HELD else None
class ToyLease(Lease):
    @property
    def held(self):
        return HELD == [self]
    def release(self):
        if self.held:
            HELD.clear()
""",
    ),
    "storage": (
        STORAGES,
        "toy",
        "ToyStorage",
        """
import io, os, time
from hoodie.errors import AlreadyExists
from hoodie.storage import FileInfo, Output, Storage
FILES = {}
class ToyStorage(Storage):
    @classmethod
    def make(cls, *, uri, options):
        return cls()
    def list(self, path):
        below = {file[len(path) + 1:].partition("/")[0] for file in FILES if file.startswith(path + "/")}
        return [self.info(f"{path}/{name}") for name in sorted(below)]
    def info(self, path):
        if path in FILES:
            time_ms, data = FILES[path]
            return FileInfo(path, os.path.basename(path), len(data), time_ms, False)
        if any(file.startswith(path + "/") for file in FILES):
            return FileInfo(path, os.path.basename(path), 0, 0, True)
        return None
    def read(self, path):
        return self.open_input(path).read()
    def open_input(self, path):
        if path not in FILES:
            raise FileNotFoundError(path)
        return io.BytesIO(FILES[path][1])
    def write(self, path, data):
        FILES[path] = (int(time.time() * 1000), bytes(data))
    def create(self, path, data, check=None):
        if check is not None:
            check()
        mine = (int(time.time() * 1000), bytes(data))
        if FILES.setdefault(path, mine) is not mine:
            raise AlreadyExists(f"{path} exists already", path=path)
    def output(self, path, *, exclusive=False):
        return ToyOutput(path, self.create if exclusive else self.write)
    def delete(self, path):
        FILES.pop(path, None)
    def delete_tree(self, path):
        for file in [file for file in FILES if file.startswith(path + "/")]:
            self.delete(file)
class ToyOutput(io.BytesIO, Output):
    def __init__(self, path, put):
        super().__init__()
        self.path, self.put = path, put
    def commit(self):
        if not self.closed:
            self.put(self.path, self.getvalue())
            self.close()
""",
    ),
    "callbacks": (
        CALLBACKS,
        "toy",
        "ToyCallback",
        """
from hoodie.callbacks import CommitCallback
TOLD = []
class ToyCallback(CommitCallback):
    def __init__(self, *, config):
        pass
    @classmethod
    def make(cls, *, config):
        return cls(config=config)
    def call(self, event):
        TOLD.append(event.instant.time)
""",
    ),
}


@pytest.fixture
def toy(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The module of the toy, in its folder and registered while the test runs."""
    folder: str = request.param
    registry, name, cls, text = TOYS[folder]
    package = importlib.import_module(f"hoodie.{folder}")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/toy.py").write_text(text)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / "more")])
    monkeypatch.setitem(cast("dict[str, str]", registry.places), name, f"hoodie.{folder}.toy:{cls}")
    registry.__dict__.pop("_names", None)
    try:
        yield importlib.import_module(f"hoodie.{folder}.toy")
    finally:
        del sys.modules[f"hoodie.{folder}.toy"]
        registry.__dict__.pop("_names", None)


def rows(*pairs: tuple[str, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in pairs], "v": [value for _, value in pairs]})


def write(table: str, options: dict[str, str], *pairs: tuple[str, int]) -> str:
    return hoodie.write_table(rows(*pairs), table, options={**KEY, **options}).instant or ""


def read(table: str) -> dict[str, int]:
    return {row["id"]: row["v"] for row in hoodie.read_table(table).select(["id", "v"]).to_pylist()}


@pytest.mark.parametrize("toy", ["index"], indirect=True)
def test_an_index(toy: ModuleType, tmp_path: Path) -> None:
    options = {"hoodie.index.type": "INMEMORY"}
    write(str(tmp_path / "t"), options, ("a", 1), ("b", 1))
    write(str(tmp_path / "t"), options, ("b", 2), ("c", 2))
    assert read(str(tmp_path / "t")) == {"a": 1, "b": 2, "c": 2}
    assert toy.LOOKED == ["b", "c"]


@pytest.mark.parametrize("toy", ["lock"], indirect=True)
def test_a_lock(toy: ModuleType, tmp_path: Path) -> None:
    options = {"hoodie.write.lock.provider": "toy", "hoodie.write.lock.client.num_retries": "0"}
    options["hoodie.write.lock.wait_time_ms"] = "0"
    write(str(tmp_path / "t"), options, ("a", 1))
    assert toy.SAID  # taken
    assert not toy.HELD  # and given back
    toy.ToyLock.try_acquire(toy.ToyLock.__new__(toy.ToyLock))
    with pytest.raises(LockTimeout, match=r"a list, was not free within 0.* held by toy on shelf since noon"):
        write(str(tmp_path / "t"), options, ("a", 2))
    toy.HELD.clear()
    assert read(str(tmp_path / "t")) == {"a": 1}


@pytest.mark.parametrize("toy", ["storage"], indirect=True)
def test_a_storage(toy: ModuleType) -> None:
    table = "toy://box/t"
    write(table, {}, ("a", 1), ("b", 1))
    write(table, {"hoodie.write.lock.provider": "filesystem"}, ("b", 2))
    assert read(table) == {"a": 1, "b": 2}
    assert {path.partition("/t/")[0] for path in toy.FILES} == {"toy://box"}
    with pytest.raises(ConfigError, match="unknown setting"):
        write(table, {"hoodie.toy": "1"}, ("b", 3))


@pytest.mark.parametrize("toy", ["callbacks"], indirect=True)
def test_a_callback(toy: ModuleType, tmp_path: Path) -> None:
    name = {"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.class": "toy"}
    instants = [write(str(tmp_path / "t"), name, ("a", value)) for value in (1, 2)]
    assert instants == toy.TOLD


def test_a_lock_of_the_callers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line in a registry: the module is on the path of the driver."""
    (tmp_path / "mine_lock.py").write_text(TOYS["lock"][3])
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"hoodie.write.lock.provider": "mine_lock:ToyLock"}
    write(str(tmp_path / "t"), options, ("a", 1))
    assert read(str(tmp_path / "t")) == {"a": 1}
    assert importlib.import_module("mine_lock").SAID
    with pytest.raises(ConfigError, match=r"is no lock provider: derive it from hoodie\.lock\.LockProvider"):
        write(str(tmp_path / "t"), {"hoodie.write.lock.provider": "json:JSONDecoder"}, ("a", 2))
    del sys.modules["mine_lock"]
