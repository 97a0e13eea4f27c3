"""A pytest plugin that notes which lines of the library each passing test executes, and its CPU seconds.

For scripts/mutants.py. What a test runs in other processes is not seen.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.nearest import LIBRARY, NOTES, PACKAGE, shared


class Notes:
    """Lines by test, in contexts of coverage.py; those of a fixture that several tests share in its own."""

    def __init__(self, folder: Path, name: str) -> None:
        sys.path.append(os.environ[PACKAGE])
        from coverage import Coverage

        library = str(LIBRARY.resolve())
        self._coverage = Coverage(data_file=folder / f"lines-{name}", source=[library], config_file=False)
        self._tests = (folder / f"tests-{name}").open("w")
        self._fixtures = folder / f"fixtures-{name}"
        self._seconds: dict[str, float] = {}
        self._context = ""
        self._coverage.start()

    def _switch(self, context: str) -> None:
        self._context = context
        self._coverage.switch_context(context)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before, started = self._context, time.process_time()
        self._switch(shared(fixturedef.argname))
        try:
            return (yield)
        finally:
            self._switch(before)
            self._seconds[fixturedef.argname] = round(time.process_time() - started, 3)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started = time.process_time()
        self._passed = True
        self._switch(item.nodeid)
        try:
            return (yield)
        finally:
            self._switch("")
            if self._passed:
                fixtures = list(getattr(item, "fixturenames", ()))
                line = [item.nodeid, round(time.process_time() - started, 3), fixtures]
                self._tests.write(json.dumps(line) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed = self._passed and report.passed

    def pytest_unconfigure(self) -> None:
        self._tests.close()
        self._fixtures.write_text(json.dumps(self._seconds))
        self._coverage.stop()
        self._coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    name = os.environ.get("PYTEST_XDIST_WORKER")
    if name or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Notes(Path(os.environ[NOTES]), name or "main"), "hoodie-covered")
