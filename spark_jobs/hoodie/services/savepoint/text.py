"""A SavepointResult for people."""

from __future__ import annotations

from typing import Any

from hoodie.services.text import notes, nothing
from hoodie.text import plural, size


def savepoint_text(result: dict[str, Any]) -> str:
    """A SavepointResult for people; a dry run's with every file."""
    what = f"savepoint {result['instant']} of {result['table']}"
    kept = f"{plural(result['num_files'], 'file')} of {size(result['bytes'])} in "
    kept += plural(len(result["partitions"]), "partition")
    deletes = result["mode"] == "delete"
    if result["status"] == "skipped":
        lines = [nothing(result)]
    elif result["status"] == "planned":
        lines = [f"{what[0].upper()}{what[1:]} would {'let go' if deletes else 'keep'} {kept}"]
        for partition, names in result["files"].items():
            lines += [f"  {partition}/{name}" if partition else f"  {name}" for name in names]
    elif deletes:
        lines = [f"Deleted {what}: {kept} are left to the cleaner"]
    else:
        lines = [f"Made {what}: it keeps {kept}"]
    return "\n".join([*lines, *notes(result)])
