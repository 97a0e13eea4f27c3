"""Services whose last request is done and its answer lost: they are done, or say that they may be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import CommitUnknown, StorageError
from hoodie.timeline.active import Timeline
from tests.support.storages import Delegating, wrapped

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.cleaner.commits.retained": "1",
}
Act = Callable[[str], Any]
ACTS: dict[str, Act] = {
    "rollback": lambda path: hoodie.rollback_table(path, _last(path), options=OPTIONS),
    "clean": lambda path: hoodie.clean_table(path, options=OPTIONS),
}
DONE = {"rollback": "rolled_back", "clean": "cleaned"}


def _last(path: str) -> str:
    commit = Timeline.load(path).last_commit
    assert commit is not None
    return commit.time


class _Losing(Delegating):
    """The answer of the file's creation is lost; `blind`: so is that of each later request for it."""

    name = ""
    blind = False
    _lost = ""

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        super().create(path, data, check)
        if path.endswith(f".{self.name}") and not re.search("/metadata/|/[.]aux/", path):
            self._lost = path
            raise StorageError(f"{path}: no answer", path=path)

    def read(self, path: str) -> bytes:
        if path == self._lost and self.blind:
            raise StorageError(f"{path}: no answer", path=path)
        return super().read(path)


@pytest.fixture(params=[6, 9])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a table of a version."""
    found = str(tmp_path / "t")
    for value in range(4):
        made = {"hoodie.write.table.version": request.param}
        hoodie.write_table(pa.table({"id": ["a"], "v": [value]}), found, options={**OPTIONS, **made})
    return found


@pytest.mark.parametrize("name", ACTS)
def test_a_service_whose_last_answer_is_lost_is_done(
    path: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Losing, "name", name)
    with wrapped(_Losing):
        assert ACTS[name](path).status == DONE[name]
    assert [item.completed for item in Timeline.load(path) if item.action.value == name] == [True]
    assert list(Path(path, ".hoodie/.heartbeat").glob("*")) == []


@pytest.mark.parametrize("name", ACTS)
def test_a_service_that_cannot_see_what_became_of_it_says_so(
    path: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Losing, "name", name)
    monkeypatch.setattr(_Losing, "blind", True)
    value = hoodie.read_table(path).column("v").to_pylist()[0]
    target = _last(path)
    with (
        wrapped(_Losing),
        pytest.raises(CommitUnknown, match=f"{name} .* may be done: .* Run it again") as error,
    ):
        ACTS[name](path)
    assert error.value.values["repeatable"] is True
    if name == "rollback":
        assert hoodie.rollback_table(path, target, options=OPTIONS).status == "skipped", "it was done"
        assert hoodie.read_table(path).column("v").to_pylist() == [value - 1]
    else:
        assert hoodie.clean_table(path, options=OPTIONS).status in ("cleaned", "skipped")
        assert hoodie.read_table(path).column("v").to_pylist() == [value]


class _Failing(Delegating):
    """Nothing is deleted on the timeline once the rollback is completed."""

    _done = False

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        super().create(path, data, check)
        self._done = self._done or path.endswith(".rollback")

    def delete(self, path: str) -> None:
        if self._done:
            raise StorageError(f"{path}: no answer", path=path)
        super().delete(path)


def test_what_a_rollback_leaves_is_no_failure_of_it(path: str) -> None:
    target = _last(path)
    with wrapped(_Failing):
        assert hoodie.rollback_table(path, target, options=OPTIONS).status == "rolled_back"
    assert hoodie.read_table(path).column("v").to_pylist() == [2]
    hoodie.write_table(pa.table({"id": ["b"], "v": [9]}), path, options=OPTIONS)
    assert sorted(hoodie.read_table(path).column("v").to_pylist()) == [2, 9]
