"""`--cpu N`: the N dearest tests by CPU seconds, and those of each folder.

Counted are the process of the tests and all below it, servers that outlive a test included, each phase from
the end of the one before it. So the first test of a session bears the session's start.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

_PROPERTY = "cpu seconds"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tiers").addoption("--cpu", type=int, metavar="N", help="show the dearest tests")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("cpu"):
        config.pluginmanager.register(_Cpu(config.getoption("cpu")), "hoodie-cpu")


class _Cpu:
    def __init__(self, shown: int) -> None:
        self._shown = shown
        self._last = _seconds()
        self._tests: dict[str, float] = {}

    def pytest_collection_finish(self) -> None:
        self._last = _seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _seconds()
        # less where a process that was waited for by another one than its parent has gone
        report.user_properties.append((_PROPERTY, max(0.0, now - self._last)))
        self._last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid] = self._tests.get(report.nodeid, 0.0) + sum(_spent(report))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        folders: dict[str, float] = {}
        for nodeid, seconds in self._tests.items():
            folder = nodeid.partition("::")[0].rpartition("/")[0]
            folders[folder] = folders.get(folder, 0.0) + seconds
        terminalreporter.section(f"{sum(folders.values()):.0f} CPU seconds")
        for name, seconds in [*_dearest(folders), *_dearest(self._tests)[: self._shown]]:
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")


def _dearest(seconds: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])


def _spent(report: pytest.TestReport) -> Iterator[float]:
    for name, value in report.user_properties:
        if name == _PROPERTY and isinstance(value, float):
            yield value


def _seconds() -> float:
    """CPU seconds of this process and of all below it, those that ended and were waited for included."""
    ticks, left = 0, [os.getpid()]
    while left:
        process = Path(f"/proc/{left.pop()}")
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
            for task in (process / "task").iterdir():
                left += map(int, (task / "children").read_text().split())
        except OSError:  # it has ended meanwhile
            continue
    return ticks / os.sysconf("SC_CLK_TCK")
