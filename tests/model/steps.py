"""The steps of a random run: what each does to a table, and how its arguments are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.engine.local import LocalEngine
from hoodie.errors import ConfigError, ConflictError, SchemaError, TableError
from hoodie.pipeline import write
from hoodie.write.operation import Operation, WriteRequest
from tests.model.flavor import Flavor, Row
from tests.model.world import Change, World
from tests.support.tables import SMALL_SCHEMA, as_table

KEY_SCHEMA = pa.schema([SMALL_SCHEMA.field(name) for name in ("id", "region")])
KEYS = 40
SERVICES = {
    "hoodie.cleaner.commits.retained": "3",
    "hoodie.clean.max.commits": "0",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "8",
    "hoodie.commits.archival.batch": "3",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.index.bloom.num_entries": "100",
}
TABLE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "model",
}


@dataclass(frozen=True)
class Step:
    """One step, as it was drawn. `change`: what its commit makes of the rows, None for a service."""

    number: int
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    change: Change | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    schema: pa.Schema = SMALL_SCHEMA

    def __str__(self) -> str:
        told = [f"{name.rpartition('hoodie.')[2]}={value}" for name, value in self.options.items()]
        told += [f"{name}={value}" for name, value in self.arguments.items()]
        if self.change is not None:
            told += [f"{row['id']!r}@{row['region']!r}:{row['ts']}{_mark(row)}" for row in self.change.rows]
            told += [repr(name) for name in self.change.partitions]
        return f"{self.number} {self.kind} {' '.join(told)}"


class Refused(Exception):
    """The table does not take the step as it is now, and says so; nothing has changed."""


@dataclass(frozen=True)
class Kind:
    """`draw` gives the step, or None where the table is not ready for it; `run` does it. `weight`: how often.
    undoes: may commits be gone afterwards.
    """

    weight: int
    draw: Callable[[random.Random, World, Step], Step | None]
    run: Callable[[str, Step], Any]
    merge_on_read: bool = False
    undoes: bool = False
    odd: bool = False


def _mark(row: Row) -> str:
    return "-" if row.get("_hoodie_is_deleted") else ""


def _write_options(chance: random.Random, world: World) -> dict[str, str]:
    options = {
        **world.flavor.options(chance),
        "hoodie.clean.automatic": chance.choice(("true", "false", "false")),
        "hoodie.archive.automatic": chance.choice(("true", "false", "false")),
        "hoodie.index.type": chance.choice(("SIMPLE", "BLOOM")),
        "hoodie.compact.inline": chance.choice(("true", "false", "false", "false")),
        "hoodie.clustering.inline": chance.choice(("true", *["false"] * 9)),
    }
    if chance.random() < 0.2:  # a file group for this write, else rows are packed into what is there
        options["hoodie.parquet.small.file.limit"] = "0"
    if chance.random() < 0.3:  # several log files a write
        options |= {"hoodie.logfile.max.size": "1000", "hoodie.logfile.data.block.max.size": "1000"}
    return options


def _upsert(chance: random.Random, world: World, step: Step) -> Step:
    """Updates, some of them late or with an equal ordering value, deletes, new keys, keys that come back."""
    stored = {(row["id"], row["region"]): row["ts"] for row in world.rows}
    rows: list[Row] = []
    for place in range(chance.choice((0, 1, 3, 8, 20))):
        number, region = chance.randrange(KEYS), chance.choice(world.flavor.regions)
        ts = 1000 * step.number + chance.randrange(900)
        deleted = chance.random() < 0.2
        row = world.flavor.row(number, region, ts, 100 * step.number + place, deleted)
        known = stored.get((row["id"], region))
        if known is not None and chance.random() < 0.2:
            row["ts"] = known - chance.choice((0, 0, 1, 500))
        rows.append(row)
    return _with(step, chance, world, Change("upsert", rows))


def _new_keys(operation: str) -> Callable[[random.Random, World, Step], Step]:
    """Keys that no other operation uses."""

    def draw(chance: random.Random, world: World, step: Step) -> Step:
        first, flavor = KEYS + 10 * step.number, world.flavor
        rows = [
            flavor.row(first + place, chance.choice(flavor.regions), 1000 * step.number, step.number)
            for place in range(chance.choice((1, 2, 6)))
        ]
        return _with(step, chance, world, Change(operation, rows))

    return draw


def _delete(chance: random.Random, world: World, step: Step) -> Step:
    """Some keys that are there, some that are not."""
    rows = [row for row in world.rows if chance.random() < 0.1]
    rows.append(world.flavor.row(chance.randrange(KEYS), chance.choice(world.flavor.regions), 0, step.number))
    return _with(step, chance, world, Change("delete", rows))


def _overwrite(operation: str) -> Callable[[random.Random, World, Step], Step]:
    def draw(chance: random.Random, world: World, step: Step) -> Step:
        regions = chance.sample(world.flavor.regions, chance.choice((1, 2)))
        numbers = chance.sample(range(KEYS), chance.choice((0, 1, 10)))
        rows = [
            world.flavor.row(number, chance.choice(regions), 1000 * step.number, step.number)
            for number in numbers
        ]
        return _with(step, chance, world, Change(operation, rows))

    return draw


def _delete_partition(chance: random.Random, world: World, step: Step) -> Step | None:
    if not world.regions:
        return None
    return _with(step, chance, world, Change("delete_partition", partitions=(chance.choice(world.regions),)))


def _with(step: Step, chance: random.Random, world: World, change: Change) -> Step:
    options, schema = _write_options(chance, world), world.flavor.schema(chance)
    rows = [{name: row[name] for name in schema.names if name in row} for row in change.rows]
    return Step(step.number, step.kind, options, replace(change, rows=rows), schema=schema)


def _other_ordering(chance: random.Random, world: World, step: Step) -> Step | None:
    """Rows whose ordering column has become text, by which "10" is older than "9"."""
    if not world.rows:
        return None
    at = SMALL_SCHEMA.get_field_index("ts")
    schema = SMALL_SCHEMA.set(at, pa.field("ts", pa.string()))
    row = {**chance.choice(world.rows), "ts": str(1000 * step.number)}
    return Step(step.number, step.kind, _write_options(chance, world), Change("upsert", [row]), schema=schema)


def _refused_write(path: str, step: Step) -> Any:
    """Raises Refused, and AssertionError where the rows are taken."""
    try:
        run_write(path, step)
    except SchemaError as error:
        raise Refused(error.message) from error
    raise AssertionError("a table took an ordering column of another type")


def _thin_out(chance: random.Random, world: World, step: Step) -> Step | None:
    """Delete half of a table that has grown."""
    if len(world.rows) < 80:
        return None
    rows = [
        {**row, "ts": 1000 * step.number, "_hoodie_is_deleted": True}
        for row in world.rows
        if chance.random() < 0.5
    ]
    return _with(step, chance, world, Change("upsert", rows))


def run_write(path: str, step: Step) -> Any:
    """Raises Refused where a plan is pending for files that the write changes."""
    change = step.change
    assert change is not None
    engine = LocalEngine(1)
    request = WriteRequest(
        path,
        Operation(change.operation),
        {**TABLE, **SERVICES, **step.options},
        partitions=tuple(change.partitions),
    )
    schema = KEY_SCHEMA if change.operation == "delete" else step.schema
    rows = [{name: row[name] for name in schema.names if name in row} for row in change.rows]
    frame = None if change.partitions else engine.frame(as_table(rows, schema))
    try:
        return write(engine, frame, request)
    except ConflictError as error:
        if "pending" not in error.message:
            raise
        raise Refused(error.message) from error


def _rollback(chance: random.Random, world: World, step: Step) -> Step | None:
    if len(world.commits) < 2:
        return None
    return Step(step.number, step.kind, arguments={"instant": world.commits[-1]})


def _savepoint(chance: random.Random, world: World, step: Step) -> Step | None:
    if len(world.savepoints) > 1 or not world.commits:
        return None
    return Step(step.number, step.kind, arguments={"instant": chance.choice(world.commits[-3:])})


def _delete_savepoint(chance: random.Random, world: World, step: Step) -> Step | None:
    if not world.savepoints:
        return None
    return Step(step.number, step.kind, arguments={"instant": chance.choice(world.savepoints)})


def _restore(chance: random.Random, world: World, step: Step) -> Step | None:
    points = [*world.savepoints, *world.commits[-4:-1]]
    if not points:
        return None
    return Step(step.number, step.kind, arguments={"instant": world.restoring or chance.choice(points)})


def _undo(call: Callable[..., Any]) -> Callable[[str, Step], Any]:
    """Raises Refused: savepoints, pending plans, rollbacks and files that were cleaned stand in the way."""

    def run(path: str, step: Step) -> Any:
        try:
            return call(path, options=SERVICES, **step.arguments)
        except (TableError, ConfigError) as error:
            raise Refused(error.message) from error
        except ConflictError as error:
            if "being rolled back" not in error.message:
                raise
            raise Refused(error.message) from error

    return run


def _service(*modes: str) -> Callable[[random.Random, World, Step], Step]:
    def draw(chance: random.Random, world: World, step: Step) -> Step:
        mode = {"mode": chance.choice(modes)} if modes else {}
        return Step(step.number, step.kind, {}, None, mode)

    return draw


def _compact(path: str, step: Step) -> Any:
    return hoodie.compact_table(path, options=SERVICES, **step.arguments)


def _clean(path: str, step: Step) -> Any:
    return hoodie.clean_table(path, options=SERVICES, **step.arguments)


def _archive(path: str, step: Step) -> Any:
    return hoodie.archive_table(path, options=SERVICES)


def _cluster(path: str, step: Step) -> Any:
    return hoodie.cluster_table(path, options=SERVICES, **step.arguments)


def _services(path: str, step: Step) -> Any:
    result = hoodie.run_services(path, options={**SERVICES, "hoodie.clustering.async.enabled": "true"})
    for own in result.services.values():
        if own["status"] == "failed":
            raise OSError(own["reason"])
    return result


MODES = ("schedule", "execute", "run")
KINDS: dict[str, Kind] = {
    "upsert": Kind(40, _upsert, run_write),
    "other_ordering": Kind(3, _other_ordering, _refused_write, odd=True),
    "insert": Kind(6, _new_keys("insert"), run_write),
    "bulk_insert": Kind(4, _new_keys("bulk_insert"), run_write),
    "thin_out": Kind(4, _thin_out, run_write),
    "delete": Kind(8, _delete, run_write),
    "insert_overwrite": Kind(4, _overwrite("insert_overwrite"), run_write),
    "insert_overwrite_table": Kind(2, _overwrite("insert_overwrite_table"), run_write),
    "delete_partition": Kind(3, _delete_partition, run_write),
    "cluster": Kind(8, _service(*MODES), _cluster),
    "rollback": Kind(4, _rollback, _undo(hoodie.rollback_table), undoes=True),
    "savepoint": Kind(3, _savepoint, _undo(hoodie.savepoint_table)),
    "delete_savepoint": Kind(3, _delete_savepoint, _undo(hoodie.delete_savepoint)),
    "restore": Kind(3, _restore, _undo(hoodie.restore_table), undoes=True),
    "compact": Kind(12, _service(*MODES), _compact, merge_on_read=True),
    "clean": Kind(6, _service(*MODES), _clean),
    "archive": Kind(5, _service(), _archive),
    "services": Kind(4, _service(), _services),
}


def kinds_of(flavor: Flavor, merge_on_read: bool) -> dict[str, Kind]:
    """The kinds of steps that a table of a type and a flavor takes."""
    return {
        name: kind
        for name, kind in KINDS.items()
        if (merge_on_read or not kind.merge_on_read) and (flavor.odd or not kind.odd)
    }


def draw(chance: random.Random, world: World, number: int, merge_on_read: bool) -> Step:
    """The next step; a table begins with an upsert."""
    kinds = kinds_of(world.flavor, merge_on_read)
    if world.restoring is not None:
        kinds = {name: KINDS[name] for name in ("restore", "services")}
    elif not world.versions:
        kinds = {"upsert": KINDS["upsert"]}
    while True:
        (name,) = chance.choices(list(kinds), [kind.weight for kind in kinds.values()])
        step = kinds[name].draw(chance, world, Step(number, name))
        if step is not None:
            return step


def told(steps: Sequence[Any]) -> str:
    return "\n".join(f"  {step}" for step in steps)
