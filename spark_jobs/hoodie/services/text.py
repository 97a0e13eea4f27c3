"""Lines that the texts of several services share; see Service.text."""

from __future__ import annotations

from typing import Any

from hoodie.text import plural, size


def planned_files(files: dict[str, list[str]], service: str) -> list[str]:
    """Lines with the files of a dry run's plans, those of pending ones under their instant."""
    lines: list[str] = []
    for instant, names in files.items():
        lines += [f"  pending {service} {instant}:"] if instant else []
        lines += [f"  {name}" for name in names]
    return lines


def remarks(result: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if result["rolled_back"]:
        lines.append(f"  failed writes rolled back first: {', '.join(result['rolled_back'])}")
    if result["metadata_table_removed"]:
        lines.append("  the metadata table was removed")
    return [*lines, *(f"  warning: {warning}" for warning in result["warnings"])]


def nothing(result: dict[str, Any]) -> str:
    return f"Nothing to do for {result['table']}: {result['reason']}"


def instants(result: dict[str, Any]) -> list[str]:
    """The line with the plans that are left, where a job could have executed them."""
    if result["pending"] and not result["dry_run"]:
        return [f"  pending: {', '.join(result['pending'])}"]
    return []


def deleted(result: dict[str, Any]) -> str:
    """The files of a rollback."""
    text = f"{plural(result['num_files'], 'file')} of {size(result['bytes'])}"
    if result["voided"]:
        text += f" and blocks of {plural(len(result['voided']), 'log file')}"
    return text


def deleted_files(result: dict[str, Any]) -> list[str]:
    lines = [f"  {name}" for name in result["files"]]
    return [*lines, *(f"  {name} (blocks of it)" for name in result["voided"])]
