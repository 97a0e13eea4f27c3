"""An older data interval does not undo a newer one, where the merge mode would let it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import OutOfOrder
from hoodie.timeline.token_index import interval_of
from hoodie.write.settings import ALLOW_OUT_OF_ORDER as ALLOWED
from tests.unit.write.support import KEY, ORDERING, PARTITION

MODE, PAYLOAD = "hoodie.record.merge.mode", "hoodie.datasource.write.payload.class"
OPTIONS = {KEY: "id", PARTITION: "day", MODE: "COMMIT_TIME_ORDERING"}
ARCHIVING = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.cleaner.commits.retained": "1",
}


def token(day: int, task: str = "daily/upsert") -> dict[str, str]:
    start, end = f"2026-01-{day:02d}T00:00:00+00:00", f"2026-01-{day + 1:02d}T00:00:00+00:00"
    return {"airflow.token": f"{task}/-1/{start}/{end}"}


def write(
    path: Path,
    day: int,
    *,
    partition: str = "p",
    operation: str = "upsert",
    extra: Any = None,
    **options: str,
) -> Any:
    rows = pa.table({"id": ["a", f"of {day}"], "day": [partition] * 2, "ts": [day, day]})
    return hoodie.write_table(
        rows,
        str(path / "t"),
        operation=operation,
        options={**OPTIONS, **options},
        extra_metadata=token(day) if extra is None else extra,
    )


def stored(path: Path) -> dict[str, int]:
    found = hoodie.read_table(str(path / "t"), meta=False).to_pydict()
    return dict(zip(found["id"], found["ts"], strict=True))


def test_an_older_interval_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    newer = write(tmp_path, 7)
    before = hoodie.instants(str(tmp_path / "t"))
    with pytest.raises(OutOfOrder, match="would undo") as refused:
        write(tmp_path, 5)
    message = str(refused.value)
    assert "2026-01-05T00:00:00+00:00/2026-01-06T00:00:00+00:00" in message
    assert "2026-01-07T00:00:00+00:00/2026-01-08T00:00:00+00:00" in message
    assert newer.instant in message
    assert "hoodie.datasource.write.precombine.field" in message
    assert "allow_out_of_order" in message
    assert hoodie.instants(str(tmp_path / "t")) == before
    assert stored(tmp_path) == {"a": 7, "of 7": 7}
    write(tmp_path, 8)
    write(tmp_path, 5, **{ALLOWED.name: "true"})
    assert stored(tmp_path)["a"] == 5


def test_what_can_not_undo_anything_passes(tmp_path: Path) -> None:
    write(tmp_path, 7)
    write(tmp_path, 5, partition="another")
    write(tmp_path, 5, extra=token(5, "other/upsert"))
    write(tmp_path, 5, extra={})
    write(tmp_path, 5, extra={"airflow.token": "daily/upsert/-1/partition=2026-01-05"})
    write(tmp_path, 4, operation="insert")
    assert len(hoodie.instants(str(tmp_path / "t"))) == 6


@pytest.mark.table_version(6)
@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({MODE: "EVENT_TIME_ORDERING", ORDERING: "ts"}, False),
        ({MODE: "CUSTOM", PAYLOAD: "partial_update", ORDERING: "ts"}, False),
        ({MODE: "CUSTOM", PAYLOAD: "partial_update"}, True),
        ({MODE: "CUSTOM", PAYLOAD: "overwrite_non_defaults", ORDERING: "ts"}, True),
        ({MODE: "COMMIT_TIME_ORDERING", ORDERING: "ts"}, True),
        ({MODE: "CUSTOM", PAYLOAD: "event_time"}, True),
    ],
)
def test_merge_modes(tmp_path: Path, options: dict[str, str], refused: bool) -> None:
    write(tmp_path, 7, **options)
    if refused:
        with pytest.raises(OutOfOrder, match="would undo"):
            write(tmp_path, 5, **options)
    else:
        write(tmp_path, 5, **options)
    assert stored(tmp_path)["a"] == 7


def test_a_partition_that_a_later_interval_wrote_is_not_replaced(tmp_path: Path) -> None:
    ordered = {MODE: "EVENT_TIME_ORDERING", ORDERING: "ts"}
    write(tmp_path, 7, **ordered)
    with pytest.raises(OutOfOrder, match="whole partitions are replaced"):
        write(tmp_path, 5, operation="insert_overwrite", **ordered)
    write(tmp_path, 5, operation="insert_overwrite", partition="q", **ordered)
    assert stored(tmp_path) == {"a": 5, "of 7": 7, "of 5": 5}


def test_archived_commits_count(tmp_path: Path) -> None:
    write(tmp_path, 20, **ARCHIVING)
    for day in range(1, 9):
        write(tmp_path, day, partition=f"d{day}", extra={}, **ARCHIVING)
    assert hoodie.instants(str(tmp_path / "t"))[0]["operation"] == "UPSERT"
    assert len([i for i in hoodie.instants(str(tmp_path / "t")) if i["action"] == "commit"]) < 9
    with pytest.raises(OutOfOrder, match="2026-01-20T00"):
        write(tmp_path, 5, **ARCHIVING)


def test_the_interval_of_a_token() -> None:
    assert interval_of("d/t/-1/2026-01-01T00:00:00+00:00") is not None
    found = interval_of(token(5)["airflow.token"])
    assert found is not None
    assert found[0] == "daily/upsert"
    assert str(found[1]) == "2026-01-05T00:00:00+00:00/2026-01-06T00:00:00+00:00"
    for odd in ("", "x", "d/t/-1/run=a", "d/t/-1/partition=2026-01-01", "d/t/-1/2026/x/y/z"):
        assert interval_of(odd) is None
    naive = interval_of("d/t/-1/2026-01-01T00:00:00/2026-01-02T00:00:00+00:00")
    assert naive is None
