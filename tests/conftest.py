"""What every test gets: the environment of Spark, the shared data, and `require`."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from scripts import environment
from tests.support.properties import examples

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from tests.support.browser import Browser
    from tests.support.dynamodb import DynamoDB
    from tests.support.glue import Glue
    from tests.support.hbase.server import HBase
    from tests.support.hdfs.server import Hdfs
    from tests.support.kafka import Kafka
    from tests.support.metastore.server import Metastore
    from tests.support.pulsar import Pulsar
    from tests.support.zookeeper import ZooKeeper

try:
    import hypothesis
except ModuleNotFoundError:  # .venv-hudi has none, and no test there wants it
    pass
else:
    hypothesis.settings.register_profile(
        "house", deadline=None, derandomize=os.environ.get("CI") == "true", max_examples=examples(100)
    )
    hypothesis.settings.load_profile("house")

Server = TypeVar("Server")
DATA = Path(__file__).parent / "data"
pytest_plugins = ("tests.support.cpu", "tests.support.defaults", "tests.support.tiers")

os.environ.update(environment.spark_environment(Path(sys.prefix)))
os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "support" / "spark")
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


def _ours(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """The archives are ours: to check thousands of paths would take longer than to unpack them."""
    return member.replace(mode=None, uid=None, gid=None, uname=None, gname=None, deep=False)  # type: ignore[arg-type]


def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory, *more: Path) -> Path:
    """A folder with what archives of tests/data hold, one for all processes of this run."""
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent
    folder = run / f"unpacked-{archive.parent.name}-{archive.name.partition('.')[0]}"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = Path(f"{folder}.new")
            for each in (archive, *more):
                with tarfile.open(each) as tar:
                    tar.extractall(new, filter=_ours)
            new.rename(folder)
    return folder


@pytest.fixture(scope="session")
def golden_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables that Apache Hudi wrote: `0.15.0-v6/<name>/{table,expected,meta.json}` (see data/golden).

    They are one for the run: a test that writes to a table takes a copy of its own.
    """
    return unpacked(DATA / "golden/tables.tar.xz", tmp_path_factory, DATA / "golden/rings.tar.xz")


@pytest.fixture(scope="session")
def later_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of versions 8 and 9 of Apache Hudi 1.2.0: `1.2.0-{v8,v9}/<name>/{table,expected,meta.json}` (see
    data/golden).

    They are one for the run: a test that writes to a table takes a copy of its own.
    """
    return unpacked(DATA / "golden/later.tar.xz", tmp_path_factory, DATA / "golden/slices.tar.xz")


@pytest.fixture(scope="session")
def later_more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More of them, upgraded and downgraded ones, some of 1.0.2: `more/<name>/{table,expected,meta.json}`.

    They are one for the run: a test that writes to a table takes a copy of its own.
    """
    return unpacked(DATA / "golden/later_more.tar.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def later_indexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of versions 8 and 9 with indexes of several file groups: `indexes/<name>/table`.

    They are one for the run: a test that writes to a table takes a copy of its own.
    """
    return unpacked(DATA / "golden/later_indexes.tar.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def version6_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`<name>`, tables of version 6 of later releases than 0.15.0, and answers.json (see data/golden).

    They are one for the run: a test that writes to a table takes a copy of its own.
    """
    return unpacked(DATA / "golden/version6.tar.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def older_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`cow<version>` and `mor<version>`, tables of versions 0 to 5 (see data/golden).

    They are one for the run: a test that writes to a table takes a copy of its own.
    """
    return unpacked(DATA / "golden/older.tar.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def evolved_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`<name>` and `<name>_answers` of tables of schema-on-read evolution (see support/evolved.py).

    They are one for the run: a test that writes to a table takes a copy of its own.
    """
    return unpacked(DATA / "schema_on_read.tar.gz", tmp_path_factory)


@contextlib.contextmanager
def running(
    missing: Callable[[], str | None], start: Callable[[], AbstractContextManager[Server]]
) -> Iterator[Server]:
    """A real server, unless `missing` names what this machine lacks for it."""
    lacking = missing()
    require(lacking is None, str(lacking))
    with start() as started:
        yield started


@pytest.fixture(scope="session")
def hbase() -> Iterator[HBase]:
    """A real HBase, one for the session."""
    from tests.support.hbase import server

    with running(server.missing, server.HBase) as started:
        yield started


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """A real HDFS, one for the session."""
    from tests.support.hdfs import server

    with running(server.missing, server.Hdfs) as started:
        started.tell("ready")
        yield started


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """A real ZooKeeper, one for the session."""
    from tests.support import zookeeper

    with running(zookeeper.missing, zookeeper.ZooKeeper) as started:
        yield started


@pytest.fixture(scope="session")
def hivemetastore() -> Iterator[Metastore]:
    """A real Hive metastore, one for the session."""
    from tests.support.metastore import server

    with running(server.missing, server.Metastore) as started:
        yield started


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A real Kafka, one for the session."""
    from tests.support import kafka

    with running(kafka.missing, kafka.Kafka) as started:
        yield started


@pytest.fixture(scope="session")
def pulsar() -> Iterator[Pulsar]:
    """A real Pulsar, one for the session."""
    from tests.support import pulsar

    with running(pulsar.missing, pulsar.Pulsar) as started:
        yield started


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[DynamoDB]:
    """DynamoDB as moto has it, one for the session."""
    from tests.support import dynamodb

    with dynamodb.served() as started:
        yield started


@pytest.fixture(scope="session")
def glue() -> Iterator[Glue]:
    """AWS Glue as moto has it, one for the session."""
    from tests.support import glue

    with glue.served() as started:
        yield started


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
