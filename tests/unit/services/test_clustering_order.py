"""Sort keys and curves of a clustering, on rows in memory and on spilled ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.services.clustering.order import Order, Scale, SortKeys, bits_for, hilbert, z_order
from hoodie.services.clustering.settings import BuildMethod, Layout
from hoodie.services.clustering.task import SortedRows
from tests.support.properties import examples


def grid(dimensions: int, bits: int) -> list[np.ndarray[Any, np.dtype[np.uint32]]]:
    """All points of a grid, one array a dimension."""
    axes = np.meshgrid(*[np.arange(1 << bits, dtype=np.uint32)] * dimensions, indexing="ij")
    return [axis.ravel() for axis in axes]


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 6), (2, 5), (3, 4), (4, 3), (5, 2)])
def test_a_hilbert_curve_steps_from_cell_to_neighbour(dimensions: int, bits: int) -> None:
    """It visits every cell once, and each step changes one dimension by one."""
    points = grid(dimensions, bits)
    places = hilbert(points, bits)
    assert sorted(places.tolist()) == list(range(1 << (bits * dimensions)))
    ordered = np.stack(points)[:, np.argsort(places)].astype(np.int64)
    assert (np.abs(np.diff(ordered, axis=1)).sum(axis=0) == 1).all()


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 5), (3, 4), (8, 1)])
def test_z_order_takes_bits_in_turn(dimensions: int, bits: int) -> None:
    points = grid(dimensions, bits)
    expected = [
        int("".join(f"{int(axis):0{bits}b}"[bit] for bit in range(bits) for axis in point), 2)
        for point in zip(*points, strict=True)
    ]
    assert z_order(points, bits).tolist() == expected


def test_a_place_on_a_curve_fits_one_word() -> None:
    for dimensions in (1, 2, 3, 7, 8, 64):
        assert 1 <= bits_for(dimensions) * dimensions <= 64
    with pytest.raises(ValueError, match="65 dimensions"):
        bits_for(65)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-5, 0, 3, 2**40, None]),
        pa.array([-1.5, 0.0, 2.25, math.inf, math.nan, None]),
        pa.array(["", "a", "ab", "b", "日本", None]),
        pa.array([b"\x00", b"\x00\x01", b"\xff", None]),
        pa.array([False, True, None]),
        pa.array([-10, 20000, None], pa.int32()).cast(pa.date32()),
        pa.array([-1, 10**15, None]).cast(pa.timestamp("us", "UTC")),
        pa.array([1, 2, 10**6, None]).cast(pa.int32()).cast(pa.time32("ms")),
        pa.array(["-1.50", "0.00", "99999999999999999999999999.99", None]).cast(pa.decimal128(38, 2)),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("method", list(BuildMethod))
def test_cells_rise_with_the_values_and_nulls_are_last(values: Any, method: BuildMethod) -> None:
    column = pa.chunked_array([values.slice(0, 2), values.slice(2)])
    cells = Scale.of(column, method).cells(column, 16).astype(np.int64)
    assert (np.diff(cells) >= 0).all()
    assert cells[-1] == (1 << 16) - 1
    assert cells[0] < cells[-2] or len(values) == 2


def test_what_all_texts_begin_with_does_not_count() -> None:
    column = pa.chunked_array([[f"customer-{number:06d}" for number in range(1000)]])
    for method, least in ((BuildMethod.DIRECT, 100), (BuildMethod.SAMPLE, 1000)):
        assert len(np.unique(Scale.of(column, method).cells(column, 16))) >= least


def test_values_beyond_a_sample_are_in_the_outer_cells() -> None:
    sample, more = pa.chunked_array([[10, 20, 30]]), pa.chunked_array([[-1000, 10, 30, 1000]])
    for method in BuildMethod:
        low, first, last, high = Scale.of(sample, method).cells(more, 8)
        assert (low, high) == (first, 255)
        assert last <= high


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.floats(width=32)),
        st.one_of(st.none(), st.text("ab", max_size=2)),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=examples(40), deadline=None)
@given(rows=ROWS, layout=st.sampled_from(list(Layout)), spilled=st.booleans(), pieces=st.integers(1, 5))
def test_spilled_rows_come_in_the_same_order(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[Any, ...]],
    layout: Layout,
    spilled: bool,
    pieces: int,
) -> None:
    """Every row once; in the order of the sort columns where it is linear."""
    table = pa.table(
        {
            "a": pa.array([row[0] for row in rows], pa.int64()),
            "b": pa.array([row[1] for row in rows], pa.float64()),
            "c": pa.array([row[2] for row in rows], pa.string()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    order = Order(("a", "b", "c"), layout, BuildMethod.SAMPLE)
    step = -(-table.num_rows // pieces)
    with SortedRows(order, 1 if spilled else 1 << 30, "", lambda: table) as target:
        for start in range(0, table.num_rows, step):
            target.add(table.slice(start, step))
        found = pa.concat_tables(list(target.stream(64)))
        assert target.spilled == spilled
    numbers: list[Any] = found.column("n").to_pylist()
    assert sorted(numbers) == list(range(len(rows)))
    assert found.column_names == table.column_names
    if layout is Layout.LINEAR:
        keys: list[tuple[str, Literal["ascending", "descending"]]]
        keys = [(name, "ascending") for name in "abc"]
        expected = table.take(pc.sort_indices(table, sort_keys=keys))
        for name in ("a", "b", "c"):
            assert _texts(found.column(name)) == _texts(expected.column(name))
    else:
        keys_of = SortKeys.of(order, table)
        places = keys_of.with_keys(found).column(keys_of.names[0]).to_numpy()
        assert (np.diff(places.astype(np.int64)) >= 0).all()


def _texts(column: Any) -> list[str]:
    return [repr(value if value != 0 else 0) for value in column.to_pylist()]


@settings(max_examples=examples(40), deadline=None)
@given(rows=ROWS, bound=st.integers(0, 59))
def test_a_bound_divides_rows_as_the_order_does(rows: list[tuple[Any, ...]], bound: int) -> None:
    table = pa.table(
        {
            "a": pa.array([row[0] for row in rows], pa.int64()),
            "b": pa.array([row[1] for row in rows], pa.float64()),
        }
    )
    keys = SortKeys(Order(("a", "b")))
    ordered = table.take(keys.indices(table))
    at = bound % table.num_rows
    scalars = tuple(column[at] for column in ordered.columns)
    here = keys.at_least(ordered, scalars).to_numpy(zero_copy_only=False)
    behind = keys.at_least(ordered, scalars, behind=True).to_numpy(zero_copy_only=False)
    assert (np.diff(here.astype(int)) >= 0).all()
    assert (np.diff(behind.astype(int)) >= 0).all()
    assert here[at]
    assert not behind[at]


def test_one_column_alone_is_sorted_whatever_the_layout(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([3, None, 1, 2])})
    for layout in Layout:
        with SortedRows(Order(("a",), layout), 1 << 20, str(tmp_path), lambda: table) as target:
            target.add(table)
            assert pa.concat_tables(list(target.stream(1 << 20))).column("a").to_pylist() == [1, 2, 3, None]
