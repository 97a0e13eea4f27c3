"""What a write has read and does not write, beside a commit that changes it: one of the two loses, or the
rows are those of a replay in the order of completion. And what is in no one's way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import CommitConflict, TableBusy
from hoodie.timeline.active import Timeline
from hoodie.write.transaction import Transaction
from tests.support.at_once import OPTIMISTIC
from tests.support.later_tables import new_tables_of
from tests.support.storages import Delegating, wrapped

OPTIONS = {
    **OPTIMISTIC,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
GLOBAL = {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.update.partition.path": "false"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "8"}
DROP = {"hoodie.datasource.insert.dup.policy": "drop"}
RETRY = {"hoodie.write.num.retries.on.conflict.failures": "3"}
KINDS = pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
Act = Callable[..., Any]


def rows(value: int, *keys: str, **columns: Any) -> pa.Table:
    """A key's first letter is its partition."""
    found = {"id": list(keys), "p": [key[0] for key in keys], "v": [value] * len(keys)}
    return pa.table({**found, **{name: [item] * len(keys) for name, item in columns.items()}})


def values(path: str) -> dict[str, int]:
    found = hoodie.read_table(path)
    keys = found.column("id").to_pylist()
    assert len(keys) == len(set(keys))
    return dict(zip(keys, found.column("v").to_pylist(), strict=True))


def write(*keys: str, value: int = 2, **more: Any) -> Act:
    """An upsert, or the operation that is named."""

    def act(path: str, options: dict[str, Any], **given: Any) -> Any:
        columns = more.get("columns", {})
        named = {name: item for name, item in more.items() if name not in ("columns", "options")}
        settings = {**options, **more.get("options", {})}
        return hoodie.write_table(rows(value, *keys, **columns), path, options=settings, **named, **given)

    return act


def delete(*keys: str) -> Act:
    def act(path: str, options: dict[str, Any], **given: Any) -> Any:
        found = rows(0, *keys).select(["id", "p"])
        return hoodie.write_table(found, path, operation="delete", options=options, **given)

    return act


def delete_partitions(*names: str) -> Act:
    def act(path: str, options: dict[str, Any], **given: Any) -> Any:
        return hoodie.delete_partitions(path, list(names), options=options, missing_ok=True, **given)

    return act


def beside(path: str, act: Act, other: Act, options: dict[str, Any], stage: str) -> Any:
    """`act`, and `other` once it has looked at the table, or once it has written its files."""
    done: list[Any] = []

    def progress(step: str, text: str) -> None:
        if step == stage and not done:
            done.append(None)
            done[0] = other(path, options)

    result = act(path, options, progress=progress)
    assert done, "the other write did not come between"
    return result


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


KEPT: dict[str, Any] = {"columns": {"_hoodie_is_deleted": False}}
MARKED: dict[str, Any] = {"columns": {"_hoodie_is_deleted": True}}
LOSES = {
    "overwrite": (write("a5", operation="insert_overwrite"), write("a9"), {}),
    "overwrite of an empty partition": (
        write("c5", operation="insert_overwrite"),
        write("c9", operation="insert_overwrite"),
        {},
    ),
    "overwrite of the table": (write("b5", operation="insert_overwrite_table"), write("c9"), {}),
    "delete of an absent key": (delete("a1", "a9"), write("a9"), {}),
    "delete of an absent key in another partition": (delete("a1", "z9"), write("z9"), {}),
    "delete of an absent key anywhere": (delete("a1", "b9"), write("c9"), GLOBAL),
    "delete of an absent key in a bucket": (delete("a1", "a9"), write("a9"), BUCKET),
    "delete of an absent key that goes to a small file": (
        delete("b1", "a9"),
        write("a9"),
        {"hoodie.parquet.small.file.limit": "100000000"},
    ),
    "a mark on an absent key": (write("a1", "a9", **MARKED), write("a9", **KEPT), {}),
    "drop beside a delete": (write("a1", "a7", operation="insert", options=DROP), delete("a1"), {}),
    "drop beside an overwrite": (
        write("a1", "a7", operation="insert", options=DROP),
        write("a8", operation="insert_overwrite"),
        {},
    ),
}


@KINDS
@pytest.mark.parametrize("stage", ["stage", "commit"])
@pytest.mark.parametrize("name", LOSES)
def test_a_write_loses_to_a_commit_that_changes_what_it_read(
    path: str, name: str, stage: str, kind: dict[str, Any]
) -> None:
    act, other, more = LOSES[name]
    options = {**OPTIONS, **kind, **more}
    given = KEPT if "mark" in name else {}
    write("a1", "b1", value=1, **given)(path, options)
    with pytest.raises(CommitConflict, match="run it again"):
        beside(path, act, other, options, stage)
    # what the other one wrote stays; a retry gives the rows of one after the other
    serial = f"{path}-serial"
    for each in (write("a1", "b1", value=1, **given), other, act):
        each(serial, options)
    act(path, options)
    assert values(path) == values(serial)


GOES_ON = {
    "delete of keys that are there": (delete("a1"), write("a9")),
    "delete beside another partition": (delete("a1", "a8"), write("b9")),
    "overwrite beside another partition": (write("a5", operation="insert_overwrite"), write("b9")),
    "drop beside an upsert": (write("a1", "a7", operation="insert", options=DROP), write("a9")),
    "upsert beside an insert": (write("a1", "a7"), write("a9")),
}


@KINDS
@pytest.mark.parametrize("name", GOES_ON)
def test_a_write_goes_on_beside_another_commit(path: str, name: str, kind: dict[str, Any]) -> None:
    act, other = GOES_ON[name]
    options = {**OPTIONS, **kind}
    write("a1", "b1", value=1)(path, options)
    beside(path, act, other, options, "commit")
    serial = f"{path}-serial"
    for each in (write("a1", "b1", value=1), other, act):
        each(serial, options)
    assert values(path) == values(serial)


@KINDS
def test_a_pattern_means_partitions_that_come_meanwhile(path: str, kind: dict[str, Any]) -> None:
    options = {**OPTIONS, **kind}
    write("a1", "b1", value=1)(path, options)
    with pytest.raises(CommitConflict, match="replaces"):
        beside(path, delete_partitions("a*"), write("a9"), options, "commit")
    result = beside(path, delete_partitions("c*", "a"), write("b9"), {**options, **RETRY}, "commit")
    assert result.status == "committed"
    assert values(path) == {"b1": 1, "b9": 2}


@KINDS
def test_a_retry_takes_what_came_meanwhile(path: str, kind: dict[str, Any]) -> None:
    options = {**OPTIONS, **kind, **RETRY}
    write("a1", "b1", value=1)(path, options)
    beside(path, delete("a1", "a9"), write("a9"), options, "commit")
    assert values(path) == {"b1": 1}
    beside(path, write("b5", operation="insert_overwrite"), write("b7"), options, "commit")
    assert values(path) == {"b5": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE t SET v = 5 WHERE p = 'a'", {"a1": 5, "a9": 5, "b1": 1}),
        ("DELETE FROM t WHERE p = 'a'", {"b1": 1}),
    ],
)
def test_a_statement_is_evaluated_again(path: str, text: str, expected: dict[str, int]) -> None:
    write("a1", "b1", value=1)(path, OPTIONS)

    def statement(path: str, options: dict[str, Any], **given: Any) -> Any:
        return hoodie.sql(text, tables={"t": path}, options=options, **given)

    beside(path, statement, write("a9"), OPTIONS, "commit")
    assert values(path) == expected


@pytest.mark.table_version(6)
def test_a_compaction_that_is_cancelled_beside_a_write(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows were on their way to the file slice that the compaction was to begin."""
    options = {**OPTIONS, **MOR, "hoodie.compact.inline.max.delta.commits": "1"}
    write("a1", value=1)(path, options)
    write("a1", value=2)(path, options)
    plan = hoodie.compact_table(path, mode="schedule", options=options).scheduled
    cancelled: list[str] = []
    take = Transaction.take

    def cancels_first(self: Transaction) -> None:
        if not cancelled:
            cancelled.append(plan)
            hoodie.cancel_plan(path, plan, options=options)
        take(self)

    monkeypatch.setattr(Transaction, "take", cancels_first)
    with pytest.raises(CommitConflict, match="taken back"):
        write("a1", value=3)(path, options)
    write("a1", value=4)(path, options)
    assert values(path) == {"a1": 4}


@pytest.mark.parametrize("version", [6, 9])
def test_a_commit_of_a_writer_that_was_rolled_back_is_no_damage(path: str, version: int) -> None:
    """It published on a storage that does not fence, and has not looked yet: what reads then comes again."""
    with new_tables_of(version):
        write("a1", value=1)(path, OPTIONS)
    lost = write("a2")(path, OPTIONS).instant
    [file] = Path(path, Timeline.load(path).layout.folder).glob(f"{lost}*.commit")
    late = file.read_bytes()
    hoodie.rollback_table(path, lost, options=OPTIONS)
    file.write_bytes(late)
    with pytest.raises(
        TableBusy, match=f"commit {lost} of .* was rolled back before its writer published it"
    ):
        values(path)
    write("a3")(path, OPTIONS)
    assert values(path) == {"a1": 1, "a3": 2}
    assert lost not in [item.time for item in Timeline.load(path).commits()]


class _Swept(Delegating):
    """Another process sweeps the timeline between the look at the lock and the file."""

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        def looked() -> None:
            if check is not None:
                check()
                if "requested" in path:
                    self.sweep_partial(path.rpartition("/")[0])

        super().create(path, data, None if check is None else looked)


def test_an_instant_is_not_put_on_the_timeline_once_the_lock_was_lost(path: str) -> None:
    """A writer that sleeps with the lock until it expires finds its unfinished file swept by the next one."""
    write("a1", value=1)(path, OPTIONS)
    with wrapped(_Swept), pytest.raises(hoodie.errors.Fenced):
        write("a2")(path, OPTIONS)
    write("a3", value=1)(path, OPTIONS)
    assert values(path) == {"a1": 1, "a3": 1}
