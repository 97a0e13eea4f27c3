"""Forged hash rings of consistent hashing: each case changes the ring of a partition."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.security.corpus import NEW, Case, Lake
from tests.security.corpus_files import DEEP, DIGITS

FOLDER = ".bucket_index/consistent_hashing_metadata/eu"


def ring(lake: Lake) -> Path:
    return sorted((lake.meta / FOLDER).glob("*.hashing_meta"))[-1]


def says(**values: Any) -> Case:
    """The ring says other things."""
    return changed(lambda content: content.update(values))


def changed(change: Callable[[dict[str, Any]], object]) -> Case:
    def forge(lake: Lake) -> None:
        path = ring(lake)
        content = json.loads(path.read_bytes())
        change(content)
        path.write_text(json.dumps(content))

    return forge


def node(**values: Any) -> Case:
    """Its first range says other things."""
    return changed(lambda content: content["nodes"][0].update(values))


def nodes(count: int) -> Case:
    def forge(lake: Lake) -> None:
        path = ring(lake)
        content = json.dumps(json.loads(path.read_bytes()) | {"nodes": []})
        ranges = (f'{{"value": {n}, "fileIdPrefix": "f{n}", "tag": "NORMAL"}}' for n in range(count))
        path.write_text(content.replace('"nodes": []', f'"nodes": [{", ".join(ranges)}]'))

    return forge


def text(data: str) -> Case:
    def forge(lake: Lake) -> None:
        ring(lake).write_text(data)

    return forge


def another(name: str, data: str | None = None) -> Case:
    """One more ring of the partition: the same one, or other bytes."""

    def forge(lake: Lake) -> None:
        content = ring(lake).read_text() if data is None else data
        (lake.meta / FOLDER / name).write_text(content)

    return forge


def _pipe(lake: Lake) -> None:
    path = ring(lake)
    path.unlink()
    os.mkfifo(path)


def _cut(lake: Lake) -> None:
    path = ring(lake)
    path.write_bytes(path.read_bytes()[:-40])


def _folder(lake: Lake) -> None:
    path = ring(lake)
    path.unlink()
    path.mkdir()


def _huge(lake: Lake) -> None:
    with ring(lake).open("r+b") as file:
        file.truncate(1 << 40)


def _swapped(content: dict[str, Any]) -> None:
    first, second = content["nodes"][:2]
    first["fileIdPrefix"], second["fileIdPrefix"] = second["fileIdPrefix"], first["fileIdPrefix"]


RINGS: dict[str, Case] = {
    "a ring of file ids that lead out": node(fileIdPrefix="../../victim/f"),
    "a ring of file ids of a whole path": node(fileIdPrefix="/tmp/f"),
    "a ring of file ids of another form": node(fileIdPrefix="a_b"),
    "a ring of no file id": node(fileIdPrefix=None),
    "a ring of a range that goes": node(fileIdPrefix=None, tag="DELETE"),
    "a ring of hashes below zero": node(value=-1),
    "a ring of hashes beyond 31 bits": node(value=1 << 31),
    "a ring of hashes without end": text(
        '{"nodes": [{"value": 1e999, "fileIdPrefix": "f"}], "instant": "0"}'
    ),
    "a ring of two ranges that are one": changed(
        lambda content: content["nodes"].append(dict(content["nodes"][0]))
    ),
    "a ring of no ranges": says(nodes=[]),
    "a ring of ranges that are texts": says(nodes=["x"]),
    "a ring of a million ranges": nodes(1_000_000),
    "a ring whose ranges have each other's files": changed(_swapped),
    "a ring of another partition": says(partitionPath="../../victim"),
    "a ring of an instant that leads out": says(instant="../../../victim"),
    "a ring of endless buckets": says(numBuckets=1 << 62),
    "a ring changed endlessly often": text('{"nodes": [], "instant": "0", "seqNo": ' + DIGITS + "}"),
    "a ring of deep JSON": text(DEEP),
    "a ring of lists": text("[" + "[]," * 10_000_000 + "[]]"),
    "a ring of 2**40 bytes": _huge,
    "a ring that is cut": _cut,
    "a ring that is empty": text(""),
    "a ring that is a pipe": _pipe,
    "a ring that is a folder": _folder,
    "a ring that links elsewhere": lambda lake: lake.linked(ring(lake), lake.path / "moved"),
    "rings that link elsewhere": lambda lake: lake.linked(lake.meta / FOLDER, lake.path / "moved"),
    "a ring of an instant to come": another(f"{NEW}.hashing_meta", "{}"),
    "a ring of an instant before all": another("00000000000000001.hashing_meta", "{}"),
    "a mark of an instant that was not": another(f"{NEW}.commit", ""),
}
FAST = ("a ring of file ids that lead out", "a ring of a million ranges")
