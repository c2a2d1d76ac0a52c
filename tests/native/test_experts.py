"""Naive Bayes, perceptron, nearest neighbours, stacking and votes in C, and their twins in plain Python."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import reference_mixing
from hypothesis import given, settings
from hypothesis import strategies as st
from row_arrays import csr_view, frozen
from tests.native.twins import mixing, moments, nearest, perceptron, votes

from driftsurf.core.contracts import CSR, FloatArray
from driftsurf.errors import ShapeError
from driftsurf.native import experts
from driftsurf.native import online as native_online
from driftsurf.native import portfolio as native_portfolio
from driftsurf.native.nearest import NeighboursModel

native: Any = experts
online: Any = native_online
portfolio: Any = native_portfolio
networks: Any = perceptron
stacks: Any = mixing

shapes = {"M": st.integers(1, 6), "n": st.integers(1, 30), "seed": st.integers(0, 10**6)}
kinds = {"single": st.booleans(), "sparse": st.booleans(), "seed": st.integers(0, 10**6)}


def data(random: np.random.Generator, n: int, d: int, *, single: bool) -> npt.NDArray[Any]:
    X = random.normal(size=(n, d)) * 10.0 ** random.integers(-2, 3, d)
    X[random.random((n, d)) < 0.4] = 0.0
    X[0, 0] = random.choice([1.0, -1e30, 1e30 if single else 1e300])
    return frozen(X.astype(np.float32 if single else np.float64))


MOMENTS = "count", "mean", "squares"


def bayes(groups: int, d: int, known: Any = None, smoothing: float = 1.0) -> Any:
    """Return naive Bayes with these moments of classes, or with none."""
    known = known or (np.zeros(groups), np.zeros((groups, d)), np.zeros((groups, d)))
    counts = {"n_features": d, "n_classes": groups, "hi": 0, "gradients": 0}
    return online.BayesModel(counts | dict(zip(MOMENTS, known, strict=True)), smoothing=smoothing)


def network(d: int, H: int, K: int, theta: Any, *, centred: bool, size: int, seed: int, learned: Any = ()) -> Any:
    """Return a network with these parameters and moments, and columns that have learned rows."""
    known = dict(zip(("theta", "first", "second"), theta, strict=True)) | {"n_features": d, "n_classes": K}
    known |= {"hi": 0, "gradients": 0, "hidden": H, "seed": seed, "words": 7, "steps": 4, "centred": centred}
    for prefix, columns in (("column", d), ("target", 1)):
        known |= {f"{prefix}_count": 0.0, f"{prefix}_mean": np.zeros(columns), f"{prefix}_squares": np.zeros(columns)}
    if learned:
        known |= {"column_count": learned[0][0], "column_mean": learned[1][0], "column_squares": learned[2][0]}
    return online.NetworkModel(known, passes=5.0, rate=3e-3, rows_per_step=size)


def moments_after(model: Any, X: Any, weight: Any, group: Any) -> Any:
    """Return the moments by class after these rows."""
    known = model.after(X, group, weight, 0, 1).entries()
    return tuple(known[name] for name in MOMENTS)


# ------------------------------------------------------------------------------------------- moments and naive Bayes


def moments_of(X: Any, weight: FloatArray, group: Any, K: int) -> tuple[FloatArray, ...]:
    """Return the moments of rows by the twin."""
    d = X.n_features if isinstance(X, CSR) else X.shape[1]
    out = np.empty(K), np.empty((K, d)), np.empty((K, d))
    if isinstance(X, CSR):
        moments.moments_csr((X.data, X.indices, X.indptr, group, weight), group, *out)
    else:
        moments.moments_dense((X, group, weight), group, *out)
    return out


@settings(max_examples=40)
@given(**kinds, n=st.integers(1, 12), d=st.integers(1, 20), K=st.integers(1, 4))
def test_moments_and_densities_equal_their_twins(n: int, d: int, K: int, seed: int, single: bool, sparse: bool) -> None:
    random = np.random.default_rng(seed)
    X = data(random, n, d, single=single)
    rows: Any = csr_view(X) if sparse else X
    group, weight = random.integers(0, K, n), random.random(n) * (random.random(n) < 0.8)
    model = bayes(K, d)
    found = moments_after(model, rows, weight, group.astype(float))
    expected = moments_of(rows, weight, group, K)
    # Merging with nothing multiplies means by 1; with no weight at all in a group, they stay 0.
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15, atol=0.0)
    model = bayes(K, d, (random.integers(0, 5, K) * 1.0, random.normal(size=(K, d)), random.random((K, d))))
    (mean, factor, start), out = model.densities, np.empty((n, K))
    if isinstance(rows, CSR):
        moments.densities_csr(rows.data, rows.indices, rows.indptr, mean, factor, start, out)
    else:
        moments.densities_dense(rows, mean, factor, start, out)
    size = np.abs(out).max()
    out -= np.logaddexp.reduce(out, axis=1, keepdims=True)
    # Sums over columns have eight parts here, and one in the twin; a density is a small difference of them.
    np.testing.assert_allclose(model.scores(rows), out, rtol=1e-12, atol=1e-14 * size)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 4), d=st.integers(1, 5))
def test_moments_of_two_batches_are_those_of_all_rows(seed: int, K: int, d: int) -> None:
    random = np.random.default_rng(seed)
    X, group, weight = random.normal(size=(9, d)) + 5.0, random.integers(0, K, 9), random.random(9)
    model = bayes(K, d)
    for part in (slice(0, 4), slice(4, 5), slice(5, 9)):
        before = pickle.dumps(model)
        later = model.after(X[part], group[part].astype(float), weight[part], 0, 1)
        assert pickle.dumps(model) == before, "it has changed"
        model = later
    known = model.entries()
    for one, other in zip((known[name] for name in MOMENTS), moments_of(X, weight, group, K), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4), smoothing=st.sampled_from([1e-9, 1.0]))
def test_densities_follow_from_moments_by_the_formulas(seed: int, K: int, smoothing: float) -> None:
    random = np.random.default_rng(seed)
    count, mean, squares = random.integers(0, 9, K) * 1.0, random.normal(size=(K, 3)), random.random((K, 3))
    mean[:, 2] = squares[:, 2] = mean[count == 0.0] = squares[count == 0.0] = 0.0  # column 2 is constant
    total = max(count.sum(), 1e-300)
    overall = count @ mean / total
    spread = (squares + count[:, None] * (mean - overall) ** 2).sum(axis=0) / total
    variance = (squares + smoothing * spread) / (count[:, None] + smoothing)
    with np.errstate(divide="ignore"):
        factor = np.where(variance > 0.0, 1.0 / np.sqrt(variance), 0.0)
    start = np.log((count + 1.0) / (count.sum() + K)) + np.log(np.where(factor > 0.0, factor, 1.0)).sum(axis=1)
    found = bayes(K, 3, (count, mean, squares), smoothing).densities
    for one, other in zip(found, (np.where(count[:, None] > 0.0, mean, overall), factor, start), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_columns_are_standardised_and_constant_ones_left_out() -> None:
    X = np.array([[1.0, 7e9, 0.0, 2.0], [3.0, 7e9, 0.0, 2.5]])
    start = [np.zeros(4 + 1 + 4, np.float32)] * 3
    for centred in (True, False):
        model = network(4, 1, 2, start, centred=centred, size=1, seed=0)
        centre, factor = model.after(X, np.zeros(2), np.ones(2), 2, 1).frame
        assert centre.tolist() == ([2.0, 7e9, 0.0, 2.25] if centred else [0.0] * 4)
        assert factor.tolist() == [1.0, 0.0, 0.0, 4.0]


def test_log_losses_are_those_of_the_true_classes() -> None:
    scores, y = np.log([[0.2, 0.8], [0.001, 0.999], [0.5, 0.5]]), np.array([1.0, 0.0, 0.0])
    scores[2, 0] = np.nan
    assert np.exp(-native.log_losses(scores, y, np.inf)[:2]).tolist() == pytest.approx([0.8, 0.001])
    found = native.log_losses(np.asfortranarray(scores), y, -np.log(0.01))
    assert np.exp(-found[:2]).tolist() == pytest.approx([0.8, 0.01])
    assert np.isnan(found[2])
    with pytest.raises(ValueError, match="code"):
        native.log_losses(scores, y + 1.0, 1.0)


@settings(max_examples=40)
@given(n=st.integers(0, 9), K=st.integers(1, 4), more=st.integers(0, 2), seed=st.integers(0, 10**6))
def test_shares_of_known_classes_become_log_probabilities(n: int, K: int, more: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    present = np.sort(random.permutation(K + more)[:K])
    shares = random.dirichlet(np.full(K, 0.1), size=n)
    shares[random.random(shares.shape) < 0.1] = np.nan
    whole = np.zeros((n, K + more))
    whole[:, present] = shares
    expected = np.log(np.where(whole > 1e-15, whole, 1e-15))
    np.testing.assert_allclose(native.log_shares(np.asfortranarray(shares), present, K + more, 1e-15), expected)
    if K == 2:
        whole[:, present[0]] = 1.0 - shares[:, 1]
        expected = np.log(np.where(whole > 1e-15, whole, 1e-15))
        np.testing.assert_allclose(native.log_shares(shares[:, 1], present, K + more, 1e-15), expected)
    with pytest.raises(ValueError, match="code"):
        native.log_shares(shares, present, int(present[-1]), 1e-15)
    with pytest.raises(ValueError, match="axes"):
        native.log_shares(np.zeros((n, K + 1)), present, K + more, 1e-15)


# -------------------------------------------------------------------------------------------------------- perceptron


@settings(max_examples=40)
@given(
    **kinds,
    n=st.sampled_from([1, 8]),
    d=st.integers(1, 6),
    H=st.integers(1, 6),
    K=st.sampled_from([0, 2, 3]),
    size=st.integers(1, 16),
)
def test_a_perceptron_learns_as_its_twin_does(
    n: int, d: int, H: int, K: int, size: int, seed: int, single: bool, sparse: bool
) -> None:
    random = np.random.default_rng(seed)
    X = data(random, n, d, single=single)
    rows: Any = csr_view(X) if sparse else X
    y, weight = (random.integers(0, K, n) * 1.0 if K else random.normal(size=n)), random.random(n)
    weight[0] = 1.0
    known = moments_after(bayes(1, d), data(random, 5, d, single=False), np.ones(5), np.zeros(5))
    outputs, order = K or 1, online.visits_of(n, 11, seed, 7)[0]
    start = [frozen(random.normal(size=(d + 1) * H + (H + 1) * outputs).astype(np.float32)) for _ in range(3)]
    start[2] = frozen(np.abs(start[2]))
    plan = order, size, 3e-3, 4, H
    model = network(d, H, K, start, centred=not sparse, size=size, seed=seed, learned=known)
    after = model.after(rows, y, weight, n, 11)
    own, frame, mine = after.entries(), after.frame, [after.part(k) for k in range(3)]
    for one, name in zip(moments_after(bayes(1, d, known), rows, weight, y * 0.0), MOMENTS, strict=True):
        assert np.array_equal(np.ravel(one), np.ravel(own[f"column_{name}"]))
    if not K:
        unit = moments_after(bayes(1, 1), y[:, None], weight, y * 0.0)
        y = (y - unit[1][0]) / (np.sqrt(unit[2][0] / unit[0]) if n > 1 else 1.0)
    others = [array.copy() for array in start]
    scratch: Any = np.zeros_like(start[0]), np.empty(d, np.float32), np.empty((3, max(H, outputs)), np.float32)
    state = *plan, bool(K), *frame, *others, *scratch
    if isinstance(rows, CSR):
        last = np.zeros(d, np.int64)
        expected = networks.train_csr((rows.data, rows.indices, rows.indptr, y, weight), *state, last)
    else:
        expected = networks.train_dense((rows, y, weight), *state)
    assert own["steps"] == expected
    for one, other in zip(mine, others, strict=True):
        # The visits of a single row are one visit with their weight; powers may differ in the last bit.
        np.testing.assert_allclose(one, other, rtol=1e-4 if n == 1 else 1e-6, atol=1e-6 if n == 1 else 1e-9)
    idle = model.after(rows, y, weight * 0.0, n, 11).entries()
    assert (idle["hi"], idle["gradients"], idle["words"]) == (n, 11, 7)
    assert all(np.array_equal(one, idle[name]) for one, name in zip(start, ("theta", "first", "second"), strict=True))
    out = np.empty((n, outputs))
    if isinstance(rows, CSR):
        entries = own | {"centred": True, "column_squares": own["column_squares"] + 1.0}
        after = online.NetworkModel(entries)  # rows of a model that began with dense ones
        frame = after.frame
        networks.outputs_csr(rows.data, rows.indices, rows.indptr, H, *frame, mine[0], *scratch[1:], out)
    else:
        networks.outputs_dense(rows, H, *frame, mine[0], scratch[2], out)
    if K:
        out -= np.logaddexp.reduce(out, axis=1, keepdims=True)
    else:
        out = out[:, 0] * after.unit[1] + after.unit[0]
    np.testing.assert_allclose(after.scores(rows), out, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------------ nearest neighbours


@settings(max_examples=60)
@given(
    n=st.integers(0, 40), d=st.integers(1, 70), K=st.integers(0, 4), most=st.integers(1, 12), seed=st.integers(0, 10**6)
)
def test_neighbours_equal_their_twin(n: int, d: int, K: int, most: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    single, K = bool(random.random() < 0.5), K if K > 1 else 0
    X = data(random, 5, d, single=single)
    past = np.clip(data(random, n, d, single=False), -1e100, 1e100) if n else np.empty((0, d))
    if n > 3:
        past[: min(n, 5)] = np.clip(X[: min(n, 5)].astype(float), -1e100, 1e100)  # rows of distance 0
        past[-1] = past[0]
    y = random.integers(0, K, n).astype(float) if K else random.normal(size=n)
    rows = np.column_stack([past, y, 0.1 + random.random(n)])
    variance = (0.1 + random.random(d)) * (random.random(d) < 0.8)
    factor = np.divide(1.0, np.sqrt(variance), where=variance > 0.0, out=np.zeros(d))
    known = {"n_features": d, "n_classes": K, "hi": n, "gradients": n, "rows": rows, "column_count": 1.0}
    known |= {"column_mean": np.zeros(d), "column_squares": variance}
    counts = random.integers(0, 9, K).astype(float)
    model = NeighboursModel(known | {"count": counts}, neighbours=most, window=50, smoothing=0.5)
    found = model.scores(X)
    expected = nearest.neighbours_say(X, rows, factor, counts, most, 0.5)
    assert found.shape == ((5, K) if K else (5,))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    entries = model.entries()
    assert np.array_equal(entries["rows"], rows)
    with pytest.raises(ValueError, match="dense rows"):
        model.scores(csr_view(X))
    with pytest.raises(ValueError, match="dense rows"):
        model.after(csr_view(X), np.zeros(5), np.ones(5), 5, 5)


# ---------------------------------------------------------------------------------------------------------- stacking


def curvature(random: np.random.Generator, M: int) -> FloatArray:
    root = random.normal(size=(M, 2 * M)) * 2.0
    return np.asarray(root @ root.T + 10.0 * np.eye(M))


def after_classes(G: FloatArray, y: Any, weight: FloatArray, v: FloatArray, A: FloatArray) -> Any:
    """Return the weights after a batch and the curvature of its loss, None if the numbers are not finite."""
    arrays = (frozen(np.ascontiguousarray(array)) for array in (G, y * 1.0, weight))
    mixer = portfolio.Mixer(frozen(v), frozen(A))
    found = mixer.after_classes(*arrays, 1.0, 0.0)
    return None if found is mixer else (found.weights, found.precision - A)


def after_values(m: FloatArray, y: FloatArray, weight: FloatArray, s: float, v: FloatArray, A: FloatArray) -> Any:
    # The mixture of this batch has another error than the unit, and counts as no part of a batch.
    found = portfolio.Mixer(v, A, False, s * s).after_values(frozen(m), frozen(y), frozen(weight), 1.0, 0.0, 0.0)
    return found.weights, found.precision - A


def scratch(M: int) -> Any:
    return np.empty(M), np.empty((M, M)), np.empty((M, M)), np.empty((M + 6, M))


@settings(max_examples=60)
@given(**shapes, K=st.integers(2, 5))
def test_weights_for_classes_equal_those_of_the_twins(M: int, n: int, seed: int, K: int) -> None:
    random = np.random.default_rng(seed)
    G = np.log(0.99 * random.dirichlet(np.full(K, 0.3), size=(n, M)).transpose(0, 2, 1) + 0.01 / K)
    y, weight = random.integers(0, K, n), random.random(n) * (random.random(n) < 0.9)
    v, A = random.random(M) * (random.random(M) < 0.7), curvature(random, M)
    u, H = after_classes(G, y, weight, v, A)
    plain, *rest = scratch(M)
    assert stacks.stack_classes(G, y, weight, v, A, plain, *rest, np.empty(K))
    assert u.tobytes() == plain.tobytes()
    np.testing.assert_allclose(H, rest[0], rtol=1e-12, atol=1e-12)  # A was added and subtracted
    expected = reference_mixing.stack_classes(G, y, weight, v, A)
    np.testing.assert_allclose(u, expected[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(H, expected[1], rtol=1e-7, atol=1e-9)


@settings(max_examples=60)
@given(**shapes, scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_weights_for_values_equal_those_of_the_twins(M: int, n: int, seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    y = 5.0 + random.normal(size=n)
    m = y[:, None] + random.standard_t(2, size=(n, M)) * random.random(M)
    weight, v, A = random.random(n), random.dirichlet(np.ones(M)), curvature(random, M)
    u, H = after_values(m * scale, y * scale, weight, 0.7 * scale, v, A)
    plain, *rest = scratch(M)
    assert stacks.stack_values(m * scale, y * scale, weight, 0.7 * scale, v, A, plain, *rest)
    assert u.tobytes() == plain.tobytes()
    expected = reference_mixing.stack_values(m, y, weight, 0.7, v, A)
    np.testing.assert_allclose(u, expected[0], atol=1e-4)
    np.testing.assert_allclose(H, expected[1], rtol=1e-6, atol=1e-8)


@settings(max_examples=40)
@given(n=st.integers(1, 9), K=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_shares_and_votes_of_experts_equal_their_twin(n: int, K: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    margins = random.normal(size=n) * 10.0 ** random.integers(-2, 4, n)
    few = np.log(random.dirichlet(np.ones(2), size=n))
    scores = [margins, np.zeros(n), few, np.log(random.dirichlet(np.full(K, 0.1), size=n) + 1e-300)]
    G = portfolio.stacked_shares(scores, K)
    for place, each in enumerate(scores):
        logs, ballots = mixing.expert_shares(each, K)
        assert np.array_equal(G[:, :, place], logs)
        assert np.array_equal(G[:, :, len(scores) + place], ballots)
    weights = random.random(2 * len(scores))
    expected = G @ weights
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(
        portfolio.Mixer(weights, np.eye(len(weights))).mixed_classes(G), expected, rtol=1e-12, atol=1e-12
    )
    with pytest.raises(ValueError, match="do not fit"):
        portfolio.stacked_shares([margins, np.zeros((n, K + 1))], K)


@settings(max_examples=40)
@given(known=st.integers(1, 5), more=st.integers(0, 3), rows=st.integers(0, 4), seed=st.integers(0, 10**6))
def test_the_label_after_the_last_one_has_the_share_that_was_counted(
    known: int, more: int, rows: int, seed: int
) -> None:
    random, K = np.random.default_rng(seed), known + more
    counts, last = random.random((known, known)) * 9.0, int(random.integers(known))
    shares = np.full(K, 1.0 / K)
    shares[:known] += counts.sum(axis=0)
    shares /= counts.sum() + 1.0
    shares[:known] += counts[last]
    expected = np.tile(np.log(shares / (counts[last].sum() + 1.0)), (rows, 1))
    chain = portfolio.Chain(frozen(counts), np.zeros((2, known)), last)
    np.testing.assert_allclose(chain.forecast(rows, K), expected, rtol=1e-12, atol=1e-15)
    y, after = random.integers(0, known, rows) * 1.0, counts * 0.5 ** (rows / portfolio.REMEMBERED_ROWS)
    np.add.at(after[last], y.astype(int), 1.0)
    learned = chain.after(y, np.ones(rows), known, 0.9)
    np.testing.assert_allclose(learned.counts, after, rtol=1e-14)
    assert learned.last == (y[-1] if rows else last)
    grown = chain.after(np.full(1, K - 1.0), np.ones(1), K, 0.9)
    assert grown.counts.shape == (K, K)
    with pytest.raises(ValueError, match="last label"):
        portfolio.Chain(counts, np.zeros((2, known)), known)


@settings(max_examples=40)
@given(known=st.integers(1, 5), more=st.integers(0, 3), rows=st.integers(30, 34), seed=st.integers(0, 10**6))
def test_the_recent_rate_of_labels_and_its_lead_are_as_defined(known: int, more: int, rows: int, seed: int) -> None:
    random, K = np.random.default_rng(seed), known + more
    rates = random.random((2, known)) * 9.0

    def both(n_classes: int) -> Any:
        recent, every = np.pad(rates, ((0, 0), (0, n_classes - known)))
        share = (every + 1.0) / (every.sum() + n_classes)
        return (recent + share) / (recent.sum() + 1.0), share

    expected = np.tile(np.log(both(K)[0]), (rows, 1))
    chain = portfolio.Chain(np.zeros((known, known)), frozen(rates), 0, 9.0)
    np.testing.assert_allclose(chain.forecast(rows, K), expected, rtol=1e-12, atol=1e-15)
    codes = random.integers(0, known, rows)
    after, faded = chain.after(codes * 1.0, np.ones(rows), known, 0.75), 0.5 ** (1.0 / portfolio.RECENT)
    weights = faded ** np.arange(rows)[::-1]
    recent = rates[0] * faded**rows + np.bincount(codes, weights, minlength=known)
    np.testing.assert_allclose(after.rates, [recent, rates[1] + np.bincount(codes, minlength=known)], rtol=1e-11)
    rate, share = (np.log(0.99 * one[codes] + 0.01 / known) for one in both(known))
    assert after.lead == pytest.approx(0.75 * 9.0 + 0.25 * (rate - share).mean())
    with pytest.raises(ValueError, match="counts of"):
        chain.forecast(rows, known - 1)
    with pytest.raises(ValueError, match="not the code"):
        chain.after(np.array([float(known)]), np.ones(1), known, 0.9)


def test_earlier_batches_are_forgotten_and_the_ridge_returns() -> None:
    random = np.random.default_rng(1)
    G = np.log(random.dirichlet(np.ones(2), size=(20, 3)).transpose(0, 2, 1))
    y, v, A = random.integers(0, 2, 20) * 1.0, np.full(3, 1 / 3), curvature(random, 3)
    G = np.ascontiguousarray(G)
    mixer = portfolio.Mixer(v, A)
    whole, half = (mixer.after_classes(G, y, np.ones(20), *how).precision for how in ((1.0, 0.0), (0.5, 7.0)))
    np.testing.assert_allclose(half, 0.5 * whole + 3.5 * np.eye(3))


def test_the_expert_that_knows_gets_the_weight() -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 500)
    knows = np.full((500, 3), 0.05)
    knows[np.arange(500), y] = 0.9
    guesses = random.dirichlet(np.ones(3), size=500)
    wrong = np.roll(knows, 1, axis=1)
    G = np.log(np.stack([guesses, knows, wrong], axis=2))
    u, _ = after_classes(G, y, np.ones(500), np.full(3, 1 / 3), 10.0 * np.eye(3))
    assert u[1] > 1.0
    assert u[0] < 0.1
    assert u[2] < 0.1


def test_equal_experts_share_and_an_outlier_does_not_decide() -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=300)
    near, far = y + 0.1 * random.normal(size=300), y + random.normal(size=300)
    y[7] = 1e6
    m = np.column_stack([near, near, far])
    u, _ = after_values(m, y, np.ones(300), 1.0, np.full(3, 1 / 3), 10.0 * np.eye(3))
    assert u[0] == pytest.approx(u[1])
    assert u[0] > 5 * u[2]


def test_numbers_that_are_not_finite_are_refused() -> None:
    G = np.zeros((4, 2, 2))
    G[1, 1, 1] = np.nan
    assert after_classes(G, np.zeros(4), np.ones(4), np.full(2, 0.5), 10.0 * np.eye(2)) is None
    m = np.full((4, 2), 1e300)
    mixer = portfolio.Mixer(np.ones(2), np.eye(2), False, 1.0)
    after = mixer.after_values(m, np.zeros(4), np.full(4, 1e300), 0.9, 10.0, 0.0)
    assert (after.weights.tolist(), after.precision.tolist()) == ([1.0, 1.0], np.eye(2).tolist())


# ------------------------------------------------------------------------------------------------------------- votes


@settings(max_examples=60)
@given(voters=st.integers(1, 12), rows=st.integers(0, 9), seed=st.integers(0, 1000))
def test_votes_equal_their_twins(voters: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    margins, weights = random.normal(size=(voters, rows)) * 300.0, random.random(voters)
    margins[random.random(margins.shape) < 0.2] = 0.0
    losses, weight = random.random((voters, rows)), random.random(rows) * (random.random(rows) < 0.7)
    y = random.integers(0, 2, rows) * 1.0
    expected = np.empty(rows)
    votes.balance_of_votes(margins, weights, expected)
    assert native.balance_of_votes(margins, weights).tobytes() == expected.tobytes()
    votes.true_class_shares(margins[0], y, expected)
    assert native.true_class_shares(margins[0], y).tobytes() == expected.tobytes()
    logs = np.zeros(voters)
    votes.follow_losses(margins, losses, weight, logs, expected, 0.75)
    found = native.follow_losses(margins, losses, weight, 0.75)
    assert (found[0].tobytes(), found[1].tobytes()) == (expected.tobytes(), logs.tobytes())


def test_arrays_that_do_not_fit_are_refused() -> None:
    X, one = np.zeros((3, 2)), np.ones(3)
    naive = bayes(2, 2)
    theta = [np.zeros(2 * 3 + 3 + 4 * 2, np.float32) for _ in range(3)]
    net = network(2, 3, 2, theta, centred=True, size=2, seed=0)
    for model in (naive, net):
        for group in (np.array([0.0, 1.0, 2.0]), np.array([0.0, -1.0, 0.0]), np.full(3, np.nan), np.zeros(2)):
            with pytest.raises(ValueError, match=r"code|rows"):
                model.after(X, group, one, 3, 3)
        with pytest.raises(ShapeError):
            model.after(np.zeros((3, 4)), one, one, 3, 3)
        with pytest.raises(TypeError):
            model.after(X.astype(np.int32), one, one, 3, 3)
        with pytest.raises(ValueError, match="CSR"):
            model.scores(CSR(one, np.zeros(3, np.int32), np.array([0, 4]), 2))
    with pytest.raises(ValueError, match="elements"):
        online.BayesModel(naive.entries() | {"mean": np.zeros((3, 2))})
    with pytest.raises(ValueError, match="elements"):
        online.NetworkModel(net.entries() | {"first": theta[0][1:]})
    with pytest.raises(MemoryError):
        online.BayesModel(naive.entries() | {"n_features": 2**60})
