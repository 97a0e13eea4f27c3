"""spark-submit for hoodie jobs: a connection that must exist, a job that dies as a whole, a result.

Beyond SparkSubmitHook: `master=`; an error instead of a silent `yarn` when the connection is missing or
unreadable; SPARK_HOME and PYSPARK_PYTHON of the current environment when nothing else is said; the job in
a session of its own, ended as a whole; the job's HOODIE_* lines read from its output; its request and what
settings hold secrets in files that only this user reads.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException
from airflow.sdk import Connection

from airflow_hoodie import preflight
from airflow_hoodie.clusters import ClusterManager
from airflow_hoodie.clusters.choice import MASTERS, YARN, has_cluster
from airflow_hoodie.clusters.kubernetes import Kubernetes, check_uploads
from airflow_hoodie.clusters.yarn import ADDRESS, Yarn
from airflow_hoodie.compat.spark_provider import DEFAULT_SPARK_BINARY, SubmitHook, installed_spark_home
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
    from_report,
)
from airflow_hoodie.hooks import process_group
from airflow_hoodie.job_output import JobOutput, with_nonce
from airflow_hoodie.preflight import check_master, check_reachable
from airflow_hoodie.secrets import hide, private_file

_MASTER = re.compile(r"yarn|local(\[[^\]]+\])?|local-cluster\[.+\]|(?!local:)[a-z][a-z0-9+.-]*://\S+")
#: settings of Spark that are fields of a Spark connection's extra
_OF_KUBERNETES = "spark.kubernetes."
_TAIL_LINES = 30
#: for the driver, and on one machine the tasks: pyspark 4.2 warns of pandas 3, which jobs don't hand to it
QUIET_PYTHON = "ignore:PySpark does not yet fully support pandas:FutureWarning"


class HoodieSparkSubmitHook(SubmitHook):
    """Submits a hoodie job in client mode; `submit`, then `result`. Or detached, in deploy mode cluster.

    Fields `spark.kubernetes.*` of the connection's extra are settings under those of `conf`.
    Other arguments are SparkSubmitHook's. Raises HoodieConfigurationError when there is no usable master.

    :param conn_id: connection of type `spark`.
    :param master: Spark master; it overrides the connection's, which then need not exist.
    :param kill_grace_seconds: time between SIGTERM and SIGKILL, in which the job cleans up.
    :param spark_binary: path of spark-submit. Default: the connection's, that of SPARK_HOME, or one on PATH.
    :param on_progress: called with each progress message of the job.
    :param request: the job's request, passed as `--request @file`. Without one the job gets
        `application_args` alone, and its output lines need no nonce.
    :param detached: deploy mode cluster is allowed: `submit` returns when the cluster has accepted the
        application, and there is no `result`. YARN and Kubernetes only.
    :param request_path: where the job finds its request, which the caller has put there. Default: in a file
        that the hook makes for it.
    """

    def __init__(
        self,
        *,
        conn_id: str = "spark_default",
        master: str | None = None,
        kill_grace_seconds: float = 30.0,
        spark_binary: str | None = None,
        on_progress: Callable[[Mapping[str, Any]], None] | None = None,
        request: Mapping[str, Any] | None = None,
        detached: bool = False,
        request_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._detached = detached
        self._request_path = request_path
        self._master = master or None
        self._found: Connection | None = None
        self._kill_grace_seconds = kill_grace_seconds
        self._binary_given = spark_binary is not None
        self._guard: process_group.Guard | None = None
        self._killed = False
        self._request = request
        #: of the running job
        self._held = contextlib.ExitStack()
        self._private: list[str] = []
        mask = hide(request, kwargs.get("conf"), kwargs.get("env_vars"), kwargs.get("application_args"))
        self._output = JobOutput(self.log, on_progress, mask=mask)
        super().__init__(conn_id=conn_id, spark_binary=spark_binary, **kwargs)

    # --- connection and environment -------------------------------------------------------------------

    def get_connection(self, conn_id: str) -> Connection:  # type: ignore[override]
        """The connection that `master=` was merged into, else Airflow's."""
        if self._found is not None and conn_id == self.spark_conn_id:
            return self._found
        return super().get_connection(conn_id)

    def resolve_connection(self) -> dict[str, Any]:
        found = self._lookup()
        if self._master is not None:
            text = found.extra if found is not None else None
            found = Connection(conn_id=self.spark_conn_id, conn_type="spark", host=self._master, extra=text)
        self._found = found
        extra = found.extra_dejson if found is not None else {}
        settings = {name: value for name, value in extra.items() if name.startswith(_OF_KUBERNETES)}
        self._output.mask.learn(settings)
        self.add_conf(settings)
        try:
            data = super().resolve_connection()
        except ValueError as error:
            raise HoodieConfigurationError(f"Spark connection {self.spark_conn_id!r}: {error}") from None
        master, named = data["master"], f"Spark connection {self.spark_conn_id!r}"
        if not _MASTER.fullmatch(master):
            raise HoodieConfigurationError(
                f"{named} gives the master {master!r}, which Spark doesn't know. "
                + connection_help(self.spark_conn_id)
            )
        check_master(master)
        if data["deploy_mode"] == "cluster":
            self._check_cluster_mode(named, master)
        return data

    def _check_cluster_mode(self, named: str, master: str) -> None:
        if master.startswith("spark://"):
            raise HoodieConfigurationError(
                f"{named}: Spark's standalone master {master} takes no Python applications in deploy mode "
                '\'cluster\'; use {"deploy-mode": "client"}'
            )
        if self._detached and not has_cluster(master):
            raise HoodieConfigurationError(
                f"{named}: deploy mode 'cluster' works with the masters {MASTERS} only, not with {master}; "
                'use {"deploy-mode": "client"}'
            )
        if not self._detached:
            raise HoodieConfigurationError(
                f"{named}: deploy mode 'cluster' hides the driver's output, which "
                'carries the job\'s result; use {"deploy-mode": "client"}, or on YARN and Kubernetes '
                "deferrable=True, by which the result goes through the table"
            )

    @property
    def in_cluster_mode(self) -> bool:
        """Does the driver run on the cluster?"""
        return bool(self.spark_connection["deploy_mode"] == "cluster")

    def cluster(self) -> ClusterManager:
        """What runs the applications that are submitted in deploy mode cluster.

        Raises HoodieConfigurationError where they could not be submitted or watched.
        """
        if self.master == YARN:
            found = self._found.extra_dejson.get(ADDRESS) if self._found is not None else None
            return Yarn(str(found or "").strip())
        binary, added = self.launcher()
        environ = {**os.environ, **added, **{name: str(value) for name, value in self.given_env.items()}}
        settings = preflight.settings(self.given_conf, self.properties_file, binary, environ)
        known = settings if settings is not None else {n: str(v) for n, v in self.given_conf.items()}
        cluster = Kubernetes.of(self.master, self.spark_connection["namespace"], known)
        if settings is not None:
            check_uploads(settings)
        return cluster

    def _lookup(self) -> Connection | None:
        try:
            found: Connection = super().get_connection(self.spark_conn_id)
        except AirflowNotFoundException:
            if self._master is not None:
                return None
            raise HoodieConfigurationError(_missing(self.spark_conn_id)) from None
        return found

    @property
    def master(self) -> str:
        """The Spark master that jobs are submitted to."""
        return str(self.spark_connection["master"])

    @property
    def history_server(self) -> str | None:
        """Address of Spark's history server, `history-server` of the connection's extra."""
        found = self._found.extra_dejson.get("history-server") if self._found is not None else None
        return str(found) if found else None

    def launcher(self) -> tuple[str, dict[str, str]]:
        """spark-submit, and the variables that are added when it is started.

        Raises HoodieConfigurationError where there is none.
        """
        [binary] = self.find_binary()
        return binary, {name: str(value) for name, value in self._environment().items()}

    def _environment(self) -> dict[str, str]:
        """Variables to add to the submit process, never over what the user or the worker has set."""
        known = {**os.environ, **self.given_env}
        added = {} if known.get("PYTHONWARNINGS") else {"PYTHONWARNINGS": QUIET_PYTHON}
        if not known.get("SPARK_HOME") and (home := installed_spark_home()):
            added["SPARK_HOME"] = home
        if not known.get("PYSPARK_PYTHON"):
            if self.spark_connection["master"].startswith("local"):
                added["PYSPARK_PYTHON"] = sys.executable
            elif not (known.get("PYSPARK_DRIVER_PYTHON") or self.in_cluster_mode):
                # executors run elsewhere, with their own Python
                added["PYSPARK_DRIVER_PYTHON"] = sys.executable
        return added

    def find_binary(self) -> list[str]:
        binary = self.spark_connection["spark_binary"] or DEFAULT_SPARK_BINARY
        if self._binary_given or binary != DEFAULT_SPARK_BINARY:
            return [binary]
        known = {**os.environ, **self._environment(), **self.given_env}
        home = known.get("SPARK_HOME")
        if home and (inside := Path(home, "bin", binary)).exists():
            return [str(inside)]
        if shutil.which(binary, path=known.get("PATH")):
            return [binary]
        raise HoodieConfigurationError(
            f"no {binary} found: neither in SPARK_HOME ({home or 'not set'}) nor on PATH, and pyspark is not "
            'installed beside Airflow. Set SPARK_HOME (env_vars={"SPARK_HOME": ...}), pass '
            "spark_binary=/path/to/spark-submit, or install pyspark"
        )

    def build_command(self, application: str) -> list[str]:
        command = super().build_command(application)
        texts = {name: str(value) for name, value in (self.launch_env or self.given_env).items()}
        self.launch_env = {**self._environment(), **texts}
        return self._without_secrets(command)

    def _without_secrets(self, command: list[str]) -> list[str]:
        """The command with settings that hold secrets in a properties file."""
        rest, found = preflight.taken_out(command)
        if not found:
            return command
        content = preflight.properties(command, found, {**os.environ, **self.launch_env})
        if content is None:
            self.log.warning(
                "The settings %s are on the command line of spark-submit, where other users of this machine "
                "see them: set SPARK_HOME, so that they can go to a file beside those of spark-defaults.conf",
                ", ".join(found),
            )
            return command
        return preflight.with_properties(rest, self._private_file(content, ".conf"))

    def _private_file(self, content: bytes, suffix: str) -> Path:
        path = self._held.enter_context(private_file(content, suffix))
        self._private.append(str(path))
        return path

    def write_keytab(self, base64_keytab: str, principal: str | None) -> str:
        before = os.umask(0o077)
        try:
            return super().write_keytab(base64_keytab, principal)
        finally:
            os.umask(before)

    def masked_command(self, command: str | list[str]) -> str:
        parts = [command] if isinstance(command, str) else command
        return super().masked_command([self._output.mask.text(part) for part in parts])

    # --- running --------------------------------------------------------------------------------------

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run the job to its end, once per hook.

        Raises the exception of the job's own error, HoodieJobError, or HoodieConfigurationError.
        When this returns or raises, no process of the job is alive.
        """
        if self._killed:
            raise HoodieJobKilledError("the task was killed before spark-submit started")
        check_reachable(self.master, {**os.environ, **self.given_env})
        try:
            if self._request_path is not None:
                self.job_args = ["--request", f"@{self._request_path}", *self.job_args]
            elif self._request is not None:
                self._hand_over(self._request)
            driver_id: str | None = super().submit(application, start_new_session=True, **kwargs)
        except HoodieException:
            raise
        except OSError as error:
            if self.process is not None:
                raise
            raise HoodieConfigurationError(
                f"could not start spark-submit ({error}); check spark_binary and SPARK_HOME"
            ) from None
        except AirflowException as error:
            self._explain(error)
            driver_id = None
        finally:
            self._finish()
        if self._output.result is None:
            if self._killed:  # spark-submit ended well all the same
                raise self._killed_error()
            if self._output.report is not None:
                raise from_report(self._output.report)
        return driver_id

    def _hand_over(self, request: Mapping[str, Any]) -> None:
        """Write the request for the job, with a nonce.

        spark-submit gives the driver no standard input of its own.
        """
        text, self._output.nonce = with_nonce(request)
        path = self._private_file(text, ".json")
        if self.in_cluster_mode:
            self.ship(str(path))
        named = path.name if self.in_cluster_mode else path
        self.job_args = ["--request", f"@{named}", *self.job_args]

    @property
    def result(self) -> dict[str, Any]:
        """The job's WriteResult as printed. Raises HoodieJobError when it printed none."""
        if self._output.result is None:
            raise HoodieJobError(
                "spark-submit ended without an error but the job printed no HOODIE_RESULT line; is the "
                f"application a hoodie job? Last output:\n{self._tail()}",
                exit_code=0,
            )
        return self._output.result

    def on_kill(self) -> None:
        """End the job with all its processes; returns at once.

        SIGTERM now, SIGKILL after `kill_grace_seconds`, even when Airflow kills this process meanwhile.
        """
        self._killed = True
        process = self.process
        if process is None or (self._guard is None and process.returncode is not None):
            return  # its number may be another's by now
        self.log.info(
            "Ending the Spark job: SIGTERM now, SIGKILL after %g s to what is left", self._kill_grace_seconds
        )
        if self._guard is not None:
            self._guard.kill()
        else:
            process_group.send_term(process.pid)

    def read_output(self, lines: Iterator[Any]) -> None:
        if (process := self.process) is not None:
            self._guard = process_group.Guard(process.pid, self._kill_grace_seconds, self._private)
            if self._killed:
                self._guard.kill()
        super().read_output(self._take_markers(lines))
        if self._detached:
            self.take_exit_code()

    def _finish(self) -> None:
        """End what is left of the job: a driver whose JVM died keeps on writing otherwise."""
        process, guard = self.process, self._guard
        self._held.close()
        if process is not None:
            process_group.terminate(process.pid, self._kill_grace_seconds)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if guard is not None:
            guard.release()
        self._guard = None

    def _explain(self, error: AirflowException) -> None:
        """Raise what a failed spark-submit means; return when the job committed nevertheless."""
        process = self.process
        code = process.returncode if process is not None else None
        if self._killed:
            raise self._killed_error() from None
        if self._output.result is not None:
            self.log.warning(
                "spark-submit ended with exit code %s after the commit %s, which stays",
                code,
                self._output.result.get("instant"),
            )
            return
        if self._output.report is not None:
            raise from_report(self._output.report) from None
        if code is None:
            raise HoodieJobError(str(error)) from error
        if number := _signal_of(code):
            raise HoodieJobKilledError(
                f"spark-submit was killed by signal {number} (9 is often a lack of memory: lower "
                "driver_memory or give the worker more); the next write rolls back what it left"
                + (self._output.last_said() or f". Last output:\n{self._tail()}"),
                exit_code=code,
            ) from None
        raise HoodieJobError(
            f"spark-submit ended with exit code {code} and without a report of the job. "
            f"Last output:\n{self._tail()}",
            exit_code=code,
        ) from None

    def _killed_error(self) -> HoodieJobKilledError:
        return HoodieJobKilledError(
            "the Spark job was killed because the task was; the next write rolls back what it left"
            + self._output.last_said(),
            exit_code=self.process.returncode if self.process is not None else None,
        )

    # --- output ---------------------------------------------------------------------------------------

    def _take_markers(self, lines: Iterator[Any]) -> Iterator[Any]:
        """Lines without secrets and without the HOODIE_* ones, which are kept or logged in readable form."""
        return (self._output.other(line) for line in lines if not self._output.take(line))

    def _tail(self) -> str:
        return "\n".join(self.last_lines[-_TAIL_LINES:])


def connection_help(conn_id: str) -> str:
    """How to say where Spark is."""
    value = json.dumps({"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}})
    return (
        f"Set AIRFLOW_CONN_{conn_id.upper()}='{value}' (host: local[2], yarn, spark://host:7077 or "
        'k8s://https://host), or pass master="local[2]" to the operator.'
    )


def _missing(conn_id: str) -> str:
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    if os.environ.get(variable):
        return (
            f"Airflow can't read the Spark connection {conn_id!r} from {variable}: a master with brackets "
            f"makes no URI (spark://local[2] is none), use the JSON form. {connection_help(conn_id)}"
        )
    return f"Spark connection {conn_id!r} is not defined and master= is not set. {connection_help(conn_id)}"


def _signal_of(exit_code: int) -> int:
    """Signal behind an exit code: negative from Popen, 128 + n from a shell; 0 if none."""
    if exit_code < 0:
        return -exit_code
    return exit_code - 128 if exit_code in (130, 137, 143) else 0
