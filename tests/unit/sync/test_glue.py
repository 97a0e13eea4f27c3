"""AWS Glue as a catalog: which requests a sync makes, within its limits, and what becomes of its errors.

What entries are afterwards is in `tests/contract/test_hive_sync.py`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, ServiceError, StorageError
from hoodie.services.sync.run import SyncResult
from hoodie.sync.hive.catalog import EntryChange
from hoodie.sync.hive.desired_entry import INPUT, Column, Entry
from hoodie.sync.hive.glue import GlueCatalog
from hoodie.sync.settings import TOOL, Tool
from tests.support.glue import REGION, SECRETS, options_at

if TYPE_CHECKING:
    from tests.support.glue import Answer, Glue

KEY = {"hoodie.datasource.write.recordkey.field": "id"}
BY_DAY = {**KEY, "hoodie.datasource.write.partitionpath.field": "day"}
NOTHING: Mapping[str, str] = {}
_NUMBERS = itertools.count()


class Lake:
    def __init__(self, folder: Path, glue: Glue) -> None:
        self.path, self.glue, self.database = str(folder / "orders"), glue, f"lake{next(_NUMBERS)}"
        glue.operations()

    def write(self, days: str, **columns: Any) -> None:
        rows = {"id": list(days), "day": list(days), **{name: [1] * len(days) for name in columns}}
        hoodie.write_table(pa.table(rows), self.path, options=BY_DAY)

    def sync(self, options: Mapping[str, str] = NOTHING) -> SyncResult:
        return hoodie.sync_table(self.path, database=self.database, options={**self.glue.options, **options})


@pytest.fixture
def lake(tmp_path: Path, glue: Glue) -> Lake:
    return Lake(tmp_path, glue)


def test_requests_of_syncs(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    lake.write("12")
    made, asked = lake.sync(), lake.glue.operations()
    assert asked == [
        "GetDatabase",
        "CreateDatabase",
        "CreateTable",
        "GetTable",
        "BatchCreatePartition",
        "UpdateTable",
    ]
    assert (made.catalog, made.requests, made.change_requests) == ("AWS Glue", 6, 4)
    again, asked = lake.sync(), lake.glue.operations()
    assert (again.reason, asked) == ("AWS Glue has all of it", ["GetDatabase", "GetTable"])
    assert (again.requests, again.change_requests) == (2, 0)

    lake.write("3", n=1)
    lake.sync()
    assert lake.glue.operations() == [
        "GetDatabase",
        "GetTable",
        "BatchGetPartition",
        "GetPartitions",  # their columns change before the entry's: a sync that ends here does it again
        "BatchUpdatePartition",
        "UpdateTable",
        "BatchCreatePartition",
        "UpdateTable",
    ]
    # no rights: what is refused, what to allow, and no secret of it
    text = f"no, said {SECRETS[1]}"
    with (
        lake.glue.failing("GetTable", 400, "AccessDeniedException", text),
        pytest.raises(
            StorageError, match=r"did not answer: no, said .*\(AccessDenied.*glue:GetTable"
        ) as error,
    ):
        lake.sync()
    assert not error.value.transient
    shown = json.dumps(error.value.to_dict()) + "".join(capfd.readouterr())
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("Glue", Tool.GLUE),
        ("org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool", Tool.GLUE),
        ("hive", Tool.HIVE),
        ("org.apache.hudi.hive.HiveSyncTool", Tool.HIVE),
    ],
)
def test_names_of_catalogs(name: str, tool: Tool) -> None:
    assert Config.of({TOOL.name: name})[TOOL] is tool


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({TOOL.name: "org.apache.hudi.sync.datahub.DataHubSyncTool"}, "expected one catalog, hive or glue"),
        ({TOOL.name: "hive,glue"}, "expected one catalog, hive or glue"),
        (
            {"hoodie.datasource.hive_sync.enable": "true"},
            r"one catalog is synced after a commit.*run `hoodie",
        ),
        ({"hoodie.aws.secret.key": "x"}, "belong together"),
        ({"hoodie.aws.glue.endpoint": "ftp://glue"}, r"hoodie\.aws\.glue\.endpoint is no address"),
        ({"hoodie.aws.glue.region": ""}, r"no region is known; set hoodie\.aws\.glue\.region"),
        ({"hoodie.datasource.meta.sync.glue.all_partitions_read_parallelism": "11"}, "between 1 and 10"),
        (
            {"hoodie.datasource.meta.sync.glue.partition_index_fields.enable": "true"},
            "make them there, they stay",
        ),
    ],
)
def test_what_is_refused_before_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], message: str
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    on = {TOOL.name: "glue", "hoodie.aws.glue.region": REGION, "hoodie.datasource.meta.sync.enable": "true"}
    with pytest.raises(ConfigError, match=message):
        hoodie.write_table(pa.table({"id": ["a"]}), str(tmp_path / "t"), options={**KEY, **on, **options})
    assert not (tmp_path / "t").exists()


def test_the_address_of_a_metastore_is_not_for_glue(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"id": ["a"]}), path, options=KEY)
    with pytest.raises(ConfigError, match=r"thrift://hms:9083 is the address of a metastore, and .*AWS Glue"):
        hoodie.sync_table(path, "thrift://hms:9083", options=options_at("http://127.0.0.1:1"))


ENTRY = Entry(
    name="orders",
    location="s3a://lake/orders",
    input_format=INPUT,
    columns=(Column("Id", "int", "the\n key" + " k" * 200), Column("v", "int")),
    partition_columns=(Column("Day", "string"),),
    parameters={"a": "1"},
    serde_parameters={"path": "s3a://lake/orders"},
)


def test_what_glue_has_of_an_entry() -> None:
    config = {"hoodie.datasource.meta.sync.glue.metadata_file_listing": "true", **options_at("http://h:1")}
    with GlueCatalog.opened(Config.of(config)) as opened:
        fitted = opened.fitted(ENTRY)
    assert fitted.location_of("day=1") == "s3://lake/orders/day=1"
    assert fitted.serde_parameters == {"path": "s3a://lake/orders"}
    assert [item.name for item in (*fitted.columns, *fitted.partition_columns)] == ["id", "v", "day"]
    comment = fitted.columns[0].comment
    assert comment is not None
    assert (comment[:9], len(comment), fitted.columns[1].comment) == ("the key k", 255, None)
    assert fitted.parameters == {"a": "1", "hudi.metadata-listing-enabled": "TRUE"}


def segments_of(glue: Glue) -> Answer:
    """What moto leaves out of account: the part of a table's partitions that is asked for."""
    own = glue.client()

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        if "Segment" not in body:
            return None
        number, count = body["Segment"]["SegmentNumber"], body["Segment"]["TotalSegments"]
        found = own.get_partitions(DatabaseName=body["DatabaseName"], TableName=body["TableName"])
        kept = ("Values", "StorageDescriptor")
        every = [{key: item[key] for key in kept} for item in found["Partitions"]]
        return 200, {"Partitions": every[number::count]}

    return answer


@pytest.mark.full
@pytest.mark.parametrize("at_once", ["1", "4"])
def test_batches_within_glues_limits(glue: Glue, at_once: str) -> None:
    database = f"lake{next(_NUMBERS)}"
    names = ("all_partitions_read", "changed_partitions_read", "partition_change")
    more = {f"hoodie.datasource.meta.sync.glue.{name}_parallelism": at_once for name in names}
    more["hoodie.datasource.meta.sync.glue.catalogId"] = "123456789012"
    config = Config.of({**glue.options, **more, "hoodie.datasource.hive_sync.batch_num": "5000"})
    partitions = {(f"{number:04}",): f"day={number:04}" for number in range(230)}
    with glue.answering("GetPartitions", segments_of(glue)), GlueCatalog.opened(config) as opened:
        entry = opened.fitted(ENTRY)
        opened.create_database(database)
        opened.create_database(database)  # another sync was first
        opened.create(database, entry, {})
        assert opened.entry(database, "orders") is not None
        glue.requests.clear()
        opened.add(database, entry, dict(list(partitions.items())[:200]))
        opened.add(database, entry, dict(list(partitions.items())[190:]))  # ten are there
        found = opened.partitions(database, entry)
        assert found == {values: f"s3://lake/orders/{path}" for values, path in partitions.items()}
        others = [(f"none{number}",) for number in range(901)]
        assert opened.locations(database, entry, [*partitions, *others]) == found
        opened.move(database, entry, {values: f"moved/{values[0]}" for values in list(partitions)[:150]})
        wider = EntryChange(columns=(Column("id", "bigint"),), retyped=("id: int -> bigint",))
        opened.alter(database, entry, wider, {"b": "2"})
        opened.drop(database, entry, [*list(partitions)[:60], ("none",)])
        left = opened.partitions(database, entry)
        assert (len(left), left["0060",]) == (170, "s3://lake/orders/moved/0060")
        others_asked = [body for _, body in glue.requests if "CatalogId" not in body]
        assert opened.asked == len(glue.requests) - len(others_asked) + 4
    sizes: dict[str, list[int]] = {}
    fields = {
        "BatchCreatePartition": "PartitionInputList",
        "BatchGetPartition": "PartitionsToGet",
        "BatchUpdatePartition": "Entries",
        "BatchDeletePartition": "PartitionsToDelete",
    }
    requests = [(name, body) for name, body in glue.requests if body.get("CatalogId") == "123456789012"]
    for operation, body in requests:
        if operation in fields:
            sizes.setdefault(operation, []).append(len(body[fields[operation]]))
    assert {name: sorted(found) for name, found in sizes.items()} == {
        "BatchCreatePartition": [40, 100, 100],
        "BatchGetPartition": [131, 1000],
        "BatchUpdatePartition": [30, 50, 100, 100, 100],
        "BatchDeletePartition": [11, 25, 25],
    }
    segments = [body.get("Segment") for name, body in requests if name == "GetPartitions"]
    assert sum(item is not None for item in segments) == (12 if at_once == "4" else 0)
    [table] = [body for name, body in requests if name == "UpdateTable"]
    assert (table["SkipArchive"], table["TableInput"]["Parameters"]["b"]) == (True, "2")
    found = glue.client().get_partition(DatabaseName=database, TableName="orders", PartitionValues=["0229"])[
        "Partition"
    ]
    assert found["StorageDescriptor"]["Columns"] == [{"Name": "id", "Type": "bigint", "Comment": ""}]


@pytest.mark.full
def test_answers_in_parts(lake: Lake) -> None:
    """Pages of partitions, and keys that Glue leaves out at first."""
    lake.write("123")
    lake.sync()
    own = lake.glue.client()

    def page(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with_all = own.batch_get_partition(
            DatabaseName=lake.database,
            TableName="orders",
            PartitionsToGet=[{"Values": [day]} for day in "123"],
        )["Partitions"]
        number = int(body.get("NextToken") or 0)
        some = [{key: with_all[number][key] for key in ("Values", "StorageDescriptor")}]
        return 200, {"Partitions": some, **({"NextToken": str(number + 1)} if number < 2 else {})}

    everything = {"hoodie.meta.sync.incremental": "false"}
    with lake.glue.answering("GetPartitions", page):
        assert lake.sync(everything).change_requests == 0
    lake.glue.operations()
    lake.write("12")

    def first(body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        keys = body["PartitionsToGet"]
        if len(keys) == 1:
            return None
        return 200, {"Partitions": [], "UnprocessedKeys": keys[1:]}

    with lake.glue.answering("BatchGetPartition", first):
        [entry] = lake.sync().entries
    # the first was left out of all answers: it is there all the same, and stays
    assert (entry["partitions_added"], lake.glue.operations().count("BatchGetPartition")) == (1, 2)
    lake.write("12")
    with (
        lake.glue.answering(
            "BatchGetPartition", lambda body: (200, {"UnprocessedKeys": body["PartitionsToGet"]})
        ),
        pytest.raises(StorageError, match=r"2 partitions are left out \(UnprocessedKeys\); sync again"),
    ):
        lake.sync()
    assert lake.glue.operations().count("BatchGetPartition") == 5


@pytest.mark.full
def test_what_glue_does_not_do_is_done_by_the_next_sync(lake: Lake) -> None:
    lake.write("12")
    detail = {"ErrorCode": "InternalServiceException", "ErrorMessage": "odd"}
    errors = {"Errors": [{"PartitionValues": ["1"], "ErrorDetail": detail}]}
    with (
        lake.glue.answering("BatchCreatePartition", lambda body: (200, errors)),
        pytest.raises(
            StorageError, match=r"did not add partitions to lake.*odd \(one of 1\) \(Internal"
        ) as error,
    ):
        lake.sync()
    assert error.value.transient
    lake.glue.operations()
    busy = iter((400, 503))

    def later(body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        status = next(busy, None)
        return None if status is None else (status, {"__type": "ThrottlingException", "message": "later"})

    with lake.glue.answering("BatchCreatePartition", later):
        [entry] = lake.sync().entries
    assert lake.glue.operations().count("BatchCreatePartition") == 3
    assert (entry["all_partitions"], entry["partitions_added"]) == (True, 2)
    lake.write("3")
    with (
        lake.glue.failing("UpdateTable", 400, "ConcurrentModificationException"),
        pytest.raises(StorageError, match=r"did not alter .*; sync again") as error,
    ):
        lake.sync()
    assert error.value.transient
    with (
        lake.glue.failing("GetDatabase", 400, "ExpiredTokenException"),
        pytest.raises(StorageError, match=r"check the credentials \(hoodie\.aws\.access\.key"),
    ):
        lake.sync()
    assert lake.sync().entries[0]["status"] == "changed"
    assert lake.sync().change_requests == 0


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        pytest.param(
            "GetDatabase", {}, marks=pytest.mark.full
        ),  # a page of a proxy is read as an answer without anything
        pytest.param("GetTable", {}, marks=pytest.mark.full),
        pytest.param("GetTable", [], marks=pytest.mark.full),
        ("GetTable", {"Table": {"Name": "orders", "StorageDescriptor": {"Columns": [{"Type": "int"}]}}}),
        pytest.param("GetPartitions", {"Partitions": [{}]}, marks=pytest.mark.full),
        pytest.param("GetPartitions", {"Partitions": "text"}, marks=pytest.mark.full),
        pytest.param("GetPartitions", {"Partitions": [], "NextToken": "same"}, marks=pytest.mark.full),
    ],
)
def test_answers_that_are_none(lake: Lake, operation: str, answer: Any) -> None:
    """They are errors of the sync, and of a write that syncs."""
    lake.write("1")
    lake.sync()
    everything = {"hoodie.meta.sync.incremental": "false"}
    with (
        lake.glue.answering(operation, lambda body: (200, answer)),
        pytest.raises(StorageError, match=r"AWS Glue in eu-west-1 .*(no answer of Glue's|names itself)"),
    ):
        lake.sync(everything)
    assert lake.sync(everything).change_requests == 0


def test_a_sync_that_fails_in_an_unforeseen_way_is_an_error_of_the_write(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("hoodie.sync.hive.run.sync", fails)
    on = {**BY_DAY, **lake.glue.options, "hoodie.datasource.meta.sync.enable": "true"}
    rows = pa.table({"id": ["1"], "day": ["1"]})
    with pytest.raises(ServiceError, match=r"the rows are committed at .*RuntimeError: unforeseen"):
        hoodie.write_table(rows, lake.path, options=on)
    ignored = {**on, "hoodie.datasource.hive_sync.ignore_exceptions": "true"}
    (warning,) = hoodie.write_table(rows, lake.path, options=ignored).warnings
    assert "the sync with AWS Glue failed: RuntimeError: unforeseen" in warning


@pytest.mark.full
def test_no_credentials_are_an_error_that_says_so(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lake.write("1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    given = {name: text for name, text in lake.glue.options.items() if "key" not in name}
    with pytest.raises(StorageError, match=r"can't be asked: .*Set hoodie\.aws\.access\.key"):
        hoodie.sync_table(lake.path, database=lake.database, options=given)
    assert lake.glue.operations() == []
