"""Actions of the package over every malicious table: nothing outside it changes or is read, nothing hangs or
fills the memory, and the answer is right or a typed error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.actions import ACTIONS, CORE
from tests.security.corpus import CASES
from tests.security.corpus_files import MORE
from tests.security.lakes import make_lake
from tests.security.runner import Outcome, harmless, other_answers, outcomes

ALL = {**CASES, **MORE}
#: what meets other code in tables of logs
LOGGED = [name for name in CASES if any(word in name for word in ("compaction", "log", "markers", "linked"))]
FAST = [
    ("cow", "begun rollback of an instant that leads out"),
    ("cow", "clean of files outside"),
    ("cow", "clean of a partition's metadata file"),
    ("cow", "markers of a pending write outside"),
    ("cow", "inflight commit of change logs outside"),
    ("cow", "a partition that links to another table's"),
    ("cow", "a pipe as a commit"),
    ("cow", "a clean plan of 2**40 records"),
    ("cow", "a schema that doubles"),
    ("cow", "a delimiter that never ends"),
    ("mor", "compaction outside"),
    ("mor", "rollback of log blocks of a file id that leads out"),
]
#: other rows than those of the healthy table are right where the table was made to have others
ROWS = (
    "commit",
    "instant",
    "base file",
    "partition",
    "link",
    "log",
    "history",
    "replaced",
    "schema",
    "begun",
)
_CASES = [*(("cow", name) for name in ALL), *(("mor", name) for name in LOGGED)]
_OTHERS = [name for name in ACTIONS if name not in CORE]
_TURNS = 4


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Lakes with a table, another table and a folder that belongs to somebody."""
    return {kind: make_lake(tmp_path_factory.mktemp(kind) / "lake", kind) for kind in ("cow", "mor")}


@pytest.fixture(scope="module")
def healthy(
    lakes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Outcome]]:
    """What each action gives for the healthy tables, of the one with logs those of its cases."""
    place, core = tmp_path_factory.mktemp("healthy"), {action: ACTIONS[action] for action in CORE}
    asked = {"cow": ACTIONS, "mor": core}
    return {kind: outcomes(lakes[kind], place, lambda lake: None, asked[kind]) for kind in lakes}


def _actions(kind: str, name: str) -> list[str]:
    """Those of the core, and of the others some that follow from the case."""
    if kind == "mor" or name not in CASES:
        return list(CORE)
    turn = list(CASES).index(name)
    return [*CORE, *(other for place, other in enumerate(_OTHERS) if (place + turn) % _TURNS == 0)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param(*case, marks=() if case in FAST else pytest.mark.full) for case in _CASES],
)
def test_nothing_outside_a_malicious_table_is_touched(
    lakes: dict[str, Path], healthy: dict[str, dict[str, Outcome]], tmp_path: Path, kind: str, name: str
) -> None:
    actions = {action: ACTIONS[action] for action in _actions(kind, name)}
    found = harmless(lakes[kind], tmp_path, name, ALL[name], actions)
    if any(word in name for word in ROWS):
        return
    done = {action: outcome for action, outcome in healthy[kind].items() if not outcome.refused}
    other = other_answers(found, done)
    assert not other, f"{name}: other rows: {other}"


def test_actions_are_done_on_a_healthy_table(healthy: dict[str, dict[str, Outcome]]) -> None:
    check_done(healthy["cow"], {"rollback_new", "cancel", "compact"})
    check_done(healthy["mor"], {"rollback_new"})


@pytest.mark.full
def test_actions_are_done_on_a_healthy_table_with_logs(lakes: dict[str, Path], tmp_path: Path) -> None:
    check_done(outcomes(lakes["mor"], tmp_path, lambda lake: None, ACTIONS), {"rollback_new", "cancel"})


def check_done(found: dict[str, Outcome], refused: set[str]) -> None:
    """There is no such instant, and a table without logs has none to compact."""
    assert not {action: outcome.wrong for action, outcome in found.items() if outcome.wrong}
    assert {action for action, outcome in found.items() if outcome.refused} == refused
