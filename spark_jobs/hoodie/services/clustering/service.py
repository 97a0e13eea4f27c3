"""The description of clustering (services.registry), and the text of its ClusteringResult."""

from __future__ import annotations

from typing import Any

from hoodie.services.registry import Lazy, Service, Turn
from hoodie.services.request import RewriteRequest
from hoodie.services.text import instants, nothing, planned_files, remarks
from hoodie.text import plural, size


def clustering_text(result: dict[str, Any]) -> str:
    """A ClusteringResult for people; a dry run's with every file."""
    table, groups = result["table"], plural(result["num_groups"], "group")
    work = f"{plural(result['num_replaced'], 'file group')} in {groups}"
    lines: list[str] = []
    if result["status"] == "planned":
        outputs = plural(result["num_outputs"], "file")
        lines.append(f"A clustering of {table} would rewrite {work} into about {outputs}")
        lines += planned_files(result["files"], "clustering")
    elif result["clustered"]:
        lines += [
            f"Clustered {table}: {', '.join(result['clustered'])}",
            f"  {work} rewritten into {plural(result['num_files'], 'file')} of "
            f"{size(result['bytes_written'])}, {plural(result['num_writes'], 'row')}, "
            f"{result['duration_s']:.1f} s",
        ]
    elif result["scheduled"]:
        lines.append(f"Scheduled clustering {result['scheduled']} of {table}: {work}")
    else:
        lines.append(nothing(result))
    return "\n".join([*lines, *instants(result), *remarks(result)])


SERVICE = Service(
    name="cluster",
    doc="rewrite small files into larger ones, sorted as the settings say",
    request=RewriteRequest,
    run=Lazy("hoodie.services.clustering.run", "cluster"),
    text=clustering_text,
    turn=Turn(number=40, name="clustering", entry=Lazy("hoodie.services.clustering.run", "ClusteringEntry")),
    function="cluster_table",
    operator="ClusteringOperator",
)
