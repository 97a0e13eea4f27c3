"""The run as one JSON document, and as a table for people."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import asdict
from typing import Any

import psutil  # type: ignore[import-untyped]

from .runner import Outcome, Settings
from .scenarios import Case

MEMORY = (
    "MiB over the process tree, sampled every 50 ms: RSS of the JVM plus PSS of every other process; "
    "python worker: the largest single process, driver and JVM left out"
)
Row = dict[str, Any]


_MERGE_ON_READ = (
    ("mor_upsert", 5.0),
    ("mor_compaction_1", 6.0),
    ("mor_compaction_5", 6.0),
    ("mor_snapshot_1", 4.0),
    ("mor_snapshot_5", 4.0),
    ("mor_recent_1", 4.0),
    ("mor_recent_5", 4.0),
    ("mor_aggregate_1", 4.0),
    ("mor_aggregate_5", 4.0),
)


_CLUSTERING = (("clustering_linear", 5.0), ("clustering_hilbert", 5.0), ("clustering_4_partitions", 5.0))
_QUERIES = (("query_clustered", 3.0), ("lookup_1", 5.0), ("lookup_10000", 5.0))


def document(scenario: str, settings: Settings, cases: list[Case], outcomes: list[Outcome]) -> Row:
    """`results` has a row per contestant and case; `ratios` compares each with `ours`, case by case."""
    results = [_row(outcome) for outcome in outcomes]
    ratios = {case.name: _ratios([row for row in results if row["case"] == case.name]) for case in cases}
    return {
        "scenario": scenario,
        "settings": asdict(settings) | {"work": None, "master": "local[2]"},
        "cases": [asdict(case) for case in cases],
        "machine": {
            "cpus": os.cpu_count(),
            "memory_mib": psutil.virtual_memory().total >> 20,
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
        "memory": MEMORY,
        "rows_equal": all(row["rows_equal"] for row in results if row["seconds"]),
        "results": results,
        "ratios": ratios,
        "targets": _targets(scenario, results),
    }


def _row(outcome: Outcome) -> Row:
    samples = outcome.samples
    seconds = [round(sample.seconds, 3) for sample in samples]
    return {
        "contestant": outcome.contestant,
        "case": outcome.case,
        "versions": outcome.versions,
        "median_seconds": _median(seconds),
        "seconds": seconds,
        "cpu_seconds": [round(sample.usage.cpu_seconds, 2) for sample in samples],
        "peak_mib": max((round(sample.usage.peak) for sample in samples), default=None),
        "peaks_mib": [round(sample.usage.peak) for sample in samples],
        "peaks_jvm_mib": [round(sample.usage.peak_jvm) for sample in samples],
        "peaks_python_worker_mib": [round(sample.usage.peak_python_worker) for sample in samples],
        "load_average_before": [round(sample.load_before, 2) for sample in samples],
        "files_written": [sample.files for sample in samples],
        "bytes_written": [sample.bytes for sample in samples],
        "results": [sample.result for sample in samples],
        "base_load_seconds": outcome.load_seconds and round(outcome.load_seconds, 2),
        "rows_equal": outcome.rows_equal,
        "differences": outcome.differences,
        "error": outcome.error,
    }


def _median(values: list[float]) -> float | None:
    return round(statistics.median(values), 3) if values else None


def _ratios(rows: list[Row]) -> dict[str, dict[str, float | None]]:
    """Of every contestant to `ours`: above one, ours is faster or smaller."""
    ours = next((row for row in rows if row["contestant"] == "ours"), None)
    if ours is None:
        return {}
    return {
        row["contestant"]: {
            "seconds_to_ours": _divide(row["median_seconds"], ours["median_seconds"]),
            "cpu_to_ours": _divide(_median(row["cpu_seconds"]), _median(ours["cpu_seconds"])),
            "peak_to_ours": _divide(row["peak_mib"], ours["peak_mib"]),
        }
        for row in rows
        if row is not ours
    }


def _divide(a: float | None, b: float | None) -> float | None:
    return round(a / b, 3) if a and b else None


def _targets(scenario: str, rows: list[Row]) -> list[Row]:
    """The project's targets, as far as this run measured both sides of them."""
    by = {(row["contestant"], row["case"]): row for row in rows}

    def ratio(over: str, under: str, field: str) -> float | None:
        above, below = by.get((over, scenario)), by.get((under, scenario))
        return _divide(above[field], below[field]) if above and below else None

    found: list[tuple[str, str, float, float | None]] = []
    peers = sorted({row["contestant"] for row in rows if row["contestant"].startswith("hudi-")})
    for ours, floor in (("ours", "spark-floor"), ("ours-3.5", "spark-floor-3.5")):
        for peer in peers if scenario == "upsert" else ():
            if peer.endswith("bucket"):
                continue
            bound = 5.0 if peer.endswith("bloom") else 4.0
            found.append((f"time of {peer} to {ours}", ">=", bound, ratio(peer, ours, "median_seconds")))
            found.append((f"peak memory of {ours} to {peer}", "<=", 0.6, ratio(ours, peer, "peak_mib")))
        if scenario == "bulk_insert":
            found.append((f"time of {ours} to {floor}", "<=", 0.7, ratio(ours, floor, "median_seconds")))
    bucketed = ratio("hudi-0.15.0-bucket", "ours-bucket", "median_seconds")
    found.append(("time of hudi-0.15.0-bucket to ours-bucket", ">=", 5.0, bucketed))
    for case, bound in (*_MERGE_ON_READ, *_CLUSTERING):
        for peer in peers:
            mine, other = by.get(("ours", case)), by.get((peer, case))
            if mine and other:
                times = _divide(other["median_seconds"], mine["median_seconds"])
                peaks = _divide(mine["peak_mib"], other["peak_mib"])
                found.append((f"{case}: time of {peer} to ours", ">=", bound, times))
                found.append((f"{case}: peak memory of ours to {peer}", "<=", 0.6, peaks))
    for case, bound in _QUERIES:
        mine, other = by.get(("ours-indexed", case)), by.get(("hudi-0.15.0-indexed", case))
        if mine and other:
            times = _divide(other["median_seconds"], mine["median_seconds"])
            found.append((f"{case}: time of hudi-0.15.0-indexed to ours-indexed", ">=", bound, times))
    for name, plain in (("ours-files", "ours-plain"), ("ours-indexed", "ours-plain")):
        mine, other = by.get((name, "upsert")), by.get((plain, "upsert"))
        if mine and other:
            times = _divide(mine["median_seconds"], other["median_seconds"])
            found.append((f"upsert: time of {name} to {plain}", "<=", 1.15, times))
    for ours, bound in (("ours", 1.0), ("ours-local", 0.3)):
        wide: Row = by.get((ours, "1000-partitions-5-touched"), {})
        found.append((f"seconds of {ours}, {wide.get('case')}", "<=", bound, wide.get("median_seconds")))
    return [
        {
            "target": f"{text} {sign} {bound:g}",
            "measured": measured,
            "met": measured >= bound if sign == ">=" else measured <= bound,
        }
        for text, sign, bound, measured in found
        if measured is not None
    ]


def table(doc: Row) -> str:
    """Aligned text: one line per contestant and case, then the targets."""
    header = (
        "case",
        "contestant",
        "median s",
        "samples",
        "cpu s",
        "peak MiB",
        "py worker",
        "files",
        "MB",
        "x ours",
        "rows",
    )
    lines = [header]
    for row in doc["results"]:
        ratio = doc["ratios"].get(row["case"], {}).get(row["contestant"], {}).get("seconds_to_ours")
        lines.append(
            (
                row["case"],
                row["contestant"],
                _text(row["median_seconds"]),
                " ".join(f"{value:.2f}" for value in row["seconds"]),
                _text(_median(row["cpu_seconds"])),
                _text(row["peak_mib"]),
                _text(max(row["peaks_python_worker_mib"], default=None)),
                _text(max(row["files_written"], default=None)),
                _text(max((size / 1e6 for size in row["bytes_written"]), default=None)),
                _text(ratio),
                (row["error"] and "FAILED") or {True: "equal", False: "DIFFER", None: "-"}[row["rows_equal"]],
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    text += [f"{row['contestant']} {row['case']}: {row['error']}" for row in doc["results"] if row["error"]]
    text += [f"{'met ' if t['met'] else 'MISS'}  {t['target']}: {t['measured']}" for t in doc["targets"]]
    return "\n".join(text)


def _text(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"
