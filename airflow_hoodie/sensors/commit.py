"""CommitSensor: wait for commits on a table's timeline, without Spark and without Arrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_hoodie.conditions import Since, commit_actions, newest_commit
from airflow_hoodie.exceptions import HoodieConfigurationError, from_error
from airflow_hoodie.table import HoodieTable, check_path, is_template
from hoodie.errors import HoodieError, TableNotFound
from hoodie.storage import normalize
from hoodie.timeline.active import Timeline

if TYPE_CHECKING:
    from airflow.sdk import Context

COMMITS = ("commit", "deltacommit", "replacecommit")


class CommitSensor(BaseSensorOperator):
    """Succeeds when at least `min_commits` commits of rows lie after `after`.

    table: HoodieTable, its dict form, or the table's path. (templated)
    after: None (any commit counts), an instant (14 or 17 digits; greater instants count), or a moment
        (datetime or ISO 8601 text, UTC without a zone; later completions count). (templated) An empty
        rendering is None; see airflow_hoodie.conditions.
    actions: which completed actions count. Compactions and clusterings never do.
    missing: `wait` for a table that does not exist yet, or `fail` with HoodieTableNotFoundError.

    XCom `return_value`: the commit completed last, as {"base_path", "instant", "action",
    "completion_time"}. Other arguments are BaseSensorOperator's.
    """

    template_fields: Sequence[str] = ("table", "after")
    template_fields_renderers: ClassVar[dict[str, str]] = {"table": "json"}
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any] | str,
        after: str | datetime | None = None,
        actions: Collection[str] = COMMITS,
        min_commits: int = 1,
        missing: Literal["wait", "fail"] = "wait",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = (
            table if isinstance(table, str) or hasattr(table, "resolve") else HoodieTable.of(table).to_dict()
        )
        self.after = after
        self.actions = actions
        self.min_commits = min_commits
        self.missing = missing
        if isinstance(self.table, str):
            check_path(self.table)
        if not isinstance(min_commits, int) or min_commits < 1:
            raise HoodieConfigurationError(f"min_commits is {min_commits!r}; use 1 or more")
        if missing not in ("wait", "fail"):
            raise HoodieConfigurationError(f"missing is {missing!r}; use 'wait' or 'fail'")
        try:
            commit_actions(actions)
            if not hasattr(after, "resolve") and not (isinstance(after, str) and is_template(after)):
                Since.parse(after)
        except HoodieError as error:
            raise from_error(error) from None

    def poke(self, context: Context) -> PokeReturnValue:
        table: Any = self.table
        path = check_path(table if isinstance(table, str) else table.get("path"))
        try:
            timeline = Timeline.load(normalize(path))
            hit = newest_commit(
                timeline,
                since=Since.parse(self.after),
                actions=commit_actions(self.actions),
                min_commits=self.min_commits,
            )
        except TableNotFound as error:
            if self.missing == "fail":
                raise from_error(error) from None
            self.log.info("No table at %s yet", path)
            return PokeReturnValue(is_done=False)
        except HoodieError as error:
            raise from_error(error) from error
        if hit is None:
            self.log.info(
                "Not yet %d commits on %s after %s; last commit %s",
                self.min_commits,
                path,
                self.after or "the beginning",
                timeline.last_commit or "none",
            )
            return PokeReturnValue(is_done=False)
        self.log.info("Commit %s on %s", hit.instant.time, path)
        return PokeReturnValue(is_done=True, xcom_value=hit.to_dict())
