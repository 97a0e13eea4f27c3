"""Exactly once for a data interval: a write whose token has a commit of the same source is done already."""

from __future__ import annotations

import contextlib
from functools import partial

import pyarrow as pa

from hoodie.errors import HoodieError, TableNotFound
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table
from hoodie.table.undone import undone_instants
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant, State
from hoodie.timeline.token_store import TokenStore, record, settle
from hoodie.timeline.tokens import TokenCommit
from hoodie.write.operation import WriteRequest, WriteResult
from hoodie.write.plan import WritePlan, resolve

_ATTEMPTS = 4


class TokenGuard:
    """Of one write. `earlier`: the commit of its token that the last look found, which may be of another
    source.
    """

    def __init__(self, table: Table, request: WriteRequest, progress: ProgressCallback) -> None:
        self.earlier: TokenCommit | None = None
        self._table = table
        self._crowded = False
        self._request = request
        self._progress = progress

    def done(self) -> WriteResult | None:
        """What the write would do, if a commit of its token did it already; that may be the one of a writer
        that was waited for. By the timeline as it was listed last.
        """
        request, table = self._request, self._table
        self.earlier = None
        if request.token:
            with contextlib.suppress(TableNotFound):
                store = TokenStore(table.timeline, table.storage)
                self.earlier = store.find(request.token)
                self._crowded = store.crowded
        if self.earlier is None or request.force or not self.earlier.is_of(request.fingerprint):
            return None
        self._progress("token", f"{request.token} was committed at {self.earlier.instant}")
        return WriteResult(**self.earlier.result(table.properties.name, table.base_path))

    def done_or_plan(self, schema: pa.Schema) -> WriteResult | WritePlan:
        """Both by one listing, so that no commit of the token comes between. Other processes may archive a
        commit after the listing.
        """
        for left in reversed(range(_ATTEMPTS)):
            if done := self.done():
                return done
            try:
                return resolve(self._table, self._request, schema)
            except FileNotFoundError:
                if not left:
                    raise
                self._table.reopen()
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
            settle(table.storage, table.base_path, table.refresh, partial(undone_instants, table.storage))
