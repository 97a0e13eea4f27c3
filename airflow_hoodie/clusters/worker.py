"""Detached jobs of the local engine: processes on the machine of a worker, which outlive their tasks.

A triggerer, and the next try of a task, may be on another machine: they watch and end such a process by its
table, where it gives life signs (hoodie.timeline.running_jobs).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_hoodie.clusters import ClusterManager, State, Status
from airflow_hoodie.clusters.choice import cluster_at
from airflow_hoodie.clusters.rest import SHOWN, shown, unreachable
from airflow_hoodie.exceptions import from_error
from airflow_hoodie.hooks.hoodie import storage_options
from airflow_hoodie.job_output import parse_marker
from airflow_hoodie.turns import storage_of
from hoodie.errors import HoodieError, StorageError
from hoodie.storage import normalize
from hoodie.text import period, visible
from hoodie.timeline.running_jobs import RUNNING, LifeSign, RunningJob

#: of `place()`, which no cluster's has
_TABLE = "table"


class WorkerJobs(ClusterManager):
    """Of a table. The id of an application is its tag.

    :param path: of the table.
    :param options: settings of its storage.
    :param place: as Airflow keeps it.
    """

    NAME = "the table"
    ON_SPARK = False

    def __init__(self, path: str, options: Mapping[str, Any], place: Mapping[str, str]) -> None:
        self._path = path
        self._options = options
        self._place = dict(place)

    @classmethod
    def of(cls, operator: Any) -> WorkerJobs:
        """Of an operator whose table is resolved. Raises HoodieConfigurationError for a table whose own
        options have secrets, as a trigger can't have them.
        """
        storage, path = storage_of(operator), normalize(operator.table["path"])
        place = {_TABLE: path, "options": json.dumps(storage.get("options", {}))}
        if conn_id := storage.get("hoodie_conn_id"):
            place["hoodie_conn_id"] = conn_id
        return cls(path, operator.settings(), place)

    def place(self) -> dict[str, str]:
        return self._place

    def log_command(self, application_id: str) -> str:
        return "above"

    def find(self, tag: str) -> str | None:
        return None if self.sign(tag) is None else tag

    def status(self, application_id: str) -> Status:
        sign = self.sign(application_id)
        if sign is None:
            return Status(State.UNKNOWN)
        if sign.died:
            gone = f"process {sign.pid} on {sign.host} has said nothing for {period(sign.silent_ms)}"
            return Status(State.FAILED, shown(f"{gone}; it was killed, or its machine has stopped"))
        if sign.state != RUNNING:
            return Status(State(sign.state))
        with self._asked():
            ending = self._job(application_id).is_to_end()
        return Status(State.ENDING if ending else State.RUNNING, _last(sign.log))

    def kill(self, application_id: str) -> None:
        with self._asked():
            self._job(application_id).ask_to_end()

    def forget(self, tag: str) -> None:
        """Of a job that runs all stays: it is to see that it is to end."""
        sign = self.sign(tag)
        if sign is not None and sign.state == RUNNING and not sign.died:
            return
        with self._asked():
            self._job(tag).delete()

    def sign(self, tag: str) -> LifeSign | None:
        """The last one of the job; None where there is none."""
        with self._asked():
            return self._job(tag).read()

    def _job(self, tag: str) -> RunningJob:
        return RunningJob(path=self._path, options=self._options, tag=tag)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except (StorageError, OSError) as error:
            raise unreachable(
                self._path, [shown(error)], "is its storage in reach of this machine?"
            ) from error
        except HoodieError as error:
            raise from_error(error) from error


def is_on_worker(place: Mapping[str, str]) -> bool:
    return _TABLE in place


async def manager_at(place: Mapping[str, str]) -> ClusterManager:
    """By its `place()`, in an event loop; credentials of a connection are looked up anew."""
    if not is_on_worker(place):
        return cluster_at(place)
    path, own = place[_TABLE], json.loads(place["options"])
    return WorkerJobs(path, await storage_options(place.get("hoodie_conn_id"), path, own), place)


def readable(log: str) -> Iterator[str]:
    """The lines of a job's output for people, but its result or error, which is logged by itself."""
    for line in log.splitlines():
        kind, value = parse_marker(line, None)
        if value is None:
            yield visible(line)
        elif kind == "PROGRESS":
            yield visible(f"[{value.get('step', 'job')}] {value.get('text', '')}")


def _last(log: str) -> str:
    return "".join(list(readable(log))[-1:])[:SHOWN]
