"""Tokens beside the timeline: whatever step a process dies or fails at, what is known stays known."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.storage import storage_for
from hoodie.timeline import token_index
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import InstantTime
from hoodie.timeline.token_store import TokenStore, record, settle
from hoodie.timeline.tokens import TOKEN_KEY, TokenCommit
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.processes import forked
from tests.unit.test_token_store import earlier, files, timeline_of
from tests.unit.write.support import PLAIN, plain

pytestmark = pytest.mark.crash

#: of these, three were settled before, three are files of an earlier release, and one is on the timeline
COUNT = 9


def commit(number: int) -> TokenCommit:
    day = f"d/t/-1/2026-01-{number + 1:02d}/2026-01-{number + 2:02d}"
    totals = {"partitions": ["p", f"of {number}"], "num_inserts": number}
    instant = "20260101000000100" if number == COUNT - 1 else f"202501010000000{number:02d}"
    return TokenCommit(day, InstantTime(instant), "commit", "print", "upsert", totals)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(token_index, "NODE_SIZE", 1_200)
    base = timeline_of(str(tmp_path / "t"), range(100, 103))
    for number in range(COUNT):
        earlier(base, commit(number)) if number in (3, 4, 5) else record(
            storage_for(base), base, commit(number)
        )
        if number == 2:
            settled(base)
    last = commit(COUNT - 1)
    text = {"partitionToWriteStats": {"p": [], f"of {COUNT - 1}": []}, "operationType": "UPSERT"}
    text["extraMetadata"] = {TOKEN_KEY: last.token}
    storage_for(base).write(f"{base}/.hoodie/{last.instant}.commit", json.dumps(text).encode())
    return Path(base)


def settled(base: str) -> None:
    storage = storage_for(base)
    settle(storage, base, lambda: Timeline.load(base, storage), lambda timeline: ())


def check(base: str) -> None:
    storage = storage_for(base)
    for number in range(COUNT):
        store = TokenStore(Timeline.load(base, storage), storage)
        assert store.find(commit(number).token) == commit(number)
        later = store.later(commit(number).token, [f"of {number + 1}", "none"])
        assert (later.instant if later else None) == (
            commit(number + 1).instant if number + 1 < COUNT else None
        )
    assert store.find("another") is None


def cases(table: Path) -> Iterator[tuple[int, Phase, bool]]:
    undisturbed = Faults()
    with injected(undisturbed):
        settled(copied(table, "probe"))
    alike: dict[tuple[str, str], list[int]] = {}
    for number, change in enumerate(undisturbed.log, 1):
        alike.setdefault((change.name, os.path.dirname(change.path)), []).append(number)
    for numbers in alike.values():
        for number in {numbers[0], numbers[len(numbers) // 2], numbers[-1]}:
            change = undisturbed.log[number - 1]
            for phase in Phase:
                if phase is not Phase.DURING or change.splits:
                    yield number, phase, change.name in ("create", "write")


def copied(table: Path, name: str) -> str:
    path = table.with_name(name)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(table, path, copy_function=os.link)
    return str(path)


def test_settling_fails_at_any_step(table: Path) -> None:
    """A dead disk, and one failure alone, with its answer lost or not. Of steps that are alike, three."""
    found = list(cases(table))
    assert len(found) > 15
    for number, phase, _ in found:
        for once in (False, True):
            base = copied(table, "failed")
            survived = contextlib.suppress(InjectedFault, HoodieError)
            with survived, injected(Faults(at=number, phase=phase, once=once)):
                settled(base)
            check(base)
            mended(base)


def test_settling_is_killed_at_any_step(table: Path) -> None:
    for number, phase, shows in cases(table):
        if phase is Phase.AFTER or not shows:
            continue
        base = copied(table, "killed")

        def die(base: str = base, number: int = number, phase: Phase = phase) -> None:
            with injected(Faults(at=number, phase=phase, kill=True)):
                settled(base)

        assert forked(die) < 0
        check(base)
        mended(base)


def mended(base: str) -> None:
    settled(base)
    check(base)
    assert [name.partition("-")[0] for name in files(base)] == [commit(COUNT - 1).instant]


ARCHIVING = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.cleaner.commits.retained": "1",
}


def test_archiving_fails_at_any_step(tmp_path: Path) -> None:
    """Of steps that are alike the first and the last; one of the commits has no file for its token."""
    table, made = tmp_path / "t", {}
    for day in range(1, 7):
        text = f"d/t/-1/2026-01-{day:02d}/2026-01-{day + 1:02d}"
        options = {**PLAIN, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
        result = hoodie.write_table(
            plain((f"k{day}", day, "x")), str(table), options=options, extra_metadata={TOKEN_KEY: text}
        )
        made[text] = result.instant
    hoodie.clean_table(str(table), options=ARCHIVING)
    (table / ".hoodie/.aux/airflow-tokens" / files(str(table))[0]).unlink()
    for change in alike(table):
        base = copied(table, "failed")
        with contextlib.suppress(InjectedFault, HoodieError), injected(Faults(at=change)):
            hoodie.archive_table(base, options=ARCHIVING)
        assert known(base, made) == made, change
        hoodie.archive_table(base, options=ARCHIVING)
        assert known(base, made) == made, change
    hoodie.archive_table(str(table), options=ARCHIVING)
    assert len(files(str(table))) == len(Timeline.load(str(table)).commits()) < len(made)
    assert known(str(table), made) == made


def alike(table: Path) -> list[int]:
    with injected(undisturbed := Faults()):
        hoodie.archive_table(copied(table, "probe"), options=ARCHIVING)
    steps: dict[tuple[str, str, str], list[int]] = {}
    for number, change in enumerate(undisturbed.log, 1):
        folder, name = os.path.split(change.path)
        steps.setdefault((change.name, folder, name.partition(".")[2]), []).append(number)
    return sorted({number for numbers in steps.values() for number in (numbers[0], numbers[-1])})


def known(base: str, made: Mapping[str, str]) -> dict[str, str | None]:
    storage = storage_for(base)
    store = TokenStore(Timeline.load(base, storage), storage)
    return {text: found.instant if (found := store.find(text)) else None for text in made}
