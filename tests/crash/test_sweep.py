"""Every scenario, failed or killed at its changes: readers see what they may, and the next run mends all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.models.rollback import RollbackMetadata
from tests.crash import (  # noqa: F401  scenarios
    clustering,
    late,
    operations,
    participants,
    rings,
    services,
    undo,
)
from tests.crash.cases import Case, Kind
from tests.crash.conftest import Bench
from tests.crash.later_indexes import LATER_INDEXES
from tests.crash.metadata import METADATA
from tests.crash.participants import KEEPING
from tests.crash.scenarios import SCENARIOS
from tests.crash.survival import survival
from tests.support.ledger import entries, not_counted

pytestmark = pytest.mark.crash

#: of other tests
UNSWEPT = (
    *("left", "right", "upsert_after_overwrite", "non_blocking", "log_compaction"),
    *METADATA,
    *LATER_INDEXES,
)
SWEPT = [(name, kind) for name in SCENARIOS if name not in UNSWEPT for kind in Kind]
IDS = [f"{name}-{kind.value}" for name, kind in SWEPT]
#: the fast tier has each kind of action, and the protocols that several of them share
FAST = {
    "first",
    "upsert",
    "mor_upsert",
    "repair",
    "insert_overwrite",
    "withdrawn",
    "late_commit",
    "execute",
    "cancel_begun_compaction",
    "clean",
    "archive",
    "rollback_deltas",
    "restore_commits",
    "savepoint",
    "ledger_upsert",
}
#: of hash rings, of change logs and of writers at once the fast tier kills one writer
QUICK = [(name, Kind.KILL) for name in ("ring_split", "cdc_upsert", "at_once")]
#: what these share with a first write or another action fails there; what is theirs is killed
KILLED = {
    "cancel_begun_compaction",
    "late_commit",
    "repair",
    "restore_commits",
    "rollback_deltas",
    "withdrawn",
}
#: a dead disk leaves of them what a kill leaves, but for the process; kills of an append: `test_followers.py`
DEAD = {"clean", "first", "insert_overwrite", "mor_upsert", "savepoint"}
SLOW = {
    *((name, Kind.DEAD_DISK) for name in KILLED),
    *((name, Kind.DEAD_DISK) for name in ("archive", "execute", "ledger_upsert", "upsert")),
    *((name, Kind.KILL) for name in DEAD),
    *((name, Kind.HICCUP) for name in ("cancel_begun_compaction", "execute", "insert_overwrite")),
    *((name, Kind.HICCUP) for name in ("late_commit", "mor_upsert", "repair")),
}
CASES = [
    pytest.param(
        *case, marks=[] if case in QUICK or (case[0] in FAST and case not in SLOW) else [pytest.mark.full]
    )
    for case in SWEPT
]


def sweep(bench: Bench, name: str, cases: Sequence[Case]) -> None:
    scenario = SCENARIOS[name]
    for case in cases:
        path = bench.table(scenario)
        try:
            check = survival(bench, scenario, path)
            check.failed(bench.fail(scenario, path, case))
            if scenario.name in KEEPING:
                entries(path)  # what counts is whole, whenever a reader looks
            check.mended()
            if scenario.name in KEEPING or scenario.name == "late_commit":
                check_ledger(path)
        except Exception as error:
            raise AssertionError(f"{name}, {case}") from error


def check_ledger(path: Path) -> None:
    """Its files agree with the timeline; those of rollbacks that a restore replaced stay."""
    entries(path)
    assert [name for name in not_counted(path) if ".rollback." not in name] == []
    assert bool(not_counted(path)) <= bool(Timeline.load(str(path)).filter([Action.RESTORE]))


@pytest.mark.parametrize(("name", "kind"), CASES, ids=IDS)
def test_every_scenario_survives(bench: Bench, name: str, kind: Kind) -> None:
    """A failure of each class."""
    cases = bench.cases(SCENARIOS[name], kind, rest=False)
    assert cases
    sweep(bench, name, cases)


@pytest.mark.full
@pytest.mark.parametrize(("name", "kind"), SWEPT, ids=IDS)
def test_every_scenario_survives_all_else(bench: Bench, name: str, kind: Kind) -> None:
    """Every failure that the classes leave out."""
    sweep(bench, name, bench.cases(SCENARIOS[name], kind, rest=True))


def test_the_rollback_of_a_delta_commit_deletes_its_logs_and_voids_its_blocks_among_others(
    bench: Bench,
) -> None:
    """That is: the scenarios of the sweep do what they are for."""
    for name, commands in (("mor_repair", 0), ("mor_repair_shared", 1)):
        path = bench.table(SCENARIOS[name])
        result = SCENARIOS[name].run(path)
        assert len(result.rolled_back) == 1
        (done,) = path.glob(".hoodie/*.rollback")
        deleted = RollbackMetadata.from_bytes(done.read_bytes()).partitions["eu"].deleted
        assert [file for file in deleted if ".log." in file]
        assert len(list(path.glob("eu/.*.log.*_1-0-1"))) == commands


def test_a_pending_overwrite_is_a_failed_write(bench: Bench) -> None:
    """Unlike a pending clustering, which is a replacecommit, too."""
    scenario = SCENARIOS["upsert_after_overwrite"]
    path = bench.table(scenario)
    (pending,) = Timeline.load(str(path)).pending()
    assert pending.action is Action.REPLACECOMMIT
    assert scenario.run(path).rolled_back == [pending.time]
