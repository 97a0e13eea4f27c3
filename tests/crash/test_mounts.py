"""Failures where files are created without hard links: locks may be left behind, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.storage.exclusive import Way
from tests.crash.cases import Kind
from tests.crash.conftest import Bench
from tests.crash.scenarios import SCENARIOS
from tests.crash.test_sweep import sweep
from tests.crash.worker import Worker
from tests.support.faults import Phase
from tests.support.mounts import mounted

pytestmark = pytest.mark.crash


@pytest.fixture(scope="module")
def mount(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[Bench]:
    with mounted(Way.LOCK), Worker(Way.LOCK) as worker:
        yield Bench(memory_path / "mounted", worker, request)


@pytest.mark.full
@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_an_upsert_survives(mount: Bench, kind: Kind) -> None:
    sweep(mount, "upsert", mount.cases(SCENARIOS["upsert"], kind, rest=False))


def test_a_kill_leaves_a_lock_behind(mount: Bench) -> None:
    """In the middle of a publishing; elsewhere the same is left as with hard links."""
    cases = mount.cases(SCENARIOS["upsert"], Kind.KILL, rest=False)
    picked = [case for case in cases if case.phase is Phase.DURING and case.change.name == "create"]
    assert picked
    sweep(mount, "upsert", picked)
