"""Forged metadata tables and hash rings: nothing outside the table is touched, nothing hangs or fills the
memory, and the answer is that of the healthy table, or a typed error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.security.actions import INDEXED, RINGED, Action
from tests.security.corpus import Case
from tests.security.lakes import make_lake
from tests.security.metadata_cases import FAST as FAST_FORGED
from tests.security.metadata_cases import FORGED
from tests.security.rings import FAST as FAST_RINGS
from tests.security.rings import RINGS
from tests.security.runner import Outcome, harmless, other_answers, outcomes

KINDS: Mapping[str, tuple[Mapping[str, Case], Mapping[str, Action], tuple[str, ...]]] = {
    "kept": (FORGED, INDEXED, FAST_FORGED),
    "ringed": (RINGS, RINGED, FAST_RINGS),
}
#: of the fast tier
FEW = ("read", "upsert")
#: of these the data itself is a link, or is where a whole ring does not look for it
ROWS = ("a listed file that is a link", "a ring whose ranges have each other's files")


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: make_lake(tmp_path_factory.mktemp(kind) / "lake", kind) for kind in KINDS}


@pytest.fixture(scope="module")
def healthy(
    lakes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Outcome]]:
    place = tmp_path_factory.mktemp("healthy")
    return {kind: outcomes(lakes[kind], place, lambda lake: None, KINDS[kind][1]) for kind in lakes}


@pytest.fixture(scope="module")
def few(lakes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Outcome]]:
    """As `healthy`, of the fast tier."""
    place = tmp_path_factory.mktemp("few")
    return {kind: outcomes(lakes[kind], place, lambda lake: None, _few(kind)) for kind in lakes}


def _few(kind: str) -> dict[str, Action]:
    return {action: KINDS[kind][1][action] for action in FEW}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_actions_are_done_on_healthy_tables(healthy: dict[str, dict[str, Outcome]], kind: str) -> None:
    assert not {action: found for action, found in healthy[kind].items() if found.wrong}
    assert not {action for action, found in healthy[kind].items() if found.refused}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in KINDS[kind][2]])
def test_one_of_each_kind(
    lakes: dict[str, Path], few: dict[str, dict[str, Outcome]], tmp_path: Path, kind: str, name: str
) -> None:
    check(lakes[kind], few[kind], tmp_path, kind, name, _few(kind))


@pytest.mark.full
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in KINDS[kind][0]])
def test_forged_indexes(
    lakes: dict[str, Path], healthy: dict[str, dict[str, Outcome]], tmp_path: Path, kind: str, name: str
) -> None:
    check(lakes[kind], healthy[kind], tmp_path, kind, name, KINDS[kind][1])


def check(
    lake: Path,
    healthy: Mapping[str, Outcome],
    tmp_path: Path,
    kind: str,
    name: str,
    actions: Mapping[str, Action],
) -> None:
    found = harmless(lake, tmp_path, name, KINDS[kind][0][name], actions)
    if name not in ROWS:
        other = other_answers(found, healthy)
        assert not other, f"{name}: other rows: {other}"
