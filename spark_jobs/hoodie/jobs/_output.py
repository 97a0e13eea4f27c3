"""What a job reads and prints: its request, and HOODIE_* lines without secrets. The last of them is kept in
the table, too, where who waits for it does not see the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoodie.errors import ConfigError, HoodieError
from hoodie.mask import Mask
from hoodie.storage import normalize, storage_for
from hoodie.timeline.job_reports import JobReport, StoredReport, checked_tag
from hoodie.timeline.running_jobs import FAILED, SUCCEEDED, Pulse, RunningJob

#: free texts of a result; its other fields are names and numbers, which stay as they are
_TEXTS = ("warnings", "reason", "comments", "error", "summary")


def report_of(request: dict[str, Any]) -> StoredReport | None:
    """Takes the tag of the job's report out of its request. None where it has none. Raises ConfigError."""
    tag = request.pop("result_tag", None)
    table, options = request.get("table"), request.get("options") or {}
    if tag is None or not isinstance(table, str) or not isinstance(options, dict):
        return None
    return StoredReport(path=table, options=options, tag=checked_tag(tag))


def pulse_of(request: dict[str, Any], kept: StoredReport | None, mask: Mask) -> Pulse | None:
    """Takes out of the request that the job is detached: seconds that it may clean up when it is to end. None
    where it is not. Raises ConfigError.
    """
    grace = request.pop("detached", None)
    if grace is None:
        return None
    if kept is None or not isinstance(grace, (int, float)) or isinstance(grace, bool) or not 0 <= grace < 1e6:
        raise ConfigError(
            f"the request's detached is {grace!r}; give the seconds of its clean-up, and a result_tag"
        )
    return Pulse(RunningJob(path=kept.path, options=kept.options, tag=kept.tag), mask, grace)


def earlier_result(kept: StoredReport) -> dict[str, Any] | None:
    """The result of an earlier attempt of the job, as a cluster may start a driver again that has ended its
    work. None where there is none.
    """
    try:
        report = kept.read()
    except (HoodieError, OSError):
        return None  # the job says what is wrong
    return None if report is None else report.result


@dataclass
class Output:
    """Prints a job's lines.

    nonce: text that each line carries, so that its reader knows it from a line that data or another library
    printed; "" for a job that a person started.
    mask: hides the request's secrets.
    kept: where the result or the error is kept besides. That it can't be is said, and is no failure of the
    job: what it did is done.
    pulse: the life signs of a detached job, whose end comes after that.
    """

    nonce: str = ""
    mask: Mask = field(default_factory=Mask)
    kept: StoredReport | None = None
    pulse: Pulse | None = None

    def emit(self, kind: str, value: Mapping[str, Any]) -> None:
        """One line, in one piece: the JVM writes to the same pipe."""
        marker = f"HOODIE_{kind}:{self.nonce}" if self.nonce else f"HOODIE_{kind}"
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{marker} {json.dumps(value, ensure_ascii=False, default=str)}\n".encode())
        sys.stdout.buffer.flush()

    def progress(self, step: str, text: str) -> None:
        self.emit("PROGRESS", {"step": step, "text": self.mask.text(text)})

    def result(self, value: Mapping[str, Any]) -> None:
        shown = self._shown(value)
        self.emit("RESULT", shown)
        self._keep(JobReport(result=shown))
        self.end(SUCCEEDED)

    def error(self, value: Mapping[str, Any]) -> None:
        shown = self.mask.value(value)
        self.emit("ERROR", shown)
        self._keep(JobReport(error=shown))
        self.end(FAILED)

    def end(self, state: str) -> None:
        if self.pulse is not None:
            self.pulse.end(state)

    def traceback(self, text: str) -> None:
        print(self.mask.text(text), file=sys.stderr, flush=True)

    def _keep(self, report: JobReport) -> None:
        if self.kept is None:
            return
        try:
            self.kept.write(report)
        except (HoodieError, OSError) as error:
            self.traceback(f"The job's result can't be kept in its table: {error}")

    def _shown(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The result with its free texts masked, those of the services in it, too."""
        return {
            name: self.mask.value(item)
            if name in _TEXTS
            else {key: self._shown(own) for key, own in item.items()}
            if name == "services" and isinstance(item, Mapping)
            else item
            for name, item in value.items()
        }


def request_text(given: str) -> str:
    """The request that `--request` gives: itself, `@file` or `@` with its URI, or `-` for standard input.

    A URI is opened with the credentials of this machine. Raises ConfigError.
    """
    try:
        if given == "-":
            return sys.stdin.buffer.read().decode()
        if given.startswith("@"):
            path = normalize(given[1:])
            folder = path.rpartition("/")[0]
            return (storage_for(folder).read(path) if "://" in path else Path(path).read_bytes()).decode()
    except OSError as error:
        raise ConfigError(f"can't read the request {given}: {error.strerror}; give JSON or @file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the request {given} is no UTF-8 ({error.reason}); give JSON") from None
    return given
