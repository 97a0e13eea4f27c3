"""What a function of the user's own raised: where, and whether what it calls did not answer.

Standard library only.
"""

from __future__ import annotations

import socket
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary

from hoodie.errors import ASK_AGAIN, TransformError
from hoodie.text import lines, visible

#: characters of a message and of a traceback, of which the end is kept
_MESSAGE, _TRACE = 1000, 8000
#: causes that are followed
_CAUSES = 10
#: classes of libraries that are not Python's own for connections
_LIBRARIES = frozenset(
    {
        *("ConnectionError", "Timeout", "ConnectTimeout", "ReadTimeout"),  # requests
        *("TransportError", "ConnectError", "TimeoutException"),  # httpx
        *("ClientConnectionError", "ServerTimeoutError"),  # aiohttp
        *("NewConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "MaxRetryError", "ProtocolError"),
        *("EndpointConnectionError", "ConnectionClosedError"),  # botocore
    }
)


def of_function(name: str, error: Exception) -> TransformError:
    """The error of a function whose call raised `error`; the first frame of its traceback is the caller's."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    where = _where(list(frames))
    place = f" (in {where.name}, {where.filename}, line {where.lineno})" if where is not None else ""
    text = " ".join(visible(line.strip()) for line in str(error).splitlines())[:_MESSAGE]
    said = f"{type(error).__name__}{': ' if text else ''}{text}{place}"
    if unanswered(error):
        said += ASK_AGAIN
    trace = "".join(["Traceback (most recent call last):\n", *traceback.format_list(frames)])
    trace += "".join(traceback.format_exception_only(type(error), error))
    return TransformError(
        f"the transform {name} raised {said}",
        transform=name,
        error=type(error).__name__,
        **({"file": where.filename, "line": where.lineno} if where is not None else {}),
        traceback=lines(trace)[-_TRACE:],
    )


def unanswered(error: BaseException) -> bool:
    """Did a connection fail, be it that of a library, or of what another exception was raised from?"""
    return any(
        isinstance(one, (ConnectionError, TimeoutError, socket.gaierror))
        or any(kind.__name__ in _LIBRARIES and kind.__module__ != "builtins" for kind in type(one).__mro__)
        for one in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, at most so many; not what was handled when it was raised."""
    found: BaseException | None = error
    for _ in range(_CAUSES):
        if found is None:
            return
        yield found
        reason = getattr(found, "reason", None)  # of urllib's URLError
        found = reason if isinstance(reason, BaseException) else found.__cause__


def _where(frames: list[FrameSummary]) -> FrameSummary | None:
    """The last frame that is not of Python's library nor of an installed package, else the first, which is of
    the function.
    """
    paths = sysconfig.get_paths()
    others = [Path(paths[name]) for name in ("stdlib", "purelib", "platlib")]
    own = [frame for frame in frames if not any(folder in Path(frame.filename).parents for folder in others)]
    return own[-1] if own else next(iter(frames), None)
