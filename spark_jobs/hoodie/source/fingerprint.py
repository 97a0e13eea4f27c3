"""What a write reads, in one text: a task that runs again knows by it whether its source has changed.

A commit keeps it beside its token (hoodie.timeline.tokens), which compares two of them. The text of a source
may never change: a retry after an upgrade has to find the commit that was made before. Standard library only,
so that an operator compares before it starts a JVM.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hoodie.config.functions import identity, is_function_name
from hoodie.errors import HoodieError
from hoodie.format.names import META_FOLDER
from hoodie.storage import normalize, source_storage_for
from hoodie.storage.settings import options_of
from hoodie.timeline.active import Timeline
from hoodie.timeline.tokens import FINGERPRINT_KEY, SEEN_MARK, TOKEN_KEY


def fingerprint(operation: str, source: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> str:
    """Of what a write reads: the request's source, and names, sizes and times (of objects: e-tags) of its
    files, as far as this machine has a storage for them.

    `source` is {"path", "format", "options"}, {"partitions"} of a delete_partition, or of a statement what
    `statement_source` gives. For a table its newest commit stands for the files. `settings` of the call open
    its storage.

    Files of another machine's storage may be seen by one run and not by the next, which has no credentials:
    they are in a second part behind a dash, which is there where all of them were seen.
    """
    paths = source.get("path") or ()
    storage_options = options_of(settings or {})
    known: list[Any] = [operation, source]
    seen: list[Any] = []
    for path in [paths] if isinstance(paths, str) else paths:
        if source.get("format") == "sql":
            continue
        state, remote = _state(path, storage_options)
        known.append([] if remote else state)
        if remote:
            seen.append(state)
    if not seen or None in seen:
        return _hash(known)
    return f"{_hash(known)}{SEEN_MARK}{_hash(seen)}"


def transform_source(text: str) -> dict[str, str]:
    """What a transform adds to a source: SQL, or a function's name and source text. Raises ConfigError."""
    return {"transform": identity(text) if is_function_name(text) else text}


def partition_source(partitions: str | Sequence[str]) -> dict[str, Any]:
    """What a delete_partition has in place of a source."""
    named = (partitions,) if isinstance(partitions, str) else partitions
    return {"partitions": sorted(set(named))}


def statement_source(text: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """What a SQL statement has in place of a source: its text, and what it reads beside its target."""
    paths: list[str] = []
    for given in tables.values():
        source = given.get("source", given.get("path")) if isinstance(given, Mapping) else given
        named = source.get("path") if isinstance(source, Mapping) else source
        paths += [named] if isinstance(named, str) else named or ()
    return {"sql": text, "tables": dict(tables), "path": paths}


def token_metadata(
    token: str, operation: str, source: Mapping[str, Any], settings: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The extra metadata of an idempotent write; none without a token."""
    if not token:
        return {}
    return {TOKEN_KEY: token, FINGERPRINT_KEY: fingerprint(operation, source, settings)}


def _state(path: str, storage_options: Mapping[str, str]) -> tuple[list[Any] | None, bool]:
    """What distinguishes the content at a path, and whether another process may not see it; None where this
    one does not.
    """
    try:
        place = normalize(path)
        storage = source_storage_for(place, storage_options)
    except HoodieError:
        return [], False
    try:
        meta = storage.info(f"{place}/{META_FOLDER}")
        if meta is not None and meta.is_dir:
            last = Timeline.load(place, storage).last_commit
            return ["table", last.time if last else ""], storage.remote
        return [(file.path, file.size, file.stamp) for file in storage.find(place)], storage.remote
    except HoodieError:
        return (None, True) if storage.remote else ([], False)


def _hash(seen: list[Any]) -> str:
    text = json.dumps(seen, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
