"""Commit metadata: byte for byte what Hudi writes, and tolerant of what others add."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from hoodie.codec import avro_search
from hoodie.codec.avro import schema_json
from hoodie.errors import TableError
from hoodie.timeline import commit_details
from hoodie.timeline.commit import (
    CommitMetadata,
    PlannedFile,
    ReplaceCommitMetadata,
    RuntimeStats,
    WriteStat,
    inflight_metadata,
    pretty_json,
)
from hoodie.timeline.commit_details import CommitDetails, base_file_totals, head_of, stats_of
from hoodie.timeline.commit_head import REPLACED
from hoodie.timeline.instant import Action
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.time import InstantTime


def test_every_golden_commit_comes_back_byte_for_byte(golden_tables: Path) -> None:
    files = [path for path in golden_tables.rglob(".hoodie/*") if path.is_file()]
    seen = 0
    for path in files:
        data = path.read_bytes()
        if data.startswith(b"{"):
            seen += 1
            assert CommitMetadata.parse(data).to_json() == data, path
    assert seen > 1000


def _commits(folder: Path) -> list[bytes]:
    kinds = ("commit", "deltacommit", "replacecommit")
    files = [path for kind in kinds for path in folder.rglob(f".hoodie/*.{kind}")]
    return [data for data in map(Path.read_bytes, files) if data.startswith(b"{")]


def _search_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small commits, too, and in small steps."""
    for name, value in (("_SMALL", 0), ("_EACH", 0), ("_WINDOW", 7)):
        monkeypatch.setattr(commit_details, name, value)


def test_what_is_searched_in_a_commit_is_what_parsing_it_shows(
    golden_tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _search_all(monkeypatch)
    seen = 0
    for data in _commits(golden_tables):
        value, metadata = json.loads(data), CommitMetadata.parse(data)
        stats = value["partitionToWriteStats"]
        for partition in [*stats, "", "other", "path", "logFiles"]:
            expected = {partition: stats[partition]} if partition in stats else {}
            assert stats_of(data, [partition]) == expected
        assert stats_of(data, None) == stats
        assert stats_of(data, list(stats)) == stats
        bases = [stat for stat in metadata.write_stats if stat.log_version is None]
        written = sum(stat.num_writes for stat in bases), sum(stat.total_write_bytes for stat in bases)
        assert base_file_totals(data) == ((0, 0) if metadata.operation_type == "BOOTSTRAP" else written)
        assert head_of(data) == metadata.head
        seen += bool(stats)
    assert seen > 100


def test_a_large_commit_that_was_torn_is_refused() -> None:
    stats = {str(number): [{"path": f"{number}/a.parquet"}] for number in range(2000)}
    data = json.dumps({"partitionToWriteStats": stats}).encode()
    assert stats_of(data, ["7"]) == {"7": stats["7"]}
    with pytest.raises(ValueError, match="Unterminated string"):
        stats_of(data[:-10], ["7"])


@pytest.mark.parametrize(
    "partition",
    ["", "eu", " : ", 'a"b', "a\\b", "größe", "path", "logFiles", "partitionToWriteStats", "extraMetadata"],
)
def test_a_partition_of_any_name_is_found(partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _search_all(monkeypatch)
    stats = {name: (WriteStat(file_id=f"f{name}", path="p"),) for name in ("us", partition)}
    extra = {"eu": '"eu" : [ { } ]', "schema": f'{{"{partition}" : [ ]}}'}
    found = ReplaceCommitMetadata(
        stats, extra_metadata=extra, partition_to_replace_file_ids={partition: ("f1",), "eu": ()}
    ).to_json()
    expected = json.loads(found)["partitionToWriteStats"]
    for name in ("us", partition, "eu"):
        wanted = {name: expected[name]} if name in expected else {}
        assert {key: group for key, group in stats_of(found, [name]).items() if group} == wanted
    # as another writer may lay it out
    for text in (json.dumps(json.loads(found)), json.dumps(json.loads(found), separators=(",", ":"))):
        assert stats_of(text.encode(), [partition]) == {partition: expected[partition]}


def test_a_commit_of_avro_is_searched_as_it_is_parsed(
    later_tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _search_all(monkeypatch)
    seen = 0
    for path in later_tables.rglob(".hoodie/timeline/*commit"):
        data, action = path.read_bytes(), Action(path.suffix[1:])
        if not data.startswith(b"Obj"):
            continue
        value = partial(TWO.commit_value, action)
        stats = stats_of(data, None, value)
        for partition in [*stats, "other", "path"]:
            expected = {partition: stats[partition]} if partition in stats else {}
            assert stats_of(data, [partition], value) == expected
        assert stats_of(data, list(stats), value) == stats
        assert head_of(data) == CommitMetadata.parse(data, value).head
        seen += len(stats)
    assert seen > 100


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"extraMetadata" : {"schema" : "x"}, "operationType" : "UPSERT" }', "extraMetadata", "operationType",
     "partitionToWriteStats", '{"a" : {"b" : [ ] } } }', "\\", '\\"', "größe", "\x00\x02", "schema", ""]
)  # fmt: skip
_KEYS = ("partitionToWriteStats", "compacted", "extraMetadata", "operationType")
_HEADS = st.fixed_dictionaries(
    {
        "partitionToWriteStats": st.dictionaries(
            _TEXTS.filter(lambda text: ".." not in text and not set("\\\0/:\n") & set(text)),
            st.lists(
                st.fixed_dictionaries(
                    {"fileId": st.sampled_from(["f1", "", None]), "path": st.sampled_from(["p/a", None])}
                ),
                max_size=2,
            ),
            max_size=3,
        ),
        "compacted": st.booleans(),
        "extraMetadata": st.dictionaries(_TEXTS, _TEXTS, max_size=3),
        "operationType": st.sampled_from(["UPSERT", "CLUSTER", "INSERT_OVERWRITE"]),
    },
    optional={REPLACED: st.just({"eu": ["f1-0"]})},
)


@given(_HEADS, st.permutations([*_KEYS, REPLACED]), st.booleans(), st.booleans())
def test_what_a_strange_commit_says_beside_statistics_is_what_parsing_it_shows(
    value: dict[str, Any], order: list[str], pretty: bool, escaped: bool
) -> None:
    """In any order of its keys, laid out in other ways, with texts that look like its end. Where it is not
    clear, it is parsed.
    """
    value = {key: value[key] for key in order if key in value}
    text = pretty_json(value) if pretty else json.dumps(value, ensure_ascii=escaped)
    try:
        expected = CommitMetadata.parse(text.encode())
    except TableError:
        reject()
    assert head_of(text.encode()) in (expected.head, None)


def test_the_head_of_hudis_order_is_always_clear() -> None:
    """Whatever the texts are."""
    extra: dict[str, str | None] = {"schema": '{"a" : "\\"}, {"', "größe": None, "x": '"extraMetadata" : { }'}
    stats = {
        "extraMetadata": (WriteStat(file_id="00000001-a", path="p"),),
        "eu": (WriteStat(file_id="f2", path="p"),),
    }
    for metadata in (
        CommitMetadata(stats, extra_metadata=extra, operation_type="UPSERT"),
        CommitMetadata({}, extra_metadata=extra, operation_type="CLUSTER"),
        ReplaceCommitMetadata(
            stats,
            extra_metadata=extra,
            partition_to_replace_file_ids={"eu": ("f1", "f2"), "us": ()},
        ),
    ):
        assert head_of(metadata.to_json()) == metadata.head
        assert metadata.head.first_file_id == ("00000001-a" if metadata.partitions else None)
        texts = {**extra, "größe": ""}
        of_avro = replace(metadata, extra_metadata=texts)
        assert head_of(TWO.content(of_avro)) == of_avro.head


def test_a_commit_of_avro_with_fields_in_another_order_says_the_same() -> None:
    stats = {"eu": (WriteStat(file_id="f1", path="eu/a"), WriteStat(file_id="f2", path="eu/b"))}
    metadata = CommitMetadata(stats, extra_metadata={"schema": "{}", "": "\0\2"}, operation_type="UPSERT")
    schema = schema_json("HoodieCommitMetadataV8")
    for order in itertools.permutations(range(5)):
        fields = [schema["fields"][number] for number in order]
        out = io.BytesIO()
        fastavro.writer(out, {**schema, "fields": fields}, [metadata.to_dict()], codec="deflate")
        found = head_of(out.getvalue())
        assert found == (metadata.head if order[0] == 0 else None), order


@pytest.mark.parametrize("layout", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("cut", [1, 3, 40, 200])
def test_a_head_that_was_torn_is_none(layout: Layout, cut: int) -> None:
    stats = {"eu": (WriteStat(file_id="f1", path="eu/a"),)}
    data = layout.content(CommitMetadata(stats, extra_metadata={"schema": "{}"}, operation_type="UPSERT"))
    assert head_of(data) is not None
    assert head_of(data[:-cut]) is None


@pytest.mark.parametrize("layout", [ONE, TWO], ids=["one", "two"])
def test_of_a_commit_of_many_partitions_few_statistics_are_decoded(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many of a commit of ten thousand as of one of four hundred; nothing else is parsed."""
    decoded: list[int] = []
    for module, name in ((commit_details, "_value_at"), (avro_search, "read_value")):
        found = getattr(module, name)

        def counted(*arguments: Any, found: Any = found) -> Any:
            group = found(*arguments)
            decoded.append(len(group))
            return group

        monkeypatch.setattr(module, name, counted)

    def never(_: bytes) -> dict[str, Any]:
        raise AssertionError("all of it is parsed")

    groups = []
    for partitions in (400, 10_000):
        stats = {
            name: tuple(
                WriteStat(file_id=f"{name}-{file}", path=f"{name}/{file}.parquet", partition_path=name)
                for file in range(3)
            )
            for name in (f"p{number}" for number in range(partitions))
        }
        data = layout.content(CommitMetadata(stats, operation_type="UPSERT", extra_metadata={"p7": "p11"}))
        decoded.clear()
        found = stats_of(data, ["p7", "p11", "p177", "none"], never)
        groups.append({name: [stat["fileId"] for stat in group] for name, group in found.items()})
        assert sum(decoded) == 9
    wanted = ("p7", "p11", "p177")
    assert groups[0] == groups[1] == {name: [f"{name}-{file}" for file in range(3)] for name in wanted}


def test_totals_and_schema(golden_tables: Path) -> None:
    folder = golden_tables / "0.15.0-v6" / "cow_types" / "table" / ".hoodie"
    metadata = CommitMetadata.parse(min(folder.glob("*.commit")).read_bytes())
    assert metadata.partitions == ["apac", "eu", "us"]
    assert metadata.num_inserts == metadata.num_writes == 300
    assert metadata.num_updates == metadata.num_deletes == 0
    assert metadata.num_files == 3
    assert metadata.bytes_written == 454684 + 454804 + 454906
    stat = metadata.partition_to_write_stats["eu"][0]
    assert stat.is_new_file_group
    assert stat.runtime_stats == RuntimeStats(0, 0, 2909)
    schema = metadata.schema_text()
    assert schema is not None
    assert json.loads(schema)["name"] == "cow_types_record"


def test_replaced_file_groups(golden_tables: Path) -> None:
    folder = golden_tables / "0.15.0-v6" / "cow_insert_overwrite" / "table" / ".hoodie"
    metadata = CommitMetadata.parse(next(folder.glob("*.replacecommit")).read_bytes())
    assert isinstance(metadata, ReplaceCommitMetadata)
    assert metadata.operation_type == "INSERT_OVERWRITE"
    assert metadata.partition_to_replace_file_ids == {"eu": ("02e7c498-581f-4001-a7d8-0ac909f8b5f7-0",)}


def test_inflight_profile_is_what_hudi_writes(golden_tables: Path) -> None:
    folder = golden_tables / "0.15.0-v6" / "cow_types" / "table" / ".hoodie"
    profiles = [CommitMetadata.parse(path.read_bytes()) for path in sorted(folder.glob("*.inflight"))]
    assert any(stat.num_update_writes for profile in profiles for stat in profile.write_stats)
    for profile in profiles:
        inserts = {name: stats[0].num_inserts for name, stats in profile.partition_to_write_stats.items()}
        files = {
            name: [
                PlannedFile(
                    stat.file_id, InstantTime(str(stat.prev_commit)), stat.num_update_writes, stat.num_inserts
                )
                for stat in stats[1:]
            ]
            for name, stats in profile.partition_to_write_stats.items()
        }
        assert inflight_metadata(profile.operation_type, inserts, files) == profile


def test_partition_that_only_has_updates() -> None:
    metadata = inflight_metadata("UPSERT", {}, {"": [PlannedFile("f", InstantTime("1"), 3)]})
    placeholder, file = metadata.partition_to_write_stats[""]
    assert (placeholder.file_id, placeholder.num_inserts, placeholder.prev_commit) == ("", 0, "null")
    assert (file.file_id, file.prev_commit, file.num_update_writes) == ("f", "1", 3)


def test_unknown_keys_are_kept() -> None:
    value = {
        "partitionToWriteStats": {"p": [{"fileId": "f", "numUpdates": 3, "prevBaseFile": "x"}]},
        "compacted": True,
        "extraMetadata": {"k": None},
        "operationType": "COMPACT",
        "novel": {"a": [1]},
    }
    metadata = CommitMetadata.parse(json.dumps(value).encode())
    assert metadata.extra == {"novel": {"a": [1]}}
    stat = metadata.partition_to_write_stats["p"][0]
    assert (stat.num_writes, stat.prev_commit) == (0, "null")
    assert stat.extra == {"numUpdates": 3, "prevBaseFile": "x"}
    again = json.loads(metadata.to_json())
    assert again["novel"] == {"a": [1]}
    assert again["partitionToWriteStats"]["p"][0]["prevBaseFile"] == "x"
    assert CommitMetadata.parse(metadata.to_json()) == metadata


def test_log_keys_only_for_logs() -> None:
    base = WriteStat(file_id="f", path="p/f.parquet")
    assert "logVersion" not in base.to_dict()
    log = WriteStat(file_id="f", log_version=2, log_offset=0, base_file="", log_files=(".f.log.2",))
    assert list(log.to_dict())[-4:] == ["logVersion", "logOffset", "baseFile", "logFiles"]
    assert WriteStat.from_dict(log.to_dict()) == log


@pytest.mark.parametrize("operation", ["CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"])
def test_services_do_not_set_the_schema(operation: str) -> None:
    extra = {"schema": "{}"}
    assert CommitMetadata(extra_metadata=extra, operation_type=operation).schema_text() is None
    assert CommitMetadata(extra_metadata=extra, operation_type="UPSERT").schema_text() == "{}"
    assert CommitMetadata(operation_type="UPSERT").schema_text() is None


@pytest.mark.parametrize("data", [b"", b"  \n"])
def test_empty_inflight(data: bytes) -> None:
    assert CommitMetadata.parse(data) == CommitMetadata()


@pytest.mark.parametrize(
    "data",
    [b"{", b"[1]", b"\xff{}", b'{"partitionToWriteStats" : []}x', b'{"partitionToWriteStats" : {"p" : [3]}}'],
)
def test_torn(data: bytes) -> None:
    with pytest.raises(TableError, match="roll the instant back"):
        CommitMetadata.parse(data)


@pytest.mark.parametrize(
    "stat",
    ['{"numInserts": 1.5}', '{"numInserts": "1"}', '{"numInserts": [1]}', '{"numInserts": NaN}',
     '{"numInserts": 1e999}', '{"numInserts": 9223372036854775808}', '{"numInserts": true}',
     '{"prevCommit": 1}', '{"minEventTime": "1"}', '{"cdcStats": []}', '{"logFiles": "ab"}'],
)  # fmt: skip
def test_values_of_another_type(stat: str) -> None:
    """What Jackson would not read either is no commit, for the writers and for the short look of sensors."""
    data = f'{{"partitionToWriteStats": {{"p": [{stat}]}}}}'.encode()
    with pytest.raises(TableError, match="roll the instant back"):
        CommitMetadata.parse(data)
    if "numInserts" in stat and "true" not in stat:
        assert CommitDetails.parse(data) is None


@pytest.mark.parametrize(
    "text",
    ['"extraMetadata": {"a": 1}', '"extraMetadata": {"a": ["b"]}', '"extraMetadata": [["a", "b"]]',
     '"partitionToReplaceFileIds": {"p": "ab"}', '"partitionToReplaceFileIds": {"p": [1]}'],
)  # fmt: skip
def test_metadata_of_another_type(text: str) -> None:
    data = f'{{"partitionToWriteStats": {{}}, {text}}}'.encode()
    with pytest.raises(TableError):
        CommitMetadata.parse(data)
    if "extra" in text:
        assert CommitDetails.parse(data) is None


def test_numbers_that_are_null_are_none() -> None:
    data = (
        b'{"partitionToWriteStats": {"p": [{"numInserts": null, "minEventTime": null, "prevCommit": null}]}}'
    )
    [stat] = CommitMetadata.parse(data).write_stats
    assert (stat.num_inserts, stat.min_event_time, stat.prev_commit) == (0, None, None)


def test_layout_of_empty_values() -> None:
    value: dict[str, Any] = {"a": {}, "b": [], "c": ["x", {"d": 'é"\n'}], "e": None, "f": True}
    text = """{
  "a" : { },
  "b" : [ ],
  "c" : [ "x", {
    "d" : "é\\"\\n"
  } ],
  "e" : null,
  "f" : true
}"""
    assert pretty_json(value) == text


def test_reading_commits_needs_the_standard_library_only() -> None:
    code = (
        "import sys; import hoodie.timeline.commit, hoodie.timeline.models.rollback\n"
        "import hoodie.table.properties\n"
        "heavy = {'pyarrow', 'numpy', 'fastavro', 'pyspark'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "spark_jobs"}, timeout=60)
