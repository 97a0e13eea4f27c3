"""What looks at a table works on an object store: deferred sensors, watchers, the timeline page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie import CommitEventTrigger, CommitSensor, FreshnessSensor, PartitionSensor
from airflow_hoodie.exceptions import HoodieException
from hoodie.serve.page import Page
from tests.support.s3_store import SECRET, Store, served

from .test_triggers import deferred, first_event, revived
from .test_watchers import SECONDS, Triggerer

TABLE = "s3://lake/orders"
OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
}


@pytest.fixture
def store() -> Iterator[Store]:
    with served() as store:
        yield store


def commit(number: int) -> str:
    rows = pa.table({"id": [str(number)], "day": [f"d{number}"]})
    return hoodie.write_table(rows, TABLE, options=OPTIONS).instant


def test_a_deferred_sensor(store: Store) -> None:
    first = commit(1)
    waiting = CommitSensor(
        task_id="wait", table="s3a://lake/orders", after=first, deferrable=True, poke_interval=0.05
    )
    trigger = revived(deferred(waiting).trigger)

    async def scenario() -> Any:
        task = asyncio.create_task(first_event(trigger))
        await asyncio.sleep(0.2)
        assert not task.done()
        await asyncio.to_thread(commit, 2)
        return await asyncio.wait_for(task, SECONDS)

    found = waiting.execute_complete({}, asyncio.run(scenario()).payload)
    assert found["instant"] == hoodie.instants(TABLE)[-1]["instant"]
    assert PartitionSensor(task_id="p", table=TABLE, partitions=["d2"]).poke({}).is_done
    assert FreshnessSensor(task_id="f", table=TABLE, max_age=3600).poke({}).is_done


def test_a_watcher(store: Store) -> None:
    expected = [commit(1)]

    async def scenario() -> list[str]:
        triggerer = Triggerer()
        triggerer.run(CommitEventTrigger(table="s3a://lake/orders", poke_interval=0.05, start="earliest"))
        await triggerer.until(lambda: len(triggerer.stored[0]) == 1)
        triggerer.confirm()
        expected.append(await asyncio.to_thread(commit, 2))
        await triggerer.until(lambda: len(triggerer.stored[0]) == 2)
        triggerer.confirm()
        await triggerer.stop()
        return triggerer.stored[0]

    assert asyncio.run(scenario()) == expected


def test_what_a_poll_asks(store: Store) -> None:
    """The listing of the timeline, once nothing is new."""
    commit(1)
    waiting = CommitSensor(task_id="wait", table=TABLE, after=commit(2), poke_interval=0.05)
    assert not waiting.poke({}).is_done
    store.requests.clear()
    assert not waiting.poke({}).is_done
    assert [str(request.kind) for request in store.requests] == ["LIST"], store


def test_the_timeline_page(store: Store) -> None:
    instants = [commit(number) for number in range(3)]
    page = Page(lambda: {"orders": "s3a://lake/orders"}, None)
    listed = json.loads(page.get("tables/orders/instants", "limit=10").body)
    assert sorted(item["instant"] for item in listed["instants"]) == instants
    one = json.loads(page.get(f"tables/orders/instants/{instants[0]}", "action=commit").body)
    assert one["instant"] == instants[0]
    store.refusal = (403, "AccessDenied", "")
    refused = page.get("tables/orders/instants", "limit=10")
    assert refused.status != 200
    assert "access is denied" in refused.body.decode()
    assert SECRET not in refused.body.decode()


def test_an_error_of_the_store_is_one_of_the_task(store: Store) -> None:
    commit(1)
    store.refusal = (403, "SignatureDoesNotMatch", f"<StringToSign>{SECRET}</StringToSign>")
    with pytest.raises(HoodieException, match=r"s3://lake/orders.* the credentials are wrong") as raised:
        CommitSensor(task_id="wait", table=TABLE).poke({})
    assert SECRET not in str(raised.value)
