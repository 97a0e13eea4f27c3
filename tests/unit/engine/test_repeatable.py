"""Which plans of Spark are cheap: texts as Spark 3.5.9 and 4.2.0 explain them, shortened."""

from __future__ import annotations

import pytest

from hoodie.engine.repeatable import is_cheap, is_constant, is_in_order, is_plain

TITLE = "== Physical Plan ==\n"
SCAN = "FileScan parquet [key#0,day#2] Batched: true, DataFilters: [], Format: Parquet, ReadSchema: struct<>"


@pytest.mark.parametrize(
    "tree",
    [
        f"*(1) ColumnarToRow\n+- {SCAN}\n\n",
        f"*(1) Project [key#0]\n+- *(1) Filter isnotnull(a#1)\n   +- *(1) ColumnarToRow\n      +- {SCAN}\n",
        f"Union\n:- *(1) ColumnarToRow\n:  +- {SCAN}\n+- *(2) ColumnarToRow\n   +- {SCAN}\n",
        "LocalTableScan [key#0]\n",
        "*(1) Range (0, 10, step=1, splits=2)\n",
        "InMemoryTableScan [key#0]\n   +- InMemoryRelation [key#0], StorageLevel(disk, memory, 1 replicas)\n"
        "         +- *(2) HashAggregate(keys=[key#0], functions=[])\n",
        "*(1) ColumnarToRow\n+- BatchScan parquet file:/tmp/x[key#0] ParquetScan DataFilters: []\n",
    ],
)
def test_cheap(tree: str) -> None:
    assert is_cheap(TITLE + tree)


@pytest.mark.parametrize(
    "plan",
    [
        "",
        "no plan",
        TITLE,
        f"{TITLE}FileScan csv [key#0] Batched: false\n",
        f"{TITLE}*(1) Scan ExistingRDD[key#0]\n",
        f"{TITLE}*(1) Project [rand(5) AS key#1]\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{TITLE}AdaptiveSparkPlan isFinalPlan=false\n+- SortMergeJoin [a#1], [b#2], Inner\n   :- {SCAN}\n",
        f"{TITLE}*(1) Project [p#1]\n+- ArrowEvalPython [f(a#1)#2], [p#1], 200\n   +- {SCAN}\n",
        f"{TITLE}*(1) Project [key#0]\n+- InMemoryTableScan [key#0]\n      +- InMemoryRelation [key#0]\n"
        "+- MapInArrow f(key#0), [key#1]\n",
    ],
)
def test_not_known_to_be_cheap(plan: str) -> None:
    assert not is_cheap(plan)


@pytest.mark.parametrize(
    ("filtered", "scan", "expected"),
    [
        ("Filter (ts#1 > 5)", SCAN, True),
        ("Project [current_timestamp() AS now#3]", SCAN, True),
        ("Filter (ts#1 > cast(current_date(Some(UTC)) as timestamp))", SCAN, False),
        ("Filter (ts#1 > now())", SCAN, False),
        ("Filter (ts#1 > 5)", SCAN.replace("Batched: true", "Batched: true, Bucketed: true"), False),
    ],
)
def test_in_order(filtered: str, scan: str, expected: bool) -> None:
    """A time is a constant of the physical plan."""
    logical = f"== Analyzed Logical Plan ==\nProject [key#0]\n+- {filtered}\n   +- Relation [key#0]\n\n"
    physical = f"{TITLE}*(1) Filter (ts#1 > 5)\n+- *(1) ColumnarToRow\n   +- {scan}\n"
    assert is_in_order(logical + physical) is expected


FILES = (
    "FileScan parquet [key#0,day#2] Batched: true, DataFilters: [], Format: Parquet, Location: "
    "InMemoryFileIndex(1 paths)[file:/tmp/rows], PartitionFilters: [], PushedFilters: [], "
    "ReadSchema: struct<key:string,day:string>"
)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (FILES, True),
        (f"*(1) ColumnarToRow\n+- {FILES}\n\n", True),
        (f"*(1) ColumnarToRow\n+- {FILES.replace('DataFilters', 'Bucketed: false, DataFilters')}\n", True),
        (f"*(1) Project [key#0]\n+- *(1) ColumnarToRow\n   +- {FILES}\n", False),
        (f"*(1) Filter isnotnull(key#0)\n+- *(1) ColumnarToRow\n   +- {FILES}\n", False),
        (f"Union\n:- {FILES}\n+- {FILES}\n", False),
        (FILES.replace("PushedFilters: []", "PushedFilters: [IsNotNull(key)]"), False),
        (FILES.replace("DataFilters: []", "DataFilters: [isnotnull(key#0)]"), False),
        (FILES.replace("PartitionFilters: []", "PartitionFilters: [(day#2 = a)]"), False),
        (FILES.replace("1 paths", "2 paths"), False),
        (FILES.replace("InMemoryFileIndex", "PreparedDeltaFileIndex"), False),
        (FILES.replace("DataFilters", "Bucketed: true, DataFilters"), False),
        ("LocalTableScan [key#0]\n", False),
        ("", False),
    ],
)
def test_plain(tree: str, expected: bool) -> None:
    assert is_plain(TITLE + tree) is expected


@pytest.mark.parametrize(
    ("logical", "constant"),
    [
        ("Project [key#0]\n+- Relation [key#0,day#2] parquet\n", True),
        ("Project [key#0, current_timestamp() AS at#1]\n+- Relation [key#0,day#2] parquet\n", False),
        ("Filter (day#2 < current_date(Some(UTC)))\n+- Relation [key#0,day#2] parquet\n", False),
    ],
)
def test_rows_of_the_time_of_reading_are_not_constant(logical: str, constant: bool) -> None:
    """The physical plan has a value in the place of the time."""
    plans = f"== Analyzed Logical Plan ==\n{logical}\n{TITLE}*(1) ColumnarToRow\n+- {SCAN}\n"
    assert is_constant(plans) is constant
    assert not is_constant(f"{TITLE}AdaptiveSparkPlan isFinalPlan=false\n+- SortMergeJoin [a#1], [b#2]\n")
