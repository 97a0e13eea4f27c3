"""What a write reads, in one text: a task that runs again knows by it whether its source has changed.

A commit keeps it beside its token (hoodie.timeline.tokens). The text of a source may never change: a retry
after an upgrade has to find the commit that was made before. Standard library only, so that an operator
compares before it starts a JVM.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hoodie.errors import HoodieError
from hoodie.format.names import META_FOLDER
from hoodie.storage import normalize, source_storage_for
from hoodie.timeline.active import Timeline
from hoodie.timeline.tokens import FINGERPRINT_KEY, TOKEN_KEY


def fingerprint(operation: str, source: Mapping[str, Any]) -> str:
    """Of what a write reads: the request's source, and names, sizes and times of its files, as far as this
    machine has a storage for them.

    `source` is {"path", "format", "options"}, or {"partitions"} of a delete_partition. For a table its newest
    commit stands for the files.
    """
    paths = source.get("path") or ()
    seen: list[Any] = [operation, source]
    for path in [paths] if isinstance(paths, str) else paths:
        if source.get("format") == "sql":
            continue
        seen.append(_state(path))
    text = json.dumps(seen, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def partition_source(partitions: str | Sequence[str]) -> dict[str, Any]:
    """What a delete_partition has in place of a source."""
    named = (partitions,) if isinstance(partitions, str) else partitions
    return {"partitions": sorted(set(named))}


def token_metadata(token: str, operation: str, source: Mapping[str, Any]) -> dict[str, str]:
    """The extra metadata of an idempotent write; none without a token."""
    return {TOKEN_KEY: token, FINGERPRINT_KEY: fingerprint(operation, source)} if token else {}


def _state(path: str) -> list[Any]:
    try:
        place = normalize(path)
        storage = source_storage_for(place)
        meta = storage.info(f"{place}/{META_FOLDER}")
        if meta is not None and meta.is_dir:
            last = Timeline.load(place).last_commit
            return ["table", last.time if last else ""]
        return [(file, *storage.stamp(file)) for file in storage.find(place)]
    except HoodieError:
        return []
