"""Assets of tables: their URIs, the events of operators, watchers and relays, and what consumers read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pyarrow as pa
import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

import hoodie
from airflow_hoodie import CommitEventTrigger, HoodieTable, PartitionRelayOperator, UpsertOperator, commits_in
from airflow_hoodie.assets.events import partition_keys, record_commit, result_event
from airflow_hoodie.assets.hoodie import asset_uri, convert_asset_to_openlineage
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import CommitFilter
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.watch_offset import WatchOffset, new_commits

from .by_version import dag_serialization
from .conftest import FakeSubmit

ORDERS = HoodieTable(name="orders", path="/lake/orders", record_keys="id", partition_fields="day")


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/lake/orders", "hoodie://file/lake/orders"),
        ("/lake//a/../orders/", "hoodie://file/lake/orders"),
        ("file:/lake/orders", "hoodie://file/lake/orders"),
        ("file:///lake/orders", "hoodie://file/lake/orders"),
        ("s3a://Bucket/lake/orders", "hoodie://s3/Bucket/lake/orders"),
        ("gs://bucket/orders", "hoodie://gs/bucket/orders"),
        ("/lake/my orders?#%", "hoodie://file/lake/my%20orders%3F%23%25"),
        ("/lake/day=1/ü", "hoodie://file/lake/day=1/%C3%BC"),
    ],
)
def test_uris_of_tables(path: str, uri: str) -> None:
    assert asset_uri(path) == uri
    assert Asset(uri=uri).uri == Asset(uri=uri).normalized_uri == uri


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("hoodie:///lake/orders", "hoodie://file/lake/orders"),
        ("HOODIE://File/lake//orders/", "hoodie://file/lake/orders"),
        ("hoodie://s3a/bucket/./orders#x", "hoodie://s3/bucket/orders"),
        ("hoodie://file/t?events=commits&a=1", "hoodie://file/t?a=1&events=commits"),
    ],
)
def test_airflow_sanitises_what_users_write(given: str, uri: str) -> None:
    assert Asset(name="orders", uri=given).uri == uri


@pytest.mark.parametrize("given", ["hoodie://file", "hoodie:///", "hoodie://s3/"])
def test_a_uri_that_names_no_table(given: str) -> None:
    with pytest.raises(ValueError, match="names no table"):
        Asset(uri=given)


def test_the_factory_and_openlineage() -> None:
    manager = ProvidersManagerTaskRuntime()  # type: ignore[no-untyped-call]
    made = manager.asset_factories["hoodie"](path="/lake/orders", extra={"owner": "x"})
    assert (made.uri, made.extra) == ("hoodie://file/lake/orders", {"owner": "x"})
    assert manager.asset_to_openlineage_converters["hoodie"] is convert_asset_to_openlineage


def test_openlineage_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.common.compat.openlineage import facet

    monkeypatch.setattr(facet, "Dataset", SimpleNamespace)
    places = {
        "hoodie://file/lake/my%20orders?events=commits": ("file", "/lake/my orders"),
        "hoodie://s3/bucket/lake/orders": ("s3://bucket", "lake/orders"),
    }
    for uri, (namespace, name) in places.items():
        found = convert_asset_to_openlineage(Asset(uri=uri), None)
        assert (found.namespace, found.name) == (namespace, name)


def test_a_table_has_three_assets() -> None:
    uris = [ORDERS.asset.uri, ORDERS.commits().uri, ORDERS.partitions.uri]
    assert uris == [
        "hoodie://file/lake/orders",
        "hoodie://file/lake/orders?events=commits",
        "hoodie://file/lake/orders?events=partitions",
    ]
    [watcher] = ORDERS.commits(poke_interval=3, start="earliest").watchers
    assert isinstance(watcher.trigger, CommitEventTrigger)
    assert (watcher.trigger.poke_interval, watcher.trigger.start) == (3.0, "earliest")


def test_watchers_of_other_commits_have_other_assets() -> None:
    other: list[dict[str, Any]] = [
        {},
        {"actions": ["deltacommit"]},
        {"partition": "day=1"},
        {"partition": ["day=1", "day=2"]},
        {"services": True},
        {"extra_metadata": {"source": "web"}},
    ]
    assert len({ORDERS.commits(**arguments).uri for arguments in other}) == len(other)
    same = ORDERS.commits(actions=["replacecommit", "commit", "deltacommit"], start="earliest")
    assert same.uri == ORDERS.commits().uri


def test_a_template_has_no_asset() -> None:
    table = HoodieTable(name="orders", path="{{ var.value.lake }}/orders", record_keys="id")
    make: Callable[[], object]
    for make in (lambda: table.asset, lambda: table.partitions, table.commits):
        with pytest.raises(HoodieConfigurationError, match="template"):
            make()
    assert UpsertOperator(task_id="upsert", table=table, source="/in").outlets == []


RESULT = {
    "status": "committed", "table": "orders", "base_path": "/lake/orders", "action": "commit", "instant": "1",
    "completion": "1.5", "operation": "upsert", "partitions": ["day=1", "day=2"], "num_inserts": 3,
    "num_updates": 0, "num_deletes": 0, "num_writes": 3, "num_files": 1, "bytes_written": 9,
    "duration_s": 0.5, "warnings": [],
}  # fmt: skip
EXTRA = {
    "base_path": "/lake/orders", "instant": "1", "completion": "1.5", "action": "commit",
    "operation": "upsert", "partitions": ["day=1", "day=2"], "num_inserts": 3, "num_updates": 0,
    "num_deletes": 0, "num_writes": 3, "num_files": 1, "bytes_written": 9,
}  # fmt: skip


def test_outlets_of_a_write() -> None:
    common: dict[str, Any] = {"task_id": "upsert", "table": ORDERS, "source": "/in"}
    assert UpsertOperator(**common).outlets == [ORDERS.asset]
    assert UpsertOperator(**common, outlets=[ORDERS.asset]).outlets == [ORDERS.asset]
    assert UpsertOperator(**common, emit_asset=False).outlets == []
    other = Asset("x-other://a")
    assert UpsertOperator(**common, outlets=other).outlets == [other, ORDERS.asset]


def test_what_a_write_tells_its_assets() -> None:
    events, other = OutletEventAccessors(), Asset("x-other://a")
    outlets = [ORDERS.asset, ORDERS.partitions, other]
    assert record_commit({"outlet_events": events}, outlets, RESULT, "/lake/orders/") == outlets
    assert events[ORDERS.asset].extra == events[ORDERS.partitions].extra == EXTRA
    assert events[ORDERS.asset].partition_keys == set()
    assert events[ORDERS.partitions].partition_keys == {"day=1", "day=2"}
    assert events[other].extra == {}
    nothing = {**RESULT, "partitions": []}
    assert record_commit({"outlet_events": OutletEventAccessors()}, outlets, nothing, "/lake/orders") == [
        ORDERS.asset,
        other,
    ]


def test_partition_keys() -> None:
    assert partition_keys(["b=2/c=3", "b=1/c=3", "b=2/c=3", ""]) == ["b=1/c=3", "b=2/c=3"]
    assert partition_keys(["b=2/c=x=y", "plain"], "value") == ["2/x=y", "plain"]


def event(payload: Any, watcher: bool = True, run_id: str = "", **fields: Any) -> SimpleNamespace:
    extra = {"from_trigger": True, "payload": payload} if watcher else payload
    return SimpleNamespace(**{"extra": extra, "source_run_id": run_id, "partition_key": None, **fields})


def test_commits_in_events() -> None:
    watched = {**EXTRA, "completion_time": "2026-01-01T00:00:00.000+00:00", "watcher": "/lake/orders"}
    events = {
        ORDERS.commits(): [
            event(watched),
            event({**watched, "instant": "2", "completion": None}),
            event(watched),
        ],
        ORDERS.asset: [
            event({**EXTRA, "instant": "2"}, watcher=False),
            event({**EXTRA, "instant": "3"}, False),
        ],
        Asset("x-other://a"): [event({"file": "x"}, False), event(None, False), event("text")],
    }
    found = commits_in(events)
    assert [commit["instant"] for commit in found] == ["1", "2", "3"]
    assert found[0] == {name: text for name, text in watched.items() if name != "watcher"}
    assert found[1]["completion"] == "2"  # of an event of before completions were in events
    assert found[2]["completion_time"] is None
    assert commits_in(events[ORDERS.asset])[0]["instant"] == "2"
    assert commits_in(None) == []


def test_one_spelling_of_an_operation(tmp_path: Path) -> None:
    """In the event of the operator, in that of a watcher, and in what a consumer makes of older events."""
    path = str(tmp_path / "orders")
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "orders"}
    done = hoodie.write_table(pa.table({"id": ["a"]}), path, operation="bulk_insert", options=options)
    reader = TableReader(path)
    [watched] = new_commits(reader, reader.poll(), WatchOffset(), CommitFilter()).events
    assert (watched["operation"], result_event(done.to_dict())["operation"]) == ("bulk_insert", "bulk_insert")
    older = event({**watched, "operation": "BULK_INSERT"})
    assert [commit["operation"] for commit in commits_in([older])] == ["bulk_insert"]
    assert commits_in([event({**watched, "operation": None})])[0]["operation"] is None
    expired = {**done.to_dict(), "operation": "ttl"}
    assert result_event(expired)["operation"] == "delete_partition"


class Events:
    """The stored events of an asset, as a task asks for them."""

    def __init__(self, stored: list[Any]) -> None:
        self._found = stored

    def ascending(self, ascending: bool) -> Events:
        return self if ascending else Events(self._found[::-1])

    def limit(self, limit: int) -> Events:
        return Events(self._found[:limit])

    def after(self, moment: str) -> Events:
        return Events([item for item in self._found if item.timestamp >= datetime.fromisoformat(moment)])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)


@dataclass
class Relays:
    """Runs of a relay; `told` are the watcher's events, `relayed` those of the partitions' asset."""

    told: list[Any] = field(default_factory=list)
    relayed: list[Any] = field(default_factory=list)
    keys: Literal["path", "value"] = "path"

    def commit(self, *partitions: str, instant: str | None = None, base_path: str = "/lake/orders") -> Any:
        number = len(self.told) + 1
        payload = {"base_path": base_path, "instant": instant or str(number), "partitions": list(partitions)}
        moment = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=number)
        self.told.append(event(payload, timestamp=moment))
        return self.told[-1]

    def run(self, run_id: str, *triggering: Any, dry_run: bool = False) -> dict[str, Any]:
        task = PartitionRelayOperator(task_id="relay", table=ORDERS, keys=self.keys, dry_run=dry_run)
        source, own = task.inlets
        assert source.uri == ORDERS.commits().uri
        assert task.outlets == [own] == [ORDERS.partitions]
        outlets = OutletEventAccessors()
        context: Any = {
            "triggering_asset_events": {ORDERS.commits(): list(triggering)},
            "inlet_events": {source: Events(self.told), own: Events(self.relayed)},
            "outlet_events": outlets,
            "run_id": run_id,
        }
        result = task.execute(context)
        if dry_run:
            assert task.outlets == []  # Airflow emits an event of each that is left
            assert not outlets[ORDERS.partitions].partition_keys
            return result
        outlet = outlets[ORDERS.partitions]
        extra = json.loads(json.dumps(outlet.extra))
        assert (extra["base_path"], extra["instants"]) == ("/lake/orders", result["instants"])
        assert outlet.partition_keys == set(result["partitions"])
        for key in outlet.partition_keys:
            self.relayed.append(event(extra, watcher=False, run_id=run_id, partition_key=key))
        return result


def test_a_relay_tells_each_partition_once() -> None:
    relays = Relays()
    first = relays.commit("day=1", "day=2")
    relays.commit("day=2")
    relays.commit("day=9", base_path="/lake/other")
    assert relays.run("r1", first) == {"instants": ["1", "2"], "partitions": ["day=1", "day=2"]}
    relays.commit("day=3")
    relays.keys = "value"
    assert relays.run("r2") == {"instants": ["4"], "partitions": ["3"]}


def test_a_dry_run_of_a_relay_emits_nothing(logged: Callable[[], str]) -> None:
    """And takes nothing from the next run."""
    relays = Relays()
    trigger = relays.commit("day=1", "day=2")
    found = relays.run("r1", trigger, dry_run=True)
    assert found == {"instants": ["1"], "partitions": ["day=1", "day=2"], "dry_run": True}
    assert (
        "2 partitions changed by 1 commits would get an event: day=1, day=2; nothing was emitted" in logged()
    )
    assert relays.run("r2", trigger) == {"instants": ["1"], "partitions": ["day=1", "day=2"]}


def test_the_first_relay_leaves_out_what_was_before_its_trigger() -> None:
    relays = Relays()
    relays.commit("day=1")
    trigger = relays.commit("day=2")
    assert relays.run("r1", trigger)["instants"] == ["2"]
    with pytest.raises(AirflowSkipException):
        Relays(relays.told).run("manual")


def test_a_relay_reads_events_that_airflow_did_not_name_and_none_twice() -> None:
    """A burst of events starts one run, which names the first of them only; an event may come again."""
    relays = Relays()
    seen: list[str] = []
    for number in range(1, 300):
        trigger = relays.commit(f"day={number}")
        if number % 7 == 0:
            relays.commit("day=again", instant=relays.told[-3].extra["payload"]["instant"])
        if number % 10 == 0:
            seen += relays.run(f"r{number}", trigger)["instants"]
    seen += relays.run("last")["instants"]
    expected = [item.extra["payload"]["instant"] for item in relays.told]
    floor = expected.index(seen[0])
    assert seen == list(dict.fromkeys(expected[floor:]))
    assert len(relays.relayed[-1].extra["relayed"]["instants"]) == 100
    with pytest.raises(AirflowSkipException, match="0 new commits"):
        relays.run("nothing new")


def test_a_run_that_is_cleared_relays_its_own_again() -> None:
    relays = Relays()
    first = relays.run("r1", relays.commit("day=1"))
    relays.commit("day=2")
    second = relays.run("r2")
    relays.commit("day=3")
    assert relays.run("r2") == second
    assert relays.run("r1") == first
    assert relays.run("r3")["instants"] == ["3"]


def test_a_relay_without_partitions_skips() -> None:
    relays = Relays()
    with pytest.raises(AirflowSkipException, match="1 new commits"):
        relays.run("r1", relays.commit(""))


SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import HoodieTable, UpsertOperator

    ORDERS = HoodieTable(name="orders", path={path!r}, record_keys=["id"], partition_fields=["day"])

    with DAG("writes_orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        UpsertOperator(task_id="upsert", table=ORDERS, source="/in/a.csv", spark_binary={binary!r},
                       master="local[2]", outlets=[ORDERS.partitions])
"""


@pytest.mark.full
def test_events_of_a_write_in_airflow(
    load_dag: Callable[[str], Any], committing: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from airflow_hoodie.operators import base

    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "run.py")
    path = str(tmp_path / "orders")
    run = load_dag(SOURCE.format(path=path, binary=str(committing.path))).test()
    assert run.state == "success"
    with create_session() as session:
        query = select(AssetModel.uri, AssetEvent.partition_key, AssetEvent.extra).join(AssetEvent.asset)
        rows = session.execute(query.where(AssetEvent.source_run_id == run.run_id)).all()
    assert sorted((uri, key) for uri, key, _ in rows) == [
        (asset_uri(path), None),
        (asset_uri(path, events="partitions"), "2026-01-01"),
    ]
    [instant] = [file.name.split(".")[0] for file in Path(path, ".hoodie").glob("*.commit")]
    for _, _, extra in rows:
        assert (extra["instant"], extra["operation"], extra["num_inserts"]) == (instant, "upsert", 3)
        assert extra["partitions"] == ["2026-01-01"]


def test_a_dag_of_watched_commits_is_serialised() -> None:

    with DAG("d", schedule=[ORDERS.commits()], start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        PartitionRelayOperator(task_id="relay", table=ORDERS)
    encoded = json.loads(json.dumps(dag_serialization().serialize_dag(dag)))
    again = dag_serialization().deserialize_dag(encoded)
    [asset] = [asset for _, asset in again.timetable.asset_condition.iter_assets()]
    assert asset.uri == ORDERS.commits().uri
