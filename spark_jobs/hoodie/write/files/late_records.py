"""Which incoming rows of a merge-on-read slice are logged: it drops late rows before they are logged.

Readers of a log disagree about late rows. In Apache Hudi 0.15.0 a delete replaces the base row whatever the
ordering values, and an update that was logged after a delete counts as newer. So a row that is older than a
known row of its key in the slice is dropped here, and every reader returns the same rows.

The module compares with the ordering values of base rows and of logged deletes. It compares incoming deletes
with logged rows too. All readers compare whole logged updates with each other, so these need no check here.
A late row would fill what a logged row of changed columns lacks, so it is compared with such rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from hoodie.codec.arrays import column, whole
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.internal_schema import FileColumns, stored_batches
from hoodie.format.log_block import BlockType, LogBlock
from hoodie.format.log_data import is_partial, read_data_block, read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index.locations import LOOK_UP, Positions
from hoodie.merge.ordering import stored_is_newer
from hoodie.read.bounds import comparable
from hoodie.read.key_join import Bools, Ints, Part, Places
from hoodie.read.predicate import Comparison, Field, Literal, LiteralKind, Node
from hoodie.read.pruning import possible_row_groups
from hoodie.storage import Storage
from hoodie.table.log_scan import instant_of, scan_slice
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice, LogFile
from hoodie.write.context import STORED_ROW, WriteContext


def places_in(reader: BaseFileReader, parts: Sequence[Part]) -> Places:
    """The rows of a base file that `parts` have the keys of; the file is the one that the index looked at.

    No key is compared again, except where the index leaves that to the writer (LOOK_UP).
    """
    stored = [stored_rows(part) for part in parts]
    if any((rows == LOOK_UP).any() for rows in stored):
        return Places.looked_up(reader.record_keys(READ_BATCH_ROWS), reader.rows, parts)
    return Places.of_rows(stored, reader.rows)


def stored_rows(part: Part) -> Positions:
    """Those of the rows, then those of the keys to delete."""
    rows: Positions = part.rows.column(STORED_ROW).to_numpy()
    if part.deletes is None:
        return rows
    known = part.stored_deletes
    return np.concatenate([rows, np.full(len(part.deletes), LOOK_UP, np.int32) if known is None else known])


#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


@dataclass
class Verdict:
    """What becomes of the rows of a part; arrays are aligned with them.

    `deleted` rows delete their key. `outdated` ones are older than what is stored and dropped. `reinserted`
    ones go to a new base file: their keys were deleted in logs, and an update in a log would not bring them
    back.
    Either a pending compaction is going to merge these logs: the base file that it makes will lack the keys,
    and an index that sees no logs would not find them. Or the delete always wins and hides a row of the base
    file, or of that which the pending compaction makes, that is newer than they are: readers compare an
    update with it. Until the next compaction is done, the key is in two files, and the index takes the newer
    one.
    `returned` rows have keys that a log has deleted before, whatever came after that.
    `logged` rows have keys that a log has a row or a delete of; only found where rows may be logged in their
    changed columns.
    """

    deleted: Bools
    outdated: Bools
    reinserted: Bools
    returned: Bools
    logged: Bools

    @property
    def updates(self) -> Bools:
        return ~self.deleted & ~self.outdated & ~self.reinserted

    @property
    def inserts(self) -> Bools:
        return ~self.deleted & ~self.outdated & self.reinserted

    @property
    def deletes(self) -> Bools:
        return self.deleted & ~self.outdated


def judge(context: WriteContext, storage: Storage, slice_: FileSlice, parts: Sequence[Part]) -> list[Verdict]:
    """Judge the rows of every part. Memory: three bytes a row, one batch of the base file, one log block."""
    verdicts = [_unknown(context, part) for part in parts]
    assert context.logs is not None
    if not parts or context.log_only:  # readers of all writers' logs decide, and agree since version 8
        return verdicts
    if context.logs.ordering and slice_.base is not None:
        _compare_base(context, storage, slice_.base, parts, verdicts)
    if slice_.logs and not all(_hard(context, verdict) for verdict in verdicts):
        _Logs(context, storage, slice_, parts, verdicts).compare()
    for part, verdict in zip(parts, verdicts, strict=True):
        verdict.outdated &= ~context.merger.wins_always(part.rows)
        if context.merger.fills_always:
            verdict.outdated[:] = False
    return verdicts


def _hard(context: WriteContext, verdict: Verdict) -> bool:
    """Are all rows deletes that win whatever is stored."""
    assert context.logs is not None
    return not context.logs.ordering and bool(verdict.deleted.all())


def _unknown(context: WriteContext, part: Part) -> Verdict:
    count = part.rows.num_rows
    none = np.zeros(count, dtype=np.bool_)
    deleted = np.asarray(context.merger.deleted(part.rows))
    return Verdict(deleted, none, none.copy(), none.copy(), none.copy())


def _compare_base(
    context: WriteContext,
    storage: Storage,
    base: BaseFile,
    parts: Sequence[Part],
    verdicts: Sequence[Verdict],
) -> None:
    """Of a key that the file holds more than once a delete must be newer than all, an update than one. Row
    groups whose statistics show no newer row are not read. A process that holds the file's keys looks at them
    once.
    """
    tops = _ordering_columns(context)
    wanted = pa.schema([context.schema.field(top) for top in tops])
    passed = [np.zeros(part.rows.num_rows, dtype=np.bool_) for part in parts]
    known_as = context.columns(base.instant)
    oldest = None if known_as is not None or base.skeleton else _oldest(context, parts)
    follows = context.index is not None and context.index.follows_files
    if oldest is not None and follows and _known.get(_file(context, base), oldest + 1) <= oldest:
        return
    with open_base(storage, base, context.file_schema) as reader:
        if not {*(tops if known_as is None else known_as.names(tops))} & {*reader.schema.names}:
            return
        groups = None if oldest is None else _groups(reader, _newer(context, oldest))
        if oldest is not None and not groups:
            if follows:
                _remember(_file(context, base), oldest)
            return
        places = places_in(reader, parts)
        for start, stored in _batches(reader, groups, wanted, known_as):
            for match in places.between(start, start + stored.num_rows):
                incoming = parts[match.part].rows.select(tops).take(match.incoming)
                newer = stored_is_newer(stored.take(match.stored), incoming, *_ordering(context))
                verdicts[match.part].outdated[match.incoming[newer]] = True
                passed[match.part][match.incoming[~newer]] = True
    for verdict, mask in zip(verdicts, passed, strict=True):
        verdict.outdated &= verdict.deleted | ~mask


#: by base file, which never changes: an ordering value than which none of its rows is newer
_known: dict[tuple[Any, ...], int] = {}
_MOST_KNOWN = 1 << 14


def _file(context: WriteContext, base: BaseFile) -> tuple[Any, ...]:
    options = sorted(context.table.storage_options.items())
    return (context.table.uri, *options, base.path, base.size, *_ordering(context))


def _remember(file: tuple[Any, ...], value: int) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[file] = value


def _oldest(context: WriteContext, parts: Sequence[Part]) -> int | None:
    """The least ordering value of incoming rows, as bounds have it. None where statistics can't be compared
    with it.
    """
    path, *others = _ordering(context)
    kind = context.schema.field(path).type if path in context.schema.names else pa.null()
    exact = pa.types.is_integer(kind) or pa.types.is_date32(kind) or kind == pa.timestamp("us", "UTC")
    incoming = [part.rows.column(path) for part in parts if part.rows.num_rows] if exact else []
    if others or not incoming or any(values.null_count for values in incoming):
        return None
    return min(int(comparable(pc.min(values).as_py())) for values in incoming)


def _newer(context: WriteContext, than: int) -> Node:
    """Is a stored row newer than an ordering value."""
    (path,) = _ordering(context)
    kind = context.schema.field(path).type
    return Comparison(">", Field((path,), kind), Literal(LiteralKind.NUMBER, than))


def _groups(reader: BaseFileReader, node: Node) -> list[tuple[int, int]]:
    """The number and the first row of each row group that may have rows for which this is true."""
    found: list[tuple[int, int]] = []

    def look(footer: pq.FileMetaData) -> list[int]:
        numbers = range(footer.num_row_groups)
        firsts = [0, *accumulate(footer.row_group(number).num_rows for number in numbers)]
        found.extend((number, firsts[number]) for number in possible_row_groups(node, footer, {}))
        return list(numbers)

    reader.keep(look)
    return found


def _batches(
    reader: BaseFileReader,
    groups: Sequence[tuple[int, int]] | None,
    wanted: pa.Schema,
    known_as: FileColumns | None,
) -> Iterator[tuple[int, pa.Table]]:
    """The number of the first row, and rows, of these groups; None: of all."""
    for number, start in [(None, 0)] if groups is None else groups:
        if number is not None:
            reader.keep(partial(_only, number))
        for stored in stored_batches(reader, wanted, known_as):
            yield start, stored
            start += stored.num_rows


def _only(number: int, footer: pq.FileMetaData) -> list[int]:
    return [number]


class _Logs:
    """One walk over the blocks of a slice that count, oldest first. Early ones are those that a pending
    compaction merges; `covered` rows are older than what the base file, now or then, has of their key.
    """

    def __init__(
        self,
        context: WriteContext,
        storage: Storage,
        slice_: FileSlice,
        parts: Sequence[Part],
        verdicts: Sequence[Verdict],
    ) -> None:
        self.context = context
        self.storage = storage
        self.slice = slice_
        self.parts = parts
        self.verdicts = verdicts
        self.covered = [verdict.outdated.copy() for verdict in verdicts]
        self.early_rows: list[tuple[LogFile, LogBlock]] = []

    def compare(self) -> None:
        with contextlib.ExitStack() as stack:
            for log, block, content in self._contents(stack):
                early = log.slice != self.slice.instant
                if early and self._compares and block.type is not BlockType.DELETE:
                    self.early_rows.append((log, block))
                if block.type is BlockType.DELETE:
                    self._deletes(content, early)
                elif self._looks_at_rows(block):
                    self._rows(log, block, content)

    def _looks_at_rows(self, block: LogBlock) -> bool:
        if self._finds_logged or any(verdict.reinserted.any() for verdict in self.verdicts):
            return True
        if not self._compares:
            return False
        return is_partial(block) or any(verdict.deletes.any() for verdict in self.verdicts)

    @property
    def _finds_logged(self) -> bool:
        return self.context.logs is not None and self.context.logs.partial is not None

    @property
    def _compares(self) -> bool:
        return self.context.logs is not None and bool(self.context.logs.ordering)

    @property
    def _finds_in_logs(self) -> bool:
        return self.context.index is not None and self.context.index.sees_logs

    def _contents(self, stack: contextlib.ExitStack) -> Iterator[tuple[LogFile, LogBlock, _Content]]:
        reader: LogFileReader | None = None

        def opened(path: str) -> LogFileReader:
            nonlocal reader
            if reader is None or reader.path != path:
                stack.pop_all().close()
                reader = stack.enter_context(LogFileReader(self.storage, path))
            return reader

        for log, block in scan_slice(self.storage, self.slice, self.context.snapshot).queue:
            yield log, block, _Content(partial(opened, log.path), block)

    def _deletes(self, content: _Content, early: bool) -> None:
        kind = self._type() if self._compares else None
        records = read_delete_block(content.read(), kind)
        for number, (part, verdict) in enumerate(zip(self.parts, self.verdicts, strict=True)):
            here, there = _found(part.keys, records.keys)
            verdict.returned[here] = True
            verdict.logged[here] = True
            if early and not self._finds_in_logs:
                verdict.reinserted[here] = True
            if self._compares and len(here):
                known = None if records.ordering is None else records.ordering.take(there)
                if known is not None:
                    self._drop(part, verdict, here, self._apart(known))
                always = here if known is None else here[np.asarray(known.is_null())]
                if len(always):
                    self._cover()
                    verdict.reinserted[always] |= self.covered[number][always]
                    verdict.outdated[always] = False

    def _cover(self) -> None:
        """Look into the early rows, which no write but one after a delete that always wins needs to know."""
        early, self.early_rows = self.early_rows, []
        for log, block in early:
            with LogFileReader(self.storage, log.path) as reader:
                rows = self._read(log, block, reader.content(block))
            for part, covered in zip(self.parts, self.covered, strict=True):
                here, there = _found(part.keys, rows.column(RECORD_KEY))
                covered[here[self._older(part, here, self._values(rows.take(there)))]] = True

    def _read(self, log: LogFile, block: LogBlock, content: bytes) -> pa.Table:
        names = [RECORD_KEY]
        if self._compares:
            names += _ordering_columns(self.context)
        known_as = self.context.columns(instant_of((log, block)))
        return read_data_block(block, content, self.context.file_schema, names, known_as, partial=True)

    def _rows(self, log: LogFile, block: LogBlock, content: _Content) -> None:
        rows = self._read(log, block, content.read())
        for part, verdict in zip(self.parts, self.verdicts, strict=True):
            here, there = _found(part.keys, rows.column(RECORD_KEY))
            verdict.reinserted[here] = False
            verdict.logged[here] = True
            mine = verdict.deletes[here] | is_partial(block)
            if self._compares and mine.any():
                values = self._values(rows.take(there[mine]))
                self._drop(part, verdict, here[mine], values)

    def _type(self) -> pa.DataType:
        """Of the ordering values of deletes."""
        fields = [*self._values(self.context.schema.empty_table()).schema]
        return fields[0].type if len(fields) == 1 else pa.struct(fields)

    def _values(self, rows: pa.Table) -> pa.Table:
        """Those of each ordering column; columns are named by their numbers."""
        return pa.table({str(at): column(rows, path) for at, path in enumerate(_ordering(self.context))})

    def _apart(self, known: pa.Array[Any]) -> pa.Table:
        """As `_values`, of deletes."""
        if not pa.types.is_struct(known.type):
            return pa.table({"0": known})
        numbers = range(len(_ordering(self.context)))
        return pa.table({str(at): pc.struct_field(known, [at]) for at in numbers})

    def _drop(self, part: Part, verdict: Verdict, here: Ints, known: pa.Table) -> None:
        """Mark those of the part's rows `here` that are older than the aligned ordering values `known`."""
        verdict.outdated[here[self._older(part, here, known)]] = True

    def _older(self, part: Part, here: Ints, known: pa.Table) -> Bools:
        incoming = self._values(part.rows.take(here))
        return stored_is_newer(known, incoming, *incoming.column_names)


@dataclass(frozen=True)
class _Content:
    """Of a block, in a log that is opened where it is needed."""

    opened: Callable[[], LogFileReader]
    block: LogBlock

    def read(self) -> bytes:
        return self.opened().content(self.block)


def _ordering(context: WriteContext) -> tuple[str, ...]:
    assert context.logs is not None
    return context.logs.ordering


def _ordering_columns(context: WriteContext) -> list[str]:
    """The top-level columns of the ordering fields."""
    return list(dict.fromkeys(path.partition(".")[0] for path in _ordering(context)))


def _found(keys: Any, among: Any) -> tuple[Ints, Ints]:
    """(rows of `keys` that are in `among`, their places there)"""
    hits = np.asarray(pc.index_in(keys, value_set=whole(among)).fill_null(-1)).astype(np.int64)
    here = np.flatnonzero(hits >= 0)
    return here, hits[here]
