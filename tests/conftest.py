"""What every test gets: the environment of Spark, the shared data, and `require`."""

from __future__ import annotations

import logging
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts import environment

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from tests.support.browser import Browser

try:
    import hypothesis
except ModuleNotFoundError:  # .venv-hudi has none, and no test there wants it
    pass
else:
    hypothesis.settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
    hypothesis.settings.load_profile("house")

pytest_plugins = ("tests.support.tiers",)

os.environ.update(environment.spark_environment(Path(sys.prefix)))
# `make test` runs in a zone of its own, so that a time which is taken for a local one shows
os.environ["TZ"] = os.environ.get("HOODIE_TESTS_TZ") or "UTC"
time.tzset()
# what the tests start would compile every module anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# py4j says goodbye when the interpreter ends, after pytest has closed its streams
logging.getLogger("py4j").setLevel(logging.WARNING)


def require(condition: object, reason: str) -> None:
    """Skips the test where something it needs is missing; where CI=true, that is a failure."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (with CI=true a test does not skip)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def memory_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of small tables are made and removed."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path_factory.mktemp("memory")
        return
    with tempfile.TemporaryDirectory(prefix="hoodie-tests-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared test data: HOODIE_SHARED, or `shared` beside the project."""
    folder = Path(os.environ.get("HOODIE_SHARED") or environment.ROOT.parent / "shared")
    require(folder.is_dir(), f"no shared test data at {folder}; HOODIE_SHARED may name another place")
    return folder


@pytest.fixture(scope="session")
def golden_tables(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private copy of the tables that Apache Hudi wrote: `0.15.0-v6/<name>/{table,expected,meta.json}`.

    It is one for the session: a test that writes to a table takes a copy of its own.
    """
    archive = shared / "golden" / "tables.tar.gz"
    require(archive.is_file(), f"no golden tables at {archive}")
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def evolved_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`<name>` and `<name>_answers` of tables of schema-on-read evolution (see support/evolved.py).

    They are one for the session: a test that writes to a table takes a copy of its own.
    """
    folder = tmp_path_factory.mktemp("evolved")
    with tarfile.open(Path(__file__).parent / "data/schema_on_read.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def chromium() -> Iterator[ClientConnection]:
    """Headless Chromium, one for the session."""
    from tests.support import browser

    found = environment.browser()
    require(found, "no Chromium on PATH; on Debian `scripts/setup browser` installs it")
    with browser.launch(str(found)) as connection:
        yield connection


@pytest.fixture
def browser(chromium: ClientConnection) -> Iterator[Browser]:
    """An empty page."""
    from tests.support.browser import Browser

    page = Browser(chromium)
    yield page
    page.close()
