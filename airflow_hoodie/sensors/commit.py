"""CommitSensor: wait for commits on a table's timeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from airflow_hoodie.conditions import COMMITS
from airflow_hoodie.sensors.base import TimelineSensor


class CommitSensor(TimelineSensor):
    """Succeeds when at least `min_commits` commits of rows lie after `after`.

    after: None (any commit counts), an instant (14 or 17 digits; greater instants count), or a moment
        (datetime or ISO 8601 text, UTC without a zone; later completions count). (templated) An empty
        rendering is None; see airflow_hoodie.conditions.
    until: upper bound of the same form: commits up to it count. With `after` and `until` a data interval's
        commits. (templated)
    actions: which completed actions count. Compactions and clusterings never do.
    partition: a partition path as in the table, or several: commits that wrote to any of them. (templated)
    token: text that the commit must carry in its extra metadata under `airflow.token`. (templated)
    extra_metadata: texts that the commit must carry there under other keys. (templated)
    min_commits: so many of the active timeline's commits.

    XCom `return_value`: of the commits that count the one completed last, as {"base_path", "instant",
    "action", "completion_time"}. Other arguments are TimelineSensor's.
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
