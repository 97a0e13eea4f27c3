"""`hoodie.write.auto.upgrade`: a write upgrades its table first; without it a version is only compared."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import service_api
from hoodie.errors import ConfigError, SchemaError, TableMismatch
from hoodie.table.handle import Table
from hoodie.timeline.tokens import FINGERPRINT_KEY, TOKEN_KEY
from tests.golden.test_older_versions import batch, rows
from tests.support.faults import Faults, InjectedFault, injected
from tests.support.tiers import full_but
from tests.unit.write.support import listing

pytestmark = pytest.mark.table_version(6)

ASKED = "hoodie.write.table.version"
AUTO: dict[str, Any] = {"hoodie.write.auto.upgrade": True}
NEW: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}
STATE = {f"k{number}": (1, f"1-{number}") for number in range(8)} | {
    f"k{number}": (2, f"2-{number}") for number in range(4, 10)
}


@pytest.fixture
def older(older_tables: Path, tmp_path: Path) -> Callable[[str], str]:
    return lambda name: str(shutil.copytree(older_tables / name, tmp_path / "t"))


@pytest.fixture
def logs(tmp_path: Path) -> str:
    """A table of version 6 with rows in base files and logs."""
    path = str(tmp_path / "logs")
    hoodie.write_table(batch(range(4), 1), path, options=NEW)
    hoodie.write_table(batch(range(2, 6), 2), path)
    return path


def version(path: str) -> int:
    return Table.open(path).properties.version


def test_a_write_upgrades_first(older: Callable[[str], str]) -> None:
    path = older("mor3")
    told = hoodie.write_table(batch(range(1), 3), path, options=AUTO, dry_run=True)
    assert told.warnings[0] == "the table would be upgraded from version 3 to 6 first"
    assert version(path) == 3
    done = hoodie.write_table(batch(range(1), 3), path, options=AUTO)
    assert done.warnings[0] == "the table was upgraded from version 3 to 6 first"
    assert version(path) == 6
    assert rows(path) == STATE | {"k0": (3, "3-0")}
    assert hoodie.write_table(batch(range(1), 4), path, options=AUTO).warnings == []


def test_it_is_off(older: Callable[[str], str]) -> None:
    path = older("cow5")
    assert hoodie.write_table(batch(range(1), 3), path).warnings == []
    assert version(path) == 5
    before = listing(Path(path))
    with pytest.raises(TableMismatch, match=r"version='6', the table has '5'.*or upgrade the table: hoodie "):
        hoodie.write_table(batch(range(1), 3), path, options={ASKED: 6})
    assert listing(Path(path)) == before
    hoodie.write_table(batch(range(1), 4), path, options={ASKED: 5})


def test_a_table_is_never_downgraded(logs: str) -> None:
    service_api.upgrade_table(logs, "9")
    for asked in ({ASKED: 6}, {ASKED: 8}, {**AUTO, ASKED: 8}):
        with pytest.raises(TableMismatch, match=r"the table has '9'.*, or downgrade the table: hoodie "):
            hoodie.write_table(batch(range(1), 3), logs, options=asked)
    assert hoodie.write_table(batch(range(1), 3), logs, options=AUTO).warnings == []
    assert version(logs) == 9


def test_a_version_that_is_not_written(logs: str) -> None:
    before = listing(Path(logs))
    with pytest.raises(TableMismatch, match="tables of version 7 are read and not written here"):
        hoodie.write_table(batch(range(1), 3), logs, options={ASKED: 7})
    with pytest.raises(ConfigError, match="to is '7'; use one of 6, 8, 9"):
        hoodie.write_table(batch(range(1), 3), logs, options={**AUTO, ASKED: 7})
    assert listing(Path(logs)) == before


OPERATIONS = {
    "upsert": (range(2), {"k0": (3, "3-0"), "k1": (3, "3-1")}, ()),
    "insert_overwrite": (range(0, 2, 2), {"k0": (3, "3-0")}, ("k2", "k4")),
    "delete": (range(1), {}, ("k0",)),
}


@pytest.mark.parametrize("operation", full_but({"upsert"}, OPERATIONS))
@pytest.mark.parametrize("to", full_but({9}, [8, 9]))
def test_operations_after_it(logs: str, operation: str, to: int) -> None:
    expected = rows(logs)
    given, new, gone = OPERATIONS[operation]
    hoodie.write_table(batch(given, 3), logs, operation=operation, options={**AUTO, ASKED: to})
    left = {key: row for key, row in expected.items() if key not in gone}
    assert rows(logs) == left | new
    assert version(logs) == to


def test_statements(logs: str) -> None:
    expected = rows(logs)
    hoodie.sql("UPDATE t SET v = 'x' WHERE id = 'k0'", tables={"t": logs}, options={**AUTO, ASKED: 9})
    assert rows(logs) == expected | {"k0": (1, "x")}
    assert version(logs) == 9


def test_a_write_that_is_done_upgrades_nothing(logs: str) -> None:
    token = {TOKEN_KEY: "dag/task/1", FINGERPRINT_KEY: "f"}
    first = hoodie.write_table(batch(range(1), 3), logs, extra_metadata=token)
    again = hoodie.write_table(batch(range(1), 3), logs, extra_metadata=token, options={**AUTO, ASKED: 9})
    assert (again.status, again.instant) == ("already_committed", first.instant)
    assert version(logs) == 6


def test_a_write_that_is_refused_upgrades_nothing(older: Callable[[str], str]) -> None:
    path = older("cow5")
    before = listing(Path(path))
    with pytest.raises(SchemaError):
        hoodie.write_table(batch(range(1), 3).set_column(2, "ts", pa.array([["a"]])), path, options=AUTO)
    with pytest.raises(TableMismatch):
        hoodie.write_table(batch(range(1), 3), path, options={**AUTO, "hoodie.table.name": "other"})
    assert listing(Path(path)) == before


def test_services_leave_the_version(logs: str) -> None:
    hoodie.compact_table(logs, options={**AUTO, ASKED: 9, "hoodie.compact.inline.max.delta.commits": 1})
    assert version(logs) == 6


def test_new_tables(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    assert hoodie.write_table(batch(range(4), 1), path, options={**NEW, **AUTO, ASKED: 9}).warnings == []
    assert version(path) == 9
    with pytest.raises(
        ConfigError, match=r"hoodie.write.table.version=5: .*no longer made. Give 6 or 8 or 9, or"
    ):
        hoodie.write_table(batch(range(4), 1), str(tmp_path / "t"), options={**NEW, ASKED: 5})


def test_a_kill_between_upgrade_and_write(older: Callable[[str], str], tmp_path: Path) -> None:
    """The table is read at each step, and the write that is repeated ends both."""
    template = older("mor5")
    faults = Faults()

    def write(path: str) -> None:
        hoodie.write_table(batch(range(1), 3), path, options=AUTO)

    with injected(faults):
        write(str(shutil.copytree(template, tmp_path / "counted")))
    done = STATE | {"k0": (3, "3-0")}
    for at in range(1, len(faults.log) + 1, 4):
        path = str(shutil.copytree(template, tmp_path / str(at)))
        with injected(Faults(at=at)), contextlib.suppress(InjectedFault):
            write(path)
        assert rows(path) in (STATE, done), at
        write(path)
        assert (rows(path), version(path)) == (done, 6), at


def test_rows_of_the_upgrade_are_no_rows_of_the_write(logs: str) -> None:
    """The compaction of the upgrade is a commit of its own, without the write's token."""
    token = {TOKEN_KEY: "dag/task/1", FINGERPRINT_KEY: "f"}
    done = hoodie.write_table(
        pa.table(batch(range(1), 3)), logs, extra_metadata=token, options={**AUTO, ASKED: 9}
    )
    timeline = Table.open(logs).timeline
    found = [
        item.time
        for item in timeline.commits()
        if timeline.commit(item, Table.open(logs).storage).extra_metadata.get(TOKEN_KEY)
    ]
    assert found == [done.instant]
