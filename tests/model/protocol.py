"""A model of writers at once on one table: what the storage holds, and the steps that all actors share.

`Table` is what the storage holds: a timeline, data files, a lock, heartbeats. An actor (tests.model.actors)
is a generator. What it does between two `yield`s is one atomic step, and each `yield` names the next step.
`Rules` are the rules that all actors follow: the defaults are those of the product, and each of the first
switches that is turned off is a fault that the product had. tests.model.explore runs the actors in every
order.

Left out: small files, record indexes, the metadata table, archiving, savepoints, restores, tokens, schemas,
early conflict detection, wrong clocks, torn files, a storage that fails. A step that lists is atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

# ------------------------------------------------------------------------------------------------
# what the storage holds

#: partition, key, value
Row = tuple[str, str, str]
#: of a file group: its partition, the base instant of its latest file slice, its rows
FileSlice = tuple[str, int, dict[str, str]]
REWRITES = ("compaction", "clustering")
WRITES = ("write", "replace")


class Rules(NamedTuple):
    """The defaults are the product's rules with BLOOM or SIMPLE, on a storage with atomic renames."""

    #: a pending write that was compared is compared again once it is completed
    compare_completed: bool = True
    #: a newer commit in what the write read, and does not write, is a conflict
    check_reads: bool = True
    #: a pending compaction that the write saw, and that was cancelled, is a conflict
    check_plans: bool = True
    #: an instant or a plan is put on the timeline only while the lock is held, and a plan is not taken back
    check_lock: bool = True
    #: an executor reads all committed logs of its slices, and looks again under the lock
    check_sources: bool = True
    #: an executor cancels a clustering whose file groups were changed, once nobody is at work
    cancel_outdated: bool = True
    #: no plan is made beside a commit of a writer that was rolled back, and has not withdrawn it yet
    check_zombies: bool = True
    #: commits and plans wait for a write of Apache Hudi that has an earlier instant, and has not looked yet
    wait_for_hudi: bool = True
    #: BUCKET: one file group for each partition, which has all of its keys
    buckets: bool = False
    #: a write takes its instant before it looks at the table: no substitute for `check_reads`
    instant_first: bool = False
    #: hoodie.write.concurrency.check.new.keys
    new_keys: bool = True
    #: commits to one file group are conflicts; without it: non-blocking, as in table version 8
    exclusive_groups: bool = True
    #: the next writer sweeps unfinished files (local disks, HDFS); without it: an object store
    fences: bool = True
    #: on an object store: .hoodie/.aux/inside names who is inside the lock
    inside: bool = True
    #: logs belong to file slices, and are merged, by completion (table versions 8 and 9)
    completion_slices: bool = False


PRODUCT = Rules()


class Op(NamedTuple):
    """A write. `kind`: upsert, insert, insert_drop (known keys are dropped), delete, insert_overwrite,
    delete_partition, update_where (a statement that changes all rows of a partition). `everywhere`: by a
    global index, which finds keys in all partitions, and moves those that it upserts.
    """

    kind: str
    partition: str
    keys: tuple[str, ...] = ()
    everywhere: bool = False

    @property
    def replaces(self) -> bool:
        return self.kind in ("insert_overwrite", "delete_partition")

    @property
    def scans(self) -> bool:
        """The write depends on every row of its partition."""
        return self.replaces or self.kind == "update_where"

    def __str__(self) -> str:
        return f"{self.kind} {''.join(self.keys)}".strip()


class File(NamedTuple):
    """A base file, or a log with changes (None: deleted). `base`: the base instant in its name."""

    group: str
    partition: str
    instant: int
    base: int
    log: bool
    content: tuple[tuple[str, str | None], ...]


@dataclass(repr=False)
class Instant:
    """`groups` it writes or plans, `replaced` by it, `inserted` (partition, key) in new file groups."""

    time: int
    owner: str
    action: str  # write, replace, compaction, clustering, clean
    state: str = "requested"
    op: Op | None = None
    groups: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    inserted: frozenset[tuple[str, str]] = frozenset()
    plan: tuple[File, ...] = ()
    completion: int = 0
    #: of Apache Hudi
    foreign: bool = False

    @property
    def completed(self) -> bool:
        return self.state == "completed"

    def __repr__(self) -> str:
        sets = (sorted(self.groups), sorted(self.replaced), sorted(self.inserted))
        return f"{self.time} {self.owner} {self.action} {self.state} {self.completion} {sets} {self.plan}"


@dataclass
class Table:
    merge_on_read: bool = False
    rules: Rules = PRODUCT
    instants: dict[int, Instant] = field(default_factory=dict)
    files: set[File] = field(default_factory=set)
    lock: str = ""
    #: actor -> is it alive
    heartbeats: dict[str, bool] = field(default_factory=dict)
    #: completed files that are being made, by time and actor
    unfinished: set[tuple[int, str]] = field(default_factory=set)
    inside: set[str] = field(default_factory=set)
    rolled_back: set[int] = field(default_factory=set)
    clock: int = 0
    acknowledged: list[int] = field(default_factory=list)

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def key(self) -> str:
        """Equal for equal tables."""
        shown = (sorted(map(repr, self.files)), sorted(self.heartbeats.items()), sorted(self.unfinished))
        more = (self.lock, self.acknowledged, sorted(self.inside), sorted(self.rolled_back))
        return repr((self.clock, list(self.instants.items()), shown, more))

    def complete(self, time: int) -> None:
        self.instants[time].state, self.instants[time].completion = "completed", self.tick()

    def commits(self) -> list[Instant]:
        """Commits of rows, in the order of completion."""
        found = (each for each in self.instants.values() if each.completed and each.op)
        return sorted(found, key=lambda each: each.completion)

    def pending(self) -> list[Instant]:
        return [each for each in self.instants.values() if not each.completed]

    def blind(self, time: int) -> list[Instant]:
        """Live writes of Apache Hudi with an earlier instant, which have not looked at the table yet."""
        begun = [each for each in self.pending() if each.foreign and each.state == "requested"]
        return [each for each in begun if each.time < time and self.heartbeats.get(each.owner)]

    def zombies(self) -> list[int]:
        """Commits of writers that were rolled back: their files are gone."""
        return [
            time for time in sorted(self.rolled_back & set(self.instants)) if self.instants[time].completed
        ]

    def remove_files(self, time: int) -> None:
        self.files = {file for file in self.files if file.instant != time}


class View:
    """The timeline at one moment, and what it shows of files. `before`: of instants before this one."""

    def __init__(self, table: Table, before: int | None = None) -> None:
        self.rules = table.rules
        instants = [each for each in table.instants.values() if before is None or each.time < before]
        self.known = {(each.time, each.action, each.state) for each in instants}
        self.completions = {each.time: each.completion for each in instants if each.completed}
        self.replaced = {group for each in instants if each.completed for group in each.replaced}
        pending = [each for each in instants if not each.completed]
        #: file group -> its pending compaction
        self.compacting = {
            group: each.time for each in pending if each.action == "compaction" for group in each.groups
        }
        #: file groups of pending clusterings
        self.clustering = {group for each in pending if each.action == "clustering" for group in each.groups}

        self._text = repr((sorted(self.known), sorted(self.completions.items())))

    def __repr__(self) -> str:
        return self._text

    def slices(self, files: Iterable[File]) -> dict[str, FileSlice]:
        """By file group."""
        by_group: dict[str, list[File]] = {}
        for file in files:
            if file.instant in self.completions and file.group not in self.replaced:
                by_group.setdefault(file.group, []).append(file)
        found = {group: self._slice(group, by_group[group]) for group in sorted(by_group)}
        return {group: each for group, each in found.items() if each is not None}

    def _slice(self, group: str, files: list[File]) -> FileSlice | None:
        bases = {file.base: file for file in files if not file.log}
        if not bases:
            return None
        newest = max(bases)
        last = self.compacting.get(group, newest)
        begins = {*bases, last}
        logs = [file for file in files if file.log and self._base_of(file, begins) in (newest, last)]
        if self.rules.completion_slices:
            logs.sort(key=lambda log: self.completions[log.instant])
        else:
            logs.sort(key=lambda log: (log.base, log.instant))
        rows = dict(bases[newest].content)
        for log in logs:
            rows.update(log.content)
        left = {key: value for key, value in rows.items() if value is not None}
        return bases[newest].partition, max(newest, last), left

    def _base_of(self, log: File, begins: set[int]) -> int:
        if not self.rules.completion_slices:
            return log.base
        return max(time for time in begins if time < self.completions[log.instant])

    def rows(self, files: Iterable[File]) -> list[Row]:
        slices = self.slices(files).values()
        return sorted((partition, key, value) for partition, _, rows in slices for key, value in rows.items())


def replay(commits: Iterable[Instant]) -> list[Row]:
    """The rows that these writes give one after the other."""
    rows: list[Row] = []
    for commit in commits:
        assert commit.op is not None
        rows = replayed(rows, commit.op, commit.owner)
    return sorted(rows)


def replayed(rows: list[Row], op: Op, value: str) -> list[Row]:
    """The rows after one more write."""
    if op.everywhere and op.kind == "delete":
        return [row for row in rows if row[1] not in op.keys]
    if op.everywhere and op.kind == "upsert":
        rows = [row for row in rows if row[0] == op.partition or row[1] not in op.keys]
    others = [row for row in rows if row[0] != op.partition]
    known = {key: old for partition, key, old in rows if partition == op.partition}
    elsewhere = {key for _, key, _ in others} if op.everywhere else set()
    brought = {key: value for key in op.keys if key not in elsewhere}
    if op.kind == "insert":
        return [*rows, *((op.partition, key, value) for key in op.keys)]
    after = {
        "upsert": {**known, **brought},
        "insert_drop": {**brought, **known},
        "insert_overwrite": brought,
        "delete_partition": {},
        "delete": {key: old for key, old in known.items() if key not in op.keys},
        "update_where": dict.fromkeys(known, value),
    }[op.kind]
    return [*others, *((op.partition, key, new) for key, new in after.items())]


# ------------------------------------------------------------------------------------------------
# steps that actors share


class Step(NamedTuple):
    """The next step. `ready`: may it be done now. `idle`: it may never be done."""

    text: str
    ready: Callable[[], bool] | None = None
    idle: bool = False


class Refused(Exception):
    """`conflict`: another one was faster. `fenced`: the actor was taken for dead, or lost the lock.
    `unknown`: it may have committed.
    """


#: what an actor ends with: a word, or what a follower saw
Answer = str | tuple[int, tuple[int, ...]]
Steps = Generator[Step, None, Answer]
Part = Generator[Step, None, None]


def lock(table: Table, actor: str, reason: str, repairs: bool = False) -> Part:
    yield Step(f"gets the lock {reason}", lambda: not table.lock)
    table.lock = actor
    if table.rules.fences or not table.rules.inside:
        return
    table.inside.add(actor)

    def alive() -> bool:
        return any(table.heartbeats.get(name) for name in table.inside - {actor})

    if alive():
        yield Step("waits for those inside", lambda: not alive())
        if table.lock != actor:
            raise Refused("fenced")
    writing = {each.owner for each in table.pending()}
    others = table.inside - {actor}
    table.inside -= {name for name in others if name not in table.heartbeats and name not in writing}
    if table.inside - {actor} and not repairs:
        raise Refused("conflict")


def unlock(table: Table, actor: str) -> None:
    table.lock = "" if table.lock == actor else table.lock
    table.inside.discard(actor)


def leave(table: Table, actor: str) -> None:
    unlock(table, actor)
    table.heartbeats.pop(actor, None)


def enter(table: Table, actor: str) -> Part:
    """The heartbeat; then, under the lock, failed writes are rolled back."""
    yield Step("makes its heartbeat")
    table.heartbeats[actor] = True
    yield from lock(table, actor, "to enter", repairs=True)
    yield from repair(table, actor)
    unlock(table, actor)


def repair(table: Table, actor: str) -> Part:
    services = {each.owner for each in table.pending() if each.action in REWRITES}
    for name in [name for name, alive in table.heartbeats.items() if not alive and name not in services]:
        del table.heartbeats[name]
    table.unfinished.clear()
    for time in table.zombies():
        table.instants.pop(time)
    writes = [each for each in table.pending() if each.action in WRITES]
    for time in [each.time for each in writes if each.owner not in table.heartbeats]:
        table.rolled_back.add(time)
        yield Step(f"deletes the files of write {time}, which is dead")
        table.remove_files(time)
        yield Step(f"completes the rollback of {time}")
        table.instants.pop(time, None)
    table.inside &= {*table.heartbeats, actor}


def request(table: Table, actor: str, instant: Instant) -> Part:
    """The requested file, of a time that was chosen under the lock."""
    rules = table.rules
    if rules.check_lock and not rules.fences:  # the look and the file are two requests
        yield Step("looks whether it has the lock")
        if table.lock != actor:
            raise Refused("fenced")
    yield Step(f"requests {instant.action} {instant.time}")
    if rules.check_lock and rules.fences and table.lock != actor:
        raise Refused("fenced")
    table.instants[instant.time] = instant


def publish(table: Table, actor: str, instant: Instant) -> Part:
    """The completed file, under the lock."""
    time = instant.time

    def check() -> None:
        # elsewhere the timeline is looked at after the publishing alone
        gone = table.rules.fences and (time not in table.instants or time in table.rolled_back)
        if gone or actor not in table.heartbeats or table.lock != actor:
            raise Refused("fenced")

    fences = table.rules.fences
    looks = f"makes the unfinished file of {time} and looks" if fences else "looks"
    yield Step(f"{looks} whether it lives and has the lock")
    if fences:
        table.unfinished.add((time, actor))
    check()
    yield Step(f"publishes {time}")
    if fences and (time, actor) not in table.unfinished:
        raise Refused("fenced")
    table.unfinished.discard((time, actor))
    gone = time not in table.instants  # it was rolled back, or its plan was taken back
    if gone:
        table.instants[time] = replace(instant)
    table.complete(time)
    if fences:
        return
    yield Step(f"looks whether {time} was rolled back")
    if gone or time in table.rolled_back:
        table.instants.pop(time, None)
        raise Refused("fenced")
    if actor not in table.heartbeats:
        raise Refused("unknown")
