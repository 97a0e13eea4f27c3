"""Tokens in files of their own, so that they remain when their commits are archived.

The commit itself contains its token, so one step publishes the commit and records the token. Readers of the
format ignore the folder `.hoodie/.aux/airflow-tokens`:

    <instant>-<hash>.json   the token of a commit. Its writer creates the file after the commit, or else the
                            archiver
    index/                  tokens of archived commits; a few reads find one (timeline.token_index)
    <hash>.json             either of them, from earlier releases
- `settle` moves the first and the last into the index after their commits are archived. It deletes those of
  commits that were rolled back. So tokens in the index are final, and it never deletes any.
- The file of a moved token is deleted after the move. A kill in between leaves the token twice, without harm.
- A look-up reads the few files that are not in the index yet, and a few nodes of the index.

Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from hoodie.errors import TableError
from hoodie.storage import Storage
from hoodie.timeline.active import META_FOLDER, Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.commit_details import head_of
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.timeline.token_index import Fact, Interval, TokenIndex, interval_of
from hoodie.timeline.tokens import TOKEN_KEY, TokenCommit

_FOLDER = f"{META_FOLDER}/.aux/airflow-tokens"
_RECENT = re.compile(r"(\d{14}|\d{17})-([0-9a-f]{16})\.json", re.ASCII)
_EARLIER = re.compile(r"[0-9a-f]{64}\.json")
#: bytes that the metadata of any commit has
_LEAST = 40
#: files of archived commits that wait for the next archiver; of more a writer takes care
_WAITING = 50
#: what begins the key of a token; those of tasks begin otherwise
_TOKEN = "token "
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: files that are moved in one step, and those of earlier releases in one `settle`
_BATCH, _MOST_EARLIER = 1_000, 20_000


def token_folder(base_path: str) -> str:
    """Where tokens are remembered."""
    return f"{base_path}/{_FOLDER}"


def swept_folders(base_path: str) -> Sequence[str]:
    """Where killed writers may leave unfinished files of tokens."""
    return token_folder(base_path), f"{token_folder(base_path)}/index/roots"


@dataclass(frozen=True)
class LaterCommit:
    """A commit of a later data interval that wrote to the partition."""

    interval: Interval
    instant: InstantTime
    partition: str


class TokenStore:
    """The tokens of a table, as its timeline was listed, at one moment: made anew for each look."""

    def __init__(self, timeline: Timeline, storage: Storage) -> None:
        self._timeline, self._storage = timeline, storage
        self._folder = token_folder(timeline.base_path)

    def find(self, token: str) -> TokenCommit | None:
        """The newest commit of the token that still counts: on the timeline, or archived. Raises TableError
        for damaged commits and files that may have had it.
        """
        timeline = self._timeline
        stored = self._stored(token)
        missed = False
        for instant in reversed(timeline.commits()):
            if stored is not None and REQUESTED.until(instant.time, stored.instant):
                break
            data = self._read(instant)
            missed = missed or data is None
            if data is None or (token.encode() not in data and json.dumps(token)[1:-1].encode() not in data):
                continue
            found = TokenCommit.of(instant, timeline.parse_state(instant, data))
            if found is not None and found.token == token:
                return found
        # a commit that was archived meanwhile may have had it
        return TokenStore(timeline, self._storage)._stored(token) if missed else stored

    def later(self, token: str, partitions: Iterable[str]) -> LaterCommit | None:
        """A commit of a later data interval of the token's task, whatever its map index, that wrote to one
        of the partitions; archived ones, too. None for a token without an interval. Raises as `find`.
        """
        own = interval_of(token)
        wanted = sorted(set(partitions))
        if own is None or not wanted:
            return None
        task, interval = own
        found: list[LaterCommit] = []
        for commit in self.unsettled():
            if (later := _later(task, interval, commit.token)) is not None:
                both = sorted(set(wanted) & set(commit.totals.get("partitions") or ()))
                if both:
                    found.append(LaterCommit(later, commit.instant, both[0]))
        if found:
            return max(found, key=lambda item: item.interval)
        index = index_of(self._storage, self._timeline.base_path)
        if self._indexed(index, _task_key(task, interval), task, interval) is None:
            return None
        for partition in wanted:
            known = self._indexed(index, _partition_key(task, interval, partition), task, interval)
            if known is not None:
                return LaterCommit(known[0], known[1], partition)
        return None

    def unsettled(self) -> Iterator[TokenCommit]:
        """Commits with a token that still count and that are not in the index: those on the timeline, oldest
        first, then those that were archived since tokens were settled last.
        """
        files = self._recent, self._earlier  # before the commits, which may be archived meanwhile
        here = set()
        for instant in self._timeline.commits():
            data = self._read(instant)
            if data is None:
                continue
            here.add(instant.time)
            if TOKEN_KEY.encode() in data:
                found = TokenCommit.of(instant, self._timeline.parse_state(instant, data))
                if found is not None:
                    yield found
        recent, earlier = files
        for name in [*(name for time, name in recent if time not in here), *earlier]:
            kept = self._load(name)
            if kept is not None and kept.instant not in here:
                yield kept

    @property
    def crowded(self) -> bool:
        """Are there so many files that look-ups take their time?"""
        waiting = sum(self._timeline.is_archived(time) for time, _ in self._recent)
        return bool(self._earlier) or waiting > _WAITING

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._storage.names(self._folder))

    @cached_property
    def _recent(self) -> list[tuple[str, str]]:
        """Instants and names of files, newest first."""
        return sorted(_with_instants(self._names), reverse=True)

    @cached_property
    def _earlier(self) -> list[str]:
        return sorted(name for name in self._names if _EARLIER.fullmatch(name))

    def _stored(self, token: str) -> TokenCommit | None:
        digest = _digest(token)
        names = [name for _, name in self._recent if name.endswith(f"-{digest[:16]}.json")]
        names += [name for name in self._earlier if name == f"{digest}.json"]
        found = [kept for name in names if (kept := self._load(name)) is not None]
        # after the files: what was moved meanwhile is there
        fact = index_of(self._storage, self._timeline.base_path).get(_token_key(token))
        if fact is not None:
            found += [kept for kept in (self._counts(self._indexed_commit(fact)),) if kept is not None]
        mine = [kept for kept in found if kept.token == token]
        if not mine:
            return None
        newest = max(mine, key=lambda kept: REQUESTED.key(kept.instant))
        commits = self._timeline.commits()
        known = next((item.completion for item in commits if item.time == newest.instant), None)
        return replace(newest, completion=known)

    def _indexed(
        self, index: TokenIndex, key: str, task: str, interval: Interval
    ) -> tuple[Interval, InstantTime] | None:
        fact = index.get(key)
        if fact is None or not _is_order(fact):
            return None
        later = _later(task, interval, fact["token"])
        return (
            (later, InstantTime(fact["instant"]))
            if later and self._timeline.is_committed(fact["instant"])
            else None
        )

    def _read(self, instant: Instant) -> bytes | None:
        """None for a commit that was archived, or rolled back, this moment. TableError for one that may have
        had any token: its file is emptied.
        """
        try:
            data = self._timeline.read(instant, self._storage)
        except FileNotFoundError:
            return None
        if len(data) < _LEAST:
            self._timeline.parse_state(instant, data)
        return data

    def _load(self, name: str) -> TokenCommit | None:
        """None where it was moved meanwhile, or its commit counts no more."""
        path = f"{self._folder}/{name}"
        try:
            data = self._storage.read(path)
        except FileNotFoundError:
            return None
        return self._counts(_parse(data, path))

    def _indexed_commit(self, fact: Fact) -> TokenCommit:
        try:
            return TokenCommit.of_value(fact)
        except ValueError:
            folder = f"{self._folder}/index"
            raise TableError(f"{folder} is damaged; restore it from a copy", path=folder) from None

    def _counts(self, kept: TokenCommit) -> TokenCommit | None:
        return kept if self._timeline.is_committed(kept.instant) else None


def record(storage: Storage, base_path: str, commit: TokenCommit) -> None:
    """Keep the token beyond the archival of its commit. Call when the commit is visible."""
    storage.write(f"{token_folder(base_path)}/{_name(commit.instant, commit.token)}", commit.to_bytes())


class TokenKeeper:
    """Keeps tokens of completed commits that are going to be archived, where their writers did not."""

    def __init__(self, timeline: Timeline, storage: Storage) -> None:
        self._timeline = timeline
        self._storage = storage

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._storage.names(token_folder(self._timeline.base_path)))

    def keep(self, instant: Instant, data: bytes) -> None:
        """The token of a commit; `data`: of its file."""
        if TOKEN_KEY.encode() not in data:
            return
        head = head_of(data) or self._timeline.commit(instant, self._storage).head
        token = head.extra_metadata.get(TOKEN_KEY)
        if token and _name(instant.time, token) not in self._names:
            commit = TokenCommit.of(instant, self._timeline.commit(instant, self._storage))
            if commit is not None:
                record(self._storage, self._timeline.base_path, commit)


def remove(storage: Storage, base_path: str, instant: InstantTime, metadata: CommitMetadata) -> None:
    """The token of a commit that is going to be rolled back counts no more, also not once the timeline begins
    after it, when it would be taken for archived.
    """
    token = metadata.extra_metadata.get(TOKEN_KEY)
    if not token:
        return
    folder = token_folder(base_path)
    storage.delete_many([f"{folder}/{_name(instant, token)}"])
    earlier = f"{folder}/{_digest(token)}.json"
    with contextlib.suppress(FileNotFoundError, TableError):
        if _parse(storage.read(earlier), earlier).instant == instant:
            storage.delete_many([earlier])


def settle(
    storage: Storage,
    base_path: str,
    load: Callable[[], Timeline],
    undone: Callable[[Timeline], Collection[str]],
) -> None:
    """Move the tokens of archived commits into the index, and forget those of commits that are gone.

    `load` lists the timeline; `undone` gives the instants that its rollbacks and restores took back.
    Several processes may settle at once, and go on where one was killed. Raises TableError where the index is
    damaged, StorageError, and CommitConflict.
    """
    folder = token_folder(base_path)
    names = sorted(storage.names(folder))
    timeline = load()  # after the names: their commits were there, so that a missing one is archived or gone
    if not timeline.commits():
        return
    active = {instant.time for instant in timeline.commits()}
    left = [name for time, name in _with_instants(names) if time not in active]
    left += [name for name in names if _EARLIER.fullmatch(name)][:_MOST_EARLIER]
    gone = undone(timeline) if left else ()
    for start in range(0, len(left), _BATCH):
        _move(storage, timeline, left[start : start + _BATCH], gone)


def _move(storage: Storage, timeline: Timeline, names: Sequence[str], undone: Collection[str]) -> None:
    folder = token_folder(timeline.base_path)
    index = index_of(storage, timeline.base_path)
    facts: dict[str, Fact] = {}
    done: list[str] = []
    for name in names:
        path = f"{folder}/{name}"
        try:
            commit = _parse(storage.read(path), path)
        except (FileNotFoundError, TableError):  # one that is damaged stays: look-ups refuse it
            continue
        if timeline.is_archived(commit.instant) and commit.instant not in undone:
            facts = index.merged(facts, facts_of(commit))
        elif timeline.is_committed(commit.instant) and not timeline.is_archived(commit.instant):
            record(storage, timeline.base_path, commit)
        done.append(path)
    index.update(facts)
    storage.delete_many(done)


def facts_of(commit: TokenCommit) -> dict[str, Fact]:
    """What look-ups ask of an archived commit, by key."""
    facts: dict[str, Fact] = {_token_key(commit.token): commit.value()}
    if (found := interval_of(commit.token)) is not None:
        task, interval = found
        order = {"token": commit.token, "instant": commit.instant}
        facts[_task_key(task, interval)] = order
        for partition in commit.totals.get("partitions") or ():
            facts[_partition_key(task, interval, str(partition))] = order
    return facts


def _merge(key: str, one: Fact, other: Fact) -> Fact:
    """The newest commit of a token; of a task, or a task's partition, the one of the latest interval."""
    return max(one, other, key=lambda fact: _rank(key, fact))


def _rank(key: str, fact: Fact) -> tuple[Any, ...]:
    if key.startswith(_TOKEN):
        return (str(fact.get("instant")),)
    found = interval_of(fact["token"]) if _is_order(fact) else None
    if found is None:
        return (False,)
    start, end = (
        moment - (_EPOCH if moment.tzinfo else _EPOCH.replace(tzinfo=None))
        for moment in (found[1].start, found[1].end)
    )
    return True, start, end, fact["instant"]


def _later(task: str, interval: Interval, token: str) -> Interval | None:
    """The interval of a token, if it is of the task and later."""
    found = interval_of(token)
    if found is None or found[0] != task:
        return None
    aware = found[1].start.tzinfo is not None
    return found[1] if aware == (interval.start.tzinfo is not None) and found[1] > interval else None


def _is_order(fact: Fact) -> bool:
    return isinstance(fact.get("token"), str) and isinstance(fact.get("instant"), str)


def _token_key(token: str) -> str:
    return f"{_TOKEN}{token}"


def _task_key(task: str, interval: Interval) -> str:
    """Intervals with a time zone, and those without, are not compared."""
    return f"{'naive' if interval.start.tzinfo is None else 'aware'} {task}"


def _partition_key(task: str, interval: Interval, partition: str) -> str:
    return f"{_task_key(task, interval)}\n{partition}"


def index_of(storage: Storage, base_path: str) -> TokenIndex:
    return TokenIndex(storage, f"{token_folder(base_path)}/index", _merge)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _name(instant: InstantTime, token: str) -> str:
    return f"{instant}-{_digest(token)[:16]}.json"


def _with_instants(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(instant, name) of the files that name their instant."""
    return ((match[1], match[0]) for name in names if (match := _RECENT.fullmatch(name)))


def _parse(data: bytes, path: str) -> TokenCommit:
    """Raises TableError for a file that says nothing, or not what its name does."""
    try:
        commit = TokenCommit.of_value(json.loads(data))
    except (ValueError, RecursionError):
        commit = None
    name = path.rpartition("/")[2]
    if commit is None or name not in (_name(commit.instant, commit.token), f"{_digest(commit.token)}.json"):
        raise TableError(
            f"{path} is damaged: which data interval was written can't be seen; restore it from a copy, or "
            "delete it: should the commit that it names be archived, its task would write again",
            path=path,
        )
    return commit
