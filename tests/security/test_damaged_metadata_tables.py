"""A metadata table whose files lose bytes: queries and writes warn and do without, and no row is another."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from hoodie.metadata.queries import MetadataTableIgnored
from tests.security.lakes import KINDS
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.services.clean_support import written
from tests.unit.write.support import Pair

KEPT = KINDS["kept"]
COMPACT = "hoodie.metadata.compact.max.delta.commits"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Its metadata table has base files and logs."""
    return written(tmp_path_factory.mktemp("healthy") / "t", 5, {**KEPT, COMPACT: "3"})


@pytest.fixture
def pair(healthy: Pair, tmp_path: Path) -> Pair:
    shutil.copytree(healthy.path, tmp_path / "t")
    copied = Pair(tmp_path / "t", KEPT)
    copied.model.upsert(small_rows(range(30), 5))
    return copied


def newest(pair: Pair, pattern: str) -> Path:
    return max((pair.path / ".hoodie/metadata/files").glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def cut(part: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(len(data) * part)]


def flipped(place: int) -> Callable[[bytes], bytes]:
    """A bit of a byte."""

    def damage(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[place] ^= 0x10
        return bytes(changed)

    return damage


DAMAGES = {
    "a base file cut": ("*.hfile", cut(0.7)),
    "an empty base file": ("*.hfile", cut(0)),
    "a block flipped": ("*.hfile", flipped(60)),
    "a trailer flipped": ("*.hfile", flipped(-4090)),
    "a log cut": (".*.log.*", cut(0.7)),
    "an empty log": (".*.log.*", cut(0)),
    "the instant of a log flipped": (".*.log.*", flipped(40)),
    "the content of a log flipped": (".*.log.*", flipped(-4300)),
}


def answered(pair: Pair) -> list[str]:
    """Warnings of a query, whose rows are right."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", MetadataTableIgnored)
        pair.check()
    return [str(warning.message) for warning in told]


@pytest.mark.parametrize("damage", full_but({"a base file cut", "a log cut"}, DAMAGES))
def test_queries_and_writes_go_on_without_what_is_damaged(pair: Pair, damage: str) -> None:
    pattern, change = DAMAGES[damage]
    path = newest(pair, pattern)
    path.write_bytes(change(path.read_bytes()))
    (told,) = answered(pair)
    assert "its folders are listed instead" in told
    said: list[str] = []
    rows = small_rows(range(20, 40), 6)
    hoodie.write_table(
        as_table(rows, SMALL_SCHEMA),
        str(pair.path),
        options={**KEPT, COMPACT: "1"},
        progress=lambda stage, text: said.append(text),
    )
    pair.model.upsert(rows)
    assert any("metadata table is damaged" in text for text in said), said
    assert answered(pair) == [], "it was made anew"
    pair.write(small_rows(range(50), 7))
    assert answered(pair) == []


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_flipped_and_cut_bytes_anywhere(healthy: Pair, tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    for number in range(25):
        pair = Pair(tmp_path / f"t{number}", KEPT)
        shutil.copytree(healthy.path, pair.path)
        pair.model.upsert(small_rows(range(30), 5))
        path = pick.choice(sorted((pair.path / ".hoodie/metadata/files").glob("*files-*")))
        data = bytearray(path.read_bytes())
        place = pick.randrange(len(data))
        if pick.random() < 0.3:
            del data[place:]
        else:
            data[place] ^= 1 << pick.randrange(8)
        path.write_bytes(data)
        answered(pair)
        rows = small_rows(range(20, 40), 6)
        hoodie.write_table(
            as_table(rows, SMALL_SCHEMA), str(pair.path), options={**KEPT, COMPACT: str(pick.choice([1, 10]))}
        )
        pair.model.upsert(rows)
        answered(pair)
        listed = hoodie.read_table(str(pair.path), options={"hoodie.metadata.enable": "false"})
        assert_same_rows(listed, pair.model.table(SMALL_SCHEMA), what=f"{path.name} at {place}")
