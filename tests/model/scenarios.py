"""The scenarios of the model: which actors work on which table, and which faults they may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tests.model.actors import canceller, cleaner, executor, follower, planner, reader, writer
from tests.model.explore import Scenario
from tests.model.hudi import hudi_writer
from tests.model.protocol import PRODUCT, File, Instant, Op, Rules, Steps, Table

Actor = Callable[[Table, str], Steps]
Make = Callable[[Rules], tuple[Table, dict[str, Steps]]]
PARTITION = "p"
OBJECT_STORE = PRODUCT._replace(fences=False)


def op(kind: str, *keys: str, p: str = PARTITION) -> Op:
    return Op(kind, p, keys)


def everywhere(kind: str, *keys: str, p: str = PARTITION) -> Op:
    """By a global index."""
    return Op(kind, p, keys, everywhere=True)


def table(
    rules: Rules, seeds: str = "", *, merge_on_read: bool = False, logged: bool = False, plan: str = ""
) -> Table:
    """One file group for each key of `seeds`; with a log if `logged`, and in a pending `plan`."""
    made = Table(merge_on_read=merge_on_read, rules=rules)
    for key in seeds:
        group = f"{PARTITION}/{key}"
        base = _committed(made, "seed", key, group)
        made.files.add(File(group, PARTITION, base, base, False, ((key, "seed"),)))
        if logged:
            made.files.add(
                File(group, PARTITION, _committed(made, "log", key, group), base, True, ((key, "log"),))
            )
    if plan:
        now, groups = made.tick(), frozenset(file.group for file in made.files)
        made.instants[now] = Instant(now, "", plan, groups=groups, plan=tuple(sorted(made.files)))
    return made


def _committed(made: Table, owner: str, key: str, group: str) -> int:
    now = made.tick()
    made.instants[now] = Instant(now, owner, "write", op=op("upsert", key), groups=frozenset({group}))
    made.complete(now)
    return now


def beside(
    *ops: Op,
    seeds: str = "",
    more: Mapping[str, Actor] | None = None,
    retries: int = 0,
    merge_on_read: bool = False,
    logged: bool = False,
    plan: str = "",
) -> Make:
    """Writers A, B, ... with these operations, and other actors by name."""

    def make(rules: Rules) -> tuple[Table, dict[str, Steps]]:
        made = table(rules, seeds, merge_on_read=merge_on_read, logged=logged, plan=plan)
        writers = {name: writer(made, name, each, retries) for name, each in zip("ABC", ops, strict=False)}
        return made, {**writers, **{name: act(made, name) for name, act in (more or {}).items()}}

    return make


PLAN_COMPACTION: dict[str, Actor] = {"S": partial(planner, action="compaction")}
PLAN_CLUSTERING: dict[str, Actor] = {"S": partial(planner, action="clustering")}
EXECUTE: dict[str, Actor] = {"X": executor}
CANCEL: dict[str, Actor] = {"X": canceller}
CLEAN: dict[str, Actor] = {"C": cleaner}
READ: dict[str, Actor] = {"R": reader}
FOLLOW: dict[str, Actor] = {"F": follower}
COMPACT, CLUSTER = {**PLAN_COMPACTION, **EXECUTE}, {**PLAN_CLUSTERING, **EXECUTE}

#: of a table with a log: one upsert of its key, and other actors
_logged = partial(beside, op("upsert", "o"), seeds="o", merge_on_read=True, logged=True)
#: of a table of copy-on-write with two file groups
_two_groups = partial(beside, op("upsert", "o"), seeds="ou")

UPSERT, OVERWRITE = op("upsert", "k"), op("insert_overwrite", "k")
#: two writers, none of whose file groups is known to both
RACES: dict[str, Make] = {
    "new key: upsert beside insert_overwrite": beside(OVERWRITE, op("upsert", "k")),
    "new key: two upserts": beside(op("upsert", "k"), op("upsert", "k")),
    "new key: two insert_overwrites": beside(OVERWRITE, OVERWRITE),
    "between: delete beside upsert of the key": beside(op("delete", "k"), op("upsert", "k")),
    "between: delete_partition beside upsert": beside(op("delete_partition"), op("upsert", "k"), seeds="o"),
    "between: insert_overwrite beside upsert": beside(
        op("insert_overwrite", "w"), op("upsert", "k"), seeds="o"
    ),
    "between: two insert_overwrites, other keys": beside(
        op("insert_overwrite", "k"), op("insert_overwrite", "l")
    ),
    "read: UPDATE statement beside insert": beside(op("update_where"), op("insert", "k"), seeds="o"),
    "read: insert with drop beside delete": beside(op("insert_drop", "o", "n"), op("delete", "o"), seeds="o"),
}

_ONE_KEY = beside(op("upsert", "o"), op("upsert", "o"), seeds="o")
_TWO_KEYS = beside(op("upsert", "o"), UPSERT, seeds="o")
_OVERWRITTEN = beside(op("insert_overwrite", "o"), seeds="o", more={**CLEAN, **READ})
_WRITERS = [
    *(Scenario(name, make) for name, make in RACES.items()),
    Scenario(
        "two upserts of one key, with a retry",
        beside(op("upsert", "o"), op("upsert", "o"), seeds="o", retries=1),
    ),
    Scenario(
        "two appends to one log", beside(op("upsert", "o"), op("delete", "o"), seeds="o", merge_on_read=True)
    ),
    Scenario("a writer is killed", _TWO_KEYS, kill=("A",)),
]
_COMPACTIONS = [
    Scenario("compaction beside an upsert", _logged(more=COMPACT)),
    Scenario("compaction whose planner loses the lock", _logged(more=COMPACT), expire=("S",)),
    Scenario(
        "compaction whose planner sleeps longer than lock and heartbeat",
        _logged(more=COMPACT),
        expire=("S",),
        silence=("S",),
    ),
    Scenario("a compaction's planner is killed", _logged(more=COMPACT), kill=("S",)),
    Scenario("planned compaction beside an upsert", _logged(more=EXECUTE, plan="compaction")),
    Scenario("planned compaction that is cancelled", _logged(more=CANCEL, plan="compaction")),
    Scenario(
        "insert_overwrite beside a compaction",
        beside(op("insert_overwrite", "o"), seeds="o", merge_on_read=True, logged=True, more=COMPACT),
    ),
    Scenario(
        "two planners of compactions",
        beside(seeds="o", merge_on_read=True, logged=True, more={**COMPACT, "T": PLAN_COMPACTION["S"]}),
    ),
    Scenario(
        "one plan is executed twice",
        beside(
            seeds="o", merge_on_read=True, logged=True, plan="compaction", more={**EXECUTE, "Y": executor}
        ),
        silence=("X",),
    ),
]
_CLUSTERINGS = [
    Scenario("clustering beside an upsert", _two_groups(more=CLUSTER)),
    Scenario("clustering whose planner loses the lock", _two_groups(more=CLUSTER), expire=("S",)),
    Scenario(
        "delete_partition beside a clustering", beside(op("delete_partition"), seeds="ou", more=CLUSTER)
    ),
    Scenario(
        "clustering beside an insert_overwrite that loses the lock",
        beside(op("insert_overwrite", "k"), seeds="o", more=CLUSTER),
        expire=("A",),
    ),
]
_CLEANS = [
    Scenario("clean beside an upsert", _two_groups(more=CLEAN)),
    Scenario("clean that loses the lock", _two_groups(more=CLEAN), expire=("C",)),
    Scenario(
        "clean beside an upsert and a reader", beside(op("upsert", "o"), seeds="o", more={**CLEAN, **READ})
    ),
    Scenario(
        "clean beside an insert_overwrite and a reader",
        beside(op("insert_overwrite", "o"), seeds="o", more={**CLEAN, **READ}),
    ),
]
_BY_COMPLETION = Rules(exclusive_groups=False, completion_slices=True)
_TWO_APPENDS = beside(op("upsert", "o"), op("upsert", "o"), seeds="o", merge_on_read=True)
_NON_BLOCKING = [
    Scenario("non-blocking: two appends", _TWO_APPENDS, _BY_COMPLETION),
    Scenario("non-blocking: an append beside a compaction", _logged(more=COMPACT), _BY_COMPLETION),
]
#: a few hundred states each
SHORT = [*_WRITERS, *_COMPACTIONS, *_CLUSTERINGS, *_CLEANS, *_NON_BLOCKING]

_FOLLOWED = beside(op("upsert", "a"), op("upsert", "b"), more=FOLLOW)
_UPDATED = everywhere("upsert", "o")
#: `o` leaves its partition for "q", or for "r"
_MOVED, _ELSEWHERE = everywhere("upsert", "o", p="q"), everywhere("upsert", "o", p="r")
_MOVES: dict[str, Make] = {
    "a move beside an update": beside(_MOVED, _UPDATED, seeds="o"),
    "two moves": beside(_MOVED, _ELSEWHERE, seeds="o"),
    "a new key in two partitions": beside(everywhere("upsert", "k"), everywhere("upsert", "k", p="q")),
    "a move beside a delete": beside(_MOVED, everywhere("delete", "o"), seeds="o"),
    "a new key beside a delete": beside(everywhere("delete", "k"), everywhere("upsert", "k", p="q")),
    "a move out of a partition that is overwritten": beside(op("insert_overwrite", "k"), _MOVED, seeds="o"),
    "a move into a partition that is overwritten": beside(
        op("insert_overwrite", "k", p="q"), _MOVED, seeds="o"
    ),
    "a move into a partition that is deleted": beside(op("delete_partition", p="q"), _MOVED, seeds="o"),
    "a key that is dropped beside its delete": beside(
        everywhere("insert_drop", "o", p="q"), everywhere("delete", "o"), seeds="ou"
    ),
    "an overwrite with a key that is new elsewhere": beside(
        op("insert_overwrite", "k"), everywhere("upsert", "k", p="q")
    ),
    "a move beside UPDATE": beside(op("update_where", p="q"), _MOVED, seeds="o"),
}
MOVES = [
    *(Scenario(f"global index: {name}", make) for name, make in _MOVES.items()),
    Scenario(
        "global index: a move beside a compaction",
        beside(_MOVED, seeds="o", merge_on_read=True, logged=True, more=COMPACT),
    ),
    Scenario(
        "global index: a move beside a compaction whose planner loses the lock",
        beside(_MOVED, seeds="o", merge_on_read=True, logged=True, more=COMPACT),
        expire=("S",),
    ),
    Scenario("global index: a move beside a clustering", beside(_MOVED, seeds="ou", more=CLUSTER)),
    Scenario("global index: a move whose writer is killed", beside(_MOVED, _UPDATED, seeds="o"), kill=("A",)),
]
_BUCKETS = PRODUCT._replace(buckets=True)
#: those of RACES that a table of buckets takes
_OF_BUCKETS = {
    name: make for name, make in RACES.items() if "drop" not in name and "insert" not in name.split()
}
BUCKETS = [
    *(Scenario(f"BUCKET, {name}", make, _BUCKETS) for name, make in _OF_BUCKETS.items()),
    Scenario("BUCKET, two upserts, merge-on-read", beside(UPSERT, UPSERT, merge_on_read=True), _BUCKETS),
    Scenario(
        "BUCKET, delete beside an upsert of the key, merge-on-read",
        beside(op("delete", "k"), UPSERT, seeds="o", merge_on_read=True),
        _BUCKETS,
    ),
    Scenario("BUCKET, an upsert beside UPDATE", beside(op("update_where"), UPSERT, seeds="o"), _BUCKETS),
    Scenario("BUCKET, compaction beside an upsert", _logged(more=COMPACT), _BUCKETS),
    Scenario(
        "BUCKET, compaction whose planner loses the lock", _logged(more=COMPACT), _BUCKETS, expire=("S",)
    ),
    Scenario(
        "BUCKET, planned compaction that is cancelled", _logged(more=CANCEL, plan="compaction"), _BUCKETS
    ),
]
_HUDI: dict[str, Actor] = {"H": partial(hudi_writer, op=op("upsert", "o"))}
_SLOW_HUDI: dict[str, Actor] = {"H": partial(hudi_writer, op=op("upsert", "o"), slow=True)}
#: an upsert of Apache Hudi beside a write or a service, in both types of tables
HUDI = [
    *(
        Scenario(
            f"Apache Hudi beside {each}, {'merge-on-read' if logged else 'copy-on-write'}",
            beside(each, seeds="o", merge_on_read=logged, logged=logged, more=_HUDI),
        )
        for each in (op("upsert", "o"), op("delete", "o"), op("delete_partition"), op("update_where"))
        for logged in (False, True)
    ),
    Scenario(
        "Apache Hudi beside a compaction",
        beside(seeds="o", merge_on_read=True, logged=True, more={**_HUDI, **COMPACT}),
    ),
    Scenario("Apache Hudi beside a clustering", beside(seeds="ou", more={**_HUDI, **CLUSTER})),
    Scenario("Apache Hudi beside a clean", beside(seeds="o", more={**_HUDI, **CLEAN})),
]
SLOW_HUDI = Scenario(
    "Apache Hudi that requests its instant late", beside(op("upsert", "o"), seeds="o", more=_SLOW_HUDI)
)
#: thousands of states each
LONG = [
    Scenario("a follower beside writers", _FOLLOWED),
    Scenario("a sleeping writer is rolled back", _TWO_KEYS, expire=("A",), silence=("A",)),
    Scenario(
        "a sleeping writer is rolled back, object store",
        _ONE_KEY,
        OBJECT_STORE,
        expire=("A",),
        silence=("A",),
        transient=False,
    ),
    Scenario(
        "a clean beside a delete_partition that sleeps and is rolled back, object store",
        beside(op("delete_partition"), seeds="o", more=CLEAN),
        OBJECT_STORE,
        expire=("A",),
        silence=("A",),
        transient=False,
    ),
    Scenario("an instant that is put late, beside a follower", _FOLLOWED, expire=("A",), transient=False),
    Scenario(
        "an instant that a sleeper puts late, object store",
        _FOLLOWED,
        OBJECT_STORE,
        expire=("A",),
        silence=("A",),
        transient=False,
    ),
    Scenario(
        "compaction whose planner sleeps, object store, beside an upsert with a retry",
        _logged(more=COMPACT, retries=1),
        OBJECT_STORE,
        expire=("S",),
        silence=("S",),
        transient=False,
    ),
    Scenario(
        "compaction and clustering beside an upsert",
        beside(
            op("upsert", "o"),
            seeds="ou",
            merge_on_read=True,
            logged=True,
            more={**COMPACT, "T": PLAN_CLUSTERING["S"], "Y": executor},
        ),
    ),
    Scenario(
        "two upserts beside a clustering",
        beside(op("upsert", "o"), op("upsert", "k"), seeds="o", more=CLUSTER),
    ),
    Scenario(
        "an executor sleeps or dies, another one takes over, beside an upsert",
        _logged(plan="compaction", more={**EXECUTE, "Y": executor}),
        expire=("X",),
        silence=("X",),
        kill=("X",),
    ),
]


def without(name: str, **switches: bool) -> Scenario:
    """A scenario by its name, with other rules."""
    scenario = next(each for each in [*SHORT, *MOVES, *BUCKETS, *HUDI, *LONG] if each.name == name)
    said = ", ".join(switch if on else f"no {switch}" for switch, on in switches.items())
    rules = scenario.rules._replace(**switches)
    return replace(scenario, name=f"{name}, {said}", rules=rules)
