"""Every pair of writers, and every writer beside each service, with each fault of each actor."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from tests.model.actors import canceller
from tests.model.explore import Scenario
from tests.model.protocol import PRODUCT, Rules
from tests.model.scenarios import (
    CLEAN,
    CLUSTER,
    COMPACT,
    EXECUTE,
    OBJECT_STORE,
    READ,
    Actor,
    beside,
    op,
)

WRITERS = (
    op("upsert", "o"),
    op("upsert", "k"),
    op("insert", "k"),
    op("insert_drop", "o", "k"),
    op("delete", "o", "k"),
    op("insert_overwrite", "k"),
    op("delete_partition"),
    op("update_where"),
)
#: the plan that the table has, and the actors
SERVICES: dict[str, tuple[str, dict[str, Actor]]] = {
    "compaction": ("", COMPACT),
    "clustering": ("", CLUSTER),
    "planned compaction": ("compaction", EXECUTE),
    "planned clustering": ("clustering", EXECUTE),
    "cancelled compaction": ("compaction", {"X": canceller}),
    "clean": ("", CLEAN),
    "clean and reader": ("", {**CLEAN, **READ}),
}
FAULTS = ((), ("expire",), ("silence",), ("kill",), ("expire", "silence"))
STORAGES = {"fencing": PRODUCT, "object store": OBJECT_STORE}


def pairs() -> Iterator[tuple[Scenario, str]]:
    """Without faults, and the names of the actors that may have one."""
    for one, other in itertools.combinations_with_replacement(WRITERS, 2):
        for logged in (False, True):
            make = beside(one, other, seeds="o", merge_on_read=logged, logged=logged)
            yield Scenario(f"{one} beside {other}, {_type(logged)}", make), "AB"
    for writer, (name, (plan, actors)) in itertools.product(WRITERS, SERVICES.items()):
        for logged in (True,) if "compaction" in name else (False, True):
            make = beside(writer, seeds="o", merge_on_read=logged, logged=logged, plan=plan, more=actors)
            yield Scenario(f"{writer} beside {name}, {_type(logged)}", make), "A" + "".join(actors)


def _type(logged: bool) -> str:
    return "merge-on-read" if logged else "copy-on-write"


def scenarios() -> list[Scenario]:
    """Shuffled, in the same order each time."""
    found = [
        with_faults(pair, who, fault, storage, rules)
        for (pair, actors), fault, (storage, rules) in itertools.product(pairs(), FAULTS, STORAGES.items())
        for who in (actors if fault else "-")
    ]
    random.Random(0).shuffle(found)
    return found


def with_faults(pair: Scenario, who: str, fault: tuple[str, ...], storage: str, rules: Rules) -> Scenario:
    name = f"{pair.name}, {storage}: {who} {'+'.join(fault)}"
    faults = dict.fromkeys(fault, (who,))
    return replace(pair, name=name, rules=rules, transient=rules.fences, **faults)  # type: ignore[arg-type]
