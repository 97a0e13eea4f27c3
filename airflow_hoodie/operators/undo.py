"""Operators that take a table back, and that keep a commit so that it can be taken back to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import HoodieSparkOperator
from airflow_hoodie.operators.services import HoodieLocalOperator, is_deferred
from airflow_hoodie.table import HoodieTable


class HoodieInstantOperator(HoodieLocalOperator):
    """Base of the services of one instant, a text of digits as an XCom of a write has it."""

    template_fields: Sequence[str] = ("instant", *HoodieSparkOperator.template_fields)
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
    """Roll one instant back: a failed write, a pending clustering, or the newest completed commit.

    instant: the instant. One that was rolled back before is no error, so that a retry succeeds. (templated)
    engine: `local` or `spark`, see HoodieLocalOperator.
    options: settings over the table's.

    The task waits for a writer or a service at work (wait_for_writer). A later commit, a later plan or a
    savepoint that stands in the way makes it fail with HoodieTableError, which names it.

    The XCom `return_value` is the job's RollbackResult without the names of files: status (rolled_back or
    skipped), reason (why it was skipped), instant (the rollback's), target, target_action, target_state,
    table, base_path, action, operation, dry_run, partitions, num_files, bytes, duration_s, warnings,
    rolled_back (other failed writes), metadata_table_removed.
    """

    job = "rollback"

    ui_color = "#f8e0e0"


class CancelOperator(HoodieInstantOperator):
    """Take a pending compaction or clustering off the timeline, with what a failed attempt at it left.

    instant: the plan's, such as the XCom `scheduled` of an operator that made it. One that was cancelled
    before is no error, so that a retry succeeds. (templated)
    engine: `local` or `spark`, see HoodieLocalOperator.
    options: settings over the table's.

    The task waits for a writer or a service at work (wait_for_writer). A compaction that rows were written on
    top of makes it fail with HoodieTableError: it has to be carried out.

    The XCom `return_value` is the job's CancelResult without the names of files: status (cancelled or
    skipped), reason (why it was skipped), instant (that of the rollback that tells of it), target,
    target_action, target_state, table, base_path, action, operation, dry_run, partitions, num_files, bytes,
    duration_s, warnings, rolled_back (failed writes), metadata_table_removed.
    """

    job = "cancel"

    ui_color = "#f8e0e0"


class SavepointOperator(HoodieInstantOperator):
    """Keep the files of a commit from the cleaner, so that RestoreOperator can take the table back to it.

    instant: a completed commit, by default the newest. One that has a savepoint is no error. (templated)
    delete: delete the savepoint of `instant` instead; where there is none nothing happens.
    user, comments: kept in the savepoint, by default DAG and task, and the run. (templated)
    engine: `local` or `spark`, see HoodieLocalOperator.
    options: settings over the table's.

    Writers may go on meanwhile.

    The XCom `return_value` is the job's SavepointResult without the names of files: status (created, deleted
    or skipped), reason (why it was skipped), instant, mode, user, comments, table, base_path, action,
    operation, dry_run, partitions, num_files, bytes, duration_s, warnings, rolled_back,
    metadata_table_removed.
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
    """Take the table back to a savepoint, or another commit whose files are still there.

    Every later write, compaction and clustering is rolled back. A restore that was killed is finished by the
    next try; until then writes of the table fail. Where nothing was written since, nothing happens.

    instant: the commit that is the newest afterwards. (templated)
    engine: `local` or `spark`, see HoodieLocalOperator.
    options: settings over the table's.

    The task waits for a writer or a service at work (wait_for_writer). A savepoint after the instant, or
    files that the cleaner has taken, make it fail with HoodieTableError, which names them.

    The XCom `return_value` is the job's RestoreResult without the names of files: status (restored or
    skipped), reason (why it was skipped), instant (the restore's), restored_to, undone (instants and
    actions), resumed, table, base_path, action, operation, dry_run, partitions, num_files, bytes, duration_s,
    warnings, rolled_back, metadata_table_removed.
    """

    job = "restore"

    ui_color = "#f8e8d8"
