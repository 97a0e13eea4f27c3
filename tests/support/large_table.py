"""Tables of many files and commits, made in seconds from the files of one real write.

A bulk insert makes the templates, each in a partition of its own. They are copied into every partition, with
the texts that name the partition, the file group and the instant replaced by others of the same length: in
the rows' meta columns, in statistics and in footers, for which nothing is compressed. So the table is what
the writer would have made: keys are unique in a partition, statistics and bloom filters are right, commits
name their files.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.table.partition import PARTITION_FILE
from hoodie.timeline.commit import pretty_json

OPTIONS = {
    "hoodie.table.name": "large",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.compression.codec": "uncompressed",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.write.fsync": "false",
}
_FIRST = datetime(2024, 1, 1)
_STATES = ("commit", "inflight")


@dataclass(frozen=True)
class LargeTable:
    """`partitions` of `files` file groups of `rows` rows each, made by `commits` bulk inserts."""

    path: str
    partitions: int
    files: int = 10
    commits: int = 1
    rows: int = 10

    def make(self) -> None:
        """Write all of it; the folder must not be there."""
        with tempfile.TemporaryDirectory(prefix="hoodie-large-") as folder:
            templates = self._templates(folder)
            meta = Path(self.path, ".hoodie")
            for name in ("", ".aux", ".temp", "archived"):
                (meta / name).mkdir(parents=True, exist_ok=True)
            properties = Path(folder, "t/.hoodie/hoodie.properties").read_bytes()
            (meta / "hoodie.properties").write_bytes(properties)
            first = templates[0]
            marker = Path(folder, "t", first.place, PARTITION_FILE).read_bytes()
            done, inflight = (Path(folder, f"t/.hoodie/{first.instant}.{state}") for state in _STATES)
            commit = json.loads(done.read_text())
            stat = json.loads(inflight.read_text())["partitionToWriteStats"][first.place]
            planned = {**json.loads(inflight.read_text()), "partitionToWriteStats": {first.place: stat}}
        total = self.partitions * self.files
        for number in range(self.commits):
            instant = self.instant(number)
            stats: dict[str, list[str]] = {}
            for file in range(number * total // self.commits, (number + 1) * total // self.commits):
                partition, template = _place(file // self.files), templates[file % self.files]
                if partition not in stats:
                    self._partition(partition, marker.replace(first.instant.encode(), instant.encode()))
                    stats[partition] = []
                change = template.change(partition, file, instant)
                Path(self.path, change(template.path)).write_bytes(change.bytes(template.data))
                stats[partition].append(change(template.stat))
            begun = pretty_json(planned).replace(first.place, next(iter(stats)))
            (meta / f"{instant}.commit.requested").touch()
            (meta / f"{instant}.inflight").write_text(begun)
            (meta / f"{instant}.commit").write_text(_commit(commit, stats))

    def upsert(self, partitions: range, version: int, files: int | None = None) -> pa.Table:
        """New values of every row of the first `files` (all of them) of these partitions."""
        numbers = range(self.files if files is None else files)
        return pa.concat_tables(
            _rows(_place(partition), file, self.rows, version) for partition in partitions for file in numbers
        )

    def partition(self, number: int) -> str:
        return _place(number)

    def instant(self, number: int) -> str:
        """Of the commit of this number; each is a second."""
        return (_FIRST + timedelta(seconds=number)).strftime("%Y%m%d%H%M%S000")

    def _templates(self, folder: str) -> list[_Template]:
        places = [f"q{file:06d}" for file in range(self.files)]
        rows = pa.concat_tables(_rows(place, file, self.rows, 0) for file, place in enumerate(places))
        # files are copied beside the writer, and a metadata table would not list them
        alone = {
            **OPTIONS,
            "hoodie.write.table.version": "6",
            "hoodie.table.services.enabled": "false",
            "hoodie.metadata.enable": "false",
        }
        done = hoodie.write_table(rows, f"{folder}/t", operation="bulk_insert", options=alone)
        value = json.loads(Path(folder, f"t/.hoodie/{done.instant}.commit").read_text())
        found = []
        for place in places:
            (stat,) = value["partitionToWriteStats"][place]
            data = Path(folder, "t", stat["path"]).read_bytes()
            text = pretty_json(stat, 2)
            found.append(_Template(place, done.instant, stat["fileId"], stat["path"], text, data))
        return found

    def _partition(self, partition: str, marker: bytes) -> None:
        folder = Path(self.path, partition)
        folder.mkdir(exist_ok=True)
        if not (folder / PARTITION_FILE).exists():
            (folder / PARTITION_FILE).write_bytes(marker)


@dataclass(frozen=True)
class _Template:
    """A real file: its path in the table, its statistics in the commit's JSON."""

    place: str
    instant: str
    file_id: str
    path: str
    stat: str
    data: bytes

    def change(self, partition: str, number: int, instant: str) -> _Change:
        unique = f"a{number:07x}{self.file_id[8:]}"
        return _Change(((self.place, partition), (self.file_id, unique), (self.instant, instant)))


@dataclass(frozen=True)
class _Change:
    """Texts and what takes their place, of the same length."""

    pairs: tuple[tuple[str, str], ...]

    def __call__(self, text: str) -> str:
        for old, new in self.pairs:
            text = text.replace(old, new)
        return text

    def bytes(self, data: bytes) -> bytes:
        for old, new in self.pairs:
            data = data.replace(old.encode(), new.encode())
        return data


def _commit(like: Mapping[str, Any], stats: Mapping[str, Sequence[str]]) -> str:
    """The text of a commit with these statistics, which are texts."""
    head, groups = '  "partitionToWriteStats" : ', stats.items()
    lines = ",\n".join(f"    {json.dumps(place)} : [ {', '.join(group)} ]" for place, group in groups)
    rest = pretty_json({**like, "partitionToWriteStats": 0})
    assert rest.count(f"{head}0") == 1
    return rest.replace(f"{head}0", f"{head}{{\n{lines}\n  }}")


def _place(number: int) -> str:
    return f"p{number:06d}"


def _rows(partition: str, file: int, rows: int, version: int) -> pa.Table:
    numbers = range(file * rows, (file + 1) * rows)
    return pa.table(
        {
            "id": [f"k{number:08d}" for number in numbers],
            "ts": pa.array([version] * rows, pa.int64()),
            "part": [partition] * rows,
            "val": pa.array([number * (version + 1) for number in numbers], pa.int64()),
        }
    )
