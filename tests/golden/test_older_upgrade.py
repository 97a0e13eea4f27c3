"""Tables of versions 0 to 5 taken to version 6, and through it to 9: rows stay, and writes go on.

Apache Hudi 0.15.0 left the golden ones. Those of other shapes are made here and lose what releases of their
version did not write.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.services.upgrade.run import VersionResult, upgrade
from hoodie.services.upgrade.service import VersionRequest
from hoodie.table.handle import Table
from tests.golden.test_older_versions import batch, rows
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.tiers import full_but
from tests.unit.write.support import listing

pytestmark = pytest.mark.table_version(6)

RECORD_KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
OPTIONS = {RECORD_KEY: "id", PARTITION: "part", "hoodie.datasource.write.precombine.field": "ts"}
#: what Apache Hudi writes since 0.9, 0.10 and 0.11
SINCE_2 = ["hoodie.table.recordkey.fields", "hoodie.table.partition.fields", "hoodie.table.base.file.format"]
SINCE_3 = ["hoodie.table.keygenerator.class", HIVE_STYLE, URL_ENCODE]
SINCE_4 = ["hoodie.table.checksum", "hoodie.database.name"]
STATE = {f"k{number}": (1, f"1-{number}") for number in range(8)} | {
    f"k{number}": (2, f"2-{number}") for number in range(4, 10)
}


@pytest.fixture
def older(older_tables: Path, tmp_path: Path) -> Callable[[str], str]:
    return lambda name: str(shutil.copytree(older_tables / name, tmp_path / "t"))


def change(
    path: str, to: int = 6, options: Mapping[str, Any] | None = None, *, dry_run: bool = False
) -> VersionResult:
    return upgrade(VersionRequest(table=path, to=str(to), dry_run=dry_run, options=options or {}))


def version(path: str) -> int:
    return Table.open(path).properties.version


def texts(path: str) -> dict[str, str]:
    return dict(Table.open(path).properties.texts)


def aged(path: str, number: int, *gone: str) -> None:
    """The table as one of an earlier version, without properties that came later."""
    folder = Path(path, ".hoodie")
    lines = (folder / "hoodie.properties").read_text().splitlines()
    left = [line for line in lines if line.partition("=")[0] not in (*gone, "hoodie.table.version")]
    (folder / "hoodie.properties").write_text("\n".join([*left, f"hoodie.table.version={number}", ""]))


def made(path: Path, options: Mapping[str, Any], *, values: tuple[str, ...] = ("p0", "p1")) -> str:
    """A table of ours with rows in partitions of these values."""
    keys = [f"k{number}" for number in range(len(values))]
    data = pa.table({"id": keys, "part": list(values), "ts": [1] * len(values)})
    hoodie.write_table(data, str(path), options={**OPTIONS, **options})
    return str(path)


@pytest.mark.parametrize("number", full_but({0, 4}, range(6)))
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_it_gets_version_6(older: Callable[[str], str], kind: str, number: int) -> None:
    path = older(f"{kind}{number}")
    before = listing(Path(path))
    told = change(path, dry_run=True)
    assert (told.status, told.properties) == ("planned", {"hoodie.table.version": "6"})
    assert listing(Path(path)) == before
    done = change(path)
    assert (done.status, done.from_version, version(path)) == ("upgraded", number, 6)
    assert rows(path) == rows(path, begin="earliest") == STATE
    hoodie.write_table(batch(range(6, 12), 3), path)
    assert rows(path) == STATE | {f"k{number}": (3, f"3-{number}") for number in range(6, 12)}
    again = change(path)
    assert (again.status, again.reason) == ("skipped", "the table has version 6")


@pytest.mark.parametrize("name", full_but({"mor0"}, ["cow0", "cow5", "mor0", "mor5"]))
def test_it_gets_a_later_version(older: Callable[[str], str], name: str) -> None:
    path = older(name)
    change(path, 9)
    assert rows(path) == rows(path, begin="earliest") == STATE
    hoodie.write_table(batch(range(6, 12), 3), path)
    assert rows(path) == STATE | {f"k{number}": (3, f"3-{number}") for number in range(6, 12)}
    assert version(path) == 9


def test_settings_say_what_properties_do_not(older: Callable[[str], str]) -> None:
    """As after Apache Hudi 0.8: the keys and partitions are what its writers were told at each write."""
    path = older("cow1")
    aged(path, 1, *SINCE_2, *SINCE_3, *SINCE_4, "hoodie.table.precombine.field")
    before = listing(Path(path))
    with pytest.raises(ConfigError, match=rf"partition 'p0': .* the columns .* Give {PARTITION}") as raised:
        change(path)
    assert raised.value.values["setting"] == PARTITION
    with pytest.raises(ConfigError, match=f"no record key: set {RECORD_KEY}"):
        change(path, options={PARTITION: "part"})
    told = change(path, options=OPTIONS, dry_run=True)
    assert listing(Path(path)) == before
    done = change(path, options=OPTIONS)
    assert done.properties == told.properties
    found = texts(path)
    assert {name: found[name] for name in (*SINCE_2, *SINCE_3, "hoodie.table.precombine.field")} == {
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        HIVE_STYLE: "false",
        URL_ENCODE: "false",
        "hoodie.table.precombine.field": "ts",
    }
    assert found["hoodie.table.checksum"]
    hoodie.write_table(batch(range(6, 12), 3), path)
    hoodie.write_table(batch(range(2), 0), path)
    assert rows(path) == STATE | {f"k{number}": (3, f"3-{number}") for number in range(6, 12)}


@pytest.mark.parametrize(
    ("setting", "values", "partition"),
    [(HIVE_STYLE, ("p0", "p1"), "part=p0"), (URL_ENCODE, ("p0", "a/b"), "a%2Fb")],
)
def test_partitions_that_are_named_otherwise(
    tmp_path: Path, setting: str, values: tuple[str, ...], partition: str
) -> None:
    """The default would put rows of a key beside the stored ones."""
    path = made(tmp_path / "t", {setting: "true"}, values=values)
    aged(path, 2, *SINCE_3)
    with pytest.raises(ConfigError, match=f"partition '{partition}': .*Give {setting}") as raised:
        change(path)
    assert raised.value.values["setting"] == setting
    change(path, options={setting: "true"})
    assert texts(path)[setting] == "true"
    data = pa.table({"id": ["k0", "k1"], "part": list(values), "ts": [2, 2]})
    assert hoodie.write_table(data, path).num_updates == 2


def test_hive_style_where_partitions_have_none(tmp_path: Path) -> None:
    path = made(tmp_path / "t", {})
    aged(path, 2, *SINCE_3)
    with pytest.raises(ConfigError, match=f"partition 'p0': {HIVE_STYLE}=true is otherwise"):
        change(path, options={HIVE_STYLE: "true"})
    assert change(path).status == "upgraded"


def test_a_table_without_partitions(tmp_path: Path) -> None:
    data = pa.table({"id": ["a"], "n": [1]})
    path = str(tmp_path / "t")
    hoodie.write_table(data, path, options={RECORD_KEY: "id"})
    aged(path, 0, *SINCE_2, *SINCE_3, *SINCE_4)
    change(path, options={RECORD_KEY: "id"})
    assert texts(path)["hoodie.table.keygenerator.class"].endswith("NonpartitionedKeyGenerator")
    assert hoodie.write_table(data, path).num_updates == 1


@pytest.mark.parametrize("hive", [False, True])
def test_a_partition_of_rows_without_a_value(tmp_path: Path, hive: bool) -> None:
    """Until 0.11 its name was another one; a null would now be written elsewhere."""
    path = made(tmp_path / "t", {HIVE_STYLE: str(hive).lower()}, values=("p0", "default"))
    aged(path, 4)
    name = "part=default" if hive else "default"
    with pytest.raises(ConfigError, match=f"has the partition '{name}'.*delete_partition") as raised:
        change(path)
    assert raised.value.values["partition"] == name
    skipping = {"hoodie.skip.default.partition.validation": "true"}
    assert change(path, options=skipping, dry_run=True).status == "planned"
    aged(path, 5)
    assert change(path).status == "upgraded"


def test_copies_of_plans_are_deleted(tmp_path: Path) -> None:
    """A compaction that is planned stays so, and is carried out by its plan on the timeline."""
    path = made(tmp_path / "t", {"hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    made(tmp_path / "t", {})
    due = {"hoodie.compact.inline.max.delta.commits": 1}
    hoodie.compact_table(path, mode="schedule", options=due)
    [plan] = Path(path, ".hoodie").glob("*.compaction.requested")
    folder = Path(path, ".hoodie/.aux")
    for name in (plan.name, "20200101000000000.compaction.requested", "kept"):
        shutil.copy(plan, folder / name)
    aged(path, 5)
    assert change(path).compacted == []
    assert sorted(item.name for item in folder.iterdir() if item.is_file()) == ["kept"]
    assert hoodie.compact_table(path, options=due).compacted == [plan.name.partition(".")[0]]


def test_a_failed_write_of_an_old_release_is_rolled_back(older: Callable[[str], str]) -> None:
    """Its markers have no type; Apache Hudi makes them again, by the files."""
    path = older("cow0")
    time, folder = "20261127205430000", Path(path, ".hoodie")
    for name in (f"{time}.commit.requested", f"{time}.inflight"):
        (folder / name).write_bytes(b"")
    [base, *_] = Path(path, "p0").glob("*.parquet")
    left = base.with_name(base.name.rpartition("_")[0] + f"_{time}.parquet")
    shutil.copy(base, left)
    marker = folder / ".temp" / time / "p0" / f"{left.name}.marker"
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"")
    done = change(path)
    assert (done.status, done.rolled_back) == ("upgraded", [time])
    assert not left.exists()
    assert not marker.exists()
    assert rows(path) == STATE


def test_a_metadata_table_is_dropped(tmp_path: Path) -> None:
    """That of Apache Hudi 0.10, which no property names, too. The next write makes it again."""
    with_table = {"hoodie.metadata.enable": "true"}
    path = made(tmp_path / "t", with_table)
    aged(path, 3, "hoodie.table.metadata.partitions", *SINCE_4)
    assert (tmp_path / "t/.hoodie/metadata").is_dir()
    assert change(path, dry_run=True).metadata_partitions == ["files"]
    change(path)
    assert not (tmp_path / "t/.hoodie/metadata").exists()
    made(tmp_path / "t", with_table)
    assert Table.open(path).properties.metadata_partitions == ("files",)


SWEEPS: dict[str, dict[str, str]] = {"mor5 6": {}, "cow1 6": OPTIONS, "cow5 9": {}}


@pytest.mark.parametrize("case", full_but({"cow1 6"}, SWEEPS))
@pytest.mark.parametrize("phase", full_but({Phase.AFTER}, [Phase.BEFORE, Phase.DURING, Phase.AFTER]))
def test_killed_at_any_step(older: Callable[[str], str], tmp_path: Path, case: str, phase: Phase) -> None:
    """The table can be read, and the same call ends it."""
    name, to = case.split()
    template = older(name)
    if name == "cow1":
        aged(template, 1, *SINCE_2, *SINCE_3, *SINCE_4, "hoodie.table.precombine.field")
    faults = Faults()
    with injected(faults):
        change(str(shutil.copytree(template, tmp_path / "counted")), int(to), SWEEPS[case])
    assert faults.log
    for at in range(1, len(faults.log) + 1):
        path = str(shutil.copytree(template, tmp_path / str(at)))
        with injected(Faults(at=at, phase=phase)), contextlib.suppress(InjectedFault):
            change(path, int(to), SWEEPS[case])
        assert version(path) in (int(name[-1]), int(to)), at
        assert rows(path) == STATE, at
        change(path, int(to), SWEEPS[case])
        assert version(path) == int(to), at
        assert rows(path) == STATE, at
