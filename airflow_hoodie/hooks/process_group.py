"""End a job with all its processes.

spark-submit is a JVM that starts the Python driver, which is the writer. Killing the JVM alone leaves a
live writer behind, so the job gets a session of its own, and SIGTERM goes to its whole process group (the
writer cleans up), SIGKILL to what is left of the session after a grace period. (pyspark's worker daemon
leaves the group, not the session.)

Airflow kills a task process five seconds after the SIGTERM that calls `on_kill`, or at once. A `Guard`,
a small process of its own, therefore does the waiting: it ends the job on request, or when the
process that started it is gone, and deletes the files that the job was given. Standard library only: the
guard runs this file as a script.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

POLL_S = 0.05


def members(session: int) -> list[int]:
    """Live processes (zombies don't count) of a session; without /proc the leader of a live group."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return [session] if _signal_group(session, 0) else []
    return [pid for pid in pids if _session_of(pid) == session]


def terminate(session: int, grace_s: float) -> None:
    """SIGTERM the group, wait until the session is empty or `grace_s` are over, SIGKILL the rest."""
    if not members(session):
        return
    _signal_group(session, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while members(session):
        if time.monotonic() >= deadline:
            kill(session)
            return
        time.sleep(POLL_S)


def kill(session: int) -> None:
    """SIGKILL every process of the session; repeated because a process may fork meanwhile."""
    for _ in range(20):
        left = members(session)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def send_term(session: int) -> bool:
    """SIGTERM to the group; False when it is gone."""
    return _signal_group(session, signal.SIGTERM)


class Guard:
    """Process that ends `session` on `kill()`, or when this process dies before `release()`.

    It deletes `files` then.
    """

    def __init__(self, session: int, grace_s: float, files: Sequence[str] = ()) -> None:
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(session), str(grace_s), *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Start SIGTERM, grace, SIGKILL; returns at once. Safe in a signal handler."""
        self._say(b"k")

    def release(self) -> None:
        """The job is over: the guard leaves without touching anything more."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            os.write(process.stdin.fileno(), b"r")
        process.stdin.close()
        process.wait()

    def _say(self, word: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                os.write(self._process.stdin.fileno(), word)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _session_of(pid: int) -> int | None:
    """Session id from /proc/<pid>/stat; None for a zombie or a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            after_name = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    state, session = after_name[0], after_name[3]
    return None if state in (b"Z", b"X") else int(session)


def _main() -> None:
    session, grace_s = int(sys.argv[1]), float(sys.argv[2])
    word = os.read(0, 1)
    if word != b"r":
        terminate(session, grace_s)
        for path in sys.argv[3:]:
            with contextlib.suppress(OSError):
                os.unlink(path)


if __name__ == "__main__":
    _main()
