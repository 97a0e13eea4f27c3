"""MERGE INTO as one SELECT: the source joined to the target, and of each pair the row that is written.

As in Apache Hudi, of source rows with one key that with the greatest value of the ordering column counts,
where the source has that column; without it such rows are an error, as in SQL. The row that is written meets
the stored one in the table's own merge: one that is older by the ordering column changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from hoodie.errors import ConfigError
from hoodie.format.meta_fields import IS_DELETED, RECORD_KEY
from hoodie.read.among import takes
from hoodie.statements.parser import DIALECT, OWN, Merge, Named, When
from hoodie.statements.plan import (
    SOURCE,
    TARGET,
    Join,
    Plan,
    Target,
    Updates,
    assigned,
    cast,
    failure,
    relation,
    stored,
)
from hoodie.write.operation import Operation

_RANK, _ACTION, _COLUMN, _KEY = "_hoodie_rank", "_hoodie_action", "_hoodie_column", "_hoodie_key"


def merge_plan(statement: Merge, target: Target, source: Sequence[str]) -> Plan:
    """`source` names the columns of the source. Raises ConfigError for conditions and columns that don't
    fit.
    """
    equal = compared(statement, target, source)
    values = [_values(when, statement, target, source, equal) for when in statement.whens]
    action = exp.alias_(_action(statement), _ACTION)
    action.meta[OWN] = True
    inner: list[exp.Expr] = [action]
    outer: list[exp.Expr] = []
    for place, name in enumerate(target.schema.names):
        chosen = exp.Case(this=exp.column(_ACTION))
        for number, found in enumerate(values):
            chosen = chosen.when(exp.Literal.number(number), found[name], copy=False)
        inner.append(exp.alias_(chosen, f"{_COLUMN}_{place}"))
        outer.append(exp.alias_(exp.column(f"{_COLUMN}_{place}"), name, quoted=True))
    deletes = [number for number, when in enumerate(statement.whens) if when.action == "DELETE"]
    if deletes and IS_DELETED not in target.schema.names:
        numbers: list[exp.Expr] = [exp.Literal.number(number) for number in deletes]
        flag = exp.In(this=exp.column(_ACTION), expressions=numbers)
        outer.append(exp.alias_(flag, IS_DELETED, quoted=True))
    inserts = any(not when.matched for when in statement.whens)

    def joined(given: Merge) -> exp.Query:
        rows = (
            exp.select(*inner)
            .from_(_source(given, target, source, equal))
            .join(relation(given.target), on=_on(given, equal), join_type="left" if inserts else "inner")
        )
        written = exp.column(_ACTION).is_(exp.null()).not_()
        return exp.select(*outer).from_(rows.subquery("hoodie_rows")).where(written)

    return Plan(
        operation=Operation.UPSERT,
        query=joined(statement),
        reads=True,
        flagged=bool(deletes),
        changed=_changed(statement, target, equal),
        join=_join(statement, target, source, equal, joined),
        updates=_updates(statement, target, source, equal),
    )


def _updates(
    statement: Merge, target: Target, source: Sequence[str], equal: Mapping[str, exp.Expr]
) -> Updates | None:
    """Of a statement that sets columns, the ordering column among them, to columns of the source; None of
    others, and where of rows with one key another one may count than by the ordering column.
    """
    (when, *others), changed = statement.whens, _changed(statement, target, equal)
    found = _plain_columns(statement, source, equal)
    if others or not changed or when.condition is not None or when.assignments is None or not target.logged:
        return None
    if found.keys() != equal.keys() or not {*target.partitions} <= found.keys():
        return None
    given = {name: value for name, value in assigned(when.assignments, target).items() if name in changed}
    columns = {**found, **_plain_columns(statement, source, given, named=True)}
    ordering = _ordering(target, source)
    if columns.keys() != {*found, *changed} or len(ordering) != 1:
        return None
    if columns.get(target.ordering[0]) != ordering[0]:
        return None
    schema = pa.schema([field for field in target.schema if field.name in columns])
    flat = not any(pa.types.is_nested(field.type) for field in schema)
    if not flat or not all(takes(schema.field(name).type) for name in found):
        return None
    chosen = [
        exp.alias_(exp.column(columns[name], table=statement.alias, quoted=True), name, quoted=True)
        for name in schema.names
    ]
    query = exp.select(*chosen).from_(statement.source.copy())
    return Updates(query=query, schema=schema, found_by=tuple(found))


def _join(
    statement: Merge,
    target: Target,
    source: Sequence[str],
    equal: Mapping[str, exp.Expr],
    joined: Callable[[Merge], exp.Query],
) -> Join | None:
    """The plan in two steps; None where ON compares no column of the record key with one of the source."""
    found = _plain_columns(statement, source, equal)
    if not found.keys() & {*target.keys}:
        return None
    rows = relation(Named(table=SOURCE, alias=statement.alias))
    query = joined(replace(statement, source=rows, target=replace(statement.target, table=TARGET)))
    fields = {found[field.name]: field for field in target.schema if field.name in found}
    compared = [field.with_name(name) for name, field in fields.items() if takes(field.type)]
    first = exp.select("*").from_(statement.source.copy())
    return Join(source=first, query=query, columns=found, compared=pa.schema(compared))


def _plain_columns(
    statement: Merge, source: Sequence[str], equal: Mapping[str, exp.Expr], *, named: bool = False
) -> dict[str, str]:
    """The columns of the target that are compared with columns of the source as they are, or set to them,
    with these. No two have the same. `named`: a column counts with the name of the source before it only.
    """
    found: dict[str, str] = {}
    for name, value in equal.items():
        if not isinstance(value, exp.Column) or len(value.parts) > (2 if value.table else 1):
            continue
        if (value.table or named) and value.table.lower() != statement.alias.lower():
            continue  # a field of a column
        alike = [column for column in source if column.lower() == value.name.lower()]
        if len(alike) == 1 and alike[0] not in found.values():
            found[name] = alike[0]
    return found


def _changed(statement: Merge, target: Target, equal: Mapping[str, exp.Expr]) -> tuple[str, ...]:
    """The columns that the updates set, in the table's order; none where one sets all of them, or one of the
    partition path.
    """
    names: set[str] = set()
    for when in statement.whens:
        if when.action != "UPDATE":
            continue
        if when.assignments is None:
            return ()
        given = assigned(when.assignments, target).items()
        names.update(name for name, value in given if not _same(value, equal.get(name)))
    every = {*target.schema.names} - {*equal}
    if every <= names or names & {*target.partitions}:
        return ()
    return tuple(name for name in target.schema.names if name in names)


def compared(statement: Merge, target: Target, source: Sequence[str]) -> dict[str, exp.Expr]:
    """What ON compares the target's columns with. Raises ConfigError unless ON is equalities of all columns
    of the record key, and possibly of the partition path, with values of the source.
    """
    equal: dict[str, exp.Expr] = {}
    for term in _terms(statement.on):
        found = _equality(term, statement, target, source) if isinstance(term, exp.EQ) else None
        if found is None or found[0] in equal or found[0] not in (*target.keys, *target.partitions):
            raise ConfigError(
                f"ON has {term.sql(DIALECT)!r}; it takes `{statement.target.alias}.column = value of the "
                "source`, of "
                f"the columns of record key and partition path ({', '.join(_places(target))}), each once, "
                "with AND. "
                "Other conditions belong behind WHEN … AND, or into the source's SELECT",
                term=term.sql(DIALECT),
            )
        equal[found[0]] = found[1]
    if missing := [name for name in target.keys if name not in equal]:
        raise ConfigError(
            f"ON does not compare {', '.join(missing)}; a row is found by all columns of the record key "
            f"({', '.join(target.keys)})",
            columns=", ".join(missing),
        )
    return equal


def _terms(condition: exp.Expr) -> Iterator[exp.Expr]:
    """What AND joins."""
    plain = condition.unnest()
    if isinstance(plain, exp.And):
        yield from _terms(plain.left)
        yield from _terms(plain.right)
    else:
        yield plain


def _places(target: Target) -> list[str]:
    return list(dict.fromkeys([*target.keys, *target.partitions]))


def _equality(
    term: exp.EQ, statement: Merge, target: Target, source: Sequence[str]
) -> tuple[str, exp.Expr] | None:
    """(column of the target, value of the source)"""
    for one, other in ((term.left, term.right), (term.right, term.left)):
        if not isinstance(one.unnest(), exp.Column) or not _is_stored(
            one.unnest(), statement, target, source
        ):
            continue
        if any(_is_stored(column, statement, target, source) for column in other.find_all(exp.Column)):
            return None
        return target.column(one.unnest().name), other.unnest()
    return None


def _is_stored(column: exp.Expr, statement: Merge, target: Target, source: Sequence[str]) -> bool:
    """Is it a column of the target. Raises ConfigError for one that both have."""
    assert isinstance(column, exp.Column)
    if column.table:
        return column.table.lower() == statement.target.alias.lower()
    name = column.name.lower()
    ours, theirs = ({item.lower() for item in names} for names in (target.schema.names, source))
    if name in ours and name in theirs:
        raise ConfigError(
            f"column {column.name} of ON is one of {statement.target.alias} and of {statement.alias}; write "
            f"{statement.target.alias}.{column.name} or {statement.alias}.{column.name}",
            column=column.name,
        )
    return name in ours


def _action(statement: Merge) -> exp.Expr:
    """The number of the clause that a pair comes under, the first that fits; null for none."""
    there = stored(statement.target, RECORD_KEY).is_(exp.null())
    action = exp.Case()
    for number, when in enumerate(statement.whens):
        fits: exp.Expr = there.copy().not_() if when.matched else there.copy()
        if when.condition is not None:
            fits = exp.and_(fits, when.condition.copy())
        action = action.when(fits, exp.Literal.number(number), copy=False)
    return action


def _ordering(target: Target, source: Sequence[str]) -> list[str]:
    """The source's columns by which one of its rows with a key is chosen; none where it lacks one."""
    known = {name.lower(): name for name in reversed(source)}
    wanted = [name.lower() for name in target.ordering]
    return [known[name] for name in wanted] if known.keys() >= set(wanted) else []


def _source(
    statement: Merge, target: Target, source: Sequence[str], equal: Mapping[str, exp.Expr]
) -> exp.Expr:
    """The source with one row a key; where no column says which one, more of them are a failure."""
    ordering = _ordering(target, source)
    keys = _keys(statement, equal)
    if ordering:
        columns = [exp.column(name, table=statement.alias, quoted=True) for name in ordering]
        by = exp.Order(
            expressions=[exp.Ordered(this=column, desc=True, nulls_first=False) for column in columns]
        )
        rank = _over(exp.Anonymous(this="row_number"), keys, by)
    else:
        text = (
            f"several rows of {statement.alias} have one key, and no ordering column says which one "
            "counts; make it "
            "a SELECT that gives one row a key"
        )
        count = _over(exp.Anonymous(this="count", expressions=[exp.Star()]), keys)
        known = [key.copy().is_(exp.null()).not_() for key in keys]
        again = exp.and_(count > exp.Literal.number(1), *known)
        rank = exp.case().when(again, failure(text)).else_(exp.Literal.number(1))
    ranked = exp.select("*", exp.alias_(rank, _RANK)).from_(_keyed(statement, equal))
    first = exp.select("*").from_(ranked.subquery("hoodie_ranked")).where(exp.column(_RANK).eq(1))
    return first.subquery(exp.to_identifier(statement.alias, quoted=True))


def _keyed(statement: Merge, equal: Mapping[str, exp.Expr]) -> exp.Expr:
    """The source, with columns of the values that ON computes: engines rank by columns."""
    computed = [
        exp.alias_(value.copy(), f"{_KEY}_{place}")
        for place, value in enumerate(equal.values())
        if not isinstance(value, exp.Column)
    ]
    if not computed:
        return statement.source.copy()
    rows = exp.select("*", *computed).from_(statement.source.copy())
    return rows.subquery(exp.to_identifier(statement.alias, quoted=True))


def _keys(statement: Merge, equal: Mapping[str, exp.Expr]) -> list[exp.Expr]:
    """The source's columns with the values that ON compares."""
    return [
        value.copy()
        if isinstance(value, exp.Column)
        else exp.column(f"{_KEY}_{place}", table=statement.alias, quoted=True)
        for place, value in enumerate(equal.values())
    ]


def _on(statement: Merge, equal: Mapping[str, exp.Expr]) -> exp.Expr:
    """ON of the keyed source."""
    pairs = zip(equal, _keys(statement, equal), strict=True)
    return exp.and_(*(stored(statement.target, name).eq(key) for name, key in pairs))


def _over(function: exp.Expr, keys: list[exp.Expr], order: exp.Order | None = None) -> exp.Expr:
    """A function of the rows of a key."""
    made = exp.Window(this=function, partition_by=keys, order=order)
    made.meta[OWN] = True
    return made


def _values(
    when: When,
    statement: Merge,
    target: Target,
    source: Sequence[str],
    equal: Mapping[str, exp.Expr],
) -> dict[str, exp.Expr]:
    """The columns of the row that a clause writes."""
    if when.action == "DELETE":
        kept = {name: stored(statement.target, name) for name in target.schema.names}
        return {**kept, IS_DELETED: exp.true()} if IS_DELETED in kept else kept
    given = (
        _of_source(statement, target, source)
        if when.assignments is None
        else assigned(when.assignments, target)
    )
    values: dict[str, exp.Expr] = {}
    for field in target.schema:
        name, value = field.name, given.get(field.name)
        if when.action == "INSERT":
            if name in equal and not _same(value, equal[name]):
                raise _moved(name, value, equal[name], "INSERT gives")
            values[name] = cast(exp.null() if value is None else value, field)
        elif value is None or _same(value, equal.get(name)):
            values[name] = stored(statement.target, name)
        elif name in target.keys:
            raise _moved(name, value, equal[name], "UPDATE sets")
        else:
            values[name] = cast(value, field)
            if name in target.partitions:
                values[name] = _unmoved(statement, name, values[name])
    return values


def _of_source(statement: Merge, target: Target, source: Sequence[str]) -> dict[str, exp.Expr]:
    """What `*` stands for. Raises ConfigError where the source lacks a column."""
    spelled = {name.lower(): name for name in source}
    if missing := [name for name in target.schema.names if name.lower() not in spelled]:
        raise ConfigError(
            f"{statement.alias} has no {', '.join(missing)}, so that * does not fit {target.name}; name "
            "the columns: "
            "UPDATE SET column = value, INSERT (column) VALUES (value)",
            columns=", ".join(missing),
        )
    return {
        name: exp.column(spelled[name.lower()], table=statement.alias, quoted=True)
        for name in target.schema.names
    }


def _same(value: exp.Expr | None, other: exp.Expr | None) -> bool:
    """Are both written the same, whatever the case and the quotes of names."""
    return value is not None and other is not None and _plain(value) == _plain(other)


def _plain(value: exp.Expr) -> exp.Expr:
    def plain(node: exp.Expr) -> exp.Expr:
        return exp.to_identifier(node.name.lower(), quoted=True) if isinstance(node, exp.Identifier) else node

    return value.unnest().transform(plain)


def _moved(name: str, value: exp.Expr | None, equal: exp.Expr, what: str) -> ConfigError:
    found = "nothing" if value is None else value.sql(DIALECT)
    return ConfigError(
        f"{what} {name} {found}, and ON compares it with {equal.sql(DIALECT)}; a row keeps the key that it "
        "is found "
        f"by: use {equal.sql(DIALECT)}",
        column=name,
    )


def _unmoved(statement: Merge, name: str, value: exp.Expr) -> exp.Expr:
    """The value of a column of the partition path, where it is the stored one."""
    kept = stored(statement.target, name)
    text = (
        f"UPDATE would move a row to another partition ({name}); compare {statement.target.alias}.{name} "
        "in ON, or set "
        "the other columns by name"
    )
    return (
        exp.case().when(exp.NullSafeEQ(this=value.copy(), expression=kept), kept.copy()).else_(failure(text))
    )
