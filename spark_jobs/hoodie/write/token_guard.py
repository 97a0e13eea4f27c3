"""Exactly once, for tokens and for data intervals.

- A write whose token has a commit of the same source returns that commit.
- The write of an older data interval must not undo that of a newer one. If the merge mode compares ordering
  values, intervals may be written in any order. If the newer write wins, or whole partitions are replaced, an
  older interval is refused after a newer one that wrote to the same partitions. A backfill or a cleared task
  would otherwise write it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from functools import partial

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.errors import HoodieError, OutOfOrder, TableNotFound
from hoodie.merge import Merger
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table
from hoodie.table.rolled_back import rolled_back_instants
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant, State
from hoodie.timeline.token_index import interval_of
from hoodie.timeline.token_store import TokenStore, record, settle
from hoodie.timeline.tokens import TokenCommit
from hoodie.write.input.delete_keys import Duplicates
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from hoodie.write.plan import WritePlan, resolve
from hoodie.write.settings import ALLOW_OUT_OF_ORDER

_ATTEMPTS = 4


class TokenGuard:
    """Of one write. `earlier`: the commit of its token that the last look found, which may be of another
    source.
    """

    def __init__(self, table: Table, request: WriteRequest, progress: ProgressCallback) -> None:
        self.earlier: TokenCommit | None = None
        self._table = table
        self._crowded = False
        self.request = request
        self.progress = progress

    def done(self) -> WriteResult | None:
        """What the write would do, if a commit of its token did it already; that may be the one of a writer
        that was waited for. By the timeline as it was listed last.
        """
        request, table = self.request, self._table
        self.earlier = None
        if request.token:
            with contextlib.suppress(TableNotFound):
                store = TokenStore(table.timeline, table.storage)
                self.earlier = store.find(request.token)
                self._crowded = store.crowded
        if self.earlier is None or request.force or not self.earlier.is_of(request.fingerprint):
            return None
        self.progress("token", f"{request.token} was committed at {self.earlier.instant}")
        return WriteResult(**self.earlier.result(table.properties.name, table.base_path))

    def done_or_plan(self, schema: pa.Schema) -> WriteResult | WritePlan:
        """Both by one listing, so that no commit of the token comes between. Other processes may archive a
        commit after the listing.
        """
        for left in reversed(range(_ATTEMPTS)):
            if done := self.done():
                return done
            try:
                return resolve(self._table, self.request, schema)
            except FileNotFoundError:
                if not left:
                    raise
                self._table.reopen(moved=True)
        raise AssertionError("unreachable")

    def record(self, instant: Instant, metadata: CommitMetadata) -> list[str]:
        """Keep the token of a commit that was made; the commit itself has it, too, so a failure here is no
        error. Returns warnings.
        """
        commit = TokenCommit.of(instant.with_state(State.COMPLETED), metadata)
        if commit is not None:
            with contextlib.suppress(OSError, HoodieError):
                self._keep(commit)
        if self.earlier is None:
            return []
        same = self.earlier.is_of(commit.fingerprint if commit else "")
        why = "asked for by force" if same else "its source changed"
        return [f"{self.earlier.token} was committed at {self.earlier.instant} before; written again, {why}"]

    def _keep(self, commit: TokenCommit) -> None:
        table = self._table
        record(table.storage, table.base_path, commit)
        if self._crowded:
            settle(
                table.storage, table.base_path, table.refresh, partial(rolled_back_instants, table.storage)
            )


def check_order(
    table: Table,
    request: WriteRequest,
    config: Config,
    merger: Merger,
    partitions: Collection[str],
) -> None:
    """Raises OutOfOrder when a later interval of the same task wrote to one of the partitions.

    A write without a token of a data interval (timeline.token_index) has no order.
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
