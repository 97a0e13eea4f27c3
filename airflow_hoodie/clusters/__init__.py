"""Applications on a cluster: found by the tag that their submission gave them, watched, and killed.

A tag is chosen before spark-submit starts and kept where a retry sees it, so that an application is known
also where the worker died before it read its id. One module a cluster manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar


class State(Enum):
    """What a cluster manager says of an application.

    ENDING: it runs, and has been killed. UNKNOWN: the cluster manager has none of that id, or no more.
    """

    RUNNING = "running"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Status:
    """`said`: what the cluster manager says besides, such as why the application failed; else ""."""

    state: State
    said: str = ""

    @property
    def ended(self) -> bool:
        return self.state not in (State.RUNNING, State.ENDING)


class ClusterManager:
    """`find`, `status` and `kill` ask the cluster, and block up to TIMEOUT_S for each of its addresses.

    They raise HoodieJobError (code `unreachable`) where no address answers as it should, which may pass, and
    HoodieConfigurationError where the cluster refuses the request.
    """

    TIMEOUT_S = 10.0
    #: as people call it
    NAME: ClassVar[str]

    def place(self) -> dict[str, str]:
        """What `clusters.choice.cluster_at` makes the same of. Airflow keeps it: it contains no secrets."""
        raise NotImplementedError

    def conf(self, tag: str, given: Mapping[str, Any]) -> dict[str, str]:
        """Settings by which spark-submit gives the application the tag, and ends once it is accepted.

        `given`: the user's settings of Spark.
        """
        raise NotImplementedError

    def log_command(self, application_id: str) -> str:
        """The command that shows the log of the application's driver."""
        raise NotImplementedError

    def find(self, tag: str) -> str | None:
        """The id of the application with this tag; None where there is none, or no more."""
        raise NotImplementedError

    def status(self, application_id: str) -> Status:
        """Of the application."""
        raise NotImplementedError

    def kill(self, application_id: str) -> None:
        """Ask the cluster to end the application; one that has ended, or is unknown, is no error."""
        raise NotImplementedError
