"""Pre-commit validators: queries about the state after the write, which withdraw it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.cli.write import summary
from hoodie.errors import ConfigError, ValidationFailed
from hoodie.mask import MASKED
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import VALIDATIONS_KEY, CommitMetadata
from hoodie.timeline.tokens import TOKEN_KEY
from tests.support.faults import die_at
from tests.support.tiers import full_but
from tests.unit.write.support import PARTITION, PLAIN, data_files, listing, plain, values

TYPE = "hoodie.datasource.write.table.type"
VALIDATORS = "hoodie.precommit.validators"
QUERIES = {
    "equality": f"{VALIDATORS}.equality.sql.queries",
    "inequality": f"{VALIDATORS}.inequality.sql.queries",
    "single": f"{VALIDATORS}.single.value.sql.queries",
}
KINDS = pytest.mark.parametrize("kind", full_but({"MERGE_ON_READ"}, ["COPY_ON_WRITE", "MERGE_ON_READ"]))
COUNT = "select count(*) from <TABLE_NAME>"
SINGLE_CLASS = "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator"


def asking(kind: str, *queries: str) -> dict[str, str]:
    return {VALIDATORS: kind, QUERIES[kind]: ";".join(queries)}


def made(path: Path, kind: str = "COPY_ON_WRITE") -> dict[str, Any]:
    """A table with a row in each of the partitions x and y; its options."""
    options = {**PLAIN, PARTITION: "val", TYPE: kind}
    hoodie.write_table(plain(("a", 1, "x"), ("z", 1, "y")), str(path), options=options)
    return options


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A table, and its options, for writes that are refused before they change it."""
    path = tmp_path_factory.mktemp("untouched") / "t"
    return path, made(path)


def write(path: Path, options: dict[str, Any], *rows: tuple[str, int, str], **more: Any) -> Any:
    return hoodie.write_table(plain(*rows), str(path), options=options, **more)


def visible(table: Path) -> tuple[list[Any], list[str], list[Path]]:
    timeline = Timeline.load(str(table))
    return values(table, "id", "ts"), [str(instant) for instant in timeline], data_files(table)


@KINDS
@pytest.mark.parametrize(
    ("queries", "expected", "found"),
    [
        (asking("equality", COUNT), "1", "2"),
        (asking("equality", "select id, ts from <TABLE_NAME>"), "(a, 1)", "(a, 2), (b, 1)"),
        (
            asking("inequality", "select count(*) from <TABLE_NAME> where ts < 0"),
            "other rows than 0",
            "the same",
        ),
        (asking("single", f"{COUNT}#1"), "1", "2"),
        (
            {VALIDATORS: SINGLE_CLASS, QUERIES["single"]: f"{COUNT}#2;select min(ts) from <TABLE_NAME>#0"},
            "0",
            "1",
        ),
        (asking("single", "select max(ts) from <TABLE_NAME> where ts < 0#0"), "0", "null"),
        (asking("single", "select ts from <TABLE_NAME>#1"), "1", "an error"),
        (asking("single", "select ts from <TABLE_NAME> where ts < 0#1"), "1", "null"),
    ],
)
def test_what_fails_is_withdrawn(
    tmp_path: Path, kind: str, queries: dict[str, str], expected: str, found: str
) -> None:
    """An update and a new row of one partition: its state before has one row, after it two."""
    table = tmp_path / "t"
    options = made(table, kind)
    before = visible(table)
    rows = (("a", 2, "x"), ("b", 1, "x"))
    with pytest.raises(ValidationFailed, match="The write was withdrawn") as caught:
        write(table, {**options, **queries}, *rows)
    values_ = caught.value.values
    assert values_["expected"] == expected
    assert values_["found"].startswith(found) or set(found.split("), ")) == set(values_["found"].split("), "))
    assert "<TABLE_NAME>" in values_["query"]
    assert visible(table) == before
    assert write(table, options, *rows).rolled_back == [], "nothing was left to repair"
    assert values(table, "id", "ts") == [("a", 2), ("b", 1), ("z", 1)]


@KINDS
@pytest.mark.parametrize(
    "queries",
    [
        asking("equality", "select count(*) from <TABLE_NAME> where id = 'a'"),
        asking("inequality", "select id from <TABLE_NAME>"),
        asking(
            "single",
            f"{COUNT}#2",
            "select avg(ts) from <TABLE_NAME>#1.5",
            "select max(id) from <TABLE_NAME>#b",
        ),
        asking(
            "single",
            "with t as (select * from <TABLE_NAME>) select count(distinct _hoodie_commit_time)=1 from t#true",
        ),
        {
            VALIDATORS: f"{SINGLE_CLASS}, SqlQueryEqualityPreCommitValidator",
            QUERIES["single"]: f"{COUNT}#2",
            QUERIES["equality"]: "select distinct val from <TABLE_NAME>;",
        },
    ],
)
def test_what_holds_is_committed(tmp_path: Path, kind: str, queries: dict[str, str]) -> None:
    """The row of the partition that is not touched is not seen."""
    table = tmp_path / "t"
    options = {**made(table, kind), **queries}
    result = write(table, options, ("a", 2, "x"), ("b", 1, "x"))
    assert (result.num_inserts, result.num_updates, result.warnings) == (1, 1, [])
    assert values(table, "id", "ts") == [("a", 2), ("b", 1), ("z", 1)]


def test_outcomes_are_rows_of_the_result_and_the_commit(tmp_path: Path) -> None:
    """Also of the result of a repeated write, and of an archived commit, whose token finds it."""
    table = tmp_path / "t"
    secret = f"{COUNT} where id <> 'password=abcdefgh'"
    options = {
        **made(table),
        VALIDATORS: "single,equality,inequality",
        QUERIES["single"]: f"{secret}#2;select min(ts) from <TABLE_NAME>#1.0",
        QUERIES["equality"]: "select distinct val from <TABLE_NAME>",
        QUERIES["inequality"]: "select id from <TABLE_NAME>",
    }
    token = {TOKEN_KEY: "dag/task/-1/day"}
    result = write(table, options, ("a", 2, "x"), ("b", 1, "x"), extra_metadata=token)
    rows = [
        {
            "validator": SINGLE_CLASS.rpartition(".")[2],
            "query": f"{COUNT} where id <> 'password={MASKED}'",
            "passed": True,
            "expected": "2",
            "found": "2",
        },
        {
            "validator": SINGLE_CLASS.rpartition(".")[2],
            "query": "select min(ts) from <TABLE_NAME>",
            "passed": True,
            "expected": "1.0",
            "found": "1",
        },
        {
            "validator": "SqlQueryEqualityPreCommitValidator",
            "query": "select distinct val from <TABLE_NAME>",
            "passed": True,
            "expected": "the same rows",
            "found": "the same rows",
        },
        {
            "validator": "SqlQueryInequalityPreCommitValidator",
            "query": "select id from <TABLE_NAME>",
            "passed": True,
            "expected": "other rows",
            "found": "other rows",
        },
    ]
    assert result.validations == result.to_dict()["validations"] == rows
    assert f"SqlQuerySingleResultPreCommitValidator passed, found 1: {rows[1]['query']}" in summary(
        result.to_dict()
    )
    again = write(table, options, ("a", 2, "x"), ("b", 1, "x"), extra_metadata=token)
    assert (again.status, again.validations) == ("already_committed", rows)
    plain_write = write(table, {**PLAIN, PARTITION: "val"}, ("a", 3, "x"))
    assert "validations" not in plain_write.to_dict()


def test_a_failure_names_every_query_and_has_all_outcomes(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = {
        **made(table),
        **asking("single", f"{COUNT}#7", f"{COUNT}#2", "select min(ts) from <TABLE_NAME>#9"),
    }
    with pytest.raises(
        ValidationFailed, match=r"expected 7, found 2; .*expected 9, found 1 \(2 of 3"
    ) as caught:
        write(table, options, ("a", 2, "x"), ("b", 1, "x"))
    outcomes = json.loads(str(caught.value.values["validations"]))
    assert [(item["passed"], item["expected"], item["found"]) for item in outcomes] == [
        (False, "7", "2"),
        (True, "2", "2"),
        (False, "9", "1"),
    ]
    assert caught.value.values["failed"] == 2


def test_outcomes_of_a_forged_commit_are_left_out(tmp_path: Path) -> None:
    sound = {"validator": "v", "query": "q", "passed": False, "expected": "1", "found": "2"}
    for text in ("{", "7", "[" * 100_000, json.dumps([1, {**sound, "found": 2}, {"query": "q"}])):
        assert CommitMetadata(extra_metadata={VALIDATIONS_KEY: text}).validations == []
    text = json.dumps([{**sound, "more": 1}])
    assert CommitMetadata(extra_metadata={VALIDATIONS_KEY: text}).validations == [sound]


@KINDS
def test_deletes_and_overwrites_are_seen(tmp_path: Path, kind: str) -> None:
    table = tmp_path / "t"
    options = made(table, kind)
    gone = asking("single", f"{COUNT}#1")
    with pytest.raises(ValidationFailed, match="found 0"):
        write(table, {**options, **gone}, ("a", 1, "x"), operation="delete")
    with pytest.raises(ValidationFailed, match="found 2"):
        write(table, {**options, **gone}, ("n", 1, "x"), ("m", 1, "x"), operation="insert_overwrite")
    with pytest.raises(ValidationFailed, match="found 0"):
        hoodie.delete_partitions(str(table), ["x"], options=gone)
    assert values(table, "id") == ["a", "z"]
    write(table, {**options, **gone}, ("n", 1, "x"), operation="insert_overwrite")
    assert values(table, "id") == ["n", "z"]
    write(table, {**options, **asking("single", f"{COUNT}#0")}, ("n", 1, "x"), operation="delete")
    assert values(table, "id") == ["z"]


@KINDS
def test_of_a_new_table_and_of_an_empty_input(tmp_path: Path, kind: str) -> None:
    table = tmp_path / "t"
    options = {**PLAIN, TYPE: kind}
    with pytest.raises(ValidationFailed, match="expected 0, found 1"):
        write(table, {**options, **asking("equality", COUNT)}, ("a", 1, "x"))
    assert hoodie.read_table(str(table)).num_rows == 0
    write(table, {**options, **asking("single", f"{COUNT}#1")}, ("a", 1, "x"))
    with pytest.raises(ValidationFailed, match="found 0"):
        write(table, {**options, **asking("single", f"{COUNT}#1")})
    write(table, {**options, **asking("equality", COUNT)})


def test_the_token_of_a_withdrawn_write_has_no_commit(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options, token = made(table), {TOKEN_KEY: "dag.task.2024-01-01"}
    with pytest.raises(ValidationFailed):
        write(table, {**options, **asking("single", f"{COUNT}#9")}, ("b", 1, "x"), extra_metadata=token)
    assert write(table, options, ("b", 1, "x"), extra_metadata=token).status == "committed"


@KINDS
@pytest.mark.parametrize("ending", ["parquet", "inflight"])
def test_a_kill_while_a_write_is_withdrawn_shows_nothing(tmp_path: Path, kind: str, ending: str) -> None:
    """The next write rolls it back."""
    table = tmp_path / "t"
    options = made(table, kind)

    def refused(path: str) -> None:
        with contextlib.suppress(ValidationFailed):
            write(Path(path), {**options, **asking("single", f"{COUNT}#9")}, ("a", 2, "x"), ("b", 1, "w"))

    die_at(table, refused, lambda change: change.name == "delete" and change.path.endswith(ending))
    assert values(table, "id", "ts") == [("a", 1), ("z", 1)]
    assert len(write(table, options, ("a", 2, "x")).rolled_back) == 1
    assert values(table, "id", "ts") == [("a", 2), ("z", 1)]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({VALIDATORS: "com.acme.MyValidator"}, "no validator 'com.acme.MyValidator'"),
        ({VALIDATORS: "equality"}, "there is no query"),
        ({QUERIES["single"]: f"{COUNT}#1"}, "does not name SqlQuerySingleResultPreCommitValidator"),
        (asking("single", COUNT), "#expected"),
        (asking("single", "select 1#1"), "write <TABLE_NAME> where"),
        (asking("equality", "select nothing from <TABLE_NAME>"), "can't be evaluated"),
        (asking("equality", "drop table <TABLE_NAME>"), "can't be evaluated"),
        (asking("equality", "copy <TABLE_NAME> to '/tmp/x.csv'"), "can't be evaluated"),
        (asking("equality", "select * from <TABLE_NAME>, read_text('/etc/hostname')"), "can't be evaluated"),
        (asking("single", "select count(*) from <TABLE_NAME>, '/etc/hostname'#1"), "can't be evaluated"),
        (asking("single", "select id, ts from <TABLE_NAME>#1"), "can't be evaluated"),
        (asking("single", "select 1) as a(v), (select count(*) from <TABLE_NAME>#1"), "can't be evaluated"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(
    untouched: tuple[Path, dict[str, Any]], settings: dict[str, str], why: str
) -> None:
    table, options = untouched
    before = listing(table)
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
            write(table, {**options, **settings}, ("a", 2, "x"), dry_run=dry_run)
    assert listing(table) == before


def test_a_table_stores_no_validators(tmp_path: Path) -> None:
    """Whoever may write its properties could have SQL run with the rights of the next writer."""
    table = tmp_path / "t"
    options = made(table)
    stored = table / ".hoodie" / "hoodie.properties"
    lines = [f"{name}={text}" for name, text in asking("single", f"{COUNT}#17").items()]
    stored.write_text("\n".join([stored.read_text(), *lines, ""]))
    assert write(table, options, ("a", 2, "x")).status == "committed"


@pytest.mark.parametrize(
    "query",
    [
        "select * from <TABLE_NAME>, glob('/etc/*')",
        "select * from <TABLE_NAME>, read_csv('/etc/hostname')",
        "select * from <TABLE_NAME>, parquet_scan('/tmp/x.parquet')",
        "select getenv('HOME') from <TABLE_NAME>",
        "from <TABLE_NAME> union all (from '/etc/hostname')",
        "pragma database_list -- <TABLE_NAME>",
        "attach '/tmp/other.db' as <TABLE_NAME>",
        "select * from <TABLE_NAME>, query('select 1 from read_text(''/etc/hostname'')')",
        "select 1) ; copy <TABLE_NAME> to '/tmp/x.csv",
    ],
)
def test_without_spark_a_query_reaches_its_rows_alone(
    untouched: tuple[Path, dict[str, Any]], query: str
) -> None:
    table, options = untouched
    before = listing(table)
    with pytest.raises(ConfigError):
        write(table, {**options, **asking("equality", query)}, ("a", 2, "x"))
    assert listing(table) == before
