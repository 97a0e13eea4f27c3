"""Killed writes of ours on an object store, whose markers are one file, are rolled back by Apache Hudi.

Objects are files of a folder here (tests.support.objects), where Apache Hudi finds the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hoodie
from hoodie.errors import StorageError
from tests.support.hudi_client import HudiServer
from tests.support.objects import Objects, stored
from tests.support.oracle import Model
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}


class Killed:
    """A table with a commit, and a write that died before it published. `left`: its data files."""

    def __init__(self, uri: str, folder: Path, options: dict[str, str], patch: pytest.MonkeyPatch) -> None:
        self.uri, self.folder, self.options = uri, folder, options
        self.model = Model(("id",), ("region",), "ts")
        self.write(small_rows(range(30), 1))
        before = self.files()
        place, dead = Objects._place, list[str]()

        def dying(storage: Objects, path: str) -> Path:
            inside = storage.__dict__.get("making") == path
            if dead or (inside and path.endswith("commit") and "/metadata/" not in path):
                dead.append(path)
                raise StorageError(f"{path} is out of reach", path=path)
            return place(storage, path)

        create = Objects.create

        def creating(storage: Objects, path: str, *given: object) -> None:
            storage.__dict__["making"] = path
            create(storage, path, *given)  # type: ignore[arg-type]

        with patch.context() as inside:
            inside.setattr(Objects, "_place", dying)
            inside.setattr(Objects, "create", creating)
            with pytest.raises(StorageError):
                self.write(small_rows(range(20, 50), 9), counted=False)
        self.left = self.files() - before
        (self.markers,) = {path.parent for path in folder.glob(".hoodie/.temp/*/MARKERS.type")}
        assert self.left

    def write(self, rows: list[Row], *, counted: bool = True) -> None:
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), self.uri, options=self.options)
        if counted:
            self.model.upsert(rows)

    def files(self) -> set[Path]:
        every = {path for path in self.folder.rglob("*") if path.is_file()}
        return {path for path in every if ".hoodie" not in str(path.relative_to(self.folder))}

    def marked(self) -> set[str]:
        """The data files that the markers name."""
        lines = [line for path in self.markers.glob("MARKERS[0-9]*") for line in path.read_text().split()]
        return {line.rpartition(".marker.")[0] for line in lines}


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    with stored(tmp_path) as bucket:
        yield f"{bucket}/t", tmp_path / "bucket" / "t"


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("version", "server"), [(6, "hudi_015"), (6, "hudi_12"), (8, "hudi_12"), (9, "hudi_12")]
)
def test_apache_hudi_rolls_back_by_marker_files(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    objects: tuple[str, Path],
    kind: str,
    version: int,
    server: str,
) -> None:
    hudi: HudiServer = request.getfixturevalue(server)
    options = {
        **OPTIONS,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.write.table.version": str(version),
    }
    killed = Killed(*objects, options, monkeypatch)
    named = {killed.folder / file for file in killed.marked()}
    assert killed.left <= named
    rows = small_rows(range(5, 12), 3)
    given = options if server == "hudi_12" else {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    hudi.write(killed.folder, as_table(rows, SMALL_SCHEMA), given)
    killed.model.upsert(rows)
    timeline = {path.name for path in killed.folder.glob(".hoodie/**/*.rollback")}
    assert any("metadata" not in name for name in timeline)
    assert not [path for path in killed.left if path.exists() and path.suffix == ".parquet"]
    assert not killed.markers.exists()
    expected = killed.model.table(SMALL_SCHEMA)
    assert_same_rows(hudi.read(killed.folder), expected, what=f"Hudi {hudi.version}, rolled back")
    assert_same_rows(hoodie.read_table(str(killed.folder)), expected, what="ours, rolled back")
    more = small_rows(range(45, 60), 4)
    killed.write(more)
    expected = killed.model.table(SMALL_SCHEMA)
    assert_same_rows(hudi.read(killed.folder), expected, what=f"Hudi {hudi.version}, written on")
    assert_same_rows(hoodie.read_table(str(killed.folder)), expected, what="ours, written on")
