"""Keeps the write of an older data interval from undoing that of a newer one.

Where the merge mode compares ordering values, intervals may be written in any order. Where the newer write
wins, and where whole partitions are replaced, an older interval must not come after a newer one that wrote to
the same partitions; a backfill or a cleared task would do that.
"""

from __future__ import annotations

from collections.abc import Collection

from hoodie.config.key import Config
from hoodie.errors import OutOfOrder
from hoodie.merge import Merger
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.table.handle import Table
from hoodie.timeline.intervals import interval_of
from hoodie.timeline.token_store import TokenStore
from hoodie.write.duplicates import Duplicates
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.settings import ALLOW_OUT_OF_ORDER


def refuse_out_of_order(
    table: Table,
    request: WriteRequest,
    config: Config,
    merger: Merger,
    partitions: Collection[str],
) -> None:
    """Raises OutOfOrder when a later interval of the same task wrote to one of the partitions.

    A write without a token of a data interval (timeline.intervals) is of no order.
    """
    if (
        config[ALLOW_OUT_OF_ORDER]
        or not partitions
        or not request.token
        or _any_order(request.operation, config, merger)
    ):
        return
    own = interval_of(request.token)
    if own is None:
        return
    task, interval = own
    later = TokenStore(table.timeline, table.storage).later(request.token, partitions)
    if later is not None:
        raise OutOfOrder(
            f"this {request.operation.value} is of {task}'s data interval {interval} and would undo what "
            f"its later interval {later.interval} wrote to partition {later.partition!r} in commit "
            f"{later.instant}: {_why(request.operation)}. {_remedy(request.operation)}, or allow it by "
            f"{ALLOW_OUT_OF_ORDER.name}=true (allow_out_of_order=True of an operator)",
            interval=str(interval),
            later_interval=str(later.interval),
            instant=later.instant,
            partition=later.partition,
            setting=ALLOW_OUT_OF_ORDER.name,
        )


def _any_order(operation: Operation, config: Config, merger: Merger) -> bool:
    """Do rows end up the same whichever interval is written first?"""
    if operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE):
        return False
    return not Duplicates.of(config, operation).merge or merger.keeps_newer


def _why(operation: Operation) -> str:
    return (
        "whole partitions are replaced"
        if operation.replaces
        else "of rows with one key the last written stays"
    )


def _remedy(operation: Operation) -> str:
    if operation.replaces:
        return "Write the later intervals again afterwards, too"
    return f"Give the table an ordering column ({PRECOMBINE_FIELD.name}, ordering_field of a HoodieTable)"
