"""The scenarios of the sweep on tables of versions 8 and 9: the same must hold for them."""

from __future__ import annotations

import pytest

from tests.crash.cases import Kind
from tests.crash.conftest import Bench
from tests.crash.later_indexes import LATER_INDEXES
from tests.crash.metadata import METADATA
from tests.crash.scenarios import SCENARIOS
from tests.crash.test_metadata import sweep as sweep_metadata
from tests.crash.test_sweep import UNSWEPT, sweep

pytestmark = pytest.mark.crash

#: blocks in a file with others', which only version 6 has
_SHARED = ("mor_repair_shared",)
#: scenarios that version 6 has not
_LATER = ("non_blocking", "log_compaction")
SWEPT = [
    (version, name, kind)
    for version in (9, 8)
    for name in SCENARIOS
    if (name in _LATER or name not in (*UNSWEPT, *METADATA, *LATER_INDEXES, *_SHARED))
    and (version, name) != (8, "metadata_table")
    for kind in Kind
]


#: what differs from version 6: the first instant, logs, plans, the archive; of all else the full tier
FAST = {
    (9, "first", Kind.DEAD_DISK),
    (9, "mor_upsert", Kind.KILL),
    (9, "non_blocking", Kind.KILL),
    (9, "execute", Kind.KILL),
    (9, "log_compaction", Kind.KILL),
    (9, "cluster_execute", Kind.DEAD_DISK),
    (9, "archive", Kind.DEAD_DISK),
    (9, "restore_commits", Kind.HICCUP),
}
CASES = [pytest.param(*case, marks=[] if case in FAST else [pytest.mark.full]) for case in SWEPT]


@pytest.mark.parametrize(
    ("version", "name", "kind"),
    CASES,
    ids=[f"{version}-{name}-{kind.value}" for version, name, kind in SWEPT],
)
def test_every_scenario_survives(bench: Bench, version: int, name: str, kind: Kind) -> None:
    cases = bench.cases(SCENARIOS[name], kind, rest=False)
    assert cases
    sweep(bench, name, cases)


SWEPT_INDEXES = [
    pytest.param(9, name, id=name, marks=[] if name == "each_upsert" else [pytest.mark.full])
    for name in LATER_INDEXES
]


@pytest.mark.parametrize(("version", "name"), SWEPT_INDEXES)
def test_indexes_that_version_6_has_not(bench: Bench, version: int, name: str) -> None:
    """Kills."""
    sweep_metadata(bench, name, bench.cases(SCENARIOS[name], Kind.KILL, rest=False))
