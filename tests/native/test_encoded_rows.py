"""Encoded rows: assembled, checked and added up as with numpy, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from driftsurf.core.contracts import CSR
from driftsurf.core.input import Schema, read_rows
from driftsurf.errors import NonFiniteError, ShapeError
from driftsurf.native.columns import assemble_rows, column_products, is_sound_csr, put_column

CELLS = st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e300, 1e-310, np.nan])


def matrix(cells: list[list[float]]) -> Any:
    return sparse.csr_array(np.array(cells))


@settings(deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=9))
def test_a_column_is_written_with_its_gaps_filled_and_marked(cells: list[float]) -> None:
    values, out, missing = np.array(cells), np.zeros((len(cells), 3)), np.zeros(len(cells))
    found = put_column(values, 7.0, 1, out, missing)
    gaps = np.isnan(values)
    assert found == np.count_nonzero(gaps)
    np.testing.assert_array_equal(out[:, 1], np.where(gaps, 7.0, values))
    np.testing.assert_array_equal(missing, gaps)
    assert not out[:, [0, 2]].any()


@settings(deadline=None)
@given(st.lists(st.lists(st.one_of(CELLS, st.just(np.inf)), min_size=3, max_size=3), min_size=1, max_size=9))
def test_rows_are_assembled_without_their_zeros_and_with_marks(cells: list[list[float]]) -> None:
    given_values = np.array(cells).T  # number with its own mark, word, number that shares the last mark
    count = given_values.shape[1]
    values = np.array([given_values[0], np.full(count, np.nan), np.ones(count), given_values[2], np.full(count, 9.0)])
    words = np.array([[3 + i % 2 for i in range(count)]], np.int32)
    # In this order: column, row of words, place of the mark, and whether it is a mark.
    places = np.array([[1, 2, 0, 6, 8], [-1, -1, 0, -1, -1], [1, -1, -1, 4, -1], [0, 1, 0, 0, 1]], np.int32)
    fills, marks = np.array([7.0, 0.0, 0.0, 0.0, 0.0]), np.zeros(5)
    data, indices, indptr = np.empty(5 * count), np.empty(5 * count, np.int32), np.empty(count + 1, np.int64)
    used, infinite = assemble_rows(values, words, places, fills, marks, data, indices, indptr)
    expected = np.zeros((count, 9))
    first, last = np.isnan(given_values[0]), np.isnan(given_values[2])
    expected[:, 1], expected[:, 2] = np.where(first, 7.0, given_values[0]), first
    expected[np.arange(count), words[0]] = 1.0
    expected[:, 6], expected[:, 8] = np.where(last, 0.0, given_values[2]), last
    present = expected != 0.0
    np.testing.assert_array_equal(data[:used], expected[present])
    np.testing.assert_array_equal(indices[:used], np.nonzero(present)[1])
    np.testing.assert_array_equal(indptr, np.concatenate([[0], np.cumsum(present.sum(axis=1))]))
    assert infinite == np.isinf(expected).sum()
    assert not marks.any()


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 3))
def test_products_of_columns_have_the_bits_of_numpy(seed: int, width: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    rows: Any = sparse.random_array((20, 5), density=0.4, format="csr", rng=draw)
    targets = np.column_stack([np.ones(20), draw.normal(size=(20, count))])
    sums = np.zeros((width + 1, count + 2))
    columns = CSR(rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int64), 5)
    column_products(columns, targets, sums)
    assert sums[0].tobytes() == np.append(targets.sum(axis=0), 20.0).tobytes()
    out = np.ascontiguousarray(sums[1:].T)
    row = np.repeat(np.arange(20), np.diff(rows.indptr))
    kept = rows.indices < width
    column, value, row = rows.indices[kept], rows.data[kept], row[kept]
    for place, target in enumerate(targets.T):
        assert out[place].tobytes() == np.bincount(column, value * target[row], width).tobytes()
    assert out[-1].tobytes() == np.bincount(column, value * value, width).tobytes()


def test_sound_sparse_rows_are_used_as_they_are() -> None:
    rows = matrix([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    read = read_rows(rows, Schema(3, sparse=True))
    assert isinstance(read, CSR)
    assert np.shares_memory(read.data, rows.data)
    assert read.indptr.dtype == np.int64
    assert read.indptr.tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize(
    ("data", "indices", "indptr"),
    [
        ([1.0, 2.0], [0, 3], [0, 1, 2]),
        ([1.0, 2.0], [0, -1], [0, 1, 2]),
        ([1.0, 2.0], [1, 0], [0, 2, 2]),
        ([1.0, 2.0], [1, 1], [0, 2, 2]),
        ([1.0, 2.0], [0, 1], [0, 2, 1]),
        ([1.0, 2.0], [0, 1], [0, 9, 2]),
        ([1.0, 2.0], [0, 1], [1, 2, 2]),
        ([1.0, 2.0], [0, 1], [0, 1, 1]),
        ([1.0, np.nan], [0, 1], [0, 1, 2]),
        ([-np.inf, 1.0], [0, 1], [0, 1, 2]),
    ],
)
def test_other_sparse_rows_are_not_taken_for_sound(data: list[float], indices: list[int], indptr: list[int]) -> None:
    arrays = np.array(data), np.array(indices, np.int32), np.array(indptr, np.int64)
    assert not is_sound_csr(*arrays, 3)


def test_sparse_rows_that_are_not_sound_are_put_in_order_or_refused() -> None:
    schema = Schema(3, sparse=True)
    doubled = sparse.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    read = read_rows(doubled, schema)
    assert isinstance(read, CSR)
    assert (read.data.tolist(), read.indices.tolist()) == ([3.0], [1])
    with pytest.raises(NonFiniteError, match="row 1, column 2"):
        read_rows(matrix([[1.0, 0.0, 0.0], [0.0, 0.0, np.inf]]), schema)
    with pytest.raises(ShapeError, match="expecting 3 features"):
        read_rows(matrix([[1.0, 2.0]]), schema)
    outside = matrix([[1.0, 0.0, 2.0]])
    outside.indices[1] = 7
    with pytest.raises(ShapeError, match="outside 0 to 2"):
        read_rows(outside, schema)
