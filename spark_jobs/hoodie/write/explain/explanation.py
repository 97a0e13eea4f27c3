"""What a write would do and cost: value types, of which nothing is written.

What each index needs to find the keys of a write: measured on a sample of its keys and of the file slices.

The driver asks each index about the sample twice, and takes the faster time: files are in the system's memory
then, whatever was asked first. Bytes are those read from storage.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array, whole
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.index import INDEXES, Index, PlacingIndex, Scope, index_for
from hoodie.index.settings import INDEX_CLASS, INDEX_TYPE, IndexType
from hoodie.shown import Shown
from hoodie.storage import Storage
from hoodie.table.handle import Table, TableRef
from hoodie.table.pending import BusyGroups
from hoodie.table.view import FileSlice
from hoodie.text import plural, size
from hoodie.timeline.instant import Action
from hoodie.timeline.time import REQUESTED
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.blobs import KEYS, decode_rows, raise_errors
from hoodie.write.explain.cost import WriteCost
from hoodie.write.files.rehearsal import Effect, GroupCount
from hoodie.write.input.stage import KEY_SCHEMA
from hoodie.write.input.write_input import WriteInput
from hoodie.write.operation import PlannedPartition
from hoodie.write.plan import WritePlan
from hoodie.write.settings import MAX_AMPLIFICATION
from hoodie.write.tagging.tag import Group, asked, list_slices

#: the most file slices, and keys of a partition, that an index is asked about
_SLICES, _KEYS = 16, 50_000
#: an index is worth a change of the setting where it needs at most this share of the time
_WORTH = 0.8


@dataclass(frozen=True, kw_only=True)
class IndexCost:
    """What an index needs to find the keys of a write.

    seconds: of one core, for all files; bytes: read from storage. Both are measured for `sampled_keys`
    distinct keys in `sampled_files` of the `files` that have to be searched, and scaled by the files' bytes.
    reason: why the table can't have this index, "" where it can.
    """

    index: str
    seconds: float = 0.0
    bytes: int = 0
    files: int = 0
    sampled_files: int = 0
    sampled_keys: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class IndexAdvice:
    """The index that fits these rows and this table best, and why; "" where none is needed."""

    index: str
    reasons: list[str]


_IN_MEMORY = "it is for a process that writes again and again; its first write reads as SIMPLE does"


def index_costs(table: Table, plan: WritePlan, rows: WriteInput) -> tuple[str, list[IndexCost], IndexAdvice]:
    """The index of the settings, what each index needs for these rows, and the one that fits best."""
    staged, chosen = rows.staged(), plan.context.index
    own = str(plan.config[INDEX_CLASS] or plan.config[INDEX_TYPE].value)
    if isinstance(chosen, PlacingIndex):
        return own, [], IndexAdvice(index=own, reasons=["the key says which file group it is in"])
    if chosen is None or not staged:
        what = plan.request.operation.value
        return "", [], IndexAdvice(index="", reasons=[f"{what} looks no keys up: no index is asked"])
    sample = _Sample.of(staged)
    costs: list[IndexCost] = []
    scopes: dict[str, Scope] = {}
    for name in dict.fromkeys([own, *INDEXES.places]):
        try:
            if name == IndexType.INMEMORY.value != own:
                costs.append(IndexCost(index=name, reason=_IN_MEMORY))
                continue
            index = chosen if name == own else _made(plan.config, name).for_write(table, plan.config)
            if isinstance(index, PlacingIndex):
                costs.append(IndexCost(index=name, reason="a table is made with it, and this one was not"))
                continue
            scopes[name] = index.scope
            costs.append(_cost(name, index, plan, table, rows, sample))
        except HoodieError as error:
            costs.append(IndexCost(index=name, reason=error.message))
    alike = [cost for cost in costs if not cost.reason and scopes[cost.index] is chosen.scope]
    return own, costs, _advice(own, alike, rows.profile)


def _made(config: Config, name: str) -> Index:
    texts = {key: text for key, text in config.texts.items() if key != INDEX_CLASS.name}
    return index_for(Config.of({**texts, INDEX_TYPE.name: name}))


@dataclass(frozen=True)
class _Sample:
    """Keys that the driver has, distinct, by partition; `summaries` are those of all tasks."""

    summaries: list[dict[str, Any]]
    keys: Mapping[str, pa.Array[Any]]

    @classmethod
    def of(cls, staged: list[dict[str, Any]]) -> _Sample:
        found: defaultdict[str, list[pa.Array[Any]]] = defaultdict(list)
        for row in staged:
            if row["kind"] != KEYS:
                continue
            batch = decode_rows(pa.py_buffer(row["payload"]), KEY_SCHEMA)
            codes = batch.column("code").to_numpy()
            for code, partition in enumerate(json.loads(row["partitions"])):
                if sum(map(len, found[partition])) < _KEYS:
                    found[partition].append(batch.column("key").take(array(np.flatnonzero(codes == code))))
        keys = {partition: _distinct(pieces) for partition, pieces in found.items()}
        return cls(raise_errors(staged), {partition: some for partition, some in keys.items() if len(some)})

    def of_partition(self, partition: str | None) -> pa.Array[Any]:
        """None: those of all partitions."""
        if partition is None:
            return _distinct(list(self.keys.values()))
        return self.keys[partition]


def _distinct(pieces: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
    return whole(pa.chunked_array(pieces, pa.string()).unique()).slice(0, _KEYS)


def _cost(
    name: str, index: Index, plan: WritePlan, table: Table, rows: WriteInput, sample: _Sample
) -> IndexCost:
    context = replace(plan.context, index=index)
    profile = WorkloadProfile.of(sample.summaries)
    if index.scope is Scope.TABLE:
        list_slices(table, context, profile)
    else:
        profile.slices = rows.profile.slices
    slices, groups = asked(context, profile)
    chosen = list(_chosen(slices, groups, profile.partitions, sample))
    files = sum(len(some) for some, _ in chosen)
    searched = sum(slice_.size for some, _ in chosen for slice_ in some)
    ref = _MeasuredRef(table.ref.uri, table.ref.storage_options)

    def run() -> float:
        ref.read.clear()
        began = time.perf_counter()
        for some, keys in chosen:
            index.locate(ref, some, keys)
        return time.perf_counter() - began

    seconds = min(run(), run()) if chosen else 0.0
    scale = sum(slice_.size for slice_ in slices) / max(1, searched)
    if index.key_parts > 1:  # it reads no slices
        scale = profile.rows / max(1, sum(len(keys) for _, keys in chosen))
    return IndexCost(
        index=name,
        seconds=round(seconds * scale, 6),
        bytes=int(sum(ref.read) * scale),
        files=len(slices),
        sampled_files=files,
        sampled_keys=sum(len(keys) for _, keys in chosen),
    )


def _chosen(
    slices: Sequence[FileSlice], groups: Sequence[Group], partitions: Sequence[str], sample: _Sample
) -> Iterator[tuple[list[FileSlice], pa.Array[Any]]]:
    """Some slices of the groups whose keys are in the sample, as evenly as can be, with their keys."""
    known = [
        (partitions[code] if code is not None else None, first, end)
        for code, first, end in groups
        if end > first and (code is None or partitions[code] in sample.keys)
    ]
    count = sum(end - first for _, first, end in known)
    step, position = max(1, -(-count // _SLICES)), 0
    for partition, first, end in known:
        some = [slices[number] for number in range(first, end) if (position + number - first) % step == 0]
        position += end - first
        if some:
            yield some, sample.of_partition(partition)


def _advice(own: str, costs: Sequence[IndexCost], profile: WorkloadProfile) -> IndexAdvice:
    """Of indexes that give the same table."""
    found = {cost.index: cost for cost in costs}
    if own not in found or not any(cost.files for cost in costs):
        return IndexAdvice(index=own, reasons=["no file has to be searched: any index costs nothing"])
    best = min(costs, key=lambda cost: (cost.seconds, cost.index != own))
    if best.seconds > found[own].seconds * _WORTH:
        best = found[own]
    reasons = [f"{best.index} needs {_needs(best)}"]
    for cost in costs:
        if cost is not best:
            reasons.append(f"{cost.index} needs {_needs(cost)}")
    touched, searched = sum(bool(file_id) for _, file_id in profile.changed), found[own].files
    reasons.append(f"{touched} of {plural(searched, 'file')} contain keys of these rows")
    if 2 * touched > searched:
        reasons.append("most files contain some, so that filters and key ranges rule few files out")
    else:
        reasons.append("key ranges and filters can rule the others out, without a look at their keys")
    return IndexAdvice(index=best.index, reasons=reasons)


def _needs(cost: IndexCost) -> str:
    return f"{cost.seconds:.3f} s and reads {size(cost.bytes)}"


class _MeasuredRef(TableRef):
    """A table whose storage notes in `read` how many bytes are read."""

    @property
    def read(self) -> list[int]:
        noted: list[int] = self.__dict__.setdefault("noted", [])
        return noted

    def storage(self) -> Storage:
        return cast(Storage, _Measured(super().storage(), self.read.append))


class _Measured:
    def __init__(self, inner: Storage, note: Callable[[int], object]) -> None:
        self._inner = inner
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, path: str) -> bytes:
        data = self._inner.read(path)
        self._note(len(data))
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        data = self._inner.read_range(path, offset, length)
        self._note(len(data))
        return data

    def open_input(self, path: str) -> Any:
        return _MeasuredInput(self._inner.open_input(path), self._note)


class _MeasuredInput:
    def __init__(self, inner: BinaryIO, note: Callable[[int], object]) -> None:
        self._inner = inner
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> _MeasuredInput:
        return self

    def __exit__(self, *exc: object) -> None:
        self._inner.close()

    def read(self, count: int = -1) -> bytes:
        data = self._inner.read(count)
        self._note(len(data))
        return data


@dataclass(frozen=True, kw_only=True)
class PendingConflict:
    """A pending service that works on file groups which the write touches.

    groups: how many. effect: `appended` (of a compaction: updates go to logs beside it), `rolled_back` (the
    write rolls the plan back first, as its settings ask), or `refused` (so is the write).
    """

    instant: str
    action: str
    groups: int
    effect: str


@dataclass(frozen=True, kw_only=True, repr=False)
class WriteExplanation(Shown):
    """What a write would do; bytes are estimates of the plan.

    partitions: what each would get. num_inserts, num_updates, num_deletes, num_late, num_missing,
    num_dropped: rows, as of a WriteResult. compared_groups: file groups whose stored rows were read, in the
    columns that the merge goes by, to tell late rows from updates. new_groups, rewritten_groups,
    appended_groups, replaced_groups: file groups that are made, that get a new base file, that get a log
    file, that go out of sight. changed_bytes: of the rows, or of those that a delete takes; rewritten_bytes:
    of stored rows that are written again; written_bytes: of all files that are written;
    write_amplification: written for each byte changed. max_write_amplification: the limit of the settings, 0
    for none. refused: why the write would fail, "" where it would not. indexes: what each index needs to
    find the keys of these rows; index: that of the settings, "" where the operation looks no keys up.
    """

    table: str
    base_path: str
    operation: str
    action: str
    num_rows: int
    num_inserts: int
    num_updates: int
    num_deletes: int
    num_late: int
    num_missing: int
    num_dropped: int
    partitions: list[PlannedPartition]
    compared_groups: int
    new_groups: int
    rewritten_groups: int
    appended_groups: int
    replaced_groups: int
    changed_bytes: int
    rewritten_bytes: int
    written_bytes: int
    write_amplification: float
    max_write_amplification: float
    index: str
    indexes: list[IndexCost]
    advice: IndexAdvice
    conflicts: list[PendingConflict]
    refused: str
    duration_s: float
    warnings: list[str]
    status: str = "explained"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def conflicts(
    busy: BusyGroups, groups: Sequence[tuple[str, str]], rolled_back: Sequence[str]
) -> list[PendingConflict]:
    """Of the (partition path, file id) that a write touches; `rolled_back`: the plans that it takes back."""
    touched: dict[tuple[str, Action], int] = {}
    for group in groups:
        if (instant := busy.get(group)) is not None:
            touched[instant.time, instant.action] = touched.get((instant.time, instant.action), 0) + 1

    def effect(time: str, action: Action) -> str:
        if action is Action.COMPACTION:
            return "appended"
        return "rolled_back" if time in rolled_back else "refused"

    return [
        PendingConflict(instant=str(time), action=action.value, groups=count, effect=effect(time, action))
        for (time, action), count in sorted(touched.items(), key=lambda item: REQUESTED.key(item[0][0]))
    ]


def explanation(
    plan: WritePlan,
    rows: WriteInput,
    partitions: list[PlannedPartition],
    groups: Sequence[GroupCount],
    missing: int,
    costs: tuple[str, list[IndexCost], IndexAdvice],
    found: list[PendingConflict],
    refused: str,
    seconds: float,
) -> WriteExplanation:
    """`groups`: what the write does to each file group, by which `partitions` are. `missing`: keys to delete
    that are not there, beside those of the profile. `costs`: the index of the settings, what each costs, the
    advice.
    """
    profile, writes = rows.profile, rows.assignment.writes
    cost = WriteCost.of(plan, writes)
    index, indexes, advice = costs
    effects = Counter(group.effect for group in groups)
    return WriteExplanation(
        table=plan.table_name,
        base_path=plan.context.base_path,
        operation=plan.request.operation.value,
        action=plan.action.value,
        num_rows=profile.rows + profile.missing + profile.dropped,
        num_inserts=sum(item.inserts for item in partitions),
        num_updates=sum(item.updates for item in partitions),
        num_deletes=sum(item.deletes for item in partitions),
        num_late=sum(item.late for item in partitions),
        num_missing=profile.missing + missing,
        num_dropped=profile.dropped,
        partitions=partitions,
        compared_groups=sum(item.compared for item in partitions),
        new_groups=effects[Effect.NEW],
        rewritten_groups=effects[Effect.REWRITTEN],
        appended_groups=effects[Effect.APPENDED],
        replaced_groups=sum(item.replaced_groups for item in partitions),
        changed_bytes=cost.changed_bytes,
        rewritten_bytes=cost.rewritten_bytes,
        written_bytes=cost.written_bytes,
        write_amplification=round(cost.amplification, 2),
        max_write_amplification=plan.config[MAX_AMPLIFICATION],
        index=index,
        indexes=indexes,
        advice=advice,
        conflicts=found,
        refused=refused,
        duration_s=round(seconds, 3),
        warnings=[*plan.config.warnings, *profile.warnings],
    )
