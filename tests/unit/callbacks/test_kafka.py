"""Messages into a real Kafka: each once and in order, broker down meanwhile, and what it refuses."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.callbacks import CALLBACKS
from hoodie.callbacks.kafka import KafkaCallback
from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from tests.support.kafka import Kafka

PREFIX = "hoodie.write.commit.callback."
NEEDED = {"bootstrap.servers": "127.0.0.1:9", "topic": "commits"}


def made(**more: str) -> KafkaCallback:
    settings = {**NEEDED, **{name.replace("_", "."): value for name, value in more.items()}}
    return KafkaCallback(config=Config.of({f"{PREFIX}kafka.{name}": each for name, each in settings.items()}))


def write(table: Path, kafka: Kafka, topic: str, **more: str) -> Any:
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.table.name": "orders",
        f"{PREFIX}on": "true",
        f"{PREFIX}class": "kafka",
        f"{PREFIX}kafka.bootstrap.servers": kafka.servers,
        f"{PREFIX}kafka.topic": topic,
        f"{PREFIX}kafka.timeout.seconds": "10",
        **{f"{PREFIX}kafka.{name.replace('_', '.')}": value for name, value in more.items()},
    }
    return hoodie.write_table(pa.table({"id": ["a"]}), str(table), options=options)


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed(name: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka needs hoodie.write.commit.callback.kafka.{name}"):
        made(**{name: ""})


@pytest.mark.parametrize(
    "more",
    [
        {"acks": "some"},
        {"properties": "no property"},
        {"properties": "no.such=1"},
        {"properties": "security.protocol=X"},
    ],
)
def test_settings_that_can_not_be_followed(more: dict[str, str]) -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(ConfigError, match=r"hoodie\.write\.commit\.callback\.kafka\.properties"):
        made(**more)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match="pip install confluent-kafka where"):
        made()


def test_a_broker_that_is_gone_costs_the_time_out() -> None:
    pytest.importorskip("confluent_kafka")
    callback, started = made(timeout_seconds="0.2"), time.monotonic()
    with pytest.raises(
        StorageError, match=r"topic commits of Kafka at 127\.0\.0\.1:9 did not take it within 0\.2"
    ):
        callback.send("{}", "t", 0.2)
    callback.close()
    assert time.monotonic() - started < 1.5


def test_secrets_are_those_of_the_properties() -> None:
    pytest.importorskip("confluent_kafka")
    text = "security.protocol=SASL_PLAINTEXT;sasl.mechanism=PLAIN;sasl.username=me;sasl.password=hunter-2"
    assert made(properties=text).secrets == ("hunter-2",)


def test_hudis_class_is_an_alias() -> None:
    pytest.importorskip("confluent_kafka")
    name = "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback"
    config = Config.of({f"{PREFIX}kafka.{key}": value for key, value in NEEDED.items()})
    assert isinstance(CALLBACKS.load("setting", name)(config=config), KafkaCallback)


@pytest.mark.full
def test_each_commit_once_in_order_also_when_the_broker_was_down(tmp_path: Path, kafka: Kafka) -> None:
    topic, table = kafka.new_topic(), tmp_path / "t"
    assert write(table, kafka, topic).warnings == []
    kafka.stop()
    try:
        started = time.monotonic()
        late = [write(table, kafka, topic, timeout_seconds="1").warnings for _ in range(2)]
        assert time.monotonic() - started < 5
    finally:
        kafka.start()
    for (warning,) in late:
        assert f"the message of {hoodie.instants(str(table))[1]['instant']} was not delivered" in warning
        assert f"topic {topic} of Kafka at {kafka.servers} did not take it within 1 s; _" in warning
    assert write(table, kafka, topic).warnings == []
    instants = [entry["instant"] for entry in hoodie.instants(str(table))]
    messages = kafka.messages(topic, len(instants))
    assert [json.loads(value)["commitTime"] for _, value in messages] == instants
    assert {key for key, _ in messages} == {"orders"}


@pytest.mark.full
@pytest.mark.parametrize("settings", [{"acks": "1", "partition": "0"}, {"acks": "0", "retries": "0"}])
def test_acks_and_partitions(tmp_path: Path, kafka: Kafka, settings: dict[str, str]) -> None:
    topic = kafka.new_topic()
    assert write(tmp_path / "t", kafka, topic, **settings).warnings == []
    assert len(kafka.messages(topic, 1)) == 1


@pytest.mark.full
def test_a_topic_that_is_not_there(tmp_path: Path, kafka: Kafka) -> None:
    started = time.monotonic()
    (warning,) = write(tmp_path / "t", kafka, "nowhere", timeout_seconds="5").warnings
    assert "topic nowhere of Kafka" in warning
    assert "Create the topic, or mend hoodie.write.commit.callback.kafka.topic" in warning
    assert time.monotonic() - started < 7


@pytest.mark.full
def test_a_partition_that_is_not_there(tmp_path: Path, kafka: Kafka) -> None:
    (warning,) = write(tmp_path / "t", kafka, kafka.new_topic(), partition="7").warnings
    assert "Mend hoodie.write.commit.callback.kafka.partition" in warning


@pytest.mark.full
def test_a_message_over_the_brokers_limit(tmp_path: Path, kafka: Kafka) -> None:
    topic, table = kafka.new_topic(**{"max.message.bytes": "500"}), tmp_path / "t"
    (warning,) = write(table, kafka, topic).warnings
    assert "MSG_SIZE_TOO_LARGE" in warning
    assert "Raise max.message.bytes of the topic" in warning
    other = kafka.new_topic()
    assert write(table, kafka, other).warnings == []
    assert len(kafka.messages(other, 2)) == 2


@pytest.mark.full
def test_a_message_of_some_megabytes(kafka: Kafka) -> None:
    topic = kafka.new_topic(**{"max.message.bytes": "9000000"})
    callback, message = made(bootstrap_servers=kafka.servers, topic=topic), json.dumps({"a": "x" * 3_000_000})
    callback.send(message, "t", 10)
    callback.close()
    assert kafka.messages(topic, 1) == [("t", message)]


@pytest.mark.full
def test_a_broker_without_certificates(kafka: Kafka) -> None:
    callback = made(bootstrap_servers=kafka.servers, timeout_seconds="2", properties="security.protocol=SSL")
    with pytest.raises(StorageError, match=r"did not take it within 2 s; .*SSL"):
        callback.send("{}", "t", 2)
    callback.close()
