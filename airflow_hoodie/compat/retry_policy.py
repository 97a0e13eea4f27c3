"""Airflow's retry policies, which older versions do not have."""

from __future__ import annotations

from airflow_hoodie.compat.airflow_version import needs

needs("HoodieRetryPolicy, and HOODIE_RETRIES with it,")

from airflow.sdk import RetryDecision, RetryPolicy  # noqa: E402  not there before Airflow 3.3

__all__ = ["RetryDecision", "RetryPolicy"]
