"""The sync with a catalog, described (services.description)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.services.description import Lazy, Service
from hoodie.services.request import Request, asked


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


SERVICE = Service(
    name="sync",
    doc="enter the table in Hive's metastore or AWS Glue, or mend its columns, partitions, properties there",
    request=SyncRequest,
    run=Lazy("hoodie.services.sync.run", "sync_service"),
    text=Lazy("hoodie.services.sync.text", "sync_text"),
    function="sync_table",
    operator="HiveSyncOperator",
)
