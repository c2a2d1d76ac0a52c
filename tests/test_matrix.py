"""Every strategy with every learner on every task and kind of rows: it works, or refuses and names the capability."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from driftsurf import learners
from driftsurf.adapters import SklearnLearner
from driftsurf.detectors import DDM
from driftsurf.errors import CapabilityError, InputError
from driftsurf.runtime.session import Session
from driftsurf.strategies import (
    AUE,
    DWM,
    PERM,
    Aware,
    Candor,
    DriftSurf,
    ExponentialDecay,
    LearnNSE,
    LinearDecay,
    Oblivious,
    OnePass,
    PairedLearners,
    ResetOnDrift,
    SlidingWindow,
)
from test_adapters import river_model, torch_learner

STRATEGIES: dict[str, Any] = {
    "DriftSurf": DriftSurf,
    "DriftSurf, prequential": lambda learner: DriftSurf(learner, judge="prequential"),
    "DriftSurf, training": lambda learner: DriftSurf(learner, judge="training"),
    "DriftSurf, authors": lambda learner: DriftSurf(learner, variant="authors", budget="divided"),
    "Aware": lambda learner: Aware(learner, [3]),
    "AUE": lambda learner: AUE(learner, experts=3),
    "Candor": lambda learner: Candor(learner, experts=3),
    "Oblivious": Oblivious,
    "OnePass": OnePass,
    "DriftSurf, zero-one": lambda learner: DriftSurf(learner, risk="zero-one"),
    "ResetOnDrift": lambda learner: ResetOnDrift(learner, DDM()),
    "PERM": lambda learner: PERM(learner, window=100, permutations=4, significance=0.25),
    "SlidingWindow": lambda learner: SlidingWindow(learner, window=100),
    "LinearDecay": lambda learner: LinearDecay(learner, window=200),
    "ExponentialDecay": lambda learner: ExponentialDecay(learner, half_life=50),
    "PairedLearners": lambda learner: PairedLearners(learner, window=100),
    "DWM": lambda learner: DWM(learner, period=10, experts=3),
    "LearnNSE": lambda learner: LearnNSE(learner, experts=3),
}
COUNTS_ERRORS = {"DriftSurf, zero-one", "ResetOnDrift", "PairedLearners", "DWM", "LearnNSE"}
WEIGHS_ROWS = {"LinearDecay", "ExponentialDecay", "LearnNSE"}
LEARNERS: dict[str, Any] = {
    "LogisticRegression": learners.LogisticRegression,
    "SoftmaxRegression": learners.SoftmaxRegression,
    "LinearSVM": learners.LinearSVM,
    "LinearRegression": learners.LinearRegression,
    "LinearRegression, huber": lambda: learners.LinearRegression(loss="huber"),
    "SGDClassifier": lambda: SklearnLearner(SGDClassifier(loss="log_loss")),
    "DecisionTreeClassifier": lambda: SklearnLearner(DecisionTreeClassifier(max_depth=4)),
    "pipeline": lambda: SklearnLearner(make_pipeline(StandardScaler(with_mean=False), LinearSVC())),
    "GaussianNB": lambda: SklearnLearner(GaussianNB()),
    "SGDRegressor": lambda: SklearnLearner(SGDRegressor()),
    "DecisionTreeRegressor": lambda: SklearnLearner(DecisionTreeRegressor(max_depth=4)),
    "river tree": lambda: river_learner("tree"),
    "river logistic": lambda: river_learner("logistic"),
    "river linear": lambda: river_learner("linear"),
    "torch": torch_learner,
    "torch, values": lambda: torch_learner("regression"),
}
TASKS = {"binary": 2, "multiclass": 3, "regression": 0}
KINDS = "dense", "csr", "weighted"
STEPS, SIZE = 5, 60


def river_learner(name: str) -> Any:
    from driftsurf.adapters import RiverLearner

    return RiverLearner(river_model(name))


def missing_capabilities(strategy: str, learner: Any, task: str, kind: str) -> list[str]:
    """What the contract says is missing, as a message names it."""
    can = learner.capabilities
    wanted = {
        "'anchor'": strategy == "Candor" and not can.anchor,
        "one pass": strategy == "OnePass" and not hasattr(learner, "one_pass"),
        f"'{task}'": task not in can.tasks,
        "'sparse'": kind == "csr" and not can.sparse,
        "'weights'": (kind == "weighted" or strategy in WEIGHS_ROWS) and not can.weights,
        "'exact_state'": strategy == "PairedLearners" and not can.exact_state,
        "predicts values": strategy in COUNTS_ERRORS and can.values,
    }
    return [name for name, lacking in wanted.items() if lacking]


def run(strategy: Any, task: str, kind: str) -> None:
    random = np.random.default_rng(0)
    session = Session(strategy)
    beta = random.normal(size=(4, 3))
    n_classes = TASKS[task]
    names = np.array(["b", "a", "c"])
    for step in range(STEPS):
        X = random.normal(size=(SIZE, 4)) * (random.random((SIZE, 4)) < 0.8)
        Z = X @ (beta if step < 3 else -beta)
        y: Any = 100.0 + Z[:, 0] if n_classes == 0 else names[Z[:, :n_classes].argmax(axis=1)]
        options = {"weight": random.random(SIZE)} if kind == "weighted" else {}
        seen = session.observe(csr_matrix(X) if kind == "csr" else X, y, **options)
        assert len(seen.labels) == SIZE
        assert len(seen.decisions) == 1
        assert seen.scores.shape[0] == SIZE
    scores = session.scores(X)
    assert np.isfinite(scores).all()
    if scores.ndim == 2:
        assert scores.shape == (SIZE, n_classes)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
@pytest.mark.parametrize("learner", list(LEARNERS))
def test_it_works_or_refuses_by_name(strategy: str, learner: str) -> None:
    for task, kind in product(TASKS, KINDS):
        made = LEARNERS[learner]()
        missing = missing_capabilities(strategy, made, task, kind)
        if not missing:
            run(STRATEGIES[strategy](made), task, kind)
            continue
        with pytest.raises((CapabilityError, InputError)) as error:
            run(STRATEGIES[strategy](made), task, kind)
        assert any(name in str(error.value) for name in missing)
        if task in made.capabilities.tasks:  # else it shows in the targets, which are input
            assert isinstance(error.value, CapabilityError)
