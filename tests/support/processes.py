"""Work in a process of its own, cheaply: a fork of this one, which may be killed."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable

FAILED = 1


def forked(work: Callable[[], int | None], kill_after: float | None = None) -> int:
    """Exit code of a process that runs `work`: what it gives (None: 0), FAILED where it raises, or minus the
    signal that ended it. `kill_after`: SIGKILL after so many seconds, if it lasts that long.
    """
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            code = work() or 0
        except BaseException:  # noqa: BLE001  the exit code tells
            traceback.print_exc()
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)  # it is ours until it is waited for, even when it has ended
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
