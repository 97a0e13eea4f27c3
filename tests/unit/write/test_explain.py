"""`hoodie.explain`: what a write would do and cost; and the limit of that cost. Nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import TooCostly
from hoodie.timeline.active import Timeline
from hoodie.write.explain import explanation
from hoodie.write.explain.explanation import WriteExplanation
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows
from tests.support.tiers import crossed_but, full_but
from tests.unit.write.merge_on_read import GROUPS, MOR
from tests.unit.write.support import OPTIONS, SMALL_FILE, Pair, data_files, listing

LIMIT = "hoodie.write.max.amplification"
KINDS = {"cow": OPTIONS, "mor": MOR}
#: every version is a file of its own, for indexes to search
APART = {**OPTIONS, SMALL_FILE: 0}


def explained(pair: Pair, rows: list[Row], operation: str = "upsert", **options: Any) -> WriteExplanation:
    """... which changes nothing."""
    before = listing(pair.path)
    given = {**pair.options, **{name.replace("__", "."): value for name, value in options.items()}}
    table = as_table(rows, SMALL_SCHEMA)
    found = hoodie.explain(table, str(pair.path), operation=operation, options=given)
    assert listing(pair.path) == before
    return found


@pytest.mark.parametrize(
    ("operation", "kind"),
    crossed_but(
        {"upsert-cow", "upsert-mor", "insert-cow", "bulk_insert-mor", "delete-mor", "insert_overwrite-cow"},
        {name: name for name in ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite")},
        {kind: kind for kind in KINDS},
    ),
)
def test_it_says_what_the_write_then_does(tmp_path: Path, kind: str, operation: str) -> None:
    pair = Pair(tmp_path / "t", KINDS[kind])
    pair.write(small_rows(range(90), 1))
    rows = [row for row in small_rows([*range(60, 70), *range(100, 105)], 2) if row["region"] != "us"]
    found = explained(pair, rows, operation)
    done = pair.write(rows, operation)
    counts = ("num_inserts", "num_updates", "num_deletes", "num_missing", "num_replaced", "num_files")
    told = {**found.to_dict(), "num_replaced": found.replaced_groups}
    told["num_files"] = found.new_groups + found.rewritten_groups + found.appended_groups
    assert {name: told[name] for name in counts} == {name: getattr(done, name) for name in counts}
    assert [item.partition for item in found.partitions] == done.partitions
    assert (found.table, found.action, found.operation) == (done.table, done.action, done.operation)
    assert (found.num_rows, found.status, found.refused, found.conflicts) == (len(rows), "explained", "", [])


def test_bytes_are_those_of_the_files_that_are_written_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", OPTIONS)
    pair.write(small_rows(range(300), 1))
    sizes = {file.parent.name: file.stat().st_size for file in data_files(pair.path)}
    rows = [row for row in small_rows(range(300, 309), 2) if row["region"] != "us"]
    found = explained(pair, rows)
    assert (found.new_groups, found.rewritten_groups, found.appended_groups) == (0, 2, 0)
    assert found.rewritten_bytes == sizes["eu"] + sizes["apac"]
    assert found.written_bytes == sum(item.bytes for item in found.partitions)
    assert found.written_bytes == found.rewritten_bytes + found.changed_bytes
    assert found.write_amplification == round(found.written_bytes / found.changed_bytes, 2) > 10


def test_logs_rewrite_nothing(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", MOR)
    pair.write(small_rows(range(90), 1))
    found = explained(pair, small_rows(range(9), 2))
    assert (found.appended_groups, found.rewritten_bytes, found.write_amplification) == (3, 0, 1.0)
    assert found.written_bytes == found.changed_bytes > 0


def test_a_new_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    found = hoodie.explain(as_table(small_rows(range(9), 1), SMALL_SCHEMA), str(path), options=OPTIONS)
    assert not path.exists()
    assert (found.num_inserts, found.new_groups, found.write_amplification) == (9, 3, 1.0)
    assert found.advice.reasons == ["no file has to be searched: any index costs nothing"]


# --- indexes -----------------------------------------------------------------------------------------------


def test_each_index_is_measured(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", APART)
    for version in range(4):
        pair.write(small_rows(range(1000 * version, 1000 * version + 300), 1))
    found = explained(pair, small_rows(range(3000, 3030), 2))
    assert found.index == "SIMPLE"
    costs = {cost.index: cost for cost in found.indexes if not cost.reason}
    assert {"SIMPLE", "BLOOM"} <= set(costs)
    for cost in (costs["SIMPLE"], costs["BLOOM"]):
        assert (cost.files, cost.sampled_files, cost.sampled_keys) == (12, 12, 30)
        assert cost.seconds > 0
    assert 0 < costs["BLOOM"].bytes < costs["SIMPLE"].bytes, "key ranges rule out nine of the twelve files"
    assert found.advice.index in costs
    assert found.advice.reasons[0].startswith(f"{found.advice.index} needs ")
    assert "3 of 12 files contain keys of these rows" in found.advice.reasons


def test_a_sample_stands_for_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path / "t", APART)
    for version in range(6):
        pair.write(small_rows(range(100 * version, 100 * version + 9), 1))
    found = []
    for most in (8, 100):
        monkeypatch.setattr(explanation, "_SLICES", most)
        costs = explained(pair, small_rows(range(9), 2)).indexes
        found.append(next(cost for cost in costs if cost.index == "SIMPLE"))
    sampled, whole = found
    assert (sampled.files, sampled.sampled_files, whole.sampled_files) == (18, 6, 18)
    assert sampled.bytes == pytest.approx(whole.bytes, rel=0.05)


def test_what_looks_no_keys_up_asks_no_index(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", OPTIONS)
    pair.write(small_rows(range(9), 1))
    found = explained(pair, small_rows(range(9, 12), 1), "insert")
    assert (found.index, found.indexes, found.advice.index) == ("", [], "")
    assert found.advice.reasons == ["insert looks no keys up: no index is asked"]


def test_an_index_that_is_not_there_is_named_with_its_reason(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", OPTIONS)
    pair.write(small_rows(range(9), 1))
    own = "tests.support.opened:Noted"
    found = explained(pair, small_rows(range(9), 2), hoodie__index__class=own)
    assert found.indexes[0].index == found.index == own
    assert all(cost.reason or cost.files == 3 for cost in found.indexes)


# --- pending services --------------------------------------------------------------------------------------


def test_a_pending_compaction_is_no_hindrance(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", MOR)
    for version in (1, 2):
        pair.write(small_rows(range(30), version))
    options = {"hoodie.compact.inline.max.delta.commits": 1}
    planned = hoodie.compact_table(str(pair.path), mode="schedule", options=options).scheduled
    found = explained(pair, small_rows([0], 3))
    [conflict] = found.conflicts
    assert (conflict.instant, conflict.action, conflict.groups) == (planned, "compaction", 1)
    assert (conflict.effect, found.refused) == ("appended", "")


@pytest.mark.parametrize("gives_way", [False, True])
def test_a_pending_clustering(tmp_path: Path, gives_way: bool) -> None:
    pair = Pair(tmp_path / "t", APART)
    for version in (1, 2):
        pair.write(small_rows(range(10 * version, 10 * version + 9), version))
    planned = hoodie.cluster_table(str(pair.path), mode="schedule").scheduled
    asked: dict[str, Any] = {"hoodie__clustering__rollback__pending__replacecommit__on__conflict": gives_way}
    found = explained(pair, small_rows([10], 3), **asked)
    [conflict] = found.conflicts
    assert (conflict.instant, conflict.groups) == (planned, 1)
    assert conflict.effect == ("rolled_back" if gives_way else "refused")
    assert (planned in found.refused) is not gives_way
    assert [item.time for item in Timeline.load(str(pair.path)).pending()] == [planned]


# --- the limit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", full_but({"upsert"}, ["upsert", "delete"]))
def test_a_write_that_costs_too_much_is_refused_before_anything_is_written(
    tmp_path: Path, operation: str
) -> None:
    pair = Pair(tmp_path / "t", OPTIONS)
    pair.write(small_rows(range(300), 1), hoodie__write__max__amplification=2)
    rows = small_rows([3], 2)
    needed = explained(pair, rows, operation).write_amplification
    before = listing(pair.path)
    for dry_run in (True, False):
        with pytest.raises(TooCostly, match=r"is 2; nothing was written\. .*`hoodie explain`") as refused:
            hoodie.write_table(
                as_table(rows, SMALL_SCHEMA), str(pair.path), operation=operation,
                options={**OPTIONS, LIMIT: 2}, dry_run=dry_run,
            )  # fmt: skip
        assert refused.value.values["amplification"] == pytest.approx(needed, abs=0.1)
    assert listing(pair.path) == before
    found = explained(pair, rows, operation, hoodie__write__max__amplification=2)
    assert (found.max_write_amplification, found.refused) == (2, refused.value.message)
    assert pair.write(rows, operation, hoodie__write__max__amplification=2 * needed).status == "committed"


def test_logs_keep_within_any_limit(tmp_path: Path) -> None:
    """Inserts, which would fill small files, get new ones."""
    pair = Pair(tmp_path / "t", {**MOR, GROUPS: 9})
    pair.write(small_rows(range(300), 1))
    rows = small_rows([*range(300, 309), *range(9)], 2)
    packed = explained(pair, rows)
    assert (packed.rewritten_groups, packed.appended_groups, packed.new_groups) == (3, 0, 0)
    found = explained(pair, rows, hoodie__write__max__amplification=2)
    assert (found.rewritten_groups, found.appended_groups, found.new_groups) == (0, 3, 3)
    assert (found.write_amplification, found.refused) == (1.0, "")
    assert pair.write(rows, hoodie__write__max__amplification=2).num_files == 6
    assert len(hoodie.file_groups(str(pair.path))) == 6


def test_an_inline_compaction_is_left_to_another_job(tmp_path: Path) -> None:
    pair = Pair(
        tmp_path / "t",
        {**MOR, "hoodie.compact.inline": True, "hoodie.compact.inline.max.delta.commits": 2, LIMIT: 5},
    )
    pair.write(small_rows(range(30), 1))
    result = pair.write(small_rows(range(30), 2))
    [planned] = Timeline.load(str(pair.path)).pending()
    assert planned.action.value == "compaction"
    assert any(f"compaction {planned.time} is scheduled" in warning for warning in result.warnings)
    assert pair.write(small_rows(range(30), 3)).warnings == []
    assert hoodie.compact_table(str(pair.path), mode="execute").compacted == [planned.time]
    pair.check("compacted")


def test_an_empty_input(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", OPTIONS)
    pair.write(small_rows(range(9), 1))
    found = explained(pair, [], hoodie__write__max__amplification=1)
    assert (found.num_rows, found.partitions, found.written_bytes, found.refused) == (0, [], 0, "")
    assert isinstance(found.to_dict()["advice"]["reasons"], list)
