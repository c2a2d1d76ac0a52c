"""Models of scikit-learn, river and PyTorch as learners, and rows to train them on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from driftsurf.core.contracts import FloatArray
from driftsurf.core.samples import Samples
from driftsurf.learners.foreign import RiverLearner, SklearnLearner, TorchLearner
from driftsurf.learners.foreign._base import ForeignLearner

LOG = {"loss": "log_loss"}


def rows(n: int, k: int = 2, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return rows of three columns with labels of ``k`` classes, or targets for ``k=0``."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    Z = X @ np.random.default_rng(5).normal(size=(3, max(1, k)))
    return X, Z[:, 0] if k == 0 else Z.argmax(axis=1).astype(float)


def river_model(name: str) -> Any:
    """Return a model of river, or skip the test if river is not installed."""
    river = pytest.importorskip("river", reason="river is not installed: pip install 'driftsurf[river]'")
    from river import linear_model, naive_bayes, preprocessing, tree

    assert river
    return {
        "tree": lambda: tree.HoeffdingTreeClassifier(grace_period=50),
        "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
        "bayes": naive_bayes.GaussianNB,
        "scaler": preprocessing.StandardScaler,
        "forest": lambda: __import__("river.forest", fromlist=["x"]).ARFClassifier(n_models=3),
    }[name]()


def torch_learner(task: Any = "classification", **options: Any) -> TorchLearner:
    """Return a small network as a learner, or skip the test if torch is not installed."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'driftsurf[torch]'")
    torch.set_num_threads(1)

    def network(columns: int, outputs: int) -> Any:
        return torch.nn.Sequential(torch.nn.Linear(columns, 16), torch.nn.ReLU(), torch.nn.Linear(16, outputs))

    return TorchLearner(
        network, task=task, optimizer=lambda p: torch.optim.Adam(p, lr=0.02), **({"passes": 5.0} | options)
    )


LEARNERS: dict[str, tuple[Any, int]] = {
    "sgd": (lambda: SklearnLearner(SGDClassifier(**LOG)), 3),
    "bayes": (lambda: SklearnLearner(GaussianNB()), 3),
    "tree": (lambda: SklearnLearner(DecisionTreeClassifier(max_depth=5)), 3),
    "no probabilities": (lambda: SklearnLearner(make_pipeline(StandardScaler(), LinearSVC())), 3),
    "values": (lambda: SklearnLearner(SGDRegressor()), 0),
    "refitted values": (lambda: SklearnLearner(DecisionTreeRegressor(max_depth=5)), 0),
    "river tree": (lambda: RiverLearner(river_model("tree")), 3),
    "river pipeline": (lambda: RiverLearner(river_model("logistic")), 2),
    "river many": (lambda: RiverLearner(river_model("bayes"), mode="many"), 3),
    "river values": (lambda: RiverLearner(river_model("linear")), 0),
    "river many values": (lambda: RiverLearner(river_model("linear"), mode="many", passes=40.0), 0),
    "torch": (torch_learner, 3),
    "torch values": (lambda: torch_learner("regression"), 0),
}


def trained(template: ForeignLearner, k: int, n: int = 400, batches: int = 4) -> tuple[ForeignLearner, Samples]:
    """Return a learner after some batches, and the store of its rows."""
    X, y = rows(n, k)
    samples = Samples(3)
    model = template.fresh(1, 3, k)
    for part in np.array_split(np.arange(n), batches):
        new = samples.append(X[part], y[part])
        model.update(samples, new, model.budget(new))
    return model, samples
