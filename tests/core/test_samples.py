"""The sample store and its buffers, compared with plain lists under random operations."""

from __future__ import annotations

import itertools
import mmap
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_arrays import as_rows

from driftsurf.core import samples as _buffer
from driftsurf.core.contracts import CSR, Batch, FloatArray, Rows, Segment, n_rows, take_rows
from driftsurf.core.samples import MAPPED_BYTES, Buffer, Samples
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import StateError
from driftsurf.native.columns import squared_norms

Operation = tuple[str, int]
D = 3
LAYOUTS = [
    pytest.param(sparse, dtype, id=f"{'csr' if sparse else 'dense'}-{dtype}")
    for sparse in (False, True)
    for dtype in ("float64", "float32")
]
layouts = pytest.mark.parametrize(("sparse", "dtype"), LAYOUTS)
check = settings(max_examples=100)


def numbered_rows(count: int, dtype: str, first: int = 0) -> FloatArray:
    """Return rows with distinct values, of which one in three is zero, and every seventh row empty."""
    X = np.arange(first * D, (first + count) * D, dtype=dtype).reshape(count, D) + 1
    X[(X + first) % 3 == 0] = 0
    X[(np.arange(count) + first) % 7 == 3] = 0
    return X


def as_dense(X: Rows) -> npt.NDArray[Any]:
    if not isinstance(X, CSR):
        return X
    dense = np.zeros((n_rows(X), X.n_features), X.data.dtype)
    for i, (a, b) in enumerate(itertools.pairwise(X.indptr)):
        dense[i, X.indices[a:b]] = X.data[a:b]
    return dense


class PlainStore:
    """A list of rows that the store has to agree with."""

    def __init__(self, dtype: str) -> None:
        self.rows: list[tuple[list[float], float, float]] = []
        self.first_row = 0
        self.dtype = dtype
        self.made = 0

    def new_rows(self, count: int) -> tuple[npt.NDArray[Any], FloatArray, FloatArray]:
        X = numbered_rows(count, self.dtype, self.made)
        y = np.arange(self.made, self.made + count, dtype=float)
        self.made += count
        self.rows += zip(X.tolist(), y.tolist(), (y / 2.0).tolist(), strict=True)
        return X, y, y / 2.0

    def same_as(self, batch: Batch, lo: int) -> None:
        X, y, weight, first_row = batch
        expected = self.rows[lo - self.first_row :][: len(y)]
        assert first_row == lo
        assert [*zip(as_dense(X).tolist(), y.tolist(), weight.tolist(), strict=True)] == expected


def run(samples: Samples, plain: PlainStore, operations: list[Operation]) -> None:
    for name, amount in operations:
        if name == "append":
            X, y, weight = plain.new_rows(amount)
            lo = samples.next_row
            assert samples.append(as_rows(X, samples.sparse), y, weight) == Segment(lo, lo + amount)
        elif name == "truncate":
            keep = len(plain.rows) * amount // 100
            del plain.rows[keep:]
            samples.truncate(plain.first_row + keep)
        else:
            count = len(plain.rows) * amount // 100
            del plain.rows[:count]
            plain.first_row += count
            samples.release(plain.first_row)
        assert (samples.first_row, len(samples)) == (plain.first_row, len(plain.rows))
        assert samples.next_row == plain.first_row + len(plain.rows)
        plain.same_as(samples.view(Segment(samples.first_row, samples.next_row)), samples.first_row)


operation_lists = st.lists(
    st.tuples(st.just("append"), st.integers(0, 50))
    | st.tuples(st.just("truncate"), st.integers(0, 100))
    | st.tuples(st.just("release"), st.integers(0, 100)),
    max_size=50,
)


# ---------------------------------------------------------------------------- buffers


@given(
    operations=st.lists(st.tuples(st.sampled_from(["append", "extend", "truncate", "trim"]), st.integers(0, 99))),
    width=st.sampled_from([None, 1, 3]),
)
@check
def test_a_buffer_agrees_with_a_list(operations: list[Operation], width: int | None) -> None:
    buffer = Buffer(np.float64, width)
    plain: list[Any] = []
    shape = () if width is None else (width,)
    for name, amount in operations:
        if name == "append":
            values = np.random.default_rng(len(plain)).random((amount, *shape))
            buffer.append(values)
            plain += values.tolist()
        elif name == "extend":
            buffer.extend(amount, 7.0)
            plain += np.full((amount, *shape), 7.0).tolist()
        elif name == "truncate":
            amount = min(amount, len(plain))
            buffer.truncate(amount)
            del plain[amount:]
        else:
            amount = min(amount, len(plain))
            buffer.trim(amount)
            del plain[:amount]
        assert len(buffer) == len(plain)
        assert buffer.live.tolist() == plain
        assert np.array_equal(buffer.physical[buffer.stop - len(buffer) : buffer.stop], buffer.live)


@pytest.mark.parametrize("length", [0, 3, MAPPED_BYTES // 16 + 1])
def test_a_buffer_made_of_values_copies_them_and_grows(length: int) -> None:
    values = np.arange(2.0 * length).reshape(-1, 2)
    buffer = Buffer.of(values)
    buffer.append(np.ones((1, 2)))
    values[:] = -1.0
    assert buffer.live.tolist() == [*np.arange(2.0 * length).reshape(-1, 2).tolist(), [1.0, 1.0]]
    assert buffer.first == 0


@pytest.mark.parametrize("more", [0, 1, 40, 200])
def test_untrim_undoes_a_trim_whatever_was_appended_and_dropped_since(more: int) -> None:
    buffer = Buffer(np.float64)
    buffer.append(np.arange(60.0))
    buffer.trim(3)
    gone = buffer.live[:50].copy()
    buffer.trim(50)
    buffer.append(np.full(more, -1.0))  # with enough of them the live ones move down over those that are gone
    buffer.truncate(7)
    buffer.untrim(gone)
    assert buffer.live.tolist() == [*range(3, 60)]
    assert buffer.first == 3
    buffer.append(np.array([60.0]))
    assert buffer.numbered(58, 61).tolist() == [58.0, 59.0, 60.0]


def test_append_returns_how_far_the_values_moved() -> None:
    buffer = Buffer(np.int64)
    for count in itertools.repeat(5, 200):
        before = buffer.stop
        moved = buffer.append(np.arange(count))
        assert buffer.stop == before - moved + count
        buffer.trim(max(0, len(buffer) - 12))


@pytest.mark.parametrize(("kept", "count"), [(100, 1), (100, 30), (5, 40), (0, 7)])
def test_each_value_is_moved_about_once_and_the_capacity_is_bounded(kept: int, count: int) -> None:
    buffer = Buffer(np.float64)
    appended = moves = rooms = most = 0
    for _ in range(2000):
        live, room, stop = len(buffer), buffer.physical, buffer.stop
        moved = buffer.append(np.zeros(count))
        if moved or buffer.physical is not room:
            moves += live
            assert buffer.stop == live + count
        else:
            assert buffer.stop == stop + count
        rooms += buffer.physical is not room
        appended += count
        most = max(most, len(buffer))
        buffer.trim(max(0, len(buffer) - kept))
    assert moves <= appended + most
    assert rooms <= 4, "once it has its size, values move within the room"
    assert buffer.nbytes <= 8 * max(64, 4 * most)


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every buffer use memory mappings, as large ones do."""
    if not _buffer.can_map():
        pytest.skip("this system has no private mappings")
    monkeypatch.setattr(_buffer, "MAPPED_BYTES", 0)


@pytest.mark.usefixtures("mapped")
@pytest.mark.parametrize("width", [None, 3])
def test_a_large_buffer_grows_in_place(width: int | None) -> None:
    buffer = Buffer(np.float64, width)
    shape = (1000,) if width is None else (1000, width)
    for k in range(50):
        buffer.append(np.full(shape, float(k)))
    assert _buffer._mapping_of(buffer.physical) is not None
    assert len(buffer) == 50_000
    assert (buffer.live.reshape(50, -1) == np.arange(50.0)[:, None]).all()


@pytest.mark.usefixtures("mapped")
def test_a_view_of_a_large_buffer_stays_valid_when_it_grows() -> None:
    buffer = Buffer(np.int64)
    buffer.append(np.arange(100))
    view = buffer.live[20:][:50]
    buffer.append(np.arange(100, 100_000))
    assert view.tolist() == list(range(20, 70))
    assert buffer.live.tolist() == list(range(100_000))


@pytest.mark.usefixtures("mapped")
def test_a_large_buffer_that_was_trimmed_is_copied() -> None:
    buffer = Buffer(np.int64)
    buffer.append(np.arange(1000))
    buffer.trim(10)
    assert buffer.append(np.arange(1000, 9000)) == 10
    assert buffer.live.tolist() == list(range(10, 9000))


@pytest.mark.usefixtures("mapped")
def test_a_large_buffer_is_unchanged_when_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = Buffer(np.int64)
    buffer.append(np.arange(1000))
    monkeypatch.setattr(mmap, "mmap", _no_memory)
    with pytest.raises(MemoryError, match=r"\d+ MiB"):
        buffer.plan(2**20)
    assert buffer.live.tolist() == list(range(1000))


class _no_memory:
    def __init__(self, *_: Any, **__: Any) -> None:
        raise OSError(12, "Cannot allocate memory")


# ---------------------------------------------------------------------------- the store


@layouts
@given(operations=operation_lists)
@check
def test_a_store_agrees_with_a_list(sparse: bool, dtype: str, operations: list[Operation]) -> None:
    run(Samples(D, sparse=sparse, dtype=dtype), PlainStore(dtype), operations)


@layouts
def test_rows_are_correct_after_being_moved(sparse: bool, dtype: str) -> None:
    sliding = [("append", 20), ("release", 30), ("append", 7), ("truncate", 90)] * 60
    samples, plain = Samples(D, sparse=sparse, dtype=dtype), PlainStore(dtype)
    run(samples, plain, sliding)
    for lo, hi in itertools.combinations(range(samples.first_row, samples.next_row + 1), 2):
        batch = samples.view(Segment(lo, hi))
        assert len(batch.y) == hi - lo == n_rows(batch.X)
        plain.same_as(batch, lo)


@layouts
def test_views_copy_nothing(sparse: bool, dtype: str) -> None:
    samples = Samples(D, sparse=sparse, dtype=dtype)
    run(samples, PlainStore(dtype), [("append", 30), ("release", 20)])
    whole, part = (samples.view(Segment(*ends)) for ends in ((6, 30), (10, 12)))
    assert np.shares_memory(whole.y, part.y)
    assert np.shares_memory(whole.weight, part.weight)
    if isinstance(whole.X, CSR) and isinstance(part.X, CSR):
        assert whole.X.data is part.X.data
        assert whole.X.indices is part.X.indices
        assert np.shares_memory(whole.X.indptr, part.X.indptr)
    else:
        assert np.shares_memory(as_dense(whole.X), as_dense(part.X))


@layouts
def test_memory_is_bounded_for_a_sliding_window(sparse: bool, dtype: str) -> None:
    samples = Samples(D, sparse=sparse, dtype=dtype)
    X = np.ones((10, D), dtype)
    sizes = []
    for _ in range(1000):
        samples.append(as_rows(X, sparse), np.zeros(10))
        samples.release(samples.next_row - 50)
        sizes.append(samples.nbytes)
    row = 16 + D * X.itemsize + (8 + D * 4 if sparse else 0)
    assert max(sizes) <= 4 * 60 * row
    assert sizes[-1] == sizes[100], "it grows to its size and stays there"
    assert (samples.first_row, samples.next_row) == (9950, 10_000)


@layouts
def test_rows_are_stored_in_the_requested_type(sparse: bool, dtype: str) -> None:
    samples = Samples(D, sparse=sparse, dtype=dtype)
    samples.append(as_rows(np.full((2, D), 0.1, dtype), sparse), np.zeros(2))
    X, y, weight, _ = samples.view(Segment(0, 2))
    assert as_dense(X).dtype == dtype
    assert y.dtype == weight.dtype == np.float64


def test_the_default_weight_is_one() -> None:
    samples = Samples(1)
    samples.append(np.zeros((3, 1)), np.zeros(3))
    assert samples.view(Segment(0, 3)).weight.tolist() == [1.0, 1.0, 1.0]


@layouts
def test_row_numbers_outside_the_store_raise_an_index_error(sparse: bool, dtype: str) -> None:
    samples = Samples(D, sparse=sparse, dtype=dtype)
    run(samples, PlainStore(dtype), [("append", 10), ("release", 40)])
    assert n_rows(samples.view(Segment(4, 10)).X) == 6
    assert n_rows(samples.view(Segment(10, 10)).X) == 0
    for segment in (Segment(3, 10), Segment(4, 11), Segment(0, 2), Segment(11, 11)):
        with pytest.raises(IndexError, match=" 4 to 10"):
            samples.view(segment)


def test_release_stops_at_the_last_row_and_is_never_reverted() -> None:
    samples = Samples(1)
    samples.append(np.zeros((5, 1)), np.zeros(5))
    samples.release(99)
    assert (samples.first_row, samples.next_row) == (5, 5)
    samples.release(2)
    assert samples.append(np.zeros((1, 1)), np.zeros(1)) == Segment(5, 6)


@layouts
@given(cuts=st.lists(st.integers(0, 40), max_size=6).map(sorted))
@check
def test_appending_a_batch_in_parts_gives_the_same_rows(sparse: bool, dtype: str, cuts: list[int]) -> None:
    X = as_rows(numbered_rows(40, dtype), sparse)
    samples = Samples(D, sparse=sparse, dtype=dtype)
    for a, b in itertools.pairwise([0, *cuts, 40]):
        samples.append(take_rows(X, a, b), np.arange(a, b, dtype=float))
    assert np.array_equal(as_dense(samples.view(Segment(0, 40)).X), numbered_rows(40, dtype))


@layouts
def test_squared_norms_of_views(sparse: bool, dtype: str) -> None:
    samples = Samples(D, sparse=sparse, dtype=dtype)
    run(samples, PlainStore(dtype), [("append", 30), ("release", 20)])
    X = samples.view(Segment(8, 25)).X
    factor, norms = np.append(np.ones(as_dense(X).shape[1]), 0.0), np.empty(n_rows(X))
    squared_norms(X, factor, np.zeros_like(factor), norms)
    np.testing.assert_allclose(norms, np.square(as_dense(X), dtype=float).sum(axis=1))


# ---------------------------------------------------------------------------- state


def straight(samples: Samples, plain: PlainStore) -> Samples:
    """Return a store with the same live rows, appended at once."""
    again = Samples(D, sparse=samples.sparse, dtype=samples.dtype)
    again.first_row = samples.first_row
    X = np.array([x for x, _, _ in plain.rows], samples.dtype).reshape(-1, D)
    y, weight = np.array([pair for _, *pair in plain.rows]).reshape(-1, 2).T
    again.append(as_rows(X, samples.sparse), y, weight)
    return again


@layouts
@given(operations=operation_lists, more=operation_lists)
@check
def test_the_state_does_not_depend_on_the_history_of_the_buffers(
    sparse: bool, dtype: str, operations: list[Operation], more: list[Operation]
) -> None:
    samples, plain = Samples(D, sparse=sparse, dtype=dtype), PlainStore(dtype)
    run(samples, plain, operations)
    saved = to_bytes(samples.state())
    assert saved == to_bytes(straight(samples, plain).state())
    again = Samples.from_state(from_bytes(saved))
    assert saved == to_bytes(again.state())
    run(again, plain, more)


Change = tuple[str, Any]
MADE_UP: list[Change] = [
    ("n_features", 0),
    ("n_features", -3),
    ("n_features", 3.0),
    ("n_features", True),
    ("n_features", 1),
    ("sparse", 1),
    ("dtype", "object"),
    ("dtype", "float32"),
    ("dtype", 8),
    ("first_row", -1),
    ("first_row", "0"),
    ("first_row", 2**70),
    ("y", np.zeros(4)),
    ("y", np.zeros((5, 1))),
    ("y", np.zeros(5, np.float32)),
    ("y", 0.0),
    ("weight", np.zeros(6)),
    ("weight", "none"),
]
MADE_UP_DENSE: list[Change] = [
    ("X", np.zeros((4, D))),
    ("X", np.zeros((5, D + 1))),
    ("X", np.zeros(5 * D)),
    ("X", np.zeros((5, D), np.int64)),
]
MADE_UP_CSR: list[Change] = [
    ("indices", np.full(5, D, np.int32)),
    ("indices", np.full(5, -1, np.int32)),
    ("indices", np.full(5, 2**31 - 1, np.int32)),
    ("indices", np.zeros(4, np.int32)),
    ("indices", np.zeros(5)),
    ("data", np.zeros(4)),
    ("data", np.zeros((5, 1))),
    ("indptr", np.arange(1, 7)),
    ("indptr", np.arange(5)),
    ("indptr", np.arange(6, dtype=float)),
    ("indptr", np.array([0, 9, 2, 3, 4, 5])),
    ("indptr", np.array([0, -9, 2, 3, 4, 5])),
    ("indptr", np.array([0, 1, 2, 3, 4, 2**40])),
]


@pytest.mark.parametrize(
    ("sparse", "name", "value"),
    [(False, *change) for change in MADE_UP + MADE_UP_DENSE] + [(True, *change) for change in MADE_UP + MADE_UP_CSR],
)
def test_a_forged_state_is_refused_before_the_core_can_read_beyond_its_arrays(
    sparse: bool, name: str, value: Any
) -> None:
    samples = Samples(D, sparse=sparse)
    samples.append(as_rows(np.eye(D)[[0, 1, 2, 1, 2]], sparse), np.zeros(5))
    state = from_bytes(to_bytes(samples.state()))
    assert len(Samples.from_state(state)) == 5
    with pytest.raises(StateError):
        Samples.from_state(state | {name: value})


@pytest.mark.parametrize("sparse", [False, True])
def test_a_store_is_unchanged_when_memory_runs_out(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever allocation fails, rows, labels and boundaries still belong together."""
    X = np.arange(400.0).reshape(100, 4) * (np.arange(400).reshape(100, 4) % 3 > 0)

    def rows(a: int, b: int) -> Any:
        return as_rows(X[a:b], sparse)

    plan = Buffer.plan
    for failing in range(1, 7):
        samples = Samples(4, sparse=sparse)
        samples.append(rows(0, 30), np.arange(30.0))
        samples.release(20)
        before = to_bytes(samples.state())
        calls = 0

        def out_of_memory(self: Buffer, count: int, failing: int = failing) -> Any:
            nonlocal calls
            calls += 1
            if calls == failing:
                raise MemoryError
            return plan(self, count)

        with monkeypatch.context() as patch:
            patch.setattr(Buffer, "plan", out_of_memory)
            if failing > (5 if sparse else 3):
                break
            with pytest.raises(MemoryError):
                samples.append(rows(30, 100), np.arange(30.0, 100.0))
        assert to_bytes(samples.state()) == before
        samples.append(rows(30, 100), np.arange(30.0, 100.0))
        view = samples.view(Segment(20, 100))
        assert np.array_equal(as_dense(view.X), X[20:])
        assert view.y.tolist() == list(range(20, 100))


def test_rows_that_were_unpickled_go_back_to_a_mark() -> None:
    samples = Samples(3)
    samples.append(np.ones((500, 3)), np.ones(500))
    copied = pickle.loads(pickle.dumps(samples, protocol=5))  # its arrays look into the bytes of the pickle
    mark = copied.mark()
    copied.append(np.zeros((100, 3)), np.zeros(100))
    copied.put_back(mark)
    assert len(copied) == 500
    np.testing.assert_array_equal(copied.view(Segment(0, 500)).X, samples.view(Segment(0, 500)).X)
