"""A write that adds a column by id fails around its schemacommit: reads stay right, the next write mends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.engine.local import LocalEngine
from hoodie.format.internal_schema import parse_history
from hoodie.pipeline import write
from hoodie.write.operation import Operation, WriteRequest
from tests.crash.scenarios import copy_table
from tests.support.arrow import pc
from tests.support.evolved import changed, commits
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.rows import assert_same_rows

pytestmark = pytest.mark.crash

#: what is tried of a table in the fast tier; of the second one changes of schemas, and the publishing
FAST = [("evolved_cow", Phase.DURING, False), ("evolved_mor", Phase.BEFORE, True)]


def _upsert(path: Path, rows: pa.Table, faults: Faults) -> None:
    engine = LocalEngine(1)
    with injected(faults):
        write(engine, engine.frame(rows), WriteRequest(str(path), Operation.UPSERT))


@pytest.mark.parametrize(
    ("name", "phase", "few"),
    [
        *FAST,
        *(
            pytest.param(name, phase, False, marks=pytest.mark.full)
            for name in ("evolved_cow", "evolved_mor")
            for phase in Phase
            if (name, phase, False) not in FAST
        ),
    ],
)
def test_a_write_fails_around_its_schemacommit(
    evolved_tables: Path, tmp_path: Path, name: str, phase: Phase, few: bool
) -> None:
    base = tmp_path / "base"
    shutil.copytree(evolved_tables / name, base)
    before = hoodie.read_table(str(base), meta=False)
    rows = changed(before, ["k003"], 50, {"title": "ours"})
    rows = rows.append_column("more", pa.array(["x"]))
    others = before.filter(pc.not_equal(before["id"], "k003"))
    after = pa.concat_tables([rows, others], promote_options="default")
    # a write that failed before left a schemacommit that does not count
    dead = "20270101000000000"
    (base / f".hoodie/.schema/{dead}.schemacommit.requested").touch()
    (base / f".hoodie/.schema/{dead}.schemacommit").write_text('{"schemas":[]}')

    probe, changes = tmp_path / "probe", Faults()
    copy_table(base, probe)
    _upsert(probe, rows, changes)
    steps = [number for number, change in enumerate(changes.log, 1) if "/.schema/" in change.path]
    assert len(steps) >= 5
    tried = range(steps[0], min(steps[-1] + 5, len(changes.log)) + 1)
    for number in tried:
        change = changes.log[number - 1]
        if phase is Phase.DURING and not change.splits:
            continue
        if few and "/.schema/" not in change.path and not change.path.endswith(".deltacommit"):
            continue
        path, faults = tmp_path / str(number), Faults(at=number, phase=phase)
        copy_table(base, path)
        try:
            _upsert(path, rows, faults)
            done = True
        except InjectedFault:
            done = False
        where = f"{faults}"
        assert_same_rows(hoodie.read_table(str(path), meta=False), after if done else before, what=where)
        result = hoodie.write_table(rows, str(path))
        assert_same_rows(hoodie.read_table(str(path), meta=False), after, what=where)
        left = {item.name.split(".")[0] for item in (path / ".hoodie/.schema").iterdir()}
        assert left <= set(commits(path)), where
        history = parse_history((path / f".hoodie/.schema/{result.instant}.schemacommit").read_text())
        versions = [schema.version for schema in history]
        assert versions == sorted(set(versions)), where
        assert str(versions[-1]) in commits(path), where
        shutil.rmtree(path)
