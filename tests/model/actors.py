"""The actors of the model: writers, services, readers, with the steps of hoodie.write and hoodie.services."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from tests.model.protocol import (
    REWRITES,
    WRITES,
    Answer,
    File,
    Instant,
    Op,
    Refused,
    Rules,
    Step,
    Steps,
    Table,
    View,
    enter,
    leave,
    lock,
    publish,
    replay,
    request,
    unlock,
)

# ------------------------------------------------------------------------------------------------
# writers


_LOOKS_UP = ("upsert", "delete", "insert_drop")


def comparable(rules: Rules, groups: Iterable[str]) -> set[str]:
    """The same for file groups of one bucket: their names begin with the partition."""
    return {group.partition("/")[0] if rules.buckets else group for group in groups}


class Look:
    """What a write has found in the table: file groups by key, what it replaces, what it did not find."""

    def __init__(self, table: Table, view: View, op: Op) -> None:
        self.view, self.op = view, op
        slices = view.slices(table.files)
        self.slices = {
            group: found for group, found in slices.items() if op.everywhere or found[0] == op.partition
        }
        where = {key: group for group, (_, _, rows) in self.slices.items() for key in rows}
        self.replaced = frozenset(self.slices) if op.replaces else frozenset()
        wanted = tuple(where) if op.kind == "update_where" else op.keys if op.kind in _LOOKS_UP else ()
        if table.rules.buckets and op.kind in _LOOKS_UP:  # rows go to the bucket, whether it has their keys
            bucket = next(iter(self.slices), f"{op.partition}/none")
            exists = bucket in self.slices
            where = dict.fromkeys(wanted, bucket) if exists or op.kind == "delete" else {}
        self.found = {key: where[key] for key in wanted if key in where}
        self.missing = frozenset(key for key in wanted if key not in where)
        self.changed = frozenset(self.found.values()) if op.kind != "insert_drop" else frozenset()
        #: keys that leave another partition
        self.moved = {key for key, group in self.found.items() if self._leaves(group)}
        brings = op.kind in ("upsert", "insert_drop", "insert", "insert_overwrite")
        new = (key for key in op.keys if key not in self.found or key in self.moved)
        self.new = tuple(new) if brings else ()
        self._text = repr((self.view, sorted(self.slices.items()), sorted(self.found.items())))

    def _leaves(self, group: str) -> bool:
        return self.op.kind == "upsert" and self.slices[group][0] != self.op.partition

    def __repr__(self) -> str:
        return self._text


class Window:
    """hoodie.concurrency.conflict_resolution: what the timeline has that it had not when the write looked."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.compared: set[object] = set()

    def __repr__(self) -> str:
        return repr((self.look, sorted(self.compared, key=repr)))

    def news(self, table: Table) -> Iterator[Instant]:
        known = self.look.view.known
        begun = {time for time, _, _ in known}
        for each in table.instants.values():
            if each.completed and each.action in (*WRITES, *REWRITES):
                planned_before = each.action == "compaction" and each.time in begun
                if (each.time, each.action, "completed") not in known and not planned_before:
                    yield each
            elif not each.completed and each.action in ("replace", *REWRITES) and each.time not in begun:
                yield each

    def refuse(self, table: Table, groups: frozenset[str]) -> None:
        rules, look = table.rules, self.look
        for each in self.news(table):
            known = each.completed or each.action in REWRITES
            touched = each.groups | each.replaced if known else frozenset()
            meets = comparable(rules, touched) & comparable(rules, groups)
            if meets and (rules.exclusive_groups or each.action not in ("write", "compaction")):
                raise Refused("conflict")
            if rules.check_reads and each.completed and each.op and self._was_read(each, touched):
                raise Refused("conflict")
        taken_back = set(look.view.completions) - set(table.instants)
        cancelled = set(look.view.compacting.values()) - set(table.instants)
        if taken_back or (rules.check_plans and cancelled):
            raise Refused("conflict")

    def _was_read(self, commit: Instant, touched: frozenset[str]) -> bool:
        look = self.look
        assert commit.op is not None
        if look.op.scans and commit.op.partition == look.op.partition and touched - look.replaced:
            return True
        op = look.op
        keys = {key for place, key in commit.inserted if op.everywhere or place == op.partition}
        return bool(keys & look.missing or touched & (set(look.found.values()) - look.changed))

    def check(self, table: Table, mine: Instant) -> None:
        rules = table.rules
        self.refuse(table, mine.groups | mine.replaced)
        inserts = self.look.op.kind in ("upsert", "insert_drop", "insert_overwrite")
        compares = inserts and rules.new_keys and not rules.buckets
        for each in self.news(table) if compares else ():
            seen = (each.time, each.action, each.state) if rules.compare_completed else each.time
            if each.action in REWRITES or seen in self.compared:
                continue
            if each.completed and self._inserted(mine) & self._inserted(each):
                raise Refused("conflict")
            self.compared.add(seen)
        for each in table.pending():  # logs that a pending write with a later instant is going to append to
            appends = table.merge_on_read and each.state == "inflight" and each.time > mine.time
            meets = comparable(rules, each.groups) & comparable(rules, mine.groups)
            if appends and rules.exclusive_groups and meets:
                raise Refused("conflict")

    def _inserted(self, instant: Instant) -> set[tuple[str, str]]:
        everywhere = self.look.op.everywhere
        return {("" if everywhere else partition, key) for partition, key in instant.inserted}


def looking(table: Table, op: Op) -> Generator[Step, None, Look]:
    yield Step("looks at the timeline")
    view = View(table)
    yield Step("lists and reads files")
    look = Look(table, view, op)
    replaces_planned = op.replaces and set(view.compacting) & set(look.slices)
    if (look.changed | look.replaced) & view.clustering or replaces_planned:
        raise Refused("conflict")
    return look


def writer(table: Table, actor: str, op: Op, retries: int = 0) -> Steps:
    answer: Answer = ""
    for _ in range(retries + 1):
        answer = yield from _attempt(table, actor, op)
        if answer == "committed":
            break
    return answer


def _attempt(table: Table, actor: str, op: Op) -> Steps:
    mine = Instant(0, actor, "replace" if op.replaces else "write", op=op)
    try:
        yield from _write(table, actor, op, mine)
        answer = "committed"
    except Refused as refused:
        unlock(table, actor)
        answer = str(refused)
        if answer != "unknown" and mine.time:
            table.remove_files(mine.time)
            table.instants.pop(mine.time, None)
    leave(table, actor)
    return answer


def _write(table: Table, actor: str, op: Op, mine: Instant) -> Generator[Step, None, None]:
    rules = table.rules
    if not rules.instant_first:
        window = Window((yield from looking(table, op)))
    yield from enter(table, actor)
    yield from lock(table, actor, "to take an instant")
    if not rules.instant_first:
        window.refuse(table, window.look.changed | window.look.replaced)
    if rules.check_lock:
        table.unfinished.clear()
    yield from _take(table, actor, mine)
    unlock(table, actor)
    if rules.instant_first:
        window = Window((yield from looking(table, op)))
    look = window.look
    yield Step(f"says what {mine.time} is going to change")
    if mine.time not in table.instants:
        raise Refused("fenced")
    mine.state, mine.groups = "inflight", look.changed
    yield Step(f"writes the files of {mine.time}")
    if actor not in table.heartbeats:
        raise Refused("fenced")
    table.files |= set(written(table, actor, look, mine.time))
    mine.replaced = look.replaced
    mine.groups = look.changed | ({new_group(actor, op, mine.time)} if look.new else set())
    mine.inserted = frozenset((op.partition, key) for key in look.new)
    yield Step(
        "looks for conflicts, without the lock", lambda: not (rules.wait_for_hudi and table.blind(mine.time))
    )
    window.check(table, mine)
    yield from lock(table, actor, "to publish")
    if rules.fences:
        table.unfinished.clear()
    yield Step("looks for conflicts, under the lock")
    window.check(table, mine)
    if rules.wait_for_hudi and table.blind(mine.time):
        raise Refused("conflict")
    yield from publish(table, actor, mine)
    table.acknowledged.append(mine.time)


def _take(table: Table, actor: str, mine: Instant) -> Generator[Step, None, None]:
    """The instant; `mine` has its time once it is on the timeline."""
    time = table.tick()
    requested = Instant(time, actor, mine.action, op=mine.op)
    yield from request(table, actor, requested)
    mine.time = time
    table.instants[time] = mine


def written(table: Table, actor: str, look: Look, time: int) -> Iterator[File]:
    op = look.op
    gone = set(op.keys) if op.kind == "delete" else look.moved
    for group in look.changed & set(look.slices):
        partition, base, rows = look.slices[group]
        found = (key for key, place in look.found.items() if place == group)
        change = {key: None if key in gone else actor for key in found}
        if table.merge_on_read:
            yield File(group, partition, time, base, True, tuple(sorted(change.items())))
        else:
            content = {key: value for key, value in {**rows, **change}.items() if value is not None}
            yield File(group, partition, time, time, False, tuple(sorted(content.items())))
    if look.new:
        new = tuple((key, actor) for key in sorted(look.new))
        yield File(new_group(actor, op, time), op.partition, time, time, False, new)


def new_group(actor: str, op: Op, time: int) -> str:
    return f"{op.partition}/{actor}{time}"


# ------------------------------------------------------------------------------------------------
# services


def planner(table: Table, actor: str, action: str) -> Steps:
    """Schedules a compaction or a clustering of all file groups that no pending write is known to change."""
    rules = table.rules
    try:
        yield from enter(table, actor)
        yield from lock(table, actor, "to plan")
        yield Step(f"makes the plan of a {action}")
        _look_before_planning(table)
        if rules.wait_for_hudi and table.blind(table.clock + 1):
            raise Refused("conflict")
        instant = _plan(table, actor, action)
        if instant.groups:
            yield from request(table, actor, instant)
            if not rules.check_lock:
                yield Step("looks whether it lives")
                if actor not in table.heartbeats:
                    table.instants.pop(instant.time, None)
                    raise Refused("fenced")
        answer = "scheduled"
    except Refused as refused:
        answer = str(refused)
    leave(table, actor)
    return answer


def _look_before_planning(table: Table) -> None:
    if table.rules.check_lock:
        table.unfinished.clear()
    if table.rules.check_zombies and table.zombies():
        raise Refused("conflict")


def _plan(table: Table, actor: str, action: str) -> Instant:
    view, exclusive = View(table), table.rules.exclusive_groups
    changing = {group for each in table.pending() for group in each.groups if exclusive or each.op is None}
    bases = {group: base for group, (_, base, _) in view.slices(table.files).items() if group not in changing}
    plan = [
        file
        for file in table.files
        if bases.get(file.group) == file.base and file.instant in view.completions
    ]
    if action == "compaction":
        logged = {file.group for file in plan if file.log}
        plan = [file for file in plan if file.group in logged]
    groups = frozenset(file.group for file in plan)
    return Instant(table.tick(), actor, action, groups=groups, plan=tuple(sorted(plan)))


def _sources(table: Table, mine: Instant) -> set[File]:
    """All committed files of the slices of a plan."""
    planned = {(file.group, file.base) for file in mine.plan}
    completed = View(table).completions
    return {file for file in table.files if (file.group, file.base) in planned and file.instant in completed}


def _changed(table: Table, mine: Instant) -> bool:
    slices = View(table).slices(table.files)
    return any(
        group not in slices or slices[group][1] != base
        for group, base in {(f.group, f.base) for f in mine.plan}
    )


def _rewritten(mine: Instant, read: set[File]) -> Iterator[File]:
    for group in sorted(mine.groups):
        files = sorted(
            (file for file in read if file.group == group), key=lambda file: (file.log, file.instant)
        )
        rows = {key: value for file in files for key, value in file.content}
        content = tuple(sorted((key, value) for key, value in rows.items() if value is not None))
        made = f"{group}'" if mine.action == "clustering" else group
        yield File(made, files[0].partition, mine.time, mine.time, False, content)


def executor(table: Table, actor: str) -> Steps:
    """Executes a plan of a compaction or a clustering."""

    def plans() -> list[Instant]:
        found = [each for each in table.pending() if each.action in REWRITES]
        return [each for each in found if each.state == "requested" or not table.heartbeats.get(each.owner)]

    yield Step("takes a plan up", lambda: bool(plans()), idle=True)
    mine = plans()[0]
    time, clusters, checks = mine.time, mine.action == "clustering", table.rules.check_sources
    if mine.state == "inflight":
        table.heartbeats.pop(mine.owner, None)
        table.unfinished = {each for each in table.unfinished if each[0] != time}
        table.files = {file for file in table.files if file.instant != time or file.log}
    table.heartbeats[actor], mine.owner, mine.state = True, actor, "inflight"
    yield Step(f"writes the files of {mine.action} {time}")
    read = _sources(table, mine) if checks else set(mine.plan)
    made = set(_rewritten(mine, read))
    table.files |= made
    try:
        if clusters:
            yield Step("looks whether its file groups were changed")
            if _changed(table, mine):
                raise Refused("conflict")
        yield from lock(table, actor, "to publish")
        if checks:
            yield Step("looks, under the lock, whether its file groups were changed")
            if _sources(table, mine) != read or (clusters and _changed(table, mine)):
                raise Refused("conflict")
        mine.replaced = mine.groups if clusters else frozenset()
        yield from publish(table, actor, mine)
        answer = "committed"
    except Refused as refused:
        table.files -= made if actor in table.heartbeats else set()  # else they are its successor's
        answer = str(refused)
    leave(table, actor)
    if clusters and table.rules.cancel_outdated and answer == "conflict" and _changed(table, mine):
        yield from canceller(table, actor)
    return answer


def canceller(table: Table, actor: str) -> Steps:
    """Takes a plan off the timeline, where no process is at work and no rows were written on top of it."""
    del actor
    yield Step(
        "cancels the plan, as nobody is at work", lambda: not table.heartbeats and not table.lock, idle=True
    )
    completed = View(table).completions
    for each in table.pending():
        on_top = any(file.base == each.time and file.instant in completed for file in table.files)
        if each.action in REWRITES and not on_top:
            del table.instants[each.time]
            table.remove_files(each.time)
    return "cancelled"


def cleaner(table: Table, actor: str) -> Steps:
    """Deletes all but the latest slice of each file group; what a pending instant may need stays."""
    try:
        yield from enter(table, actor)
        yield from lock(table, actor, "to plan")
        yield Step("makes the plan of a clean")
        _look_before_planning(table)
        instant = _plan_clean(table, actor)
        yield from request(table, actor, instant)
        unlock(table, actor)
        for file in instant.plan:
            yield Step(f"deletes {file.group}@{file.instant}")
            table.files.discard(file)
        yield Step(f"completes clean {instant.time}")
        table.complete(instant.time)
        answer = "cleaned"
    except Refused as refused:
        answer = str(refused)
    leave(table, actor)
    return answer


def _plan_clean(table: Table, actor: str) -> Instant:
    view, time = View(table), table.tick()
    bound = min((each.time for each in table.pending() if each.action != "clean"), default=time)
    needed = {file for each in table.pending() for file in each.plan}
    latest: dict[str, int] = {}
    for file in table.files:
        if not file.log and file.instant in view.completions and file.instant < bound:
            latest[file.group] = max(latest.get(file.group, 0), file.base)
    before = [each for each in table.instants.values() if each.completed and each.time < bound]
    replaced = {group for each in before for group in each.replaced}
    old = {
        file
        for file in table.files
        if file.instant in view.completions
        and (file.base < latest.get(file.group, 0) or file.group in replaced)
    }
    return Instant(time, actor, "clean", plan=tuple(sorted(old - needed)))


# ------------------------------------------------------------------------------------------------
# readers


def reader(table: Table, actor: str) -> Steps:
    """A snapshot query. It looks whether the files that commits name are there, and else reads again."""
    del actor
    for _ in range(2):
        yield Step("looks at the timeline")
        view, expected = View(table), replay(table.commits())
        named = {file for file in table.files if file.instant in view.completions}
        yield Step("lists files")
        if table.rolled_back & set(view.completions):  # a zombie's commit, whose files are gone
            return "fenced"
        listed = {file for file in table.files if file.instant in view.completions}
        if view.slices(listed) == view.slices(named):
            found = view.rows(listed)
            return "read" if found == expected else f"read {found}, right are {expected}"
    return "fenced"


def follower(table: Table, actor: str) -> Steps:
    """Incremental queries: each stops before a write in flight, and continues after the last commit."""
    del actor
    last, seen = 0, list[int]()
    for _ in range(2):
        yield Step(f"asks for commits after {last}")
        last, seen = follow(table, last, seen)
    return last, tuple(seen)


def follow(table: Table, last: int, seen: list[int]) -> tuple[int, list[int]]:
    hole = min((each.time for each in table.pending() if each.action in WRITES), default=table.clock + 1)
    new = sorted(each.time for each in table.commits() if last < each.time < hole)
    return (new[-1] if new else last), [*seen, *new]
