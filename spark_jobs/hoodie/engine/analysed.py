"""The analysed plan of a DataFrame, as the JVM of a classic session has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hoodie.engine.session import jvm_query

_RELATION = "org.apache.spark.sql.execution.datasources.LogicalRelation"
_RDD = "org.apache.spark.sql.execution.LogicalRDD"
_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_LISTED = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"


@dataclass(frozen=True)
class AnalysedPlan:
    """`plan` is an object of the JVM; `columns` are those of its only leaf, a scan of all Parquet files of
    one path: a StructType as JSON.
    """

    plan: Any
    columns: str

    @classmethod
    def of(cls, frame: Any) -> AnalysedPlan | None:
        """None for other plans, for cached frames, and with Spark Connect, where the plan is the server's."""
        try:
            query = jvm_query(frame)
            leaf = _leaf(query.analyzed())
            if leaf is None or not _is_whole(leaf) or _leaf(query.optimizedPlan()) is None:
                return None
            return cls(query.analyzed(), str(leaf.schema().json()))
        except Exception:  # noqa: BLE001  Connect has no JVM, and a plan may be one that can't be optimized
            return None

    def json(self) -> str:
        """The trees of all plans and expressions."""
        return str(self.plan.toJSON())

    def mode(self, path: Sequence[int]) -> str:
        """What the arithmetic at this place does where it fails (see `frame_plan.Path`)."""
        below, number, *children = path
        plan = self.plan
        for _ in range(below):
            plan = plan.children().apply(0)
        expression = plan.expressions().apply(number)
        for place in children:
            expression = expression.children().apply(place)
        return str(expression.evalMode().toString())


def has_rdd(frame: Any) -> bool:
    """Is a leaf of the plan an RDD, such as the list of a session? No optimizer knows its size. False with
    Spark Connect, which has none.
    """
    try:
        leaves = jvm_query(frame).analyzed().collectLeaves()
        return any(_class(leaves.apply(place)) == _RDD for place in range(leaves.size()))
    except Exception:  # noqa: BLE001  Connect has no JVM
        return False


def _leaf(plan: Any) -> Any | None:
    leaves = plan.collectLeaves()
    if leaves.size() != 1 or _class(leaves.apply(0)) != _RELATION:
        return None
    return leaves.apply(0)


def _is_whole(leaf: Any) -> bool:
    """Are its rows those of all files of one path? Of several paths one may be there twice, and Spark's
    optimizer may know more of a catalog's tables, such as the rows that a user is allowed to see.
    """
    relation = leaf.relation()
    return (
        bool(leaf.catalogTable().isEmpty())
        and _class(relation) == _FILES
        and relation.fileFormat().toString() == "Parquet"
        and relation.partitionSchema().length() == 0
        and bool(relation.bucketSpec().isEmpty())
        and "datetimerebasemode" not in str(relation.options().toString()).lower()
        and _class(relation.location()) == _LISTED
        and relation.location().rootPaths().size() == 1
    )


def _class(found: Any) -> str:
    return str(found.getClass().getName())
