"""The tiers of the suite, the groups that share something costly, and CI's rotating share.

`full` marks the cases that `make test` leaves to `make test-all` and to CI's share (see docs/testing.md).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

#: fixtures too costly to have in every worker, and the group of the tests that use them
GROUPS = {
    "hudi_015": "hudi",
    "hudi_12": "hudi",
    "airflow_db": "airflow",
    "servers": "spark",
    "spark": "spark",
    "chromium": "browser",
}


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


def _param(case: Any) -> Any:
    if hasattr(case, "marks"):
        return case
    return pytest.param(*case) if type(case) is tuple else pytest.param(case)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--share", metavar="COMMIT", help="run in an order that the commit gives")
    group.addoption("--minutes", type=float, metavar="N", help="start no test after so many minutes")


def group_of(item: pytest.Item) -> str | None:
    """The group of a test: tests of one group run in one worker, one after the other."""
    for mark in item.iter_markers("xdist_group"):
        return str(mark.args[0])
    used = [GROUPS[name] for name in getattr(item, "fixturenames", ()) if name in GROUPS]
    return used[0] if used else None


def digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        group = group_of(item)
        if group is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    commit = config.getoption("share")
    if commit is None:
        return

    def place(item: pytest.Item) -> tuple[bytes, ...]:
        group = group_of(item) or item.nodeid
        return digest(commit, group), digest(commit, str(item.path.name)), digest(commit, item.nodeid)

    items.sort(key=place)


class Budget:
    """Starts no test after its time; what ran is torn down as ever. Says at the end how many it left out."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes
        self._left = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if time.monotonic() < self._end:
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
        terminalreporter.write_line(f"{self._left} cases are left to shares of other commits")


def pytest_configure(config: pytest.Config) -> None:
    minutes = config.getoption("minutes")
    if minutes is not None:
        config.pluginmanager.register(Budget(minutes), "hoodie-budget")
