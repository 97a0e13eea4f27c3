"""Privates of Airflow's provider for Databricks, whose hook lists no runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def list_runs(hook: Any, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A page of runs. `path`: that of the hook's other requests, such as `2.2/jobs/runs/list`."""
    found: dict[str, Any] = hook._do_api_call(("GET", path), dict(parameters))
    return found
