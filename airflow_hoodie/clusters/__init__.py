"""Applications on a cluster: found by the tag that their submission gave them, watched, and killed.

A tag is chosen before spark-submit starts and kept where a retry sees it, so that an application is known
also where the worker died before it read its id. One module a cluster manager, or a platform that is its own
(airflow_hoodie.clusters.platform).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

#: of the `place()` of a platform, which no cluster's has
ON_PLATFORM = "platform"


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
    """Methods from `find` on ask the cluster, and block up to TIMEOUT_S for each of its addresses.

    They raise HoodieJobError (code `unreachable`) where no address answers as it should, which may pass, and
    HoodieConfigurationError where the cluster refuses the request.
    """

    TIMEOUT_S = 10.0
    #: as people call it
    NAME: ClassVar[str]
    #: path at which a driver finds the request that is kept for it; None where files of jobs are closed to
    #: others, and gone with the application, so that none need be kept
    KEPT_REQUEST: ClassVar[str | None] = None
    #: are applications Spark's
    ON_SPARK: ClassVar[bool] = True

    def place(self) -> dict[str, str]:
        """What `clusters.choice.cluster_at` makes the same of. Airflow keeps it: it contains no secrets."""
        raise NotImplementedError

    def conf(self, tag: str, given: Mapping[str, Any]) -> dict[str, str]:
        """Settings by which spark-submit gives the application the tag, and ends once it is accepted.

        `given`: the user's settings of Spark.
        """
        raise NotImplementedError

    def request_conf(self, tag: str) -> dict[str, str]:
        """Settings by which the driver finds, at KEPT_REQUEST, what is kept for the tag."""
        return {}

    def log_command(self, application_id: str) -> str:
        """The command that shows the log of the application's driver."""
        raise NotImplementedError

    def label(self, application_id: str) -> str:
        """What messages call the application."""
        return application_id

    def find(self, tag: str) -> str | None:
        """The id of the application with this tag; None where there is none, or no more."""
        raise NotImplementedError

    def status(self, application_id: str) -> Status:
        """Of the application."""
        raise NotImplementedError

    def ui(self, application_id: str) -> str:
        """Address at which people see the application, running or ended; "" where there is none."""
        return ""

    def kill(self, application_id: str) -> None:
        """Ask the cluster to end the application; one that has ended, or is unknown, is no error."""
        raise NotImplementedError

    def keep(self, tag: str, request: str) -> None:
        """Keep the request of a job, with its secrets, for the application that will have the tag."""
        raise NotImplementedError

    def bind_request(self, tag: str) -> None:
        """What is kept for the tag is gone with the application, from now on."""

    def forget(self, tag: str) -> None:
        """Delete what is kept for the tag; nothing is no error."""
