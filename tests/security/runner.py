"""Actions over one malicious table, in a process of their own with limits of time and memory.

After each action what lies beside the table is compared with what lay there before: content, size, times,
mode and links, and when it was last read. An action must give what it gives for the healthy table, or raise a
typed error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hoodie.errors import HoodieError
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.table import properties
from tests.security.corpus import ABOUT, Case, Lake
from tests.support.processes import end_in_time, share_arenas

Action = Callable[[Lake], object]

#: of processor time, and of waiting
SECONDS, PATIENCE = 10, 30
MEBIBYTES = 512
MEANINGS: dict[int, str] = {signal.SIGALRM: "hung", signal.SIGPROF: "spun", signal.SIGKILL: "killed"}
REFUSED = "refused"
#: long before anything here was made
_UNREAD = 1


class Outcome(NamedTuple):
    """`wrong`: what must not be, "" for nothing. `answer`: REFUSED, or a digest of what the action gave."""

    wrong: str
    answer: str

    @property
    def refused(self) -> bool:
        return self.answer.startswith(REFUSED)


def harmless(
    base: Path, place: Path, name: str, case: Case, actions: Mapping[str, Action]
) -> dict[str, Outcome]:
    """What `outcomes` gives. Fails where an action did what must not be, or ran code that the table names."""
    (place / "victim_module.py").write_text(f"open({str(place / 'ran')!r}, 'w')\nclass Payload: pass\n")
    found = outcomes(base, place, case, actions)
    wrong = {action: outcome.wrong for action, outcome in found.items() if outcome.wrong}
    assert not wrong, f"{name}: {wrong}"
    assert not (place / "ran").exists(), "code that the table names was run"
    return found


def other_answers(found: Mapping[str, Outcome], healthy: Mapping[str, Outcome]) -> dict[str, str]:
    """By action: what was not refused, and differs from the answer of the healthy table."""
    return {
        action: outcome.answer
        for action, outcome in found.items()
        if action in healthy and not outcome.refused and outcome.answer != healthy[action].answer
    }


def outcomes(base: Path, place: Path, case: Case, actions: Mapping[str, Action]) -> dict[str, Outcome]:
    """Runs the actions over copies of the lake `base` that the case has changed, one after the other.

    A process does as many as it survives.
    """
    found: dict[str, Outcome] = {}
    while left := [name for name in actions if name not in found]:
        started, code = "", 0
        for name, *outcome in _forked(lambda tell, left=left: _run(base, place, case, actions, left, tell)):  # type: ignore[misc]
            if name is None:
                code = int(outcome[0])
            elif outcome:
                found[name] = Outcome(*outcome)
            else:
                started = name
        if code:
            found[started] = Outcome(MEANINGS.get(-code, f"code {code}"), "")
    return found


def _forked(work: Callable[[Callable[[Any], object]], None]) -> Iterator[list[Any]]:
    """What a forked process tells, line by line; last [None, its exit code]."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            end_in_time()
            work(lambda line: os.write(writing, json.dumps(line).encode() + b"\n"))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, encoding="utf-8") as lines:
        yield from map(json.loads, lines)
    _, status = os.waitpid(child, 0)
    yield [None, os.waitstatus_to_exitcode(status)]


def _run(
    base: Path,
    place: Path,
    case: Case,
    actions: Mapping[str, Action],
    names: Collection[str],
    tell: Callable[[Any], object],
) -> None:
    share_arenas()
    sys.path.insert(0, str(place))
    # properties that are torn are read five times, in case somebody replaces them
    assert properties.load.__kwdefaults__ is not None
    properties.load.__kwdefaults__["sleep"] = lambda seconds: None
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    lake = Lake(place / "lake")
    table, outside = None, {}
    for name in names:
        if table is None or _state(lake.table) != table:
            shutil.rmtree(lake.path, ignore_errors=True)
            shutil.copytree(base, lake.path, symlinks=True)
            case(lake)
            table, outside = _state(lake.table), _outside(lake)
        tell([name])
        resource.setrlimit(resource.RLIMIT_AS, (_pages() + MEBIBYTES * 2**20, most))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(PATIENCE)
        wrong, answer = _outcome(actions[name], lake)
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        if changed := _changes(outside, _outside(lake)):
            wrong, table = f"touched what is outside: {changed}", None
        elif not (lake.meta.is_dir() or lake.meta.is_symlink()):
            wrong = "deleted .hoodie"
        tell([name, wrong, answer])


def _outcome(action: Action, lake: Lake) -> tuple[str, str]:
    try:
        with (
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            contextlib.redirect_stdout(nowhere),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", MetadataTableIgnored)
            answer = action(lake)
    except HoodieError as error:
        return "", f"{REFUSED}: {type(error).__name__}: {error.message[:300]}"
    except BaseException as error:  # noqa: BLE001  whatever it is, it is told
        return f"{_frame(error)} {type(error).__name__}: {str(error)[:300]}", ""
    return "", hashlib.md5(repr(answer).encode()).hexdigest()


def _frame(error: BaseException) -> str:
    """Where in the package an error comes from."""
    found, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/hoodie/" in file or "airflow_hoodie" in file:
            found = f"{'/'.join(file.split('/')[-2:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _pages() -> int:
    """Bytes of address space in use."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _state(folder: Path) -> dict[str, tuple[int, ...]]:
    """Every entry below a folder, with what changes when it does; links and pipes are not followed."""
    found: dict[str, tuple[int, ...]] = {}
    todo = [str(folder)]
    while todo:
        here = todo.pop()
        try:
            entries = list(os.scandir(here))
        except OSError:
            continue
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            found[entry.path] = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
    return found


def _outside(lake: Lake) -> dict[str, tuple[Any, ...]]:
    """All that is beside the table. That nothing was read since is told by the times of the last call."""
    found: dict[str, tuple[Any, ...]] = {}
    for path, status in _beside(lake.path, str(lake.table)):
        link = os.readlink(path) if os.path.islink(path) else ""
        content = "" if link or not os.path.isfile(path) else hashlib.md5(Path(path).read_bytes()).hexdigest()
        read = status.st_atime_ns // 10**9 != _UNREAD
        found[path] = (content, link, status.st_mode, status.st_mtime_ns, status.st_size, read)
    for path, status in _beside(lake.path, str(lake.table)):
        os.utime(path, ns=(_UNREAD * 10**9, status.st_mtime_ns), follow_symlinks=False)
    return found


def _beside(folder: Path, table: str) -> list[tuple[str, os.stat_result]]:
    """The entries beside the table, each looked at before it is read, those of a folder after it."""
    found: list[tuple[str, os.stat_result]] = []
    todo, told = [str(folder)], f"{folder}/{ABOUT}"
    while todo:
        here = todo.pop()
        for path in [f"{here}/{name}" for name in os.listdir(here)]:
            if path != table and not path.startswith(told):
                status = os.lstat(path)
                found.append((path, status))
                if os.path.isdir(path) and not os.path.islink(path):
                    todo.append(path)
    return found


def _changes(before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]]) -> str:
    changed = [
        f"{path} {'changed' if path in after else 'gone'}"
        for path, was in before.items()
        if path not in after or was[:-1] != after[path][:-1]
    ]
    changed += [f"{path} new" for path in after if path not in before]
    changed += [f"{path} read" for path, now in after.items() if now[-1]]
    return ", ".join(changed[:5])
