"""What a job on a cluster leaves in its table for its task, which does not see the job's output.

It comes out of a table, so that anybody who may write there may have made it: it is taken for a result of a
job on this table, or refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_hoodie.exceptions import from_error
from airflow_hoodie.job_output import SUMMARY
from hoodie.config.key import Config
from hoodie.errors import HoodieError, TableError, TableNotFound
from hoodie.storage import normalize
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table
from hoodie.timeline.job_reports import JobReport, StoredReport

#: fields that every result has
_TEXTS = ("status", "table", "base_path", "operation")
#: fields that others read, in results that have them
_LISTS = ("partitions", "warnings", "rolled_back", "compacted", "clustered", "cleaned")


class JobResult(StoredReport):
    """As its task reads and deletes it; both raise the exceptions of airflow_hoodie.exceptions."""

    def read(self) -> JobReport | None:
        """None where there is none. Raises HoodieTableError for one that is damaged or forged."""
        with _raised():
            report = super().read()
            result = None if report is None else report.result
            if result is not None and not is_result(result, normalize(self.path)):
                raise TableError(
                    f"what {self.path} has for the job {self.tag} is no result of a job on this table; look "
                    "who may write to the table. The next try runs the job again",
                    path=self.path,
                )
        return report

    def delete(self) -> None:
        """A report that is missing is no error."""
        with _raised():
            super().delete()


def check_table(path: str, options: Mapping[str, Any]) -> None:
    """Raises HoodieTableNotFoundError where there is no table; of other errors the job has more to say."""
    try:
        Table.open(path, Config.of(options_of(options)))
    except TableNotFound as error:
        raise from_error(error) from error
    except HoodieError:
        pass


def is_result(result: Mapping[str, Any], base_path: str) -> bool:
    """Has it the form of a result, of a job on this table?"""
    if result.get("base_path") != base_path or not all(isinstance(result.get(name), str) for name in _TEXTS):
        return False
    if not _is_sound(result) or not ("services" not in result or _are_services(result)):
        return False
    return isinstance(result.get(SUMMARY, ""), str)


def _is_sound(part: Mapping[str, Any]) -> bool:
    counts = [value for name, value in part.items() if name.startswith(("num_", "bytes"))]
    return (
        all(isinstance(count, int) for count in counts)
        and isinstance(part.get("instant", ""), str)
        and isinstance(part.get("duration_s", 0), (int, float))
        and all(_are_texts(part.get(name, [])) for name in _LISTS)
    )


def _are_services(result: Mapping[str, Any]) -> bool:
    services = result["services"]
    if not isinstance(services, dict) or not all(isinstance(own, dict) for own in services.values()):
        return False
    failed = result.get("failed", ())
    return (
        all(_is_sound(own) for own in services.values())
        and _are_texts(result.get("done"))
        and _are_texts(failed)
        and all(_is_failure(services.get(name, {})) for name in failed)
    )


def _is_failure(own: Mapping[str, Any]) -> bool:
    return isinstance(own.get("error"), dict) and isinstance(own.get("reason"), str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


@contextmanager
def _raised() -> Iterator[None]:
    try:
        yield
    except HoodieError as error:
        raise from_error(error) from error
