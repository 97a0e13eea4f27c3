"""The tiers of the suite, the groups that share something costly, and CI's rotating share.

`full` marks the cases that `make test` leaves to `make test-all` and to CI's share (see docs/testing.md).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import pytest

#: what shares something costly (Airflow and its database, servers of Hudi, Spark sessions, a browser, parsed
#: sources) by its place, the longest first; cases of the index HBASE share its server, wherever they are
GROUPS = {
    "tests/airflow/": "airflow",
    "tests/house/test_privates.py::test_no_class_uses": "airflow",
    "tests/interop/": "hudi",
    "tests/spark/": "spark",
    "tests/browser/": "browser",
    "tests/house/": "house",
}
#: cases of the full tier with which each share begins, whatever the day is: real Apache Hudi in each
#: direction, real Spark, and the walks of a reader. A group has them in a worker of its own.
ALWAYS = {
    "hudi at each commit": (
        "tests/interop/test_our_tables.py::test_apache_hudi_agrees[types]",
        "tests/interop/test_our_tables.py::test_written_in_turns[simple]",
        "tests/interop/test_our_logs.py::test_written_and_compacted_in_turns[avro]",
        "tests/interop/test_our_hfiles.py::test_the_native_reader_reads_them[levels]",
        "tests/interop/test_services.py::test_our_pending_clean_is_finished_by_apache_hudi",
        "tests/interop/test_undo.py::test_apache_hudi_takes_back_what_we_wrote[MERGE_ON_READ]",
    ),
    "spark at each commit": (
        "tests/spark/test_spark_engine.py::test_rows_of_every_type[spark4-connect]",
        "tests/spark/test_spark_sources.py::test_both_engines_read_the_same[a table-a.csv]",
        "tests/spark/test_spark_operations.py::test_deletes_and_overwrites",
    ),
    "walks at each commit": ("tests/house/test_walks.py::test_walks_do_not_grow",),
}
_ALWAYS = {nodeid: group for group, nodeids in ALWAYS.items() for nodeid in nodeids}
#: the scenarios of this file share nothing with each other
SWEEP = "tests/crash/test_sweep.py"


def full_but(
    kept: Collection[object], cases: Iterable[Any], name: Callable[[Any], object] = lambda case: case
) -> list[Any]:
    """The cases for `parametrize`, each in the full tier but those whose name is kept for `make test`."""
    listed = [_param(case) for case in cases]
    names = [name(case.values[0]) for case in listed]
    strangers = set(kept) - set(names)
    assert not strangers, f"no such cases: {strangers}"
    return [
        case
        if each in kept
        else pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.full])
        for each, case in zip(names, listed, strict=True)
    ]


def crossed_but(kept: Collection[str], *axes: Mapping[str, Any]) -> list[Any]:
    """Each value of an axis with each of the others, in the full tier but those kept, by ids as "a-b"."""
    cases = {
        "-".join(name for name, _ in chosen): [value for _, value in chosen]
        for chosen in itertools.product(*(axis.items() for axis in axes))
    }
    strangers = set(kept) - set(cases)
    assert not strangers, f"no such cases: {strangers}"
    return [
        pytest.param(*case, id=name, marks=[] if name in kept else [pytest.mark.full])
        for name, case in cases.items()
    ]


def _param(case: Any) -> Any:
    if hasattr(case, "marks"):
        return case
    return pytest.param(*case) if type(case) is tuple else pytest.param(case)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--share", metavar="DAY", help="run in an order that the day gives")
    group.addoption("--minutes", type=float, metavar="N", help="start no test after so many minutes")


def group_of(nodeid: str) -> str:
    """The group of a test: tests of one group run in one process, one after the other."""
    if nodeid in _ALWAYS:
        return _ALWAYS[nodeid]
    file, _, test = nodeid.partition("::")
    if re.search(r"[\[-]HBASE", test):
        return "hbase"
    if re.search(r"[\[-]hdfs", test):
        return "hdfs"
    for start, group in GROUPS.items():
        if nodeid.startswith(start):
            return group
    scenario = re.match(r"\w+\[(\w+)-", test) if file == SWEEP else None
    return f"{file} {scenario[1]}" if scenario else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups by node id: xdist 3.8 does not get its own mark into the node ids of pytest 9.2."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


def digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    day = config.getoption("share")
    if day is not None:
        items.sort(key=lambda item: _place(day, item.nodeid))
    elif "PYTEST_XDIST_WORKER" in os.environ:
        ranks = {group: rank for rank, group in enumerate(dict.fromkeys(GROUPS.values()))}
        items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))


def _place(day: str, nodeid: str) -> tuple[bytes, ...]:
    """What each share has, then groups in an order, files in a group, tests in a file."""
    parts = (group_of(nodeid), nodeid.partition("::")[0], nodeid)
    return (b"" if nodeid in _ALWAYS else b"1", *(digest(day, part) for part in parts))


class Budget:
    """Starts no test after `end`, in seconds since 1970; what ran is torn down as ever.

    Says at the end how many it left out. A worker that takes the place of one that died has no more time.
    """

    def __init__(self, end: float) -> None:
        self._end = end
        self._left = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["end"] = self._end

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if time.time() < self._end:
            return None
        self._left += 1
        return True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):  # this is a worker of xdist
            session.config.workeroutput["left"] = self._left

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._left += getattr(node, "workeroutput", {}).get("left", 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"{self._left} cases are left to shares of other days")


def pytest_configure(config: pytest.Config) -> None:
    minutes = config.getoption("minutes")
    if minutes is not None:
        of_worker = getattr(config, "workerinput", {})
        budget = Budget(of_worker.get("end") or time.time() + 60 * minutes)
        config.pluginmanager.register(budget, "hoodie-budget")
