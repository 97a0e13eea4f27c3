"""All services of a table, one after the other, and what each reports."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.errors import HoodieError, JobError
from hoodie.services.planner.activity import Activity
from hoodie.services.planner.entry import PlannerEntry
from hoodie.services.planner.plan import chosen, left_out, request_of
from hoodie.services.request import Request, ServicesRequest
from hoodie.services.results import ServiceResult, about
from hoodie.services.retention import check_retention
from hoodie.services.service_table import ServiceTable


@dataclass(frozen=True, kw_only=True)
class ServicesResult(ServiceResult):
    """What the services of a table did, or, with dry_run, would do.

    status: `done`, `planned` (a dry run), `skipped` (no service had anything to do) or `failed` (one of them
    did; the others ran all the same). done, skipped, failed: names of services; those that a dry run plans
    are `done`. services: each one's result by name, in the order in which they ran; of one that failed its
    status `failed`, the reason, and `error`, as HoodieError.to_dict.
    """

    done: list[str]
    skipped: list[str]
    failed: list[str]
    services: dict[str, dict[str, Any]]
    mode: str = "run"
    action: str = "services"
    operation: str = "services"


def run(request: ServicesRequest) -> ServicesResult:
    """Run the services that are due, or those of them that the request names.

    Raises HoodieError for wrong settings and where there is no table; the error of a service is in the
    result, and the next ones run all the same.
    """
    started = time.monotonic()
    entries = chosen(request.only)
    target = ServiceTable.open(request.table, request.options, request.extra_metadata)
    check_retention(target.config)
    results: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        pending = Activity.of(target).pending(entry.actions)
        reason = left_out(entry, target, pending, request.only is not None)
        asked = request_of(entry, target, request, request.dry_run)
        results[name] = _skipped(reason) if reason else _one(entry, asked)
    return _result(target, request.dry_run, results, time.monotonic() - started)


def _one(entry: PlannerEntry, request: Request) -> dict[str, Any]:
    try:
        return entry.run(request).to_dict()
    except HoodieError as error:
        return _failed(error)
    except OSError as error:
        return _failed(JobError(f"{error.filename or 'storage'}: {error.strerror or error}"))
    except Exception as error:  # noqa: BLE001  whatever it is, the other services have their turn
        traceback.print_exc()
        return _failed(JobError(f"{type(error).__name__}: {error}"))


def _skipped(reason: str) -> dict[str, Any]:
    return {"status": "skipped", "reason": reason, "warnings": []}


def _failed(error: HoodieError) -> dict[str, Any]:
    return {"status": "failed", "reason": error.message, "warnings": [], "error": error.to_dict()}


def _result(
    target: ServiceTable, dry_run: bool, results: dict[str, dict[str, Any]], seconds: float
) -> ServicesResult:
    def named(*statuses: str) -> list[str]:
        return [name for name, result in results.items() if result["status"] in statuses]

    failed, skipped = named("failed"), named("skipped")
    done = [name for name in results if name not in failed and name not in skipped]
    reasons = [f"{name}: {results[name]['reason']}" for name in failed or (skipped if not done else [])]
    instants = [results[name].get("instant", "") for name in done]
    return ServicesResult(
        status="failed" if failed else "skipped" if not done else "planned" if dry_run else "done",
        instant=next((instant for instant in reversed(instants) if instant), ""),
        reason="; ".join(reasons),
        done=done,
        skipped=skipped,
        failed=failed,
        services=results,
        **{
            **about(target, dry_run, seconds),
            "warnings": _unique(results, "warnings"),
            "rolled_back": _unique(results, "rolled_back"),
            "metadata_table_removed": any(item.get("metadata_table_removed") for item in results.values()),
        },
    )


def _unique(results: Mapping[str, Mapping[str, Any]], name: str) -> list[str]:
    return list(dict.fromkeys(item for result in results.values() for item in result.get(name) or ()))
