"""OpenLineage: what Airflow's OpenLineage provider finds out about our tasks."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie import CleanOperator, HoodieTable, UpsertOperator
from airflow_hoodie.dataset_names import dataset_name, source_places
from tests.conftest import require

from .test_links import NotedTi

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of OpenLineage's own packages

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "day": pa.array(["2026-01-01", "2026-01-02"]),
        "price": pa.array([None, None], pa.decimal128(10, 2)),
        "at": pa.array([0, 1], pa.timestamp("us", tz="UTC")),
        "place": pa.array([{"city": "Oslo", "zip": 1}] * 2),
        "tags": pa.array([["a"], None], pa.list_(pa.string())),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    require(find_spec("airflow.providers.openlineage"), "no OpenLineage provider")
    return HoodieTable(
        name="orders", path=str(tmp_path / "orders"), record_keys="id", partition_fields=("day",)
    )


def lineage(task: Any, complete: bool = True) -> dict[str, Any]:
    """As the provider extracts it, in the JSON of the event that it sends."""
    from airflow.providers.openlineage.extractors.base import DefaultExtractor
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.serde import Serde

    extractor = DefaultExtractor(task)
    found = extractor.extract_on_complete(NotedTi()) if complete else extractor.extract()
    assert found is not None
    event = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2026-01-01T00:00:00Z",
        run=Run("01890000-0000-7000-8000-000000000000", facets=found.run_facets),
        job=Job("default", "dag.task", facets=found.job_facets),
        inputs=found.inputs,
        outputs=found.outputs,
    )
    sent = json.loads(Serde.to_json(event))
    return {
        "inputs": sent.get("inputs", []),
        "outputs": sent["outputs"],
        "run_facets": sent["run"].get("facets", {}),
        "job_facets": sent["job"].get("facets", {}),
    }


def upsert(table: HoodieTable, source: Any, write: bool = True) -> UpsertOperator:
    """The task as it is after its job: with the result, and the table written."""
    task = UpsertOperator(task_id="w", table=table, source=source)
    if write:
        options = table.options_for("upsert")
        task.result = hoodie.write_table(ROWS, table.path, options=options).to_dict()
    return task


def test_a_write(table: HoodieTable) -> None:
    task = upsert(table, "/landing/orders/2026-01-0*/*.parquet")
    found = lineage(task)
    assert [(item["namespace"], item["name"]) for item in found["inputs"]] == [("file", "/landing/orders")]
    [output] = found["outputs"]
    assert (output["namespace"], output["name"]) == ("file", table.path)
    facets = output["facets"]
    assert task.result is not None
    assert facets["version"]["datasetVersion"] == task.result["instant"]
    assert facets["storage"] | {"storageLayer": "hudi", "fileFormat": "parquet"} == facets["storage"]
    columns = {item["name"]: item for item in facets["schema"]["fields"]}
    assert {name: item["type"] for name, item in columns.items()} == {
        "id": "long",
        "day": "string",
        "price": "decimal(10,2)",
        "at": "timestamp-micros",
        "place": "struct",
        "tags": "array",
    }
    inside = [(item["name"], item["type"]) for item in columns["place"]["fields"]]
    assert inside == [("city", "string"), ("zip", "long")]
    assert [(item["name"], item["type"]) for item in columns["tags"]["fields"]] == [("_element", "string")]
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (2, 2)
    assert statistics["size"] == task.result["bytes_written"] > 0
    commit = found["run_facets"]["hoodie_commit"]
    assert (commit["instant"], commit["operation"]) == (task.result["instant"], "upsert")
    assert (commit["numPartitions"], commit["partitions"]) == (2, ["2026-01-01", "2026-01-02"])
    assert commit["counts"]["num_inserts"] == 2


def test_before_the_write_and_after_a_failed_one(table: HoodieTable) -> None:
    task = upsert(table, ["/in/a.csv", "s3a://bucket/in/day=1/"], write=False)
    for complete in (False, True):
        found = lineage(task, complete)
        assert [(item["namespace"], item["name"]) for item in found["inputs"]] == [
            ("file", "/in/a.csv"),
            ("s3://bucket", "in/day=1"),
        ]
        [output] = found["outputs"]
        assert output["name"] == table.path
        assert set(output["facets"]) == {"storage"}
        assert found["run_facets"] == {}


def test_a_query_as_source(table: HoodieTable) -> None:
    task = upsert(table, {"path": "SELECT * FROM raw", "format": "sql"}, write=False)
    found = lineage(task, complete=False)
    assert found["inputs"] == []
    assert found["job_facets"]["sql"]["query"] == "SELECT * FROM raw"


def test_a_query_of_a_connection_and_rows_as_source(table: HoodieTable) -> None:
    task = upsert(table, {"conn_id": "shop", "sql": "SELECT * FROM raw"}, write=False)
    found = lineage(task, complete=False)
    assert found["inputs"] == []
    assert found["job_facets"]["sql"]["query"] == "SELECT * FROM raw"
    assert lineage(upsert(table, [{"id": "a"}], write=False), complete=False)["inputs"] == []


def test_a_service_rewrites_what_it_reads(table: HoodieTable) -> None:
    upsert(table, "/in")
    task = CleanOperator(task_id="clean", table=table)
    task.result = {"operation": "clean", "status": "cleaned", "instant": "99990101000000000"}
    found = lineage(task)
    assert [item["name"] for item in found["inputs"]] == [item["name"] for item in found["outputs"]]
    assert len(found["outputs"][0]["facets"]["schema"]["fields"]) == len(ROWS.column_names)
    assert "outputStatistics" not in found["outputs"][0].get("outputFacets", {})


def test_a_table_that_this_machine_does_not_reach(table: HoodieTable, tmp_path: Path) -> None:
    task = upsert(table, "/in", write=False)
    task.result = {"status": "committed", "instant": "20260101000000000", "base_path": "s3a://lake/orders"}
    [output] = lineage(task)["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://lake", "orders")
    assert set(output["facets"]) == {"storage", "version"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/orders/", ("file", "/data/orders")),
        ("file:///data/orders", ("file", "/data/orders")),
        ("s3a://lake/a/b", ("s3://lake", "a/b")),
        ("hdfs://name:8020/a", ("hdfs://name:8020", "a")),
        ("gs://lake", ("gs://lake", "/")),
    ],
)
def test_names(path: str, name: tuple[str, str]) -> None:
    assert dataset_name(path) == name


def test_places_of_sources() -> None:
    assert source_places({"path": ["/a/*.csv", "/a/b?.csv", "/c/d.csv", "/*.csv"]}) == ["/a", "/c/d.csv", "/"]
    assert source_places("/in/{1,2}/x") == ["/in"]


def test_parent_job_information_reaches_spark(
    table: HoodieTable, committing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openlineage_inject_parent_job_info=True: Spark's own events name the task as their parent."""
    from airflow.providers.apache.spark.operators import spark_submit

    from airflow_hoodie.operators import base

    def inject(properties: dict[str, Any], context: Any) -> dict[str, Any]:
        return {**properties, "spark.openlineage.parentJobName": "dag.task"}

    monkeypatch.setattr(spark_submit, "inject_parent_job_information_into_spark_properties", inject)
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "run.py")
    task = UpsertOperator(
        task_id="w", table=table, source="/in", master="local[2]", spark_binary=str(committing.path),
        name="n", exactly_once=False, openlineage_inject_parent_job_info=True,
    )  # fmt: skip
    task.execute({})
    assert "spark.openlineage.parentJobName=dag.task" in committing.options("--conf")
