"""Operators that undo commits and plans, and that keep a commit so that a table can be restored to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_hoodie.assets.events import changed_by
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import HoodieJobOperator
from airflow_hoodie.operators.services import HoodieLocalOperator, is_deferred
from airflow_hoodie.publication import emitting
from airflow_hoodie.table import HoodieTable


class HoodieInstantOperator(HoodieLocalOperator):
    """Base of the services of one instant. Other parameters: HoodieLocalOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param instant: time of the instant, a text of digits as in the XCom of a write. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    template_fields: Sequence[str] = ("instant", *HoodieJobOperator.template_fields)
    #: can it do without
    instant_needed = True

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        instant: str | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        if not is_deferred(instant):
            self._checked(instant)
        self.instant = instant

    def request(self) -> dict[str, Any]:
        instant = self._checked(self.instant)
        return {**super().request(), **({"instant": instant} if instant else {})}

    def _checked(self, instant: str | None) -> str:
        """Raises HoodieConfigurationError; "" where the instant may be left out."""
        text = str(instant or "").strip()
        if (text and not (text.isdigit() and text.isascii())) or (self.instant_needed and not text):
            raise HoodieConfigurationError(
                f"instant is {instant!r}; give the time of an instant, such as 20260131180000000, or a "
                "write's: \"{{ ti.xcom_pull('upsert')['instant'] }}\""
            )
        return text


class RollbackOperator(HoodieInstantOperator):
    """Rolls back one instant: a failed write, a pending clustering, or the newest completed commit.

    An instant that was rolled back before is no error, so that a retry succeeds. The job waits for a writer
    or a service at work (`wait_for_writer`). A later commit, a later plan or a savepoint that prevents the
    rollback raises HoodieTableError, which names it.

    The rollback of a completed commit changes rows, so that the table's asset gets an event of it. The XCom
    `return_value` is the job's RollbackResult (docs/results.md) without names of files. Other parameters:
    HoodieInstantOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param emit_asset: see HoodieCommitOperator.
    """

    job = "rollback"
    changes_rows = True

    ui_color = "#f8e0e0"

    def __init__(
        self, *, table: HoodieTable | Mapping[str, Any], emit_asset: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(table=table, **emitting(self, table, emit_asset, kwargs))

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        rolled_back = result.get("status") == "rolled_back" and result.get("target_state") == "completed"
        return result if rolled_back else None


class CancelOperator(HoodieInstantOperator):
    """Removes a pending compaction or clustering from the timeline, with files of a failed attempt at it.

    `instant` is the plan's, such as `scheduled` in the XCom of the operator that made it. A plan that was
    cancelled before is no error, so that a retry succeeds. The job waits for a writer or a service at work
    (`wait_for_writer`). A compaction whose plan has log files written after it raises HoodieTableError: it
    has to be executed.

    The XCom `return_value` is the job's CancelResult (docs/results.md) without names of files. Parameters:
    HoodieInstantOperator.
    """

    job = "cancel"

    ui_color = "#f8e0e0"


class SavepointOperator(HoodieInstantOperator):
    """Makes a savepoint: the cleaner keeps the files of a commit, and RestoreOperator can return to it.

    Writers may run meanwhile. The XCom `return_value` is the job's SavepointResult (docs/results.md) without
    names of files. Other parameters: HoodieLocalOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param instant: a completed commit; default: the newest. One with a savepoint is no error. (templated)
    :param delete: delete the savepoint of `instant`; one that does not exist is no error.
    :param user: stored in the savepoint; default: DAG and task. (templated)
    :param comments: stored in the savepoint; default: the run. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = "savepoint"

    template_fields: Sequence[str] = ("user", "comments", *HoodieInstantOperator.template_fields)
    ui_color = "#e0ecf8"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        instant: str | None = None,
        delete: bool = False,
        user: str = "{{ ti.dag_id }}/{{ ti.task_id }}",
        comments: str = "{{ ti.run_id }}",
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.instant_needed = delete
        super().__init__(table=table, instant=instant, options=options, **kwargs)
        self.delete = delete
        self.user = user
        self.comments = comments

    def request(self) -> dict[str, Any]:
        return {
            **super().request(),
            "delete": self.delete,
            "user": self.user,
            "comments": self.comments,
        }


class RestoreOperator(HoodieInstantOperator):
    """Restores the table to a savepoint, or to another commit whose files still exist.

    The job rolls back every later write, compaction and clustering; `instant` is the newest commit
    afterwards. The next try finishes a restore that was killed; until then writes of the table fail. Without
    later instants it changes nothing. The job waits for a writer or a service at work (`wait_for_writer`). A
    savepoint after the instant, or files that the cleaner has deleted, raise HoodieTableError, which names
    them.

    A restore changes rows, so that the table's asset gets one event of it, also where the try that restored
    died before its event. The XCom `return_value` is the job's RestoreResult (docs/results.md) without names
    of files. Other parameters: HoodieInstantOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param emit_asset: see HoodieCommitOperator.
    """

    job = "restore"
    changes_rows = True

    ui_color = "#f8e8d8"

    def __init__(
        self, *, table: HoodieTable | Mapping[str, Any], emit_asset: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(table=table, **emitting(self, table, emit_asset, kwargs))

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return changed_by(result)
