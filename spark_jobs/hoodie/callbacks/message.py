"""The message of a commit: Apache Hudi's HoodieWriteCommitCallbackMessage, as its 0.15.0 writes it as JSON.

Of its optional values Hudi's JSON says only whether they are there, `{"empty": false, "present": true}`; here
such an object has the `value`, too.
"""

from __future__ import annotations

import json
from typing import Any

from hoodie.hooks import CommitEvent
from hoodie.timeline.commit import CommitMetadata, WriteStat


def message_of(event: CommitEvent) -> str:
    """JSON on one line. An instant that wrote no files, such as a clean, has none in its message."""
    metadata = event.metadata
    written = isinstance(metadata, CommitMetadata)
    stats = list(metadata.write_stats) if isinstance(metadata, CommitMetadata) else []
    extra = dict(metadata.extra_metadata) if isinstance(metadata, CommitMetadata) else {}
    message = {
        "commitTime": event.instant.time,
        "tableName": event.table.properties.name,
        "basePath": event.table.base_path,
        "hoodieWriteStat": [_stat(stat) for stat in stats],
        "commitActionType": _option(event.instant.action.value),
        "extraMetadata": _option(extra if written else None),
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _stat(stat: WriteStat) -> dict[str, Any]:
    found = stat.to_dict()
    if stat.log_version is not None:
        found.setdefault("columnStats", _option(None))
    return found


def _option(value: Any) -> dict[str, Any]:
    if value is None:
        return {"empty": True, "present": False}
    return {"empty": False, "present": True, "value": value}
