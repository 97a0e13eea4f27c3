"""What `hoodie repair` says."""

from __future__ import annotations

from typing import Any

from hoodie.services.repair.service import repair_text

FAILED = {
    "action": "commit",
    "instant": "20260101000000000",
    "state": "inflight",
    "num_files": 2,
    "bytes": 2048,
}
RESULT: dict[str, Any] = {"dry_run": False, "failed": [FAILED], "markers": ["1", "2"], "heartbeats": ["3"]}


def test_what_was_done_and_what_would_be() -> None:
    done = repair_text(RESULT)
    assert "failed commit 20260101000000000 (inflight) rolled back, 2 files of 2.0 KiB" in done
    assert "markers of 1, 2 and heartbeats of 3 swept" in done
    planned = repair_text({**RESULT, "dry_run": True})
    assert "would be rolled back, 2 files" in planned
    assert "heartbeats of 3 would be swept" in planned
    assert repair_text({**RESULT, "failed": [], "markers": [], "heartbeats": []}) == ""
