"""Malicious tables of versions 8 and 9: nothing outside them is touched or read, nothing hangs or fills the
memory, and a query gives the rows of the healthy table, or a typed error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import hoodie
from hoodie.serve.page import Page
from hoodie.timeline.time import InstantTime
from tests.security.actions import ACTIONS, LISTED, SERVICES, Action
from tests.security.corpus import Case, Lake
from tests.security.later_cases import OF_LOGS, OF_TIMELINE, SOURCES, make_later_lake
from tests.security.runner import Outcome, harmless, other_answers, outcomes

#: imported before the memory is limited
assert duckdb.__version__


def _read(lake: Lake, **how: Any) -> list[str]:
    table = hoodie.read_table(str(lake.table), **how)
    names = [name for name in table.column_names if not name.startswith("_hoodie_")]
    return sorted(map(repr, table.select(names).to_pylist()))


def _page(lake: Lake) -> None:
    page = Page(lambda: {"t": str(lake.table)})
    listed = [] if (lake.meta / "timeline").is_symlink() else (lake.meta / "timeline").glob("*.*")
    times = {path.name.split(".")[0].split("_")[0] for path in listed if path.name[0].isdigit()}
    for query in ("", "archived=true"):
        page.get("tables", query)
        page.get("tables/t/instants", query)
        for time in sorted(times)[-8:]:
            page.get(f"tables/t/instants/{time}", query)


READS: dict[str, Action] = {
    "read": _read,
    "listed": lambda lake: _read(lake, options=LISTED),
    "read_optimized": lambda lake: _read(lake, query="read_optimized"),
    "incremental": lambda lake: _read(lake, query="incremental", begin="earliest"),
    "time_travel": lambda lake: _read(lake, as_of=lake.last),
    "key": lambda lake: _read(lake, where="id = 'k00003'", options={"hoodie.read.record.index": "true"}),
    "explain": lambda lake: hoodie.explain_read(str(lake.table), where="id = 'k00003'") and None,
    "indexes": lambda lake: hoodie.index_table(str(lake.table), "show") and None,
    "page": _page,
    **{
        name: ACTIONS[name]
        for name in (
            "timeline",
            "archived",
            "files",
            "logs",
            "doctor",
            "plan",
            "sensors",
            "watcher",
            "dry_clean",
        )
    },
}
#: some rows of each healthy table
WRITTEN: dict[str, pa.Table] = {}


def _after(act: Callable[[Lake, str], object]) -> Action:
    """The rows after an action that changes the table."""

    def run(lake: Lake) -> list[str]:
        act(lake, str(lake.table))
        return _read(lake)

    return run


def _write(operation: str) -> Action:
    return _after(lambda lake, path: hoodie.write_table(WRITTEN[lake.kind], path, operation=operation))


WRITES: dict[str, Action] = {
    **{name: _write(name) for name in ("upsert", "delete", "bulk_insert", "insert_overwrite_table")},
    "clean": _after(lambda _, path: hoodie.clean_table(path, options=SERVICES)),
    "archive": _after(lambda _, path: hoodie.archive_table(path, options=SERVICES)),
    "rollback": _after(lambda lake, path: hoodie.rollback_table(path, lake.last)),
    "rollback_new": ACTIONS["rollback_new"],
    "restore": _after(lambda lake, path: hoodie.restore_table(path, InstantTime(lake.first))),
    "savepoint": _after(lambda _, path: hoodie.savepoint_table(path)),
    "cancel": ACTIONS["cancel"],
    "compact": _after(lambda _, path: hoodie.compact_table(path, options=SERVICES)),
    "log_compact": _after(lambda _, path: hoodie.log_compact_table(path, options=SERVICES)),
    "cluster": _after(lambda _, path: hoodie.cluster_table(path)),
    "services": _after(lambda _, path: hoodie.run_services(path, options=SERVICES)),
    "downgrade": _after(lambda _, path: hoodie.downgrade_table(path, "6")),
    "to_8": _after(lambda _, path: hoodie.downgrade_table(path, "8")),
    "index": _after(lambda _, path: hoodie.index_table(path, "create", "column_stats")),
}
#: refused of a healthy table, too: what is asked for is not there, or version 6 has not got it
NOT_DONE = {"rollback_new", "cancel", "restore", "downgrade"}
EVERY = {**READS, **WRITES}
#: the table has other rows by what the case says of it, or none that can be told
ROWS = (
    "completion",
    "commit",
    "replaced",
    "instants of versions",
    "block",
    "delete",
    "positions",
    "a folder",
)
KINDS: Mapping[str, Mapping[str, Case]] = {
    "archived": OF_TIMELINE,
    "indexed": {name: case for name, case in OF_TIMELINE.items() if "metadata" in name or "index" in name},
    "defined": {name: case for name, case in OF_TIMELINE.items() if "metadata" in name or "index" in name},
    "partial": OF_LOGS,
    "ordered": OF_LOGS,
}
FAST = (
    ("archived", "a completion before the request"),
    ("archived", "two completions of one commit"),
    ("archived", "a commit of a GiB of zeros"),
    ("archived", "a clustering outside"),
    ("archived", "manifests that lead out"),
    ("archived", "a version of 5,000 digits"),
    ("archived", "an archive file of one text of a MiB in 4,096 rows"),
    ("indexed", "a metadata table of which every file is flipped"),
    ("partial", "a partial block of unknown columns"),
    ("ordered", "a delete of ordering values of ordering values"),
)


@pytest.fixture(scope="module")
def lakes(
    tmp_path_factory: pytest.TempPathFactory, later_tables: Path, later_more: Path
) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def lake(kind: str) -> Path:
        if kind not in made:
            source = (later_more if SOURCES[kind].startswith("more/") else later_tables) / SOURCES[kind]
            WRITTEN[kind] = hoodie.read_table(str(source / "table"), meta=False).slice(0, 3)
            made[kind] = make_later_lake(tmp_path_factory.mktemp(kind) / "lake", kind, source / "table")
        return made[kind]

    return lake


@pytest.fixture(scope="module")
def healthy(
    lakes: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Mapping[str, Outcome]]:
    known: dict[str, Mapping[str, Outcome]] = {}

    def answers(kind: str) -> Mapping[str, Outcome]:
        if kind not in known:
            place = tmp_path_factory.mktemp(f"healthy-{kind}")
            known[kind] = outcomes(lakes(kind), place, lambda lake: None, EVERY)
        return known[kind]

    return answers


@pytest.mark.parametrize("kind", ["ordered", *(pytest.param(kind, marks=pytest.mark.full) for kind in KINDS)])
def test_actions_are_done_on_healthy_tables(
    healthy: Callable[[str], Mapping[str, Outcome]], kind: str
) -> None:
    found = healthy(kind)
    assert not {action: outcome for action, outcome in found.items() if outcome.wrong}
    refused = {action: outcome.answer for action, outcome in found.items() if outcome.refused}
    reads = {"incremental", "key", "explain"} if kind != "indexed" else set()
    logs = {"compact", "log_compact"} if kind == "defined" else set()  # it is copy-on-write
    assert refused.keys() <= NOT_DONE | reads | logs, refused


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=() if (kind, name) in FAST else pytest.mark.full)
        for kind, cases in KINDS.items()
        for name in cases
    ],
)
def test_nothing_outside_a_malicious_table_is_touched(
    lakes: Callable[[str], Path],
    healthy: Callable[[str], Mapping[str, Outcome]],
    tmp_path: Path,
    kind: str,
    name: str,
) -> None:
    found = harmless(lakes(kind), tmp_path, name, KINDS[kind][name], EVERY)
    if not any(word in name for word in ROWS):
        done = {action: outcome for action, outcome in healthy(kind).items() if not outcome.refused}
        other = other_answers(found, done)
        assert not other, f"{name}: other rows: {other}"
