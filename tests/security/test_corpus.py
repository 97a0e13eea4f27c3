"""Every action of the package over every malicious table: nothing outside it changes, nothing hangs or fills
the memory, and the answer is right or a typed error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.serve.page import Page
from hoodie.table.checkup import check_table
from tests.security.corpus import CASES, Lake
from tests.support.processes import forked
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.services.clean_support import MANUAL, MOR, written

#: of processor time, and of waiting
SECONDS, PATIENCE = 10, 60
MEBIBYTES = 512
#: exit code of a process that changed something outside
CHANGED = 3
MEANINGS = {CHANGED: "changed what is outside", -signal.SIGALRM: "hung", -signal.SIGPROF: "spun"}

SERVICES = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def _write(lake: Lake, operation: str) -> object:
    rows = as_table(small_rows(range(6), 9), SMALL_SCHEMA)
    options = MOR if (lake.path / "merge_on_read").exists() else MANUAL
    return hoodie.write_table(rows, str(lake.table), operation=operation, options=options)


def _page(lake: Lake) -> object:
    page = Page(lambda: {"t": str(lake.table)})
    return [
        page.get(path).status
        for path in ("tables", "tables/t/instants", "tables/t/instants/20990101000000000")
    ]


ACTIONS: dict[str, Callable[[Lake], object]] = {
    "read": lambda lake: hoodie.read_table(str(lake.table)),
    "read_optimized": lambda lake: hoodie.read_table(str(lake.table), query="read_optimized"),
    "incremental": lambda lake: hoodie.read_table(str(lake.table), query="incremental", begin="earliest"),
    "upsert": lambda lake: _write(lake, "upsert"),
    "delete": lambda lake: _write(lake, "delete"),
    "clean": lambda lake: hoodie.clean_table(str(lake.table), options=SERVICES),
    "archive": lambda lake: hoodie.archive_table(str(lake.table), options=SERVICES),
    "rollback": lambda lake: hoodie.rollback_table(str(lake.table), instant=lake.commits()[-1]),
    "restore": lambda lake: hoodie.restore_table(str(lake.table), instant=lake.commits()[0]),
    "compact": lambda lake: hoodie.compact_table(str(lake.table)),
    "cluster": lambda lake: hoodie.cluster_table(str(lake.table)),
    "services": lambda lake: hoodie.run_services(str(lake.table), options=SERVICES),
    "doctor": lambda lake: check_table(str(lake.table)),
    "page": _page,
}


#: what meets other code in tables of logs
LOGGED = [name for name in CASES if any(word in name for word in ("compaction", "log", "markers", "linked"))]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Lakes with a table, another table and a folder that belongs to somebody."""
    return {kind: _lake(tmp_path_factory.mktemp(kind) / "lake", kind) for kind in ("cow", "mor")}


def _lake(lake: Path, kind: str) -> Path:
    (lake / "victim").mkdir(parents=True)
    for name in ("a.parquet", "module.py", ".f_1.log.1_0-0-0"):
        (lake / "victim" / name).write_text("precious")
    written(lake / "other", 1)
    written(lake / "table", 4, MOR if kind == "mor" else MANUAL)
    if kind == "mor":
        (lake / "merge_on_read").touch()
    return lake


@pytest.mark.parametrize(
    ("kind", "name"), [*(("cow", name) for name in CASES), *(("mor", name) for name in LOGGED)]
)
def test_nothing_outside_a_malicious_table_is_touched(
    lakes: dict[str, Path], tmp_path: Path, kind: str, name: str
) -> None:
    (tmp_path / "victim_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Payload: pass\n")
    wrong = {}
    for action, run in ACTIONS.items():
        root = tmp_path / action
        lake = Lake(root / "lake")
        shutil.copytree(lakes[kind], lake.path, symlinks=True)
        CASES[name](lake)
        code = forked(lambda lake=lake, run=run: _checked(lake, run, tmp_path))  # type: ignore[misc]
        if code:
            wrong[action] = MEANINGS.get(code, f"code {code}")
        shutil.rmtree(root)
    assert not wrong, f"{name}: {wrong}"
    assert not (tmp_path / "ran").exists(), "code that the table names was run"


def _checked(lake: Lake, run: Callable[[Lake], object], importable: Path) -> int:
    signal.alarm(PATIENCE)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    sys.path.insert(0, str(importable))
    used = _pages()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEBIBYTES * 2**20, used + MEBIBYTES * 2**20))
    before, code = _outside(lake), 0
    with contextlib.suppress(HoodieError, FileNotFoundError):
        run(lake)
    if _outside(lake) != before:
        code = CHANGED
    return code


def _pages() -> int:
    """Bytes of address space in use."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _outside(lake: Lake) -> dict[str, str]:
    """All that is beside the table, with digests; links and pipes are not followed."""
    found = {}
    for folder, folders, files in os.walk(lake.path):
        if Path(folder) == lake.path:
            folders.remove("table")
        for name in files:
            path = Path(folder, name)
            found[str(path)] = hashlib.md5(path.read_bytes()).hexdigest()
        for name in folders:
            found[f"{folder}/{name}/"] = ""
    return found
