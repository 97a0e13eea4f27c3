"""Which rows of a DataFrame are few, by the plans of Spark 3.5.9 and 4.2.0, shortened."""

from __future__ import annotations

import pytest

from hoodie.engine.gather import estimate
from hoodie.engine.repeatable import is_short

CSV = "FileScan csv [id#17,ts#18] Batched: false, DataFilters: [], Format: CSV, ReadSchema: struct<id:int>\n"
PARQUET = "FileScan parquet [id#1] Batched: true, DataFilters: [], Format: Parquet, ReadSchema: struct<>\n"


def plans(size: str, tree: str = CSV) -> str:
    return (
        f"== Optimized Logical Plan ==\nFilter isnotnull(id#17), Statistics(sizeInBytes={size})\n"
        "+- Relation [id#17,ts#18] csv, Statistics(sizeInBytes=1.0 B)\n\n"
        f"== Physical Plan ==\n{tree}\n\n"
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("29.0 B", 29),
        ("1", None),
        ("4.0 KiB", 4096),
        ("1.5 MiB, rowCount=7", 3 << 19),
        ("8.0 EiB", 8 << 60),
        ("1.16E+3 EiB", 1160 << 60),
    ],
)
def test_the_estimate_is_that_of_all_rows(size: str, expected: int | None) -> None:
    assert estimate(plans(size)) == expected


@pytest.mark.parametrize("text", ["", "== Physical Plan ==\nStatistics(sizeInBytes=1.0 B)", "no plan"])
def test_no_estimate(text: str) -> None:
    assert estimate(text) is None


@pytest.mark.parametrize(
    "tree",
    [
        CSV,
        f"*(1) Project [id#1]\n+- *(1) Filter isnotnull(id#1)\n   +- {CSV}",
        f"AdaptiveSparkPlan isFinalPlan=false\n+- HashAggregate(keys=[id#1], functions=[max(ts#2)])\n"
        f"   +- Exchange hashpartitioning(id#1, 200)\n      +- {PARQUET}",
        "*(1) Project [rand(5) AS key#1]\n+- *(1) Range (0, 10, step=1, splits=2)\n",
        "LocalTableScan [id#0]\n",
        "Union\n:- *(1) Project [k AS id#0]\n:  +- *(1) Scan OneRowRelation[]\n+- LocalTableScan [id#0]\n",
    ],
)
def test_short(tree: str) -> None:
    assert is_short(plans("1.0 B", tree))


@pytest.mark.parametrize(
    "tree",
    [
        f"Generate explode(sequence(1, 1000000000)), [id#1], false, [x#2]\n+- {CSV}",
        f"MapInArrow f(id#1), [id#2], false\n+- {CSV}",
        f"*(1) Project [p#2]\n+- BatchEvalPython [f(id#1)#2], [p#2]\n   +- {CSV}",
        "*(1) Scan ExistingRDD[id#0]\n",
        "Scan JDBCRelation(t) [numPartitions=1] [id#1]\n",
        f"CartesianProduct\n:- {CSV}+- {CSV}",
        "",
    ],
)
def test_not_known_to_be_short(tree: str) -> None:
    """Operators that give more rows than Spark estimates, that call functions of users, and unknown ones."""
    assert not is_short(plans("1.0 B", tree))
