"""Malicious tables that are meant for the timeline page, beside those of the corpus; lakes of them all."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import hoodie
from hoodie.timeline.active import Timeline
from tests.security.corpus import CASES, NEW, Case, Lake, in_commit, link, prop
from tests.support.later_tables import new_tables_of
from tests.unit.services.clean_support import written


def commit_text(change: Callable[[str], str]) -> Case:
    """The newest commit's file, changed as text: what Python's encoder would not write."""

    def forge(lake: Lake) -> None:
        path = lake.newest()
        path.write_text(change(path.read_text()))

    return forge


def has(**values: Any) -> Case:
    return in_commit(lambda content: content.update(values))


def number(text: str) -> Case:
    return commit_text(lambda content: re.sub(r'"numInserts" ?: ?\d+', f'"numInserts":{text}', content))


def extra(name: str, value: Any) -> Case:
    return in_commit(lambda content: content["extraMetadata"].update({name: value}))


def stat(name: str, text: str) -> Case:
    """A field of every file, whatever it is, as this JSON."""
    return commit_text(
        lambda content: re.sub(rf'"{name}" ?: ?("[^"]*"|null|\d+)', f'"{name}":{text}', content)
    )


def beat(text: str) -> Case:
    def forge(lake: Lake) -> None:
        lake.pending()
        lake.write(f".heartbeat/{NEW}", text)

    return forge


def changed(seconds: int) -> Case:
    def forge(lake: Lake) -> None:
        os.utime(lake.newest(), (seconds, seconds))

    return forge


CANARY = "canary-of-the-other-table"
DEEP = "[" * 900 + "]" * 900
PAGES: dict[str, Case] = {
    "no number of rows": number("NaN"),
    "endless rows": number("1e999"),
    "more rows than a long": number("9" * 4000),
    "more digits than Python reads": number("9" * 5000),
    "a list of rows": number("[1]"),
    "deep rows": number(DEEP),
    "a text of rows": number('"1"'),
    "no rows": number("null"),
    "a deep previous commit": stat("prevCommit", DEEP),
    "a previous commit of no number": stat("prevCommit", "NaN"),
    "a file id that is a list": stat("fileId", '["x"]'),
    "a size that is endless": stat("fileSizeInBytes", "-Infinity"),
    "deep extra metadata": commit_text(
        lambda text: text.replace('"extraMetadata"', f'"extraMetadata":{{"a":{DEEP}}},"b"')
    ),
    "extra metadata of no number": commit_text(
        lambda text: re.sub(r'"extraMetadata" ?: ?\{', '"extraMetadata":{"a":NaN,', text)
    ),
    "extra metadata that is a list": has(extraMetadata=[["a", "b"]]),
    "a run that is a number": extra("airflow.run", 7),
    "a run that is a list": extra("airflow.run", ["d/t/1/run=r"]),
    "a run of 5,000 digits": extra("airflow.run", f"d/t/{'1' * 5000}/run=r"),
    "a run that leads elsewhere": extra("airflow.run", "../../..//1/run=javascript:alert(1)"),
    "half a character": extra("airflow.token", "d/t/1/\ud800"),
    "a schema that is a list": extra("schema", ["x"]),
    "an operation that is a list": has(operationType=[DEEP]),
    "an operation of markup": has(operationType="<script>alert(1)</script>"),
    "deep JSON beyond what can be read": commit_text(lambda text: "[" * 10_000_000),
    "replaced groups that are a text": has(partitionToReplaceFileIds={"eu": "x"}),
    "a heartbeat of deep JSON": beat("[" * 100_000),
    "a heartbeat of no number": beat('{"host": NaN, "machine": 1e999, "pid": NaN, "timeout_ms": NaN}'),
    "a heartbeat that is a list": beat('[{"pid": 1}]'),
    "a heartbeat of another host": beat('{"host": "a\\u0000b", "machine": "", "pid": 1e999}'),
    "a commit of the year 200,000": changed(6_000_000_000_000),
    "a commit before all years": changed(-60_000_000_000),
    "an archive in another table": prop("hoodie.archivelog.folder", "../../other/.hoodie/archived"),
    "an archive in another table by an inner way": prop(
        "hoodie.archivelog.folder", "x/../../../other/.hoodie/archived"
    ),
    "an archive that links to another table's": link(".hoodie/archived", "other/.hoodie/archived"),
    "metadata that links to another table's": link(".hoodie", "other/.hoodie"),
}


ALL = {**CASES, **PAGES}
NAMES = {name: f"c{number}" for number, name in enumerate(ALL)}


def forge(folder: Path, names: Iterable[str] = ALL) -> tuple[dict[str, Path], set[str]]:
    """A lake for each case, of one table and of another one; texts that only the other one holds.

    The tables are of version 6, as the files that the cases forge.
    """
    made = Lake(folder / "lake")
    (made.path / "victim").mkdir(parents=True)
    with new_tables_of(6):
        written(made.path / "other", 6)
        written(made.table, 3)
    for file in (made.path / "other" / ".hoodie").glob("*.commit"):
        content = json.loads(file.read_bytes())
        file.write_text(json.dumps({**content, "extraMetadata": {"mark": CANARY}}))
    others = {instant.time for instant in Timeline.load(str(made.path / "other")).commits()}
    options = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.cleaner.commits.retained": "1",
    }
    assert hoodie.archive_table(str(made.path / "other"), options=options).to_dict()["archived"]
    found = {}
    for name in names:
        lake = Lake(folder / NAMES[name])
        shutil.copytree(made.path, lake.path, symlinks=True)
        ALL[name](lake)
        found[name] = lake.path
    return found, {CANARY, *others}
