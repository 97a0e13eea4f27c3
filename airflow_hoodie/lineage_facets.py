"""OpenLineage's classes filled in. Importing this needs Airflow's OpenLineage provider."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    dataset_version_dataset,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    sql_job,
    storage_dataset,
)

from airflow_hoodie.dataset_names import dataset_name, source_places
from airflow_hoodie.hooks.hoodie import resolved_path
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.mask import masked
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table, TableRef
from hoodie.text import visible

log = logging.getLogger(__name__)

Fields = list[schema_dataset.SchemaDatasetFacetFields]
#: types that an Avro schema has named so far, which it may name again
Named = dict[str, tuple[str, Fields]]

#: key of the run facet with the result of the job
COMMIT_FACET = "hoodie_commit"
_LISTED = 100
#: commits that are opened at most to find the table's columns
_OPENED = 20
#: columns, and parts of them, that are listed
_MOST_PARTS = 10_000


@attr.define
class CommitRunFacet(RunFacet):
    """What the job reported; `partitions` are the first hundred of `numPartitions`."""

    status: str | None = attr.field(default=None)
    operation: str | None = attr.field(default=None)
    action: str | None = attr.field(default=None)
    instant: str | None = attr.field(default=None)
    numPartitions: int = attr.field(default=0)
    partitions: list[str] = attr.field(factory=list)
    counts: dict[str, int] = attr.field(factory=dict)


def of_task(task: Any, result: Mapping[str, Any]) -> OperatorLineage[Any, Any]:
    """Lineage of a HoodieJobOperator; `result` is its job's, {} before it ran or where it failed."""
    path = str(result.get("base_path") or resolved_path(task.table))
    options = {**(task.table.get("options") or {}), **(task.options or {})}
    source = getattr(task, "source", None)
    job_facets: dict[str, JobFacet] = {}
    if source is None:
        read = [path]  # a table service rewrites what it reads
    else:
        read = source_places(source)
        described = source if isinstance(source, Mapping) else {}
        if query := described.get("sql") or (
            described.get("path") if described.get("format") == "sql" else None
        ):
            job_facets["sql"] = sql_job.SQLJobFacet(query=masked(str(query)))
    inputs: list[Dataset] = [InputDataset(*dataset_name(place)) for place in read]
    namespace, name = dataset_name(path)
    output = OutputDataset(
        namespace, name, facets=_facets(path, result, options), outputFacets=_statistics(result)
    )
    run_facets: dict[str, RunFacet] = {COMMIT_FACET: _commit(result)} if result else {}
    return OperatorLineage(inputs=inputs, outputs=[output], run_facets=run_facets, job_facets=job_facets)


def _facets(path: str, result: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, DatasetFacet]:
    facets: dict[str, DatasetFacet] = {
        "storage": storage_dataset.StorageDatasetFacet(storageLayer="hudi", fileFormat="parquet")
    }
    instant = result.get("instant")
    if instant:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(instant))
        if columns := table_columns(path, str(instant), options):
            facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=columns)
    if instant and str(result.get("operation")).startswith("insert_overwrite"):
        facets["lifecycleStateChange"] = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
            lifecycleStateChange=lifecycle_state_change_dataset.LifecycleStateChange.OVERWRITE
        )
    return facets


def _statistics(result: Mapping[str, Any]) -> dict[str, Any]:
    """Rows that the job brought in or changed, and files and bytes that it wrote."""
    if result.get("num_inserts") is None or result.get("status") != "committed":
        return {}
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=int(result["num_inserts"]) + int(result.get("num_updates") or 0),
        size=result.get("bytes_written"),
        fileCount=result.get("num_files"),
    )
    return {"outputStatistics": statistics}


def _commit(result: Mapping[str, Any]) -> CommitRunFacet:
    partitions = [str(item) for item in result.get("partitions") or ()]
    counts = {
        key: value
        for key, value in result.items()
        if isinstance(value, int) and not isinstance(value, bool) and key.startswith(("num_", "bytes"))
    }
    texts = {key: result[key] for key in ("status", "operation", "action", "instant") if result.get(key)}
    return CommitRunFacet(
        **texts, numPartitions=len(partitions), partitions=partitions[:_LISTED], counts=counts
    )


def table_columns(path: str, instant: str, options: Mapping[str, str]) -> Fields:
    """The table's columns as of a commit, without Hudi's own; [] where this machine can't read them."""
    try:
        table = Table(TableRef.of(path, Config.of(options_of(options))))
        timeline = table.timeline
        for commit in [item for item in reversed(timeline.commits()) if not item.is_after(instant)][:_OPENED]:
            text = timeline.commit(commit, table.storage).schema_text()
            if text:
                fields = _columns(json.loads(text)["fields"], {})
                if _parts(fields, _MOST_PARTS) <= 0:
                    return []
                return [field for field in fields if not field.name.startswith("_hoodie_")]
    except (HoodieError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.debug("no columns of %s for OpenLineage: %s", path, visible(error))
    return []


def _parts(fields: Fields, left: int) -> int:
    """What is left of a number of columns and parts of them; types that name each other may have any."""
    for field in fields:
        left = _parts(field.fields or [], left - 1)
        if left <= 0:
            break
    return left


def _columns(fields: Any, named: Named) -> Fields:
    return [_column(item["name"], item["type"], named, item.get("doc")) for item in fields]


def _column(
    name: str, kind: Any, named: Named, doc: str | None = None
) -> schema_dataset.SchemaDatasetFacetFields:
    """Avro type -> field: the logical type where there is one; parts of structs, arrays and maps inside."""
    text, inside = _type(kind, named)
    return schema_dataset.SchemaDatasetFacetFields(name=name, type=text, description=doc, fields=inside)


def _type(kind: Any, named: Named) -> tuple[str, Fields]:
    if isinstance(kind, list):  # a nullable one; other unions are named whole
        branches = [item for item in kind if item != "null"]
        return _type(branches[0], named) if len(branches) == 1 else ("union", [])
    if isinstance(kind, str):
        return named.get(kind, (kind, []))
    logical, base = kind.get("logicalType"), kind["type"]
    if base in ("record", "enum", "fixed"):
        inside = _columns(kind["fields"], named) if base == "record" else []
        text = "struct" if base == "record" else base
        if logical != "decimal":
            named[kind["name"]] = (text, inside)
            return text, inside
    if logical == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})", []
    if base == "array":
        return "array", [_column("_element", kind["items"], named)]
    if base == "map":
        return "map", [_column("key", "string", named), _column("value", kind["values"], named)]
    return (str(logical), []) if logical else _type(base, named)
