"""Exactly once: which commit was made for a token, and of what.

A write's token (DAG, task, map index, data interval) and a fingerprint of its source are texts in its
commit's extra metadata, so that publishing the commit and remembering the token are one step. Beside it
`.hoodie/.aux/airflow-tokens/` keeps a small file for every token, written after the commit and before the
commit is archived: tokens outlive archival. Such a file counts only while its commit does. Readers of the
format ignore the folder. Standard library only, so that an operator asks before it starts a JVM.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.storage import Storage
from hoodie.timeline.active import META_FOLDER, Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant

#: keys of a commit's extra metadata
TOKEN_KEY = "airflow.token"
#: bytes that the metadata of any commit has
_LEAST = 40
FINGERPRINT_KEY = "airflow.fingerprint"

_FOLDER = f"{META_FOLDER}/.aux/airflow-tokens"


@dataclass(frozen=True)
class TokenCommit:
    """The commit of a token: its instant and action, the source's fingerprint ("": none), what it wrote."""

    token: str
    instant: str
    action: str
    fingerprint: str
    operation: str
    totals: Mapping[str, Any]

    @classmethod
    def of(cls, instant: Instant, metadata: CommitMetadata) -> TokenCommit | None:
        """None for a commit without a token."""
        token = metadata.extra_metadata.get(TOKEN_KEY)
        if not token:
            return None
        return cls(
            token,
            instant.time,
            instant.action.value,
            metadata.extra_metadata.get(FINGERPRINT_KEY) or "",
            metadata.operation_type.lower(),
            {
                "partitions": metadata.partitions,
                "num_inserts": metadata.num_inserts,
                "num_updates": metadata.num_updates,
                "num_deletes": metadata.num_deletes,
                "num_writes": metadata.num_writes,
                "num_files": metadata.num_files,
                "bytes_written": metadata.bytes_written,
                "num_missing": metadata.num_missing,
                "num_replaced": metadata.num_replaced,
                "num_dropped": metadata.num_dropped,
            },
        )

    def is_of(self, fingerprint: str) -> bool:
        """Was the same source written, as far as both sides tell."""
        return not fingerprint or not self.fingerprint or fingerprint == self.fingerprint

    def result(self, table: str, base_path: str) -> dict[str, Any]:
        """What a write reports that finds itself done: the fields of a WriteResult."""
        return {
            "status": "already_committed",
            "table": table,
            "base_path": base_path,
            "action": self.action,
            "instant": self.instant,
            "operation": self.operation,
            **self.totals,
            "duration_s": 0.0,
            "warnings": [],
            "rolled_back": [],
            "metadata_table_removed": False,
        }


def find(timeline: Timeline, storage: Storage, token: str) -> TokenCommit | None:
    """The newest commit of the token that still counts: on the timeline, or archived."""
    kept = _kept(timeline, storage, token)
    for instant in reversed(timeline.commits()):
        if kept is not None and instant.time <= kept.instant:
            break
        try:
            data = timeline.read(instant, storage)
        except FileNotFoundError:  # archived, or rolled back, this moment
            continue
        _check(timeline, instant, data)
        if token.encode() not in data and json.dumps(token)[1:-1].encode() not in data:
            continue
        found = TokenCommit.of(instant, timeline.intended(instant, data))
        if found is not None and found.token == token:
            return found
    return kept


def _check(timeline: Timeline, instant: Instant, data: bytes) -> None:
    """TableError for a commit that may have had any token: its file is emptied."""
    if len(data) < _LEAST:
        timeline.intended(instant, data)


def all_commits(timeline: Timeline, storage: Storage) -> Iterator[TokenCommit]:
    """All commits with a token that still count: on the timeline, oldest first, and archived ones."""
    here = set()
    for instant in timeline.commits():
        try:
            data = timeline.read(instant, storage)
        except FileNotFoundError:  # archived, or rolled back, this moment
            continue
        here.add(instant.time)
        _check(timeline, instant, data)
        if TOKEN_KEY.encode() in data:
            found = TokenCommit.of(instant, timeline.intended(instant, data))
            if found is not None:
                yield found
    for item in storage.list(f"{timeline.base_path}/{_FOLDER}"):
        kept = _load(timeline, storage, item.path) if item.name.endswith(".json") else None
        if kept is not None and kept.instant not in here:
            yield kept


def token_folder(base_path: str) -> str:
    """Where tokens are remembered."""
    return f"{base_path}/{_FOLDER}"


def record(storage: Storage, base_path: str, commit: TokenCommit) -> None:
    """Keep the token beyond the archival of its commit. Call when the commit is visible."""
    content = json.dumps({**vars(commit), "totals": dict(commit.totals)}, sort_keys=True)
    storage.write(_path(base_path, commit.token), content.encode())


def preserve(timeline: Timeline, storage: Storage, instant: Instant, metadata: CommitMetadata) -> None:
    """Remember a commit that is going to be archived, if it has a token and no later commit has the same."""
    commit = TokenCommit.of(instant, metadata)
    if commit is None:
        return
    kept = _kept(timeline, storage, commit.token)
    if kept is None or kept.instant < commit.instant:
        record(storage, timeline.base_path, commit)


def remove(storage: Storage, base_path: str, instant: str, metadata: CommitMetadata) -> None:
    """The token of a commit that is going to be rolled back counts no more, also not once the timeline begins
    after it, when it would be taken for archived.
    """
    token = metadata.extra_metadata.get(TOKEN_KEY)
    if not token:
        return
    path = _path(base_path, token)
    with contextlib.suppress(FileNotFoundError, ValueError, AttributeError, RecursionError):
        if json.loads(storage.read(path)).get("instant") == instant:
            storage.delete_many([path])


def _path(base_path: str, token: str) -> str:
    return f"{token_folder(base_path)}/{hashlib.sha256(token.encode()).hexdigest()}.json"


def _kept(timeline: Timeline, storage: Storage, token: str) -> TokenCommit | None:
    """None when there is no file, or its commit was rolled back since."""
    kept = _load(timeline, storage, _path(timeline.base_path, token))
    return kept if kept is not None and kept.token == token else None


def _load(timeline: Timeline, storage: Storage, path: str) -> TokenCommit | None:
    try:
        kept = TokenCommit(**json.loads(storage.read(path)))
    except (FileNotFoundError, ValueError, TypeError, RecursionError):
        return None
    texts = (kept.token, kept.instant, kept.action, kept.fingerprint, kept.operation)
    whole = all(isinstance(text, str) for text in texts) and isinstance(kept.totals, dict)
    return kept if whole and timeline.is_committed(kept.instant) else None
