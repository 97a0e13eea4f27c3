"""The provider on the Airflows before the newest: tests of it, run by each one's own environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.environment import AIRFLOWS, ROOT
from tests.airflow.other_venvs import check_tests_in, printed_in

#: what holds on every Airflow, by a row of the table in docs/airflow.md; tests of what only the newest one
#: has are elsewhere
CELLS = {
    "tasks": ("test_exceptions", "test_operators", "test_sensor", "test_service_operators", "test_table"),
    "examples": (
        "test_quickstart",
        "test_dags_examples::test_a_bulk_insert_then_upserts",
        "test_maintenance::test_the_example_looks_after_all_tables",
        "test_hourly_example",
        "test_backfill_example",
        "test_version_example::test_up_and_back_between_days",
    ),
    "waiting": (
        "test_triggers::test_a_dag_of_deferred_sensors",
        "test_deferring",
        "test_turns",
        "test_detached_local::test_a_dag_of_detached_jobs",
    ),
    "messages": ("test_notifier", "test_links"),
    "page": (
        "test_timeline_page::test_who_signed_in_sees_the_list_and_nothing_else[api-server]",
        "test_timeline_page::test_airflow_lists_the_plugin",
        "test_timeline_page::test_the_menu_leads_to_it",
    ),
}
#: says what can't be had, and why: public names, then what one writes in a DAG file, then example DAGs
LACKING = """
import airflow_hoodie
from airflow_hoodie import HoodieTable, PartitionRelayOperator
from tests.airflow.by_version import dag_bag

def tried(name, call):
    try:
        call()
    except Exception as error:
        print("lacks", name, type(error).__name__, error, sep="|")

for name in airflow_hoodie.__all__:
    tried(name, lambda: getattr(airflow_hoodie, name))
table = HoodieTable(name="orders", path="/lake/orders", record_keys="id")
tried("commits()", table.commits)
tried("partitions", lambda: table.partitions)
tried("relay", lambda: PartitionRelayOperator(task_id="relay", table=table))
for example in ("backfill", "table_version", "commit_triggered"):
    for error in dag_bag(f"dags_examples/{example}.py").import_errors.values():
        kind, _, text = error.strip().splitlines()[-1].partition(": ")
        print("lacks", example, kind.rpartition(".")[2], text, sep="|")
"""
REFUSAL = "AirflowOptionalProviderFeatureException"


def test_the_page_of_versions_has_each_case() -> None:
    page = (ROOT / "docs" / "airflow.md").read_text()
    for cell, tests in CELLS.items():
        [row] = [line for line in page.splitlines() if f"`3.1-{cell}`" in line]
        assert all(f"`{version}-{cell}`" in row for version in AIRFLOWS)
        assert set(re.findall(r"`(\w+)\.py`", row.rsplit("|", 2)[1])) == {
            test.split("::")[0] for test in tests
        }


@pytest.mark.full
@pytest.mark.parametrize("version", AIRFLOWS)
def test_what_an_older_airflow_lacks_is_refused_by_name(version: str, tmp_path: Path) -> None:
    lines = printed_in(AIRFLOWS[version], "airflows", "-c", LACKING, home=tmp_path).splitlines()
    found = {
        name: (kind, text) for _, name, kind, text in (line.split("|") for line in lines if "lacks|" in line)
    }
    names = ["HOODIE_RETRIES", "CommitEventTrigger", "HoodieRetryPolicy", "commits()", "partitions", "relay"]
    assert list(found) == [*names, "backfill", "table_version", "commit_triggered"]
    if version == "3.1":  # Airflow's own timetable is what the file names first
        kind, text = found.pop("commit_triggered")
        assert (kind, "PartitionedAssetTimetable" in text) == ("ImportError", True)
    for kind, text in found.values():
        assert kind == REFUSAL
        assert f"needs Airflow 3.3 or later, and this is {version}." in text


@pytest.mark.full
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("version", AIRFLOWS)
def test_on_an_older_airflow(version: str, cell: str, tmp_path: Path) -> None:
    chosen = [test.partition("::") for test in CELLS[cell]]
    tests = [f"tests/airflow/{file}.py{colons}{name}" for file, colons, name in chosen]
    check_tests_in(AIRFLOWS[version], "airflows", tests, tmp_path)
