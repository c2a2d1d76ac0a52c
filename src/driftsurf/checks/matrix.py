"""Every strategy with every learner on every task and kind of rows: it works, or refuses and names what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from driftsurf import learners
from driftsurf.adapters import BoostedTrees, RiverLearner, SklearnLearner, TorchLearner
from driftsurf.base import Learner, Strategy
from driftsurf.detectors import DDM
from driftsurf.errors import CapabilityError, CheckError, InputError
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

__all__ = ["KINDS", "LEARNERS", "STRATEGIES", "TASKS", "Cell", "cells", "table"]

STRATEGIES: dict[str, Callable[[Any], Strategy]] = {
    "DriftSurf": DriftSurf,
    "DriftSurf, prequential": lambda learner: DriftSurf(learner, judge="prequential"),
    "DriftSurf, training": lambda learner: DriftSurf(learner, judge="training"),
    "DriftSurf, authors": lambda learner: DriftSurf(learner, variant="authors", budget="divided"),
    "DriftSurf, zero-one": lambda learner: DriftSurf(learner, risk="zero-one"),
    "Aware": lambda learner: Aware(learner, [3]),
    "AUE": lambda learner: AUE(learner, experts=3),
    "Candor": lambda learner: Candor(learner, experts=3),
    "Oblivious": Oblivious,
    "OnePass": OnePass,
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


def _river(name: str) -> Learner:
    from river import linear_model, preprocessing, tree

    models: dict[str, Callable[[], Any]] = {
        "tree": lambda: tree.HoeffdingTreeClassifier(grace_period=50),
        "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    }
    return RiverLearner(models[name]())


def _torch(task: Any) -> Learner:
    import torch

    torch.set_num_threads(1)
    return TorchLearner(
        lambda columns, outputs: torch.nn.Linear(columns, outputs),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.05),
        task=task,
        passes=5.0,
    )


LEARNERS: dict[str, Callable[[], Learner]] = {
    "LogisticRegression": learners.LogisticRegression,
    "SoftmaxRegression": learners.SoftmaxRegression,
    "LinearSVM": learners.LinearSVM,
    "LinearRegression": learners.LinearRegression,
    "LinearRegression, huber": lambda: learners.LinearRegression(loss="huber"),
    "SGDClassifier": lambda: SklearnLearner(SGDClassifier(loss="log_loss")),
    "DecisionTreeClassifier": lambda: SklearnLearner(DecisionTreeClassifier(max_depth=4)),
    "pipeline of LinearSVC": lambda: SklearnLearner(make_pipeline(StandardScaler(with_mean=False), LinearSVC())),
    "GaussianNB": lambda: SklearnLearner(GaussianNB()),
    "SGDRegressor": lambda: SklearnLearner(SGDRegressor()),
    "DecisionTreeRegressor": lambda: SklearnLearner(DecisionTreeRegressor(max_depth=4)),
    "river tree": lambda: _river("tree"),
    "river logistic": lambda: _river("logistic"),
    "river linear": lambda: _river("linear"),
    "torch classes": lambda: _torch("classification"),
    "torch values": lambda: _torch("regression"),
    "lightgbm classes": BoostedTrees,
    "lightgbm values": lambda: BoostedTrees(task="regression"),
}
OPTIONAL = "river", "torch", "lightgbm"
TASKS = {"binary": 2, "multiclass": 3, "regression": 0}
KINDS = "dense", "csr", "weighted"
STEPS, SIZE = 5, 60


def installed() -> list[str]:
    """The learners whose packages are here; those that need one begin with its name."""
    packages = {name: name.split()[0] for name in LEARNERS}
    return [name for name, package in packages.items() if package not in OPTIONAL or find_spec(package)]


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination."""

    strategy: str
    learner: str
    task: str
    kind: str

    @property
    def missing(self) -> list[str]:
        """What the contract says is missing, as a message names it."""
        learner = LEARNERS[self.learner]()
        can = learner.capabilities
        wanted = {
            "'anchor'": self.strategy == "Candor" and not can.anchor,
            "one pass": self.strategy == "OnePass" and not hasattr(learner, "one_pass"),
            f"'{self.task}'": self.task not in can.tasks,
            "'sparse'": self.kind == "csr" and not can.sparse,
            "'weights'": (self.kind == "weighted" or self.strategy in WEIGHS_ROWS) and not can.weights,
            "'exact_state'": self.strategy == "PairedLearners" and not can.exact_state,
            "predicts values": self.strategy in COUNTS_ERRORS and can.values,
        }
        return [name for name, lacking in wanted.items() if lacking]

    def run(self) -> None:
        """Five batches with a drift; CheckError unless it works, or refuses by the name of what is missing."""
        missing = self.missing
        try:
            self._learn()
        except (CapabilityError, InputError) as error:
            # What a learner cannot predict shows in the targets, which are input.
            named = any(name in str(error) for name in missing)
            if not named or (isinstance(error, InputError) and f"'{self.task}'" not in missing):
                raise CheckError(f"{self}: {error} (missing: {', '.join(missing) or 'nothing'})") from error
            return
        if missing:
            raise CheckError(f"{self}: it works without {', '.join(missing)}")

    def _learn(self) -> None:
        random = np.random.default_rng(0)
        session = Session(STRATEGIES[self.strategy](LEARNERS[self.learner]()))
        beta, n_classes = random.normal(size=(4, 3)), TASKS[self.task]
        names = np.array(["b", "a", "c"])
        for step in range(STEPS):
            X = random.normal(size=(SIZE, 4)) * (random.random((SIZE, 4)) < 0.8)
            Z = X @ (beta if step < 3 else -beta)
            y: Any = 100.0 + Z[:, 0] if n_classes == 0 else names[Z[:, :n_classes].argmax(axis=1)]
            options = {"weight": random.random(SIZE)} if self.kind == "weighted" else {}
            seen = session.observe(csr_matrix(X) if self.kind == "csr" else X, y, **options)
            if len(seen.labels) != SIZE or len(seen.decisions) != 1:
                raise CheckError(f"{self}: {len(seen.labels)} predictions and {len(seen.decisions)} decisions")
        scores = session.scores(X)
        if not np.isfinite(scores).all() or (scores.ndim == 2 and scores.shape != (SIZE, n_classes)):
            raise CheckError(f"{self}: scores of shape {scores.shape}, or not finite")


def cells(names: Iterable[str] | None = None) -> Iterator[Cell]:
    """All combinations with these learners, or with all that are installed."""
    chosen = installed() if names is None else list(names)
    return (Cell(*place) for place in product(STRATEGIES, chosen, TASKS, KINDS))


def table(names: Iterable[str] | None = None) -> str:
    """In Markdown: a row for each learner, a column for each strategy.

    A cell lists the tasks that work (2: two classes, K: more, v: values), or what is missing.
    """
    chosen = installed() if names is None else list(names)
    lines = [f"| learner | rows | {' | '.join(STRATEGIES)} |", "|---|---|" + "---|" * len(STRATEGIES)]
    for learner in chosen:
        can = LEARNERS[learner]().capabilities
        rows = ", ".join(["dense", *["CSR"] * can.sparse, *["weighted"] * can.weights])
        entries = " | ".join(_entry(strategy, learner) for strategy in STRATEGIES)
        lines.append(f"| {learner} | {rows} | {entries} |")
    return "\n".join(lines)


def _entry(strategy: str, learner: str) -> str:
    dense = {task: Cell(strategy, learner, task, "dense").missing for task in TASKS}
    works = [letter for letter, task in zip("2Kv", TASKS, strict=True) if not dense[task]]
    if works:
        return " ".join(works)
    lacking = {name.strip("'") for names in dense.values() for name in names} - TASKS.keys()
    return "no " + ", ".join(sorted(lacking)).replace("predicts values", "classes")
