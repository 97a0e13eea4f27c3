"""The form of what a table service is asked, does and says, tables to try it on, and how a door is followed.

The services are in tests/support/service_entries.py; tests/contract/test_services.py follows them by the
Python API, the command line and jobs, tests/airflow/test_service_operators.py by operators. Texts are
patterns, one a line; `<c1>` stands for the time of the table's first commit, `<path>` for its path, and a
group `(?P<plan>...)` of one step's text is `<plan>` in those after it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.services.registry import Service, public
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.timeline import clock
from hoodie.write.transaction import Transaction
from tests.unit.write.support import listing

#: the time of an instant, of requests that change nothing
T = "20260101000000000"
FILE = r"  \S+\.(parquet|log\S+)"
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
BY_REGION = {"hoodie.datasource.write.partitionpath.field": "region"}
COMPACT = {"hoodie.compact.inline.max.delta.commits": "1"}
NO_WAIT = {"hoodie.write.wait.for.writer.ms": "0"}
WRITTEN = {
    "hoodie.write.table.version": 6,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


# --- tables ------------------------------------------------------------------------------------------------

Names = dict[str, str]


def upserts(count: int, options: Mapping[str, Any] | None = None) -> Callable[[str], None]:
    def make(path: str) -> None:
        for number in range(count):
            rows = pa.table({"id": ["a", "b"], "n": [number, number]})
            hoodie.write_table(rows, path, options={**WRITTEN, **(options or {})})

    return make


def small(path: str) -> None:
    for keys in (["a", "b"], ["c", "d"]):
        hoodie.write_table(pa.table({"id": keys, "n": [2, 1]}), path, operation="insert", options=WRITTEN)


def planned(path: str) -> None:
    upserts(2, MOR)(path)
    hoodie.compact_table(path, mode="schedule", options=COMPACT)


def saved(path: str) -> None:
    upserts(5)(path)
    hoodie.savepoint_table(path, hoodie.instants(path)[1]["instant"])


def aged(path: str) -> None:
    """The partition eu was written 50 days ago, us today."""
    for region, days in (("eu", 50), ("us", 0)):
        now = time.time() - days * 86_400
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(clock, "_last", {})
            patched.setattr(clock, "time", SimpleNamespace(time=lambda now=now: now))
            rows = pa.table({"id": [region], "region": [region], "n": [1]})
            hoodie.write_table(rows, path, options={**WRITTEN, **BY_REGION})


TABLES: dict[str, Callable[[str], None]] = {
    "logs": upserts(2, MOR),
    "small": small,
    "five": upserts(5),
    "three": upserts(3),
    "one": upserts(1),
    "planned": planned,
    "saved": saved,
    "aged": aged,
}
_templates: dict[str, Path] = {}


def copied(kind: str, folder: Path, factory: pytest.TempPathFactory) -> Names:
    """A table `orders` in the folder, made once for all tests, and what names stand for."""
    if kind not in _templates:
        template = factory.mktemp(f"services-{kind}") / "orders"
        TABLES[kind](str(template))
        _templates[kind] = template
    path = folder / "orders"
    shutil.copytree(_templates[kind], path)
    shown = hoodie.instants(str(path))
    commits = [item["instant"] for item in shown if item["action"] in ("commit", "deltacommit")]
    names = {f"c{number + 1}": instant for number, instant in enumerate(commits)}
    pending = [item["instant"] for item in shown if item["state"] != "completed"]
    return {**names, "plan": "".join(pending), "path": str(path)}


@contextlib.contextmanager
def another_writer(path: str) -> Iterator[None]:
    with Transaction(Table(TableRef(path), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        yield


# --- the form of an entry ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Step:
    """One request of a service, and what follows.

    given: its fields, as the request has them. text: the result for people. fields: some of the result.
    error: the code and the message. progress: the steps that are told, None for any. after: checks the table.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    dry_run: bool = False
    beside_writer: bool = False
    text: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: tuple[str, str] | None = None
    progress: tuple[str, ...] | None = None
    after: Callable[[Names], None] | None = None

    @property
    def changes_nothing(self) -> bool:
        return self.dry_run or self.error is not None or self.fields.get("status") in ("skipped", "shown")


def does(
    asked: str,
    *text: str,
    options: Mapping[str, str] | None = None,
    progress: tuple[str, ...] | None = None,
    after: Callable[[Names], None] | None = None,
    **fields: Any,
) -> Step:
    """asked: fields of the request as `name=value`, or the name of one that is true, with blanks between."""
    return Step(**_asked(asked), options=options, text=text, fields=fields, progress=progress, after=after)


def refuses(asked: str, code: str, message: str, options: Mapping[str, str] | None = None) -> Step:
    return Step(**_asked(asked), error=(code, message), options=options)


def _asked(words: str) -> dict[str, Any]:
    given = {name: value or True for name, _, value in (word.partition("=") for word in words.split())}
    of_all = {name: bool(given.pop(name, False)) for name in ("dry_run", "beside_writer")}
    return {"given": given, **of_all}


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """Arguments that are refused, with what each door says; "" where a door can't be asked so."""

    given: Mapping[str, Any]
    api: str = ""
    command: tuple[int, str] = (0, "")
    job: str = ""
    operator: str = ""

    @classmethod
    def by_all(cls, given: Mapping[str, Any], message: str) -> Wrong:
        """The mode is none that there is; the parser of the command line says it in words of its own."""
        parser = (2, f"invalid choice: {given['mode']!r}")
        return cls(given=given, api=message, command=parser, job=message, operator=message)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """given: a value for every field of its own, none of them the default. histories: steps by the table that
    they begin with, and what they are about. options: of the steps without any.
    """

    given: Mapping[str, Any]
    histories: Mapping[str, tuple[Step, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)
    wrong: tuple[Wrong, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a door says: `text` None where it gives a document, `result` None where it gives a text."""

    text: str | None = None
    result: Mapping[str, Any] | None = None
    error: tuple[str | None, str] | None = None
    progress: list[str] | None = None


def filled(value: Any, names: Names, quote: Callable[[str], str] = str) -> Any:
    """With what names stand for, in texts of any depth."""
    if isinstance(value, str):
        return re.sub(r"(?<!\?P)<(\w+)>", lambda found: quote(names[found[1]]), value)
    if isinstance(value, Mapping):
        return {name: filled(item, names, quote) for name, item in value.items()}
    return [filled(item, names, quote) for item in value] if isinstance(value, list) else value


Door = Callable[[Service, str, Mapping[str, Any], Mapping[str, Any], bool], Said]


def follow(name: str, entry: Entry, steps: Iterable[Step], names: Names, door: Door) -> None:
    """Every step of a history by one door. Raises AssertionError where what is said or done differs."""
    path = names["path"]
    for number, step in enumerate(steps):
        before = listing(Path(path))
        options = (
            entry.options if step.options is None else {**(step.options and entry.options), **step.options}
        )
        with another_writer(path) if step.beside_writer else contextlib.nullcontext():
            more = NO_WAIT if step.beside_writer else {}
            said = door(public()[name], path, filled(step.given, names), {**options, **more}, step.dry_run)
        _check(step, said, names, f"step {number}: {said}")
        if step.changes_nothing and not step.beside_writer:
            assert listing(Path(path)) == before, f"step {number} changed the table"
        if step.after:
            step.after(names)


def _check(step: Step, said: Said, names: Names, about: str) -> None:
    if step.error:
        code, message = step.error
        assert said.error is not None, about
        assert said.error[0] in (code, None), about
        assert re.search(filled(message, names, re.escape), said.error[1]), about
        return
    assert said.error is None, about
    if said.text is not None:
        _check_text(step, said.text.splitlines(), names, about)
    if said.result is not None:
        wanted = filled(step.fields, names)
        assert {name: said.result[name] for name in wanted} == wanted, about
        assert said.result["dry_run"] is step.dry_run
        for file in _files(said.result.get("files") or {}) if step.dry_run else ():
            assert Path(names["path"], file).is_file(), about
            assert said.text is None or file in said.text, about
    if step.progress is not None and said.progress is not None:
        assert said.progress == list(step.progress), about


def _check_text(step: Step, lines: list[str], names: Names, about: str) -> None:
    """A door may say the first line of a dry run only."""
    wanted = step.text[: len(lines)] if step.dry_run and len(lines) == 1 else step.text
    assert len(lines) == len(wanted), about
    for pattern, line in zip(wanted, lines, strict=True):
        found = re.fullmatch(filled(pattern, names, re.escape), line)
        assert found, f"{line!r} is not {pattern!r}"
        names.update(found.groupdict())
        assert pattern != FILE or Path(names["path"], line.strip()).is_file(), about


def _files(files: Mapping[str, list[str]] | list[str]) -> list[str]:
    """Paths below the table; of the pending plans' files the keys are the plans."""
    if isinstance(files, list):
        return files
    return [
        f"{key}/{name}" if key and not key.isdigit() else name
        for key, named in files.items()
        for name in named
    ]
