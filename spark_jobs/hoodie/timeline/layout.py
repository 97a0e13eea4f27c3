"""What the layouts of timelines differ in: a question each, which `layouts` answer.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, ClassVar

from hoodie.config.versions import LayoutVersion
from hoodie.format.names import META_FOLDER
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.time import InstantTime


class Layout:
    """Names, contents and times of a timeline's files. Instances hold no state; one a layout.

    A layout defines `version`, `parse`, `name` and `instants`; the rest is as in layout one unless it says
    otherwise.
    """

    version: ClassVar[LayoutVersion]
    #: of the active timeline, in the table's folder
    folder: ClassVar[str] = META_FOLDER
    #: whether the name of a completed instant's file has the time of its completion; otherwise that is the
    #: file's modification time
    has_completion_time: ClassVar[bool] = False
    #: pending action -> the action under whose name its completed file lies
    completes_as: ClassVar[Mapping[Action, Action]]
    #: under which a clustering is planned
    clustering: ClassVar[Action] = Action.REPLACECOMMIT

    def parse(self, name: str) -> Instant | None:
        """Name of a file -> instant; None for a file that is no instant's."""
        raise NotImplementedError

    def name(self, instant: Instant) -> str:
        """The name of an instant's file in `folder`."""
        raise NotImplementedError

    def instants(self, listing: Collection[str]) -> tuple[tuple[Instant, ...], list[str]]:
        """Names of all files of the folder -> the highest state of each instant, sorted; instants' names."""
        raise NotImplementedError

    def path(self, base_path: str, instant: Instant) -> str:
        return f"{base_path}/{self.folder}/{self.name(instant)}"

    def archive_folder(self, base_path: str, configured: str) -> str:
        """Where the archived timeline lies; `configured` is hoodie.archivelog.folder."""
        return f"{base_path}/{META_FOLDER}/{configured}"

    def commit_value(self, action: Action, data: bytes) -> Mapping[str, Any]:
        """What the file of a commit contains, as a JSON object with Hudi's keys.

        Raises ValueError for other content, which includes no content.
        """
        raise NotImplementedError

    def content(self, metadata: Metadata) -> bytes:
        """What the completed file of an instant contains, or the inflight file of a commit."""
        raise NotImplementedError

    def inflight_clean(self, plan: bytes) -> bytes:
        """What the inflight file of a clean contains."""
        return plan

    def comparable(self, action: Action) -> Action:
        return self.completes_as.get(action, action)

    def plans_of(self, action: Action) -> tuple[Action, ...]:
        """The actions whose completed files lie under this action's name, apart from itself."""
        return self._plans.get(action, ())

    @cached_property
    def _plans(self) -> Mapping[Action, tuple[Action, ...]]:
        """Asked for every commit at each poll of a sensor, so made once."""
        plans: dict[Action, tuple[Action, ...]] = {}
        for plan, done in self.completes_as.items():
            plans[done] = (*plans.get(done, ()), plan)
        return plans

    def requested_name(self, time: InstantTime, action: Action) -> str:
        return self.name(Instant(time, action, State.REQUESTED))
