"""What a job or the timeline reports becomes an exception of its cause, with the report's own words."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_hoodie import exceptions
from airflow_hoodie.exceptions import HoodieException, HoodieJobError, from_error, from_report
from hoodie.errors import CODES, HoodieError

CAUSES = {
    "hoodie": ("HoodieJobError", "HoodieException"),
    "configuration": ("HoodieConfigurationError",) * 2,
    "transform": ("HoodieTransformError",) * 2,
    "table_mismatch": ("HoodieConfigurationError",) * 2,
    "input": ("HoodieValidationError",) * 2,
    "schema": ("HoodieValidationError",) * 2,
    "duplicate_key": ("HoodieValidationError",) * 2,
    "source_not_found": ("HoodieSourceNotFoundError",) * 2,
    "validation": ("HoodieValidationError",) * 2,
    "too_costly": ("HoodieValidationError",) * 2,
    "service": ("HoodieServiceError",) * 2,
    "table": ("HoodieTableError",) * 2,
    "table_not_found": ("HoodieTableNotFoundError",) * 2,
    "torn_properties": ("HoodieTableError",) * 2,
    "unsupported_version": ("HoodieTableError",) * 2,
    "half_upgraded": ("HoodieTableError",) * 2,
    "out_of_order": ("HoodieTableStateError",) * 2,
    "not_retained": ("HoodieTableStateError",) * 2,
    "conflict": ("HoodieConflictError",) * 2,
    "table_busy": ("HoodieConflictError",) * 2,
    "lock_timeout": ("HoodieConflictError",) * 2,
    "commit_conflict": ("HoodieConflictError",) * 2,
    "fenced": ("HoodieConflictError",) * 2,
    "commit_unknown": ("HoodieCommitUnknownError",) * 2,
    "storage": ("HoodieJobError", "HoodieException"),
    "already_exists": ("HoodieJobError", "HoodieException"),
    "job": ("HoodieJobError", "HoodieException"),
}


def test_every_code_has_a_cause() -> None:
    assert set(CAUSES) == set(CODES)


@pytest.mark.parametrize("code", CAUSES)
def test_the_cause_and_the_words(code: str) -> None:
    """Of a job's report, and of an error in this process."""
    error = CODES[code]("what happened; what to do", path="/lake/t")
    for raised, name in zip((from_report(error.to_dict()), from_error(error)), CAUSES[code], strict=True):
        assert type(raised) is getattr(exceptions, name)
        assert isinstance(raised, HoodieException)
        assert isinstance(raised, AirflowException)
        assert str(raised) == "what happened; what to do"
        assert (raised.code, raised.values) == (code, {"path": "/lake/t"})


def test_a_report_that_is_not_as_it_should_be() -> None:
    for report in ({}, {"code": "new", "values": [1]}, {"code": None, "message": None}):
        raised = from_report(report)
        assert type(raised) is HoodieJobError
        assert "without a message" in str(raised)
        assert raised.values == {}


def test_a_missing_table_is_a_table_error() -> None:
    assert issubclass(exceptions.HoodieTableNotFoundError, exceptions.HoodieTableError)
    assert from_error(HoodieError("x")).code == "hoodie"


def test_texts_of_a_table_begin_no_line_of_a_log() -> None:
    """Reports are of one line; what a job printed last may have several, and no escape sequences."""
    error = HoodieError("the key 'a\nERROR forged\x1b[2J' is stored twice", key="a\n")
    for raised in (from_report(error.to_dict()), from_error(error)):
        assert str(raised) == raised.message == "the key 'a\\nERROR forged\\x1b[2J' is stored twice"
        assert raised.values == {"key": "a\n"}
    assert (
        str(HoodieJobError("it ended. Last output:\na\x1b[2J\nb")) == "it ended. Last output:\na\\x1b[2J\nb"
    )
