"""A hoodie job in a process of its own on the worker, without Spark, for jobs that need no executors.

It prints the same HOODIE_* lines as under spark-submit, and ends the same way: as a whole.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import IO, Any

from airflow.sdk import BaseHook

from airflow_hoodie.engines import missing_packages
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieJobError,
    HoodieJobKilledError,
    from_error,
    from_report,
)
from airflow_hoodie.hooks import process_group
from airflow_hoodie.job_output import JobOutput, with_nonce
from airflow_hoodie.secrets import hide
from hoodie.bundle import job_script
from hoodie.config.functions import folder_of, is_function_name
from hoodie.errors import HoodieError

_TAIL_LINES = 30
_POLL_S = 0.1
#: processes that outlive their task; kept, as Python warns of those that are forgotten
_DETACHED: list[subprocess.Popen[str]] = []
#: private memory that is written to: heaps and stacks, not code and not mapped files
_LIMITED = (
    "import resource as r; h = r.getrlimit(r.RLIMIT_DATA)[1]; "
    "r.setrlimit(r.RLIMIT_DATA, ({0} if h < 0 else min({0}, h), h)); "
)
#: without these libraries reserve far more than they use, which counts against a limit
_SPARING = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"}
#: so do stacks: bytes of one, and threads of Arrow and of ours for each processor
_STACK, _THREADS = 8 << 20, 4


class HoodieLocalHook(BaseHook):
    """Runs `hoodie/jobs/run.py <job>` with this Python, its request on standard input; `run`, once per hook.

    :param job: name of the job.
    :param kill_grace_seconds: time between SIGTERM and SIGKILL, in which the job cleans up.
    :param env_vars: added to the worker's environment.
    :param memory: bytes that the job may allocate; beyond them it fails, and withdraws what it wrote. None:
        as much as the machine gives.
    :param on_progress: called with each progress message of the job.
    """

    def __init__(
        self,
        job: str,
        *,
        kill_grace_seconds: float = 30.0,
        env_vars: Mapping[str, Any] | None = None,
        memory: int | None = None,
        on_progress: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        super().__init__()
        self._job = job
        self._grace_s = kill_grace_seconds
        self._env_vars = {name: str(value) for name, value in (env_vars or {}).items()}
        self._memory = memory
        self._process: subprocess.Popen[str] | None = None
        self._guard: process_group.Guard | None = None
        self._killed = False
        #: of this process's path, for the job's: Airflow's folder of plugins, or of DAGs
        self._folder: str | None = None
        self._output = JobOutput(self.log, on_progress)
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The job's result. Raises the exception of the job's own error, HoodieJobError, or
        HoodieConfigurationError where the worker lacks a package. Afterwards no process of it is alive.
        """
        with tempfile.TemporaryFile() as stdin:  # it has no name, so no other process opens it
            self._process = process = self._started(request, stdin, subprocess.PIPE)
        try:
            self._guard = process_group.Guard(process.pid, self._grace_s)
            if self._killed:
                self._guard.kill()
            assert process.stdout is not None
            with process.stdout as lines:
                for line in lines:
                    self._print(line.rstrip("\n"))
            code = process.wait()
        finally:
            process_group.terminate(process.pid, self._grace_s)
            process.wait()
            if self._guard is not None:
                self._guard.release()
        return self._outcome(code)

    def detach(self, request: Mapping[str, Any], begun: Callable[[], bool]) -> None:
        """Start the job in a process that outlives this one. Returns once `begun` says that the job can be
        found; raises as `run` where it has ended before.
        """
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as printed:
            self._process = process = self._started(request, stdin, printed)
            _DETACHED.append(process)
            try:
                while not begun():
                    if (code := process.poll()) is not None:
                        printed.seek(0)
                        for line in printed.read().decode(errors="replace").splitlines():
                            self._print(line)
                        self._outcome(code)
                        return
                    if self._killed:
                        raise HoodieJobKilledError("the task was killed before it waited for its job")
                    time.sleep(_POLL_S)
            except BaseException:
                process_group.send_term(process.pid)
                raise

    def on_kill(self) -> None:
        """End the job with all its processes; returns at once, as HoodieSparkSubmitHook.on_kill."""
        self._killed = True
        if self._guard is not None:
            self._guard.kill()
        elif self._process is not None:
            process_group.send_term(self._process.pid)

    def _started(self, request: Mapping[str, Any], stdin: IO[bytes], out: Any) -> subprocess.Popen[str]:
        """The process of a job, which prints to `out`. `stdin`: an empty file, which gets the request."""
        asked = (request.get("options") or {}, request.get("transform"), request.get("sql"))
        if missing := missing_packages(*asked):
            raise HoodieConfigurationError(
                f"this worker has no {', '.join(missing)}, which the job needs: pip install "
                f'{" ".join(missing)} there, or pass engine="spark" to run it by spark-submit'
            )
        command = self._command()
        if is_function_name(transform := request.get("transform")):
            self._folder = folder_of(str(transform))
        if self._killed:
            raise HoodieJobKilledError("the task was killed before its job started")
        text, self._output.nonce = with_nonce(request)
        self._output.mask = hide(request, self._env_vars)
        stdin.write(text)
        stdin.seek(0)
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment(),
            start_new_session=True,
        )

    def _print(self, line: str) -> None:
        """A line of the job, to the log."""
        if not self._output.take(line):
            line = self._output.other(line)
            self._tail.append(line)
            self.log.info("%s", line)

    def _command(self) -> list[str]:
        try:
            script = job_script()
        except HoodieError as error:
            raise from_error(error) from error
        # the package's folder must be on the path, the jobs' own and the working directory must not
        boot = (
            ""
            if self._memory is None
            else _LIMITED.format(self._memory + _STACK * _THREADS * (os.cpu_count() or 1))
        )
        boot += "import sys, runpy; sys.path[:] = [sys.argv.pop(1), *filter(None, sys.path)]; "
        boot += "runpy.run_module('hoodie.jobs.run', run_name='__main__', alter_sys=True)"
        return [sys.executable, "-c", boot, str(script.parents[2]), self._job, "--request", "-"]

    def _environment(self) -> dict[str, str]:
        sparing = _SPARING if self._memory is not None else {}
        found = {**sparing, **os.environ, **self._env_vars}
        if self._folder is None:
            return found
        path = [found.get("PYTHONPATH", ""), self._folder]
        return {**found, "PYTHONPATH": os.pathsep.join(filter(None, path))}

    def _outcome(self, code: int) -> dict[str, Any]:
        if self._output.result is not None:
            return self._output.result
        if self._killed or code < 0:
            why = "because the task was" if self._killed else f"by signal {-code}"
            why += " (9 is often a lack of memory)" if code == -signal.SIGKILL and not self._killed else ""
            raise HoodieJobKilledError(
                f"the job was killed {why}; the next run finishes what it had planned, and rolls back "
                "what it had begun to write" + self._output.last_said(),
                exit_code=code,
            )
        if self._output.report is not None:
            raise from_report(self._output.report)
        output = "\n".join(self._tail)
        raise HoodieJobError(
            f"the job ended with exit code {code} and without a report. Last output:\n{output}",
            exit_code=code,
        )
