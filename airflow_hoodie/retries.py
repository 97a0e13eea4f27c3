"""Which failures are worth a retry, and when: a conflict soon, a wrong setting never.

UpsertOperator(..., retries=5, retry_policy=HoodieRetryPolicy())
DAG(..., default_args=HOODIE_RETRIES)
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_hoodie.compat.retry_policy import RetryDecision, RetryPolicy
from airflow_hoodie.exceptions import (
    HoodieCommitUnknownError,
    HoodieConfigurationError,
    HoodieConflictError,
    HoodieJobKilledError,
    HoodieSourceNotFoundError,
    HoodieTableStateError,
    HoodieTransformError,
    HoodieValidationError,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

_CONFLICTS = {
    "table_busy": "another writer is at work on the table",
    "lock_timeout": "another process holds the lock of the table",
    "commit_conflict": "a commit or plan of another writer came between",
    "fenced": "another writer took the job for dead, and undid its write",
}


class HoodieRetryPolicy(RetryPolicy):
    """By the exception's cause (airflow_hoodie.exceptions).

    Conflicts are retried after `base`, doubled with every try up to `longest`, give or take a quarter, so
    that writers which collided don't collide again; so is a source that has no files yet, and a
    function of one's own that could not reach what it calls. Other errors of such a function, wrong settings,
    rows that can't be written and data intervals out of order fail at once: the next try would find the same.
    A job that was killed is retried after `base`; its write is found or rolled back. So is one whose commit
    may be there or not, if the retry would find the commit; else it fails, as a person has to look. For
    everything else the task's own `retry_delay` counts. `retries` bounds them all.
    """

    def __init__(
        self, base: timedelta = timedelta(seconds=30), longest: timedelta = timedelta(minutes=10)
    ) -> None:
        if not timedelta(0) < base <= longest:
            raise HoodieConfigurationError(
                f"HoodieRetryPolicy: base is {base}, longest {longest}; give 0 < base <= longest"
            )
        self.base = base
        self.longest = longest

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        if isinstance(exception, HoodieConflictError):
            reason = _CONFLICTS.get(exception.code, _CONFLICTS["table_busy"])
            return RetryDecision.retry(self._delay(try_number), reason)
        if isinstance(exception, HoodieSourceNotFoundError):
            return RetryDecision.retry(self._delay(try_number), "the source is not there yet")
        if isinstance(exception, HoodieTransformError):
            if exception.transient:
                return RetryDecision.retry(self._delay(try_number), "what the transform calls did not answer")
            return RetryDecision.fail("a retry finds the same error of the transform")
        if isinstance(exception, HoodieConfigurationError):
            return RetryDecision.fail("a retry finds the same wrong setting")
        if isinstance(exception, HoodieTableStateError):
            return RetryDecision.fail("a retry finds the same table")
        if isinstance(exception, HoodieValidationError):
            return RetryDecision.fail("a retry finds the same rows")
        if isinstance(exception, HoodieCommitUnknownError):
            if exception.values.get("repeatable") is True:
                return RetryDecision.retry(self.base, "a retry finds the commit, if it was made")
            return RetryDecision.fail("a retry could write the rows twice; look whether the commit is there")
        if isinstance(exception, HoodieJobKilledError):
            return RetryDecision.retry(self.base, "the job was killed; a commit that it made is found")
        return RetryDecision.default()

    def _delay(self, try_number: int) -> timedelta:
        doubled: timedelta = self.base * 2 ** min(max(try_number - 1, 0), 30)
        return min(doubled, self.longest) * random.uniform(0.75, 1.25)

    def serialize(self) -> dict[str, Any]:
        return {"base": self.base.total_seconds(), "longest": self.longest.total_seconds()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> HoodieRetryPolicy:
        return cls(timedelta(seconds=data["base"]), timedelta(seconds=data["longest"]))


#: for `default_args`
HOODIE_RETRIES: dict[str, Any] = {
    "retries": 5,
    "retry_delay": timedelta(minutes=1),
    "retry_policy": HoodieRetryPolicy(),
}
