"""Functions run in forked processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from typing import Any


def forked(target: Callable[..., object], arguments: Iterable[tuple[Any, ...]]) -> list[int | None]:
    """Calls the target once for each of the arguments, all at once, and returns the processes' exit codes.

    A process that has not ended after a minute is killed, and its code is -9. A pool would end its own by
    SIGTERM, for which they may have the handlers of tests that ran before.
    """
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target, args=given) for given in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        if process.exitcode is None:
            process.kill()
            process.join()
    return [process.exitcode for process in processes]
