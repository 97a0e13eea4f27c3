"""Work in a fork of this process, which may be killed; the command lines of all processes."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

FAILED = 1
#: what a fork may take: one that inherits a lock whose owner it lacks would wait for ever
_LIMIT_S = 300
#: glibc's M_ARENA_MAX
_ARENA_MAX = -8


def end_in_time(seconds: int = _LIMIT_S) -> None:
    """This process, a fork, says where its threads are and ends by SIGALRM, if it still runs then."""
    faulthandler.register(signal.SIGALRM, file=2, all_threads=True, chain=True)
    signal.alarm(seconds)


def share_arenas() -> None:
    """Let the threads of this process allocate from two arenas: each thread's own takes 64 MiB of addresses,
    which a limit of them counts though nothing is in them.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def forked(work: Callable[[], int | None], kill_after: float | None = None) -> int:
    """Exit code of a process that runs `work`: what it gives (None: 0), FAILED where it raises, or minus the
    signal that ended it. `kill_after`: SIGKILL after so many seconds, if it lasts that long.
    """
    child = _started(work)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)  # it is ours until it is waited for, even when it has ended
    return _ended(child)


def all_forked(works: Iterable[Callable[[], int | None]]) -> list[int]:
    """Exit codes of processes that run at once, one for each work."""
    return [_ended(child) for child in [_started(work) for work in works]]


def paused(work: Callable[[], int | None], meanwhile: Callable[[], object]) -> int:
    """As `forked`, of work that stops itself (SIGSTOP): it goes on once `meanwhile` is done."""
    child = _started(work)
    _, status = os.waitpid(child, os.WUNTRACED)
    try:
        assert os.WIFSTOPPED(status), os.waitstatus_to_exitcode(status)
        meanwhile()
    finally:
        if os.WIFSTOPPED(status):
            os.kill(child, signal.SIGCONT)
    return _ended(child)


def _started(work: Callable[[], int | None]) -> int:
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            end_in_time()
            code = work() or 0
        except BaseException:  # noqa: BLE001  the exit code tells
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def _ended(child: int) -> int:
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@contextlib.contextmanager
def command_lines(looks: Path | None = None) -> Iterator[set[str]]:
    """Those of all processes, as they come.

    Each look at them all adds a byte to `looks`: a process that lasts until there are two more was seen.
    """
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            if looks is not None:
                with looks.open("ab") as file:
                    file.write(b".")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
