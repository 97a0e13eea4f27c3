"""The description of an upgrade of the table version (services.registry), and the text of a VersionResult."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.config import versions
from hoodie.config.versions import LayoutVersion
from hoodie.engine import Engine
from hoodie.services.registry import Lazy, Service
from hoodie.services.request import Request, asked, local_engine
from hoodie.services.text import nothing, remarks
from hoodie.text import plural, size

#: the versions between which tables are changed
VERSIONS = ("6", "8", "9")


@dataclass(frozen=True, kw_only=True)
class VersionRequest(Request):
    """`engine` merges the logs of a merge-on-read table first; `extra_metadata` is for the commit of that."""

    to: str = asked(doc="the table version afterwards", choices=VERSIONS)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    engine: Callable[[], Engine] = field(default=local_engine)


def version_text(result: dict[str, Any]) -> str:
    """A VersionResult for people; a dry run's with all that would change."""
    if result["status"] == "skipped":
        return "\n".join([nothing(result), *remarks(result)])
    planned = result["status"] == "planned"
    done = "would go" if planned else "went"
    lines = [
        f"{result['table']} {done} from version {result['from_version']} to version {result['to_version']}"
    ]
    for name, text in (
        ("compacted", "compactions carried out first"),
        ("cleaned", "cleans carried out first"),
        ("cancelled", "plans taken off the timeline first"),
    ):
        if result[name]:
            lines.append(f"  {text}: {', '.join(result[name])}")
    if result["merges_logs"]:
        merged = "all logs are merged into base files first" if planned else "all logs were merged"
        lines.append(f"  {merged}: {_files(result, 'merged')}")
    if result["drops_history"]:
        lost = f"{_files(result, 'deleted')} {'are' if planned else 'were'} deleted"
        lines.append(f"  earlier states of the table can't be read afterwards: {lost}")
    lines += _indexes(result)
    if result["num_instants"]:
        lines.append(
            f"  timeline: {plural(result['num_instants'], 'instant')}, "
            f"{plural(result['num_archived'], 'archived one')}"
        )
    lines += [
        f"  {name}={text}" if text is not None else f"  {name} is removed"
        for name, text in sorted(result["properties"].items())
    ]
    return "\n".join([*lines, *remarks(result)])


def _files(result: dict[str, Any], what: str) -> str:
    return f"{plural(result[f'{what}_files'], 'file')} of {size(result[f'{what}_bytes'])}"


def _indexes(result: dict[str, Any]) -> list[str]:
    """What is dropped, and what makes it again."""
    names, lost = result["metadata_partitions"], result["lost_indexes"]
    if not names:
        return []
    lines = [f"  the metadata table is dropped: {', '.join(names)}; the next write makes files again"]
    again = [name for name in names if name != "files" and name not in lost]
    if again:
        lines.append(
            f"  make the others again: hoodie index create --table {result['base_path']} --indexes "
            f"{','.join(again)}"
        )
    if lost and versions.is_of_layout(result["to_version"], LayoutVersion.ONE):
        lines.append(f"  version {result['to_version']} does not have: {', '.join(lost)}")
    elif lost:
        by = f"hoodie index create --table {result['base_path']} --column COLUMN, or CREATE INDEX"
        lines.append(f"  make those of columns again by {by}: {', '.join(lost)}")
    return lines


SERVICE = Service(
    name="upgrade",
    doc="change the table version to a later one",
    request=VersionRequest,
    run=Lazy("hoodie.services.upgrade.run", "upgrade"),
    text=version_text,
    function="upgrade_table",
    operator="UpgradeOperator",
)
