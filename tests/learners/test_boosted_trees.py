"""Trees of LightGBM in the native core: equal to the library, from text that may be damaged."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from driftsurf.core.contracts import CSR
from driftsurf.core.samples import Samples
from driftsurf.errors import StateError
from driftsurf.learners.foreign._boosted import Boosted, read_trees
from driftsurf.learners.foreign.lazy_boosting import LazyBoostedTrees
from driftsurf.native.trees import TreeSum, log_shares

lightgbm = pytest.importorskip("lightgbm")


def table(seed: int, rows: int = 900) -> Any:
    """Return rows with a category of 40 values, many zeros and missing values."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 6))
    X[:, 2] = random.integers(0, 40, rows)
    X[:, 3] *= random.random(rows) < 0.4
    X[random.random(X.shape) < 0.05] = np.nan
    return X


def booster(classes: int, trees: int = 12, **settings: Any) -> Any:
    X = table(0)
    y = np.nan_to_num(X[:, 0]) + (np.nan_to_num(X[:, 2]) % 3 == 0)
    if classes:
        y = np.digitize(y, np.linspace(-0.5, 1.0, classes + 1)[1:-1])
    objective = {0: "regression", 2: "binary"}.get(classes, "multiclass")
    params = {"objective": objective, "verbose": -1, "num_threads": 1, "deterministic": True, **settings}
    params |= {"num_class": classes} if classes > 2 else {}
    model = lightgbm.Booster(params, lightgbm.Dataset(X, y, categorical_feature=[2], params=params))
    for _ in range(trees):
        model.update()
    return model


@pytest.mark.parametrize("classes", [0, 2, 4])
@pytest.mark.parametrize("settings", [{}, {"zero_as_missing": True}, {"use_missing": False}, {"num_leaves": 2}])
def test_sums_are_those_of_the_library_to_the_bit(classes: int, settings: Any) -> None:
    model = booster(classes, **settings)
    trees = Boosted(model).trees
    X = table(1)
    X[::5, 2] = [-3.0, 39.0, 40.0, 1e9, -1e30] * (len(X) // 25)  # codes that are not in the training rows
    expected = model.predict(X, raw_score=True).reshape(len(X), -1)
    assert np.array_equal(trees(X), expected)
    assert np.array_equal(Boosted(model).sums(X), expected)
    assert np.array_equal(np.concatenate([trees(row[None]) for row in X[:50]]), expected[:50])
    narrow = X.astype(np.float32)
    assert np.array_equal(trees(narrow), model.predict(narrow, raw_score=True).reshape(len(X), -1))
    sparse = csr_matrix(np.nan_to_num(X))
    rows = CSR(sparse.data, sparse.indices, sparse.indptr.astype(np.int64), 6)
    assert np.array_equal(trees(rows), model.predict(sparse, raw_score=True).reshape(len(X), -1))
    assert np.array_equal(Boosted(model).sums(rows), trees(rows))
    shares = model.predict(X)
    if classes:
        found = log_shares(trees(X), np.arange(classes), classes, 1e-15)
        two = np.column_stack([1.0 - shares, shares]) if classes == 2 else shares
        assert np.exp(found) == pytest.approx(two, rel=1e-11)


def test_trees_without_a_split_have_their_value() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    params = {"objective": "regression", "verbose": -1, "min_data_in_leaf": 100}
    model = lightgbm.Booster(params, lightgbm.Dataset(X, X[:, 0], params=params))
    model.update()
    assert np.array_equal(Boosted(model).trees(X)[:, 0], model.predict(X))


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_a_learner_predicts_what_the_library_does(classes: int) -> None:
    X = np.nan_to_num(table(0))
    y = X[:, 0] if not classes else np.digitize(X[:, 0] * X[:, 1], np.linspace(-1, 1, classes + 1)[1:-1]).astype(float)
    model: Any = LazyBoostedTrees(task="classification" if classes else "regression").fresh(5, 6, classes)
    samples = Samples(6)
    model.update(samples, samples.append(X, y), 10_000)
    expected = model._fitted.model.booster_.predict(X)
    found = model.scores(np.asfortranarray(X))
    shares = np.exp(found) if classes else found
    assert (shares[:, 1] if classes == 2 else shares) == pytest.approx(expected, rel=1e-12)
    for other in copy.deepcopy(model), pickle.loads(pickle.dumps(model)):
        assert np.array_equal(other.scores(X), model.scores(X))
    with pytest.raises(ValueError, match="columns"):
        model.scores(X[:9, :2])
    frozen = LazyBoostedTrees(task=model.task).frozen_scorer(model.frozen_state(model._fitted))
    assert np.array_equal(frozen(X), found)


def test_classes_that_were_not_seen_have_the_smallest_probability() -> None:
    trees = Boosted(booster(2)).trees
    found = np.exp(log_shares(trees(table(1)), np.array([0, 3]), 5, 1e-15))
    assert found[:, [1, 2, 4]] == pytest.approx(1e-15)
    assert found[:, [0, 3]].sum(axis=1) == pytest.approx(1.0)
    for present, classes in (([0, 5], 5), ([0, 1, 2], 5), ([-1, 0], 5)):
        with pytest.raises(ValueError, match="do not fit"):
            log_shares(trees(table(1)), np.array(present), classes, 1e-15)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("objective=binary", "objective=poisson"),
        ("objective=binary", "goal=binary"),
        ("max_feature_idx=5", "max_feature_idx=0"),
        ("max_feature_idx=5", "max_feature_idx=99999999999999"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=0"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=5"),
        ("num_leaves=", "num_leaves=9"),
        ("left_child=1", "left_child=0"),
        ("left_child=1", "left_child=-500"),
        ("left_child=1", "left_child=4294967297"),
        ("split_feature=", "split_feature=-1 "),
        ("leaf_value=", "leaf_value=1 "),
        ("leaf_value=", "leaf_value=x "),
        ("cat_boundaries=0", "cat_boundaries=99"),
        ("cat_boundaries=0", "cat_boundaries=-9"),
        ("cat_threshold=", "kat_threshold="),
        ("is_linear=0", "is_linear=1"),
    ],
)
def test_damaged_text_is_refused(old: str, new: str) -> None:
    text = booster(2).model_to_string()
    assert old in text
    with pytest.raises(StateError):
        read_trees(text.replace(old, new))


def test_any_damage_is_refused_or_harmless() -> None:
    """Text with a byte changed never leads outside of the trees; sanitizers watch it in `make test-sanitized`."""
    text, random, X = booster(2, trees=2).model_to_string(), np.random.default_rng(0), table(1, rows=40)
    refused = 0
    for _ in range(400):
        at = int(random.integers(len(text)))
        damaged = text[:at] + str(random.choice(list("0123456789-. =e\n"))) + text[at + 1 :]
        try:
            trees = read_trees(damaged)
            if trees.columns == 6:
                assert trees(X).shape == (40, trees.outputs)
        except StateError:
            refused += 1
    assert refused > 20


def test_nodes_must_lead_onwards() -> None:
    node, bits, X = [0, -1, -2, 0, 0], np.empty(0, np.int32), np.array([[0.0], [1.0]])

    def made(node: list[int], root: int = 0, outputs: int = 1) -> TreeSum:
        one, roots = np.array([node], np.int32), np.array([root], np.int32)
        return TreeSum(one, np.zeros(1), np.array([1.0, 2.0]), bits, roots, outputs, 1)

    assert made(node)(X).tolist() == [[1.0], [2.0]]
    wrong = [[1, -1, -2, 0, 0], [-1, -1, -2, 0, 0], [0, 0, -2, 0, 0], [0, 1, -2, 0, 0], [0, -1, -3, 0, 0]]
    for damaged in [*wrong, [0, -1, -2, 1, 1], [0, -1, -2, 1, -1]]:
        with pytest.raises(ValueError, match="do not fit"):
            made(damaged)
    for root, outputs in ((1, 1), (-3, 1), (0, 0), (0, 2)):
        with pytest.raises(ValueError, match="do not fit"):
            made(node, root, outputs)
    with pytest.raises(ValueError, match="column 7"):
        made(node)(CSR(np.ones(1), np.array([7], np.int32), np.array([0, 1]), 1))
