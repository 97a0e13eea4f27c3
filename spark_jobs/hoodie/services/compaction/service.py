"""The description of compaction (services.registry), and the text of its CompactionResult."""

from __future__ import annotations

from typing import Any

from hoodie.services.registry import Lazy, Service, Turn
from hoodie.services.request import RewriteRequest
from hoodie.services.text import instants, nothing, planned_files, remarks
from hoodie.text import plural, size


def compaction_text(result: dict[str, Any]) -> str:
    """A CompactionResult for people; a dry run's with every log file."""
    lines: list[str] = []
    into_logs = result["action"] == "logcompaction"
    name, done = ("log compaction", "Compacted the logs of") if into_logs else ("compaction", "Compacted")
    if result["status"] == "planned":
        lines.append(f"A {name} of {result['table']} would merge {_work(result)}")
        lines += planned_files(result["files"], name)
    elif result["compacted"]:
        lines += [
            f"{done} {result['table']}: {', '.join(result['compacted'])}",
            f"  {_work(result)} merged into {plural(result['num_files'], 'file')} of "
            f"{size(result['bytes_written'])}, {plural(result['num_writes'], 'row')}, "
            f"{result['duration_s']:.1f} s",
        ]
    elif result["scheduled"]:
        lines.append(f"Scheduled {name} {result['scheduled']} of {result['table']}: {_work(result)}")
    else:
        lines.append(nothing(result))
    return "\n".join([*lines, *instants(result), *remarks(result)])


def _work(result: dict[str, Any]) -> str:
    logs = f"{plural(result['num_log_files'], 'log file')} of {size(result['log_bytes'])}"
    return f"{logs} in {plural(result['num_slices'], 'file slice')}"


SERVICE = Service(
    name="compact",
    doc="merge the logs of a merge-on-read table into its base files",
    request=RewriteRequest,
    run=Lazy("hoodie.services.compaction.run", "compact"),
    text=compaction_text,
    turn=Turn(number=30, name="compaction", entry=Lazy("hoodie.services.compaction.run", "CompactionEntry")),
    function="compact_table",
    operator="CompactionOperator",
)
