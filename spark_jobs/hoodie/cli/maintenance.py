"""`hoodie services plan` and `hoodie services run`."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

import hoodie
from hoodie.backend import Backend
from hoodie.cli.engine import session
from hoodie.cli.output import Answer, grid
from hoodie.cli.write import options_of, progress_for
from hoodie.services.registry import planned
from hoodie.text import size


def plan(args: argparse.Namespace) -> Answer:
    """What each service would do now, and why, or why nothing."""
    result = hoodie.plan_services(args.table, only=args.only, options=options_of(args)).to_dict()
    return Answer.of(result, plan_text)


def plan_text(result: dict[str, Any]) -> str:
    """A ServicesPlan for people."""
    rows = [
        [
            item["service"],
            "fails" if item["error"] else "yes" if item["due"] else "no",
            _would(item),
            item["reason"],
        ]
        for item in result["services"]
    ]
    lines = [
        f"Services of {result['table']} ({result['table_type'].lower().replace('_', ' ')})",
        "",
        grid(("service", "due", "would", "why"), rows),
    ]
    notes = [
        f"  {item['action']} {item['instant']} is {item['verdict']}, {item['state']} for {item['age_s']} s"
        + (f", by {item['owner']}" if item["owner"] else "")
        for plan in result["services"]
        for item in plan["pending"]
    ]
    notes += [
        f"  a writer is at work, instant {item['instant']}, {item['owner']}: until it ends nothing is "
        "planned or repaired"
        for item in result["writers"]
    ]
    notes += [
        f"  {item['action']} {item['instant']} is pending: {item['remedy']}" for item in result["others"]
    ]
    notes += [f"  warning: {warning}" for warning in result["warnings"]]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _would(item: dict[str, Any]) -> str:
    return f"{item['would']}, {size(item['bytes'])}" if item["bytes"] else item["would"]


def run(args: argparse.Namespace) -> Answer:
    """Run the services that are due, and say what each did. Exit code 1 when one failed."""
    opening = session(args)
    with contextlib.ExitStack() as stack:

        def started() -> Backend:
            return stack.enter_context(opening)

        result = hoodie.run_services(
            args.table,
            only=args.only,
            options=options_of(args),
            spark=started,
            dry_run=args.dry_run,
            progress=progress_for(args),
        ).to_dict()
    return Answer.of(result, run_text, 1 if result["failed"] else 0)


def run_text(result: dict[str, Any]) -> str:
    """A ServicesResult for people: each service's own text."""
    lines: list[str] = []
    services = planned()
    for name, own in result["services"].items():
        if own["status"] == "failed":
            lines.append(f"{name}: failed: {own['reason']}")
        elif own["status"] == "skipped":
            lines.append(f"{name}: nothing to do: {own['reason']}")
        else:
            lines.append(f"{name}: {services[name].text(own)}")
    return "\n".join(lines)
