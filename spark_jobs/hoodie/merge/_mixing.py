"""Filling nulls of one row from another: what the mergers that mix columns share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, Column, array, pc, whole


def filled(first: pa.Table, second: pa.Table, swap: Bools | None = None) -> pa.Table:
    """Row by row the first table's values, its nulls filled from the second; where `swap`, the other way.

    Both have the same number of rows; the result has the first's schema. The five meta columns always come
    from the first table, and so does a column the second lacks.
    """
    turn = None if swap is None or not swap.any() else array(swap)
    columns: list[Any] = []
    there = frozenset(second.column_names)
    for field in first.schema:
        mine = first.column(field.name)
        if field.name.startswith("_hoodie_") or field.name not in there:
            columns.append(mine)
            continue
        columns.append(_fill(mine, second.column(field.name).cast(field.type), turn))
    return pa.table(columns, schema=first.schema.empty_table().schema)


def _fill(mine: Column, other: Column, turn: Array | None) -> Column:
    if turn is None:
        return mine if mine.null_count == 0 else _first_of(mine, other)
    head, rest = _choose(turn, other, mine), _choose(turn, mine, other)
    return _first_of(head, rest)


def _first_of(head: Column, rest: Column) -> Column:
    if pa.types.is_nested(head.type):
        return _choose(whole(head).is_valid(), head, rest)
    result: Column = pc.coalesce(head, rest)
    return result


def _choose(mask: Array, yes: Column, no: Column) -> Column:
    result: Column = pc.if_else(mask, whole(yes), whole(no))
    return result
