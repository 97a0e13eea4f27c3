"""CommitSensor: wait for commits on a table's timeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from airflow_hoodie.conditions import COMMITS
from airflow_hoodie.sensors.base import TimelineSensor


class CommitSensor(TimelineSensor):
    """Succeeds when at least `min_commits` commits of rows lie after `after`.

    The XCom `return_value` is the commit that completed last of those that count, as {"base_path", "instant",
    "action", "completion_time"}. Other parameters: TimelineSensor.

    :param after: None (any commit counts), an instant (14 or 17 digits; what completed after it counts, or
        greater instants where it is not completed on the timeline), or a moment (datetime or ISO 8601 text,
        UTC without a zone; later completions count). A template that renders to
        an empty text is None; see airflow_hoodie.conditions. (templated)
    :param until: upper bound, inclusive, of the same form; `after` and `until` together select the commits of
        a data interval. (templated)
    :param actions: the completed actions that count. Compactions and clusterings never do.
    :param partition: a partition path as in the table, or several: a commit counts that wrote to any of them.
        (templated)
    :param token: text of the key `airflow.token` in the commit's extra metadata. (templated)
    :param extra_metadata: texts of other keys there. (templated)
    :param min_commits: number of commits of the active timeline.
    """

    condition_kind = "commits"
    condition_fields = ("after", "until", "actions", "partition", "token", "extra_metadata", "min_commits")
    template_fields: Sequence[str] = (
        *TimelineSensor.template_fields,
        "after",
        "until",
        "partition",
        "token",
        "extra_metadata",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **TimelineSensor.template_fields_renderers,
        "extra_metadata": "json",
    }

    def __init__(
        self,
        *,
        after: str | datetime | None = None,
        until: str | datetime | None = None,
        actions: Collection[str] = COMMITS,
        partition: str | Collection[str] | None = None,
        token: str | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        min_commits: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.after = after
        self.until = until
        self.actions = actions
        self.partition = partition
        self.token = token
        self.extra_metadata = extra_metadata
        self.min_commits = min_commits
        self._declared()
