"""What a hoodie job is asked and prints: HOODIE_PROGRESS, HOODIE_RESULT, HOODIE_ERROR (hoodie.jobs._main)."""

from __future__ import annotations

import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.mask import Mask
from hoodie.text import lines, visible, visible_in

#: messages of progress that are kept for the error of a job that was killed
_KEPT = 10
#: the part of a result that is its text for people
SUMMARY = "summary"
_MARKER = re.compile(r"\bHOODIE_(RESULT|ERROR|PROGRESS)(?::(\w+))? (\{.*\})\s*$")


def with_nonce(request: Mapping[str, Any]) -> tuple[bytes, str]:
    """The request as it is sent, and the nonce that the job's lines will carry."""
    nonce = secrets.token_hex(16)
    return json.dumps({**request, "nonce": nonce}, separators=(",", ":")).encode(), nonce


@dataclass
class JobOutput:
    """Reads a job's lines as they come: progress goes to the hook's log, result and error are kept.

    on_progress: called with each progress message.
    nonce: that of the job's request; other lines than those with it are not the job's. A job without a
        request ("") prints lines without one.
    mask: hides the job's secrets.
    """

    log: Any
    on_progress: Callable[[Mapping[str, Any]], None] | None = None
    nonce: str = ""
    mask: Mask = field(default_factory=Mask)
    result: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    progress: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def last_said(self) -> str:
        """The end of an error of a job that was killed: how far it had come; "" where it said nothing."""
        return f". Its last progress:\n{chr(10).join(self.progress)}" if self.progress else ""

    def take(self, line: str) -> bool:
        """Was this line for us. What is logged of it has its control characters escaped."""
        kind, value = parse_marker(line, self.nonce)
        if value is None:
            return False
        if kind != "RESULT":
            value = self.mask.value(value)
        shown = visible_in(value)
        if kind == "PROGRESS":
            self.progress.append(f"[{shown.get('step', 'job')}] {shown.get('text', '')}")
            self.log.info("%s", self.progress[-1])
            if self.on_progress is not None:
                self.on_progress(value)
        elif kind == "RESULT":
            self.result = log_result(self.log, value)
        else:
            self.report = value
            log_error(self.log, value)
        return True

    def other(self, line: str) -> str:
        """A line that is not for us as the log may have it: without secrets and control characters."""
        return lines(self.mask.text(line))


def log_result(log: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Logs the job's own text of what it did, a message a line, and what it warns of; control characters are
    escaped. Returns the result without that text.
    """
    shown = visible_in(result)
    named = " ".join(str(shown[name]) for name in ("operation", "table", "status") if shown.get(name))
    for line in str(result.get(SUMMARY) or named or "The job is done").split("\n"):
        log.info("%s", visible(line))
    for warning in shown.get("warnings") or ():
        log.warning("%s", warning)
    return {name: value for name, value in result.items() if name != SUMMARY}


def log_error(log: Any, report: Mapping[str, Any]) -> None:
    """Logs the message of a job's error, and the traceback of a function of the user's own, a message a line;
    control characters are escaped.
    """
    log.error("The job failed: %s", visible(report.get("message")))
    values = report.get("values")
    trace = values.get("traceback") if isinstance(values, Mapping) else None
    if isinstance(trace, str):
        for line in trace.rstrip("\n").split("\n"):
            log.error("%s", visible(line))


def parse_marker(line: str, nonce: str | None = "") -> tuple[str, dict[str, Any] | None]:
    """A HOODIE_RESULT, HOODIE_ERROR or HOODIE_PROGRESS line -> its kind and object; else ("", None).

    A line of another nonce is none; None takes any, for people to read. The marker need not start it:
    Spark's progress bar may stand before it.
    """
    match = _MARKER.search(line)
    if match is None or (nonce is not None and (match[2] or "") != nonce):
        return "", None
    try:
        value = json.loads(match[3])
    except ValueError:
        return "", None
    return (match[1], value) if isinstance(value, dict) else ("", None)
