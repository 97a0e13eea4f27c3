"""The description of the sync with a catalog (services.registry), and the text of its SyncResult."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoodie.services.registry import Lazy, Service
from hoodie.services.request import Request, asked
from hoodie.services.text import nothing, remarks
from hoodie.text import plural


@dataclass(frozen=True, kw_only=True)
class SyncRequest(Request):
    metastore: str | None = asked(
        None,
        doc="its address, or glue for AWS Glue (default: hoodie.meta.sync.client.tool.class and "
        "hoodie.datasource.hive_sync.metastore.uris)",
        metavar="thrift://H:P",
    )
    database: str | None = asked(
        None, doc="of the entries (default: hoodie.datasource.hive_sync.database)", metavar="NAME"
    )


def sync_text(result: dict[str, Any]) -> str:
    """A SyncResult for people: a line for each entry."""
    if result["status"] == "skipped":
        return "\n".join([nothing(result), *remarks(result)])
    verb = "Would sync" if result["dry_run"] else "Synced"
    lines = [f"{verb} {result['table']} with {result['catalog']}", *map(_line, result["entries"])]
    return "\n".join([*lines, *remarks(result)])


def _line(entry: dict[str, Any]) -> str:
    done = [] if entry["status"] == "created" else _columns(entry)
    for what in ("added", "moved", "dropped"):
        count = entry[f"partitions_{what}"]
        done += [f"{plural(count, 'partition')} {what}"] if count else []
    if entry["status"] == "changed" and not done:
        done = ["newest commit noted"]
    return f"  {entry['entry']}: {entry['status']}{', ' if done else ''}{', '.join(done)}"


def _columns(entry: dict[str, Any]) -> list[str]:
    named = (("columns_added", "added"), ("columns_dropped", "dropped"), ("columns_commented", "commented"))
    done = [f"{word} {', '.join(entry[name])}" for name, word in named if entry[name]]
    done += [f"changed {item}" for item in entry["columns_retyped"]]
    if entry["properties"]:
        done.append(f"properties {', '.join(entry['properties'])}")
    return done


SERVICE = Service(
    name="sync",
    doc="enter the table in Hive's metastore or AWS Glue, or mend its columns, partitions, properties there",
    request=SyncRequest,
    run=Lazy("hoodie.services.sync.run", "sync_service"),
    text=sync_text,
    function="sync_table",
    operator="HiveSyncOperator",
)
