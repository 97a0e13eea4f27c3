"""Tokens of archived commits: moved into an index, found by a few reads, void where their commits are."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import HoodieError, OutOfOrder, TableError
from hoodie.storage import Access, storage_for
from hoodie.storage.local import LocalStorage
from hoodie.timeline import token_index
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import InstantTime
from hoodie.timeline.token_index import Fact, TokenIndex
from hoodie.timeline.token_store import TokenStore, record, settle, token_folder
from hoodie.timeline.tokens import TOKEN_KEY, TokenCommit
from tests.support.objects import stored
from tests.support.requests import counted
from tests.unit.write.support import PLAIN, plain

FIRST = 20260101000000000
ARCHIVING = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.cleaner.commits.retained": "1",
}


def token(day: int, task: str = "daily/upsert") -> str:
    return f"{task}/-1/2026-01-{day:02d}T00:00:00+00:00/2026-01-{day + 1:02d}T00:00:00+00:00"


def made(number: int, token: str, *partitions: str) -> TokenCommit:
    totals = {"partitions": list(partitions), "num_inserts": number}
    return TokenCommit(token, InstantTime(str(FIRST + number)), "commit", "print", "upsert", totals)


@pytest.fixture(params=["file", "objects"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A table whose timeline begins at number 100, and has 100 to 102."""
    if request.param == "file":
        yield timeline_of(f"{tmp_path}/t", range(100, 103))
    else:
        with stored(tmp_path) as bucket:
            yield timeline_of(f"{bucket}/t", range(100, 103))


def timeline_of(base: str, numbers: Sequence[int]) -> str:
    storage = storage_for(base)
    for number in numbers:
        text = json.dumps({"partitionToWriteStats": {}, "operationType": "UPSERT", "extraMetadata": {}})
        storage.write(f"{base}/.hoodie/{FIRST + number}.commit", text.encode())
    return base


def look(base: str) -> TokenStore:
    storage = storage_for(base)
    return TokenStore(Timeline.load(base, storage), storage)


def settled(base: str, undone: Sequence[str] = ()) -> None:
    storage = storage_for(base)
    settle(storage, base, lambda: Timeline.load(base, storage), lambda timeline: undone)


def files(base: str) -> list[str]:
    return sorted(name for name in storage_for(base).names(token_folder(base)) if name.endswith(".json"))


def earlier(base: str, commit: TokenCommit) -> None:
    """As earlier releases kept it."""
    name = f"{hashlib.sha256(commit.token.encode()).hexdigest()}.json"
    storage_for(base).write(f"{token_folder(base)}/{name}", commit.to_bytes())


@pytest.mark.parametrize("keep", [record, None])
def test_what_is_archived_is_found_before_and_after_it_is_settled(base: str, keep: Any) -> None:
    for number, day in ((1, 5), (2, 7), (3, 6)):
        commit = made(number, token(day), "p", f"of {day}")
        keep(storage_for(base), base, commit) if keep else earlier(base, commit)
    before = answers(base)
    assert before == [(str(FIRST + 1), 7, "p"), (str(FIRST + 3), 7, "of 7"), (str(FIRST + 2), None, None)]
    settled(base)
    assert answers(base) == before
    assert files(base) == []
    settled(base)
    assert answers(base) == before


def answers(base: str) -> list[Any]:
    found = []
    for day, partitions in ((5, ["p"]), (6, ["none", "of 7"]), (7, ["p", "of 5", "of 7"])):
        known, later = look(base).find(token(day)), look(base).later(token(day), partitions)
        assert known is not None
        assert known.totals["partitions"] == ["p", f"of {day}"]
        later_day = None if later is None else later.interval.start.day
        found.append((known.instant, later_day, None if later is None else later.partition))
    return found


def test_what_is_on_the_timeline_stays_beside_it_and_what_was_rolled_back_goes(base: str) -> None:
    storage = storage_for(base)
    for number in (50, 60, 101):
        record(storage, base, made(number, token(number % 20), "p"))
    record(storage, base, made(105, token(19), "p"))  # newer than the timeline's, and not on it
    earlier(base, made(102, token(3), "p"))
    assert look(base).find(token(19)) is None
    settled(base, undone=[str(FIRST + 60)])
    assert [name.partition("-")[0] for name in files(base)] == [str(FIRST + 101), str(FIRST + 102)]
    timeline_of(base, range(110, 113))
    for number in (100, 101, 102):
        storage.delete(f"{base}/.hoodie/{FIRST + number}.commit")
    settled(base)
    assert files(base) == []
    assert [look(base).find(token(day)) is not None for day in (10, 1, 3, 19, 0)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_the_newest_commit_of_a_token_is_found_wherever_it_is(base: str) -> None:
    for number in (3, 1, 2):
        record(storage_for(base), base, made(number, "t"))
        settled(base)
    record(storage_for(base), base, made(4, "t"))
    found = look(base).find("t")
    assert found is not None
    assert found.totals["num_inserts"] == 4


def test_intervals_with_a_time_zone_and_without_are_not_compared(base: str) -> None:
    naive = "daily/upsert/-1/2026-01-09T00:00:00/2026-01-10T00:00:00"
    for number, text in enumerate((naive, token(7), token(5))):
        record(storage_for(base), base, made(number, text, "p"))
    settled(base)
    assert look(base).later(token(8), ["p"]) is None
    later = look(base).later(token(6), ["p"])
    assert later is not None
    assert (later.instant, later.interval.start.day) == (str(FIRST + 1), 7)
    assert look(base).later("daily/upsert/-1/2026-01-08T00:00:00/2026-01-09T00:00:00", ["p"]) is not None
    assert look(base).later(token(6, "daily/other"), ["p"]) is None


def newest(key: str, one: Fact, other: Fact) -> Fact:
    return max(one, other, key=lambda fact: fact["n"])


def test_the_index_grows_in_depth_and_reads_a_node_a_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_index, "NODE_SIZE", 600)
    storage, chance = LocalStorage(access=Access(sync=False)), random.Random(7)
    known: dict[str, int] = {}
    for _ in range(20):
        facts = {f"k{chance.randrange(900)}": {"n": chance.randrange(9)} for _ in range(60)}
        TokenIndex(storage, f"{tmp_path}/i", newest).update(facts)
        known |= {key: max(fact["n"], known.get(key, 0)) for key, fact in facts.items()}
    index = TokenIndex(storage, f"{tmp_path}/i", newest)
    assert {key: fact["n"] for key in known if (fact := index.get(key))} == known
    assert index.get("another") is None
    assert len(list((tmp_path / "i" / "roots").iterdir())) == 3
    nodes = {file.name for file in (tmp_path / "i" / "nodes").iterdir()}
    assert nodes == reached(index), "nodes that were replaced are deleted"
    with counted(str(tmp_path)) as requests:
        TokenIndex(storage_for(str(tmp_path)), f"{tmp_path}/i", newest).get("k1")
    assert (requests.count("names"), len(requests.calls) <= 6) == (1, True), f"\n{requests}"


def reached(index: TokenIndex) -> set[str]:
    found: set[str] = set()
    left = list(index._opened().children.values())
    while left:
        name = left.pop()
        found.add(name)
        left += index.read(name).children.values()
    return found


def test_processes_that_change_the_index_at_once_lose_nothing(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_index, "NODE_SIZE", 300)
    monkeypatch.setattr(token_index, "_ATTEMPTS", 500)
    folder, failed = f"{base}/index", []

    def add(mine: int) -> None:
        try:
            for number in range(8):
                TokenIndex(storage_for(base), folder, newest).update({f"k{mine} {number}": {"n": number}})
        except HoodieError as error:
            failed.append(error)

    threads = [threading.Thread(target=add, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    index = TokenIndex(storage_for(base), folder, newest)
    assert all(index.get(f"k{mine} {number}") == {"n": number} for mine in range(4) for number in range(8))


def test_a_process_that_slept_while_others_went_on_undoes_nothing(base: str) -> None:
    """It has read a root long ago, whose successor is deleted: the name is free again."""
    storage, folder = storage_for(base), f"{base}/index"
    sleeper = TokenIndex(storage, folder, newest)
    sleeper.update({"k": {"n": 0}})
    change = token_index._Change(sleeper)
    root = change.add(sleeper._opened(), {"late": {"n": 1}}, 0)
    for number in range(6):
        TokenIndex(storage, folder, newest).update({f"k{number}": {"n": number}})
    assert not sleeper._publish(root, change)
    assert TokenIndex(storage, folder, newest).get("k5") == {"n": 5}
    sleeper.update({"late": {"n": 1}})
    index = TokenIndex(storage, folder, newest)
    assert (index.get("late"), index.get("k5")) == ({"n": 1}, {"n": 5})


def test_a_damaged_or_missing_part_never_gives_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_index, "NODE_SIZE", 300)
    storage, folder = storage_for(str(tmp_path)), tmp_path / "i"
    facts = {f"k{number}": {"n": number} for number in range(40)}
    TokenIndex(storage, str(folder), newest).update(facts)
    root = folder / "roots" / "1"
    for file in (root, *(folder / "nodes").iterdir()):
        whole = file.read_bytes()
        for spoilt in (
            b"",
            whole[:-1],
            whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
            whole.replace(b"index 1", b"index 2"),
            None,
        ):
            file.write_bytes(spoilt) if spoilt is not None else file.unlink()
            refused = 0
            for key, fact in facts.items():
                if spoilt is None and file == root:
                    continue
                try:
                    assert TokenIndex(storage, str(folder), newest).get(key) == fact
                except TableError as error:
                    refused += error.values["path"] == str(file)
            assert refused or (spoilt is None and file == root)
        file.write_bytes(whole)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"token": 7}', b"[" * 100_000])
def test_a_damaged_file_of_a_token_is_refused(base: str, content: bytes) -> None:
    record(storage_for(base), base, made(1, "t", "p"))
    (name,) = files(base)
    storage_for(base).write(f"{token_folder(base)}/{name}", content)
    with pytest.raises(TableError, match=f"{name} is damaged"):
        look(base).find("t")
    with pytest.raises(TableError, match=f"{name} is damaged"):
        look(base).later(token(1), ["p"])
    settled(base)
    assert files(base) == [name], "and it stays"


def write(table: Path, day: int, **options: str) -> hoodie.WriteResult:
    extra = {TOKEN_KEY: token(day)}
    return hoodie.write_table(
        plain((f"k{day}", day, "x")), str(table), options={**PLAIN, **options}, extra_metadata=extra
    )


def test_an_archiver_settles_and_an_older_interval_is_still_refused(tmp_path: Path) -> None:
    by_commit_time = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", **ARCHIVING}
    first = write(tmp_path / "t", 2, **by_commit_time)
    write(tmp_path / "t", 9, **by_commit_time)
    for number in range(6):
        hoodie.write_table(
            plain(("b", number, "y")), str(tmp_path / "t"), options={**PLAIN, **by_commit_time}
        )
    assert first.instant not in {entry["instant"] for entry in hoodie.instants(str(tmp_path / "t"))}
    assert files(str(tmp_path / "t")) == []
    again = write(tmp_path / "t", 2, **by_commit_time)
    assert (again.status, again.instant) == ("already_committed", first.instant)
    with pytest.raises(OutOfOrder, match="2026-01-09"):
        write(tmp_path / "t", 5, **by_commit_time)
    write(tmp_path / "t", 10, **by_commit_time)


def test_tokens_of_an_earlier_release_are_moved_by_the_next_write(tmp_path: Path) -> None:
    base = str(tmp_path / "t")
    write(tmp_path / "t", 3)
    for number in (1, 2):
        earlier(base, made(number - 10_000_000_000_000_000, token(number), "p"))
    before = look(base).find(token(1))
    write(tmp_path / "t", 4)
    assert len(files(base)) == 2
    assert before is not None
    assert look(base).find(token(1)) == before


def test_a_commit_that_was_taken_back_counts_no_more_whoever_remembers_it(tmp_path: Path) -> None:
    """Its writer wrote down its token only when it had been rolled back, and then the timeline went on."""
    base = str(tmp_path / "t")
    write(tmp_path / "t", 1)
    gone = write(tmp_path / "t", 2)
    (name,) = (name for name in files(base) if name.startswith(gone.instant))
    late = storage_for(base).read(f"{token_folder(base)}/{name}")
    hoodie.rollback_table(base, gone.instant)
    assert name not in files(base)
    storage_for(base).write(f"{token_folder(base)}/{name}", late)
    for number in range(6):
        hoodie.write_table(plain(("b", number, "y")), base, options={**PLAIN, **ARCHIVING})
    assert look(base).find(token(1)) is not None
    assert write(tmp_path / "t", 2).status == "committed"
