"""Tables of many files and commits, made in seconds from the files of one real write.

A bulk insert makes the templates, each in a partition of its own. They are copied into every partition, with
the texts that name the partition, the file group and the instant replaced by others of the same length: in
the rows' meta columns, in statistics and in footers, for which nothing is compressed. So the table is what
the writer would have made: keys are unique in a partition, statistics and bloom filters are right, commits
name their files.

Where `real` is given, the partitions after so many first ones consist of hard links: listings, commits and
sizes are those of as many files, but rows that are read there name another partition.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.table.partition import PARTITION_FILE
from hoodie.timeline.commit import CommitMetadata, pretty_json
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.relayout import completion_of
from hoodie.timeline.time import InstantTime

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
#: names that a file gets; ext4 has 65,000 at most
_NAMES = 60_000


@dataclass(frozen=True)
class LargeTable:
    """`partitions` of `files` file groups of `rows` rows each, made by `commits` bulk inserts. `version` is 6
    or 9, `kind` the table's type. `real`: so many partitions have files of their own, None: all.
    """

    path: str
    partitions: int
    files: int = 10
    commits: int = 1
    rows: int = 10
    version: int = 6
    kind: str = "COPY_ON_WRITE"
    real: int | None = None

    def make(self) -> None:
        """Write all of it; the folder must not be there."""
        with tempfile.TemporaryDirectory(prefix="hoodie-large-") as folder:
            templates = self._templates(folder)
            first = templates[0]
            meta = Path(folder, "t", ".hoodie")
            done = json.loads(Path(meta, ONE.name(self._commit(first.instant))).read_text())
            begun = json.loads(Path(meta, ONE.name(self._commit(first.instant, State.INFLIGHT))).read_text())
            begun["partitionToWriteStats"] = {first.place: begun["partitionToWriteStats"][first.place]}
            marker = Path(folder, "t", first.place, PARTITION_FILE).read_bytes()
            properties = Path(folder, f"v{self.version}/.hoodie/hoodie.properties").read_bytes()
        for name in (".aux", ".temp", "archived" if self._layout is ONE else "timeline/history"):
            Path(self.path, ".hoodie", name).mkdir(parents=True, exist_ok=True)
        Path(self.path, ".hoodie/hoodie.properties").write_bytes(properties)
        total, files = self.partitions * self.files, _Files()
        for number in range(self.commits):
            instant = self.instant(number)
            stats: dict[str, list[str]] = {}
            for file in range(number * total // self.commits, (number + 1) * total // self.commits):
                place, template = file // self.files, templates[file % self.files]
                partition, linked = _place(place), self.real is not None and place >= self.real
                change = template.change(partition, file, instant)
                if partition not in stats:
                    stats[partition] = []
                    if file % self.files == 0:
                        Path(self.path, partition).mkdir()
                        one = Path(self.path, partition, PARTITION_FILE)
                        files.make(one, PARTITION_FILE if linked else "", partial(change.bytes, marker))
                content = partial(change.bytes, template.data)
                one = Path(self.path, change(template.path))
                files.make(one, template.file_id if linked else "", content)
                stats[partition].append(change(template.stat))
            self._publish(instant, pretty_json(begun).replace(first.place, next(iter(stats))), done, stats)

    @property
    def _layout(self) -> Layout:
        return ONE if self.version < 8 else TWO

    def _commit(self, instant: str, state: State = State.COMPLETED) -> Instant:
        action = Action.COMMIT if self.kind == "COPY_ON_WRITE" else Action.DELTACOMMIT
        return Instant(InstantTime(instant), action, state)

    def _publish(
        self, instant: str, begun: str, done: Mapping[str, Any], stats: Mapping[str, Sequence[str]]
    ) -> None:
        """The three files of a commit."""
        layout, completed, text = self._layout, self._commit(instant), _commit(done, stats)
        if layout is TWO:
            completed = completed.completed_at(completion_of(completed.time))
        for item, content in (
            (self._commit(instant, State.REQUESTED), ""),
            (self._commit(instant, State.INFLIGHT), begun),
            (completed, text),
        ):
            data = content.encode()
            if data and layout is TWO:
                data = layout.content(CommitMetadata.parse(data))
            Path(layout.path(self.path, item)).write_bytes(data)

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
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.table.services.enabled": "false",
            "hoodie.metadata.enable": "false",
        }
        for path, version in ((f"v{self.version}", str(self.version)), ("t", "6")):
            options = {**alone, "hoodie.write.table.version": version}
            done = hoodie.write_table(rows, f"{folder}/{path}", operation="bulk_insert", options=options)
        name = ONE.name(self._commit(done.instant))
        value = json.loads(Path(folder, "t/.hoodie", name).read_text())
        found = []
        for place in places:
            (stat,) = value["partitionToWriteStats"][place]
            data = Path(folder, "t", stat["path"]).read_bytes()
            text = pretty_json(stat, 2)
            found.append(_Template(place, done.instant, stat["fileId"], stat["path"], text, data))
        return found


class _Files:
    """Makes files; those with the same key, if it is not "", are names of few."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Path, int]] = {}

    def make(self, path: Path, key: str, content: Callable[[], bytes]) -> None:
        known, names = self._made.get(key, (path, 0))
        if names % _NAMES:
            os.link(known, path)
        else:
            path.write_bytes(content())
            known = path
        if key:
            self._made[key] = known, names + 1


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
