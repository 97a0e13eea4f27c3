"""What a detached job says of itself in its table while it runs, as a cluster manager says of an application.

- `.hoodie/.aux/airflow-jobs/<tag>.json`, which readers of the format ignore, is {"tag", "host", "pid",
  "state", "log"}: a state of STATES, and the end of what the job printed. The job rewrites it every BEAT_S
  seconds: one that is older than SILENT_MS while it says `running` has died.
- `<tag>.kill` beside it asks the job to end: it sends SIGTERM to itself, and SIGKILL after a grace.

The task deletes both after the job's end; those that no task deleted go with later jobs of the table. The
result is kept elsewhere (job_reports). Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from hoodie.config.key import is_unicode
from hoodie.errors import HoodieError, TableError
from hoodie.mask import Mask
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.job_reports import TaggedFiles

RUNNING, SUCCEEDED, FAILED, KILLED = STATES = ("running", "succeeded", "failed", "killed")
#: seconds between two beats, and milliseconds after which a silent job counts as dead
BEAT_S, SILENT_MS = 5.0, 120_000
#: of the output, its last bytes; of a file, at most
LOG_BYTES = 64 * 1024
_MAX_BYTES = 8 * LOG_BYTES


@dataclass(frozen=True, kw_only=True)
class LifeSign:
    """`silent_ms`: for so long the job has said nothing, by the clock of the storage."""

    host: str
    pid: int
    state: str
    log: str
    silent_ms: int = 0

    @property
    def died(self) -> bool:
        """Has it ended without a word?"""
        return self.state == RUNNING and self.silent_ms > SILENT_MS


@dataclass(frozen=True, kw_only=True)
class RunningJob(TaggedFiles):
    """The life signs of the job with the tag, and the wish that it ends."""

    FOLDER: ClassVar[str] = f"{META_FOLDER}/.aux/airflow-jobs"

    def write(self, sign: LifeSign) -> None:
        storage, start = self._place()
        said = {name: value for name, value in asdict(sign).items() if name != "silent_ms"}
        text = json.dumps({"tag": self.tag, **said}, ensure_ascii=False)
        storage.write(f"{start}.json", text.encode(errors="replace"))

    def read(self) -> LifeSign | None:
        """None where there is none. Raises TableError for a file that is no life sign: anybody who may write
        to the table may have made it.
        """
        storage, start = self._place()
        found = storage.info(path := f"{start}.json")
        if found is None:
            return None
        try:
            data = storage.read_range(path, 0, _MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        sign = _parse(data, self.tag, max(0, storage.now_ms() - found.mtime_ms))
        if sign is None:
            raise TableError(f"{path} is damaged or forged: it is no life sign of a job", path=path)
        return sign

    def ask_to_end(self) -> None:
        storage, start = self._place()
        storage.write(f"{start}.kill", b"kill")

    def is_to_end(self) -> bool:
        storage, start = self._place()
        return storage.exists(f"{start}.kill")

    def delete(self) -> None:
        """Those that are missing are no error."""
        storage, start = self._place()
        storage.delete_many([f"{start}.json", f"{start}.kill"])

    def sweep(self) -> None:
        """Deletes old ones of other jobs."""
        self._sweep()


class Pulse:
    """Of this process, a job whose standard output is a file that can be read: beats from a daemon thread.

    `grace_s`: seconds between the SIGTERM and the SIGKILL of a job that is to end.
    """

    def __init__(self, job: RunningJob, mask: Mask, grace_s: float) -> None:
        self._job = job
        self._mask = mask
        self._grace_s = grace_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hoodie-job-{job.tag}", daemon=True)

    def start(self) -> None:
        """Raises HoodieError and OSError where the table takes no life sign: nobody could find the job."""
        self._beat(RUNNING)
        self._thread.start()

    def end(self, state: str) -> None:
        """The last word. A table that doesn't take it notices the silence."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        with contextlib.suppress(HoodieError, OSError):
            self._beat(state)
            self._job.sweep()

    def _beat(self, state: str) -> None:
        log = self._mask.text(last_output())
        self._job.write(LifeSign(host=socket.gethostname(), pid=os.getpid(), state=state, log=log))

    def _run(self) -> None:
        while not self._done.wait(BEAT_S):
            with contextlib.suppress(HoodieError, OSError):  # out of reach; the next one may come through
                self._beat(RUNNING)
            if self._is_to_end():
                os.kill(os.getpid(), signal.SIGTERM)
                if not self._done.wait(self._grace_s):
                    os.killpg(os.getpgid(0), signal.SIGKILL)
                return

    def _is_to_end(self) -> bool:
        try:
            return self._job.is_to_end()
        except (HoodieError, OSError):
            return False


def last_output(descriptor: int = 1) -> str:
    """The end of what this process printed, in whole lines; "" where its standard output is no file."""
    try:
        size = os.fstat(descriptor).st_size
        start = max(0, size - LOG_BYTES)
        data = os.pread(descriptor, size - start, start)
    except OSError:
        return ""
    text = data.decode(errors="replace")
    return text.partition("\n")[2] if start else text


def _parse(data: bytes, tag: str, silent_ms: int) -> LifeSign | None:
    """None for anything but the tag's life sign."""
    try:
        value: Any = json.loads(data.decode()) if len(data) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("tag") != tag or value.get("state") not in STATES:
        return None
    host, pid, log = value.get("host"), value.get("pid"), value.get("log")
    if not (isinstance(host, str) and isinstance(log, str) and isinstance(pid, int)):
        return None
    if not is_unicode(host + log):
        return None
    return LifeSign(host=host, pid=pid, state=value["state"], log=log, silent_ms=silent_ms)
