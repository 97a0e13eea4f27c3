"""Few rows of a DataFrame, in this process."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.engine.analysed import has_rdd
from hoodie.engine.repeatable import is_short
from hoodie.engine.session import arrow_rows, plan_text

#: rows are few where Spark's estimate is no more bytes, and they are not more
FEW_BYTES, FEW_ROWS = 4 << 20, 100_000
_LOGICAL = "== Optimized Logical Plan =="
_ESTIMATE = re.compile(r"\bStatistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) (|K|M|G|T|P|E)i?B\b")
_UNITS = ("", "K", "M", "G", "T", "P", "E")


@dataclass(frozen=True)
class FewRows:
    """All rows of a frame that were read already; `frame` makes that."""

    rows: pa.Table
    frame: Callable[[], Any]


def few_rows(frame: Any) -> pa.Table | None:
    """All rows of a DataFrame that are few and cheap to compute, in one job; None for others, and where Spark
    fails, as the steps of the write say better at what.
    """
    if has_rdd(frame):
        return None
    plans = plan_text(frame, "cost")
    size = estimate(plans)
    if size is None or size > FEW_BYTES or not is_short(plans):
        return None
    try:
        rows = arrow_rows(frame.limit(FEW_ROWS + 1))
    except Exception:  # noqa: BLE001  classic and Connect have errors of their own
        return None
    return rows if rows.num_rows <= FEW_ROWS else None


def estimate(plans: str) -> int | None:
    """Bytes of the rows, as the optimizer takes them, of plans as text; None where it does not say."""
    found = _ESTIMATE.search(plans.partition(_LOGICAL)[2].lstrip("\n").partition("\n")[0])
    return None if found is None else int(float(found[1]) * (1 << 10 * _UNITS.index(found[2])))
