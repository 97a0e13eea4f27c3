"""Times of instants have no order of their own. Each `type: ignore` says what the type checker refuses."""

from __future__ import annotations

import json
import operator
import pickle

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.watch_offset import WatchOffset
from hoodie.errors import HoodieError
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

FIRST, SECOND = InstantTime("20260101000000000"), InstantTime("20260101000000001")


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("pair", [(FIRST, SECOND), (FIRST, str(SECOND)), (str(FIRST), SECOND)])
def test_times_have_no_order(compare: object, pair: tuple[str, str]) -> None:
    assert callable(compare)
    with pytest.raises(TypeError, match="no order of their own"):
        compare(*pair)


def test_the_type_checker_refuses_to_order_them() -> None:
    with pytest.raises(TypeError):
        FIRST < SECOND  # type: ignore[misc] # noqa: B015
    with pytest.raises(TypeError):
        max(FIRST, SECOND)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        sorted([FIRST, SECOND])  # type: ignore[type-var]
    with pytest.raises(TypeError):
        sorted([(FIRST, 1), (SECOND, 2)])


def test_a_time_is_its_digits_elsewhere() -> None:
    assert FIRST == "20260101000000000"
    assert FIRST in {"20260101000000000"}
    assert json.dumps({"instant": FIRST}) == '{"instant": "20260101000000000"}'
    assert type(pickle.loads(pickle.dumps(FIRST))) is InstantTime
    assert not NO_TIME


def test_instants_are_ordered_by_their_requests() -> None:
    assert REQUESTED.before(FIRST, SECOND)
    assert REQUESTED.after(SECOND, FIRST)
    assert REQUESTED.until(FIRST, FIRST)
    assert REQUESTED.since(FIRST, FIRST)
    assert not REQUESTED.before(FIRST, FIRST)
    assert REQUESTED.before(NO_TIME, FIRST)
    assert REQUESTED.first([SECOND, FIRST]) == FIRST
    assert REQUESTED.last([SECOND, FIRST]) == SECOND
    assert REQUESTED.last([]) is None
    second = Instant(SECOND, Action.COMMIT, State.COMPLETED)
    first = Instant(FIRST, Action.CLEAN, State.REQUESTED)
    assert in_order([second, first]) == [first, second]
    assert first.is_before(SECOND)
    assert second.is_after(FIRST)


def test_an_instant_keeps_its_completion() -> None:
    completed = Instant(FIRST, Action.COMMIT, State.COMPLETED, SECOND)
    assert completed.with_state(State.REQUESTED).with_state(State.COMPLETED).completion == SECOND


def test_users_get_plain_texts(tmp_path: object) -> None:
    path = f"{tmp_path}/t"
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}
    written = hoodie.write_table(pa.table({"id": [1]}), path, options=options)
    again = hoodie.write_table(pa.table({"id": [1]}), path, options=options)
    undone = hoodie.rollback_table(path, again.instant)
    found = [
        written.instant,
        undone.instant,
        undone.target,
        *(entry["instant"] for entry in hoodie.instants(path)),
        *hoodie.instants(path)[-1]["undone"],
        *(slice_["instant"] for group in hoodie.file_groups(path) for slice_ in group["slices"]),
    ]
    assert {type(time) for time in found} == {str}


def test_a_watcher_keeps_plain_texts() -> None:
    """The task SDK's encoder takes no subclass of texts."""
    offset = WatchOffset().plus([FIRST, SECOND])
    assert {type(time) for time in (*offset.done, *offset.to_dict()["done"], offset.newest)} == {str}


def test_errors_have_plain_texts() -> None:
    assert type(HoodieError("no", instant=FIRST).to_dict()["values"]["instant"]) is str
