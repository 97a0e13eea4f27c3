"""Assets of Hudi tables: the scheme `hoodie://`. The host is the kind of storage, the path the table's.

    hoodie://file/data/orders                      the table; operators that write it emit its events
    hoodie://file/data/orders?events=commits       its commits as a watcher sees them, of all writers
    hoodie://file/data/orders?events=partitions    its partitions: each event has one as its partition key

They are three assets, so that a watcher of the table's commits gets a commit of an operator only once.
On an object store it is `hoodie://s3/bucket/orders`; `hoodie:///data/orders` is taken for `hoodie://file/...`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from airflow_hoodie.arguments import is_template, table_path
from airflow_hoodie.compat.airflow_version import needs
from airflow_hoodie.dataset_names import SAME_STORE, dataset_name
from airflow_hoodie.exceptions import HoodieConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Asset

SCHEME = "hoodie"
_FILE = "file"
_SAFE = "/=:@,+~!$&'()*;"


def asset_uri(table: Any, **query: str) -> str:
    """URI of a HoodieTable or a path, in the sanitised form.

    Raises HoodieConfigurationError for a path that is relative or a template.
    """
    path = table_path(table)
    if is_template(path):
        raise HoodieConfigurationError(
            f"table path {path!r} is a template, which no asset can have; give the table a fixed path"
        )
    store, _, rest = path.partition("://")
    if path.startswith(("/", "file:")):
        store, rest = _FILE, path.removeprefix("file:")
    text = urlencode(sorted(query.items()))
    return sanitize_uri(SplitResult(SCHEME, store, quote("/" + rest, safe=_SAFE), text, "")).geturl()


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """The one form of a hoodie:// URI: a host, and a path without `.`, `..` and doubled slashes.

    Airflow calls it for every asset of the scheme. Raises ValueError where no table is named.
    """
    path = posixpath.normpath("/" + uri.path.lstrip("/"))
    if path == "/":
        raise ValueError(f"{uri.geturl()} names no table; a hoodie URI is like hoodie://file/data/orders")
    host = uri.netloc.lower() or _FILE
    return uri._replace(scheme=SCHEME, netloc=SAME_STORE.get(host, host), path=path, fragment="")


def table_folder(uri: str) -> str | None:
    """The folder on a file system of the table that an asset's URI names; None for another URI."""
    parts = urlsplit(uri)
    if parts.scheme != SCHEME or parts.netloc != _FILE:
        return None
    return unquote(parts.path)


def create_asset(*, path: str, extra: dict[str, Any] | None = None) -> Asset:
    """Asset of the table at a path; Airflow's factory for the scheme."""
    return _asset(asset_uri(path), extra=extra)


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Any:
    """OpenLineage dataset of the table: its place, as Spark's own lineage names it."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    parts = urlsplit(asset.uri)
    elsewhere = f"{parts.netloc}://{unquote(parts.path).lstrip('/')}"
    namespace, name = dataset_name(table_folder(asset.uri) or elsewhere)
    return Dataset(namespace=namespace, name=name)


def table_asset(table: Any) -> Asset:
    """The asset whose events the operators emit."""
    return _asset(asset_uri(table))


def partition_asset(table: Any) -> Asset:
    """The asset of partitioned events, of a PartitionRelayOperator or of a write that has it as outlet."""
    needs("events of partitions")
    return _asset(asset_uri(table, events="partitions"))


def commit_asset(
    table: Any,
    *,
    start: str | datetime = "latest",
    actions: Collection[str] | None = None,
    partition: str | Collection[str] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    services: bool = False,
    poke_interval: float = 10.0,
) -> Asset:
    """The asset with one event for every commit, and its watcher; arguments are CommitEventTrigger's.

    What counts is part of the URI, so that watchers which want other commits have other assets.
    """
    from airflow.sdk import AssetWatcher

    from airflow_hoodie.conditions import COMMITS, partition_paths
    from airflow_hoodie.triggers.commits import CommitEventTrigger

    trigger = CommitEventTrigger(
        table=table,
        start=start,
        actions=COMMITS if actions is None else actions,
        partition=partition,
        extra_metadata=extra_metadata,
        services=services,
        poke_interval=poke_interval,
    )
    query = {"events": "commits"}
    if actions is not None and set(actions) != set(COMMITS):
        query["actions"] = ",".join(sorted(actions))
    if partition:
        query["partition"] = ",".join(sorted(partition_paths(partition)))
    if services:
        query["services"] = "true"
    query |= {f"metadata.{key}": str(text) for key, text in (extra_metadata or {}).items()}
    return _asset(asset_uri(table, **query), watchers=[AssetWatcher(name="commits", trigger=trigger)])


def _asset(uri: str, **arguments: Any) -> Asset:
    from airflow.sdk import Asset

    given = {name: value for name, value in arguments.items() if value is not None}
    return Asset(uri=uri, **given)
