"""Messages into a real Pulsar: each once and in order, broker down or stuck, and what it refuses."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.callbacks.pulsar import PulsarCallback
from hoodie.config.key import Config
from hoodie.errors import StorageError
from tests.support.cli import Run
from tests.support.pulsar import Pulsar

PREFIX = "hoodie.write.commit.callback."

pytestmark = pytest.mark.full


def options(pulsar: Pulsar, topic: str, **more: str) -> dict[str, str]:
    named = {name.replace("__", "-").replace("_", "."): value for name, value in more.items()}
    given = {"broker.service.url": pulsar.url, "topic": topic, "producer.send-timeout": "10s", **named}
    on = {f"{PREFIX}on": "true", f"{PREFIX}class": "pulsar"}
    return on | {f"{PREFIX}pulsar.{name}": value for name, value in given.items()}


def made(pulsar: Pulsar, topic: str, **more: str) -> PulsarCallback:
    return PulsarCallback(config=Config.of(options(pulsar, topic, **more)))


def write(table: Path, pulsar: Pulsar, topic: str, **more: str) -> Any:
    own = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "orders"}
    rows = pa.table({"id": ["a"]})
    return hoodie.write_table(rows, str(table), options=own | options(pulsar, topic, **more))


def instants(table: Path) -> list[str]:
    return [entry["instant"] for entry in hoodie.instants(str(table))]


def told(messages: list[tuple[str, str]]) -> list[str]:
    return [json.loads(value)["commitTime"] for _, value in messages]


def test_each_commit_once_in_order_also_when_the_broker_was_down(tmp_path: Path, pulsar: Pulsar) -> None:
    topic, table = pulsar.new_topic(), tmp_path / "t"
    assert write(table, pulsar, topic).warnings == []
    pulsar.stop()
    try:
        started = time.monotonic()
        late = [write(table, pulsar, topic, producer_send__timeout="1s").warnings for _ in range(2)]
        assert time.monotonic() - started < 6
    finally:
        pulsar.start()
    for (warning,) in late:
        assert f"the message of {instants(table)[1]} was not delivered" in warning
        assert f"topic {topic} of Pulsar at {pulsar.url} did not take it" in warning
    assert write(table, pulsar, topic).warnings == []
    messages = pulsar.messages(topic, 4)
    assert told(messages) == instants(table)
    assert {key for key, _ in messages} == {"orders"}


def test_what_is_kept_is_sent_by_hand(tmp_path: Path, pulsar: Pulsar, run: Run) -> None:
    topic, table = pulsar.new_topic(), tmp_path / "t"
    for _ in range(2):
        assert write(table, pulsar, topic, broker_service_url="pulsar://127.0.0.1:9").warnings
    arguments = ["callbacks", "resend", "--table", str(table)]
    for name, value in options(pulsar, topic).items():
        arguments += ["--option", f"{name}={value}"]
    one, two = instants(table)
    assert run(*arguments)[:2] == (0, f"Sent 2 messages: {one}, {two}\n")
    assert run(*arguments)[:2] == (0, "Nothing to send: every message is delivered\n")
    assert told(pulsar.messages(topic, 2)) == [one, two]


def test_a_broker_that_is_stuck_costs_one_time_out(tmp_path: Path, pulsar: Pulsar) -> None:
    topic, table = pulsar.new_topic(), tmp_path / "t"
    assert write(table, pulsar, topic).warnings == []
    with pulsar.halted():
        started = time.monotonic()
        (warning,) = write(table, pulsar, topic, producer_send__timeout="2s").warnings
        assert time.monotonic() - started < 5
    assert "It is kept; the next commit sends it again" in warning
    assert write(table, pulsar, topic).warnings == []
    assert told(pulsar.messages(topic, 3)) == instants(table)


def test_a_broker_that_gets_stuck_between_two_messages(pulsar: Pulsar) -> None:
    """It may have what it did not acknowledge."""
    topic = pulsar.new_topic()
    callback = made(pulsar, topic)
    callback.send("1", "t", 10)
    with pulsar.halted():
        started = time.monotonic()
        with pytest.raises(StorageError, match="did not take it"):
            callback.send("2", "t", 2)
        assert time.monotonic() - started < 4
    callback.send("2", "t", 10)
    callback.close()
    assert list(dict.fromkeys(value for _, value in pulsar.messages(topic, 2))) == ["1", "2"]


def test_a_broker_that_answers_in_time(tmp_path: Path, pulsar: Pulsar) -> None:
    topic, table = pulsar.new_topic(), tmp_path / "t"
    answers: list[Any] = []
    with pulsar.halted():
        thread = threading.Thread(target=lambda: answers.append(write(table, pulsar, topic)))
        thread.start()
        thread.join(3)
    thread.join(60)
    assert answers[0].warnings == []
    assert told(pulsar.messages(topic, 1)) == instants(table)


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("nowhere", "TopicNotFound. Create the topic, or mend hoodie.write.commit.callback.pulsar.topic"),
        ("persistent://public/nowhere/commits", ""),
        ("persistent://nobody/default/commits", ""),
        ("public/commits", "InvalidTopicName. Mend hoodie.write.commit.callback.pulsar.topic"),
    ],
)
def test_a_topic_that_is_not_there(tmp_path: Path, pulsar: Pulsar, topic: str, text: str) -> None:
    started = time.monotonic()
    (warning,) = write(tmp_path / "t", pulsar, topic, producer_send__timeout="5s").warnings
    assert f"topic {topic} of Pulsar at {pulsar.url} did not take it: {text}" in warning
    assert time.monotonic() - started < 7


def test_a_topic_with_partitions_has_a_tables_messages_in_one(pulsar: Pulsar) -> None:
    topic = pulsar.new_topic(partitions=3)
    callback = made(pulsar, topic)
    for number in range(6):
        callback.send(str(number), "orders", 10)
        callback.send(str(number), "lines", 10)
    callback.close()
    for table in ("orders", "lines"):
        found = [
            [value for key, value in pulsar.messages(f"{topic}-partition-{at}", 0) if key == table]
            for at in range(3)
        ]
        assert sorted(found) == [[], [], ["0", "1", "2", "3", "4", "5"]]


def test_the_route_mode_of_one_partition(pulsar: Pulsar) -> None:
    topic = pulsar.new_topic(partitions=3)
    callback = made(pulsar, topic, producer_route__mode="SinglePartition")
    for _ in range(3):
        callback.send("{}", "t", 10)
    callback.close()
    found = [pulsar.messages(f"{topic}-partition-{at}", 0) for at in range(3)]
    assert sorted(found) == [[], [], [("", "{}")] * 3]


def test_a_message_over_the_brokers_limit(pulsar: Pulsar) -> None:
    topic = pulsar.new_topic()
    callback, large = made(pulsar, topic), json.dumps({"a": "x" * 4_500_000})
    callback.send(large, "t", 10)
    with pytest.raises(StorageError, match=r"MessageTooBig\. Raise maxMessageSize of the brokers"):
        callback.send(large + large, "t", 10)
    callback.close()
    assert pulsar.messages(topic, 1) == [("t", large)]


def test_a_topic_that_was_terminated(tmp_path: Path, pulsar: Pulsar) -> None:
    topic, table = pulsar.new_topic(), tmp_path / "t"
    assert write(table, pulsar, topic).warnings == []
    pulsar.ask("POST", f"/{topic}/terminate")
    (warning,) = write(table, pulsar, topic).warnings
    assert "TopicTerminated" in warning
    assert write(table, pulsar, other := pulsar.new_topic()).warnings == []
    assert told(pulsar.messages(other, 2)) == instants(table)[1:]


def test_other_addresses(pulsar: Pulsar) -> None:
    """By HTTP, which finds the broker, and of several brokers, of which one is gone."""
    topic = pulsar.new_topic()
    for url in (f"http://127.0.0.1:{pulsar.web}", f"pulsar://127.0.0.1:9,127.0.0.1:{pulsar.port}"):
        callback = made(pulsar, topic, broker_service_url=url)
        callback.send("{}", "t", 10)
        callback.close()
    assert len(pulsar.messages(topic, 2)) == 2
