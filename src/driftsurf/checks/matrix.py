"""Every strategy with every learner on every task and kind of rows: it works, or refuses and names what is missing.

The strategies and learners are those of :mod:`driftsurf.registry`, with the options of their examples. Models of other
libraries stand for the adapters of :mod:`driftsurf.learners.foreign`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from driftsurf import registry
from driftsurf.core.contracts import Capabilities, Learner, Strategy
from driftsurf.detectors import DDM
from driftsurf.errors import CapabilityError, CheckError, InputError
from driftsurf.session.session import Session

TASKS = {"binary": 2, "multiclass": 3, "regression": 0}
"""Number of classes by task."""
KINDS = "dense", "csr", "weighted"
STEPS, ROWS = 5, 60
_LEARNER_NEEDS = frozenset(Capabilities.__slots__)
"""Needs of a strategy that are capabilities of its learner; other needs are arguments."""


@dataclass(frozen=True, slots=True)
class MatrixPart:
    """A strategy or a learner with the options of one example."""

    label: str
    make: Callable[..., Any]
    tasks: frozenset[str] = registry.ALL_TASKS
    needs: frozenset[str] = frozenset()
    """Capabilities of the learner that a strategy needs."""
    requires: tuple[str, ...] = ()
    """Import names of optional packages."""

    @property
    def installed(self) -> bool:
        """Whether the packages that it requires can be imported."""
        return all(find_spec(package) is not None for package in self.requires)


# ---------------------------------------------------------------------------- parts


def strategies() -> dict[str, MatrixPart]:
    """Return every registered strategy with each of its examples, by label."""
    return {part.label: part for entry in registry.entries("strategy") for part in _examples(entry)}


def learners() -> dict[str, MatrixPart]:
    """Return every registered learner with each of its examples, and models of other libraries, by label."""
    found = [part for entry in registry.entries("learner") for part in _examples(entry)]
    return {part.label: part for part in (*found, *_FOREIGN)}


def _examples(entry: registry.Entry) -> Iterator[MatrixPart]:
    for example in entry.examples:
        label = ", ".join(filter(None, [entry.part.__name__, example.label]))
        options = dict(example.options) | ({"detector": DDM()} if "detector" in entry.needs else {})
        tasks = entry.tasks if example.tasks is None else example.tasks
        yield MatrixPart(label, _maker(entry, options), tasks, entry.needs & _LEARNER_NEEDS, entry.requires)


def _maker(entry: registry.Entry, options: dict[str, Any]) -> Callable[..., Any]:
    return lambda *learner: entry.make(*learner, **options)


def _sklearn(module: str, name: str, **options: Any) -> Callable[[], Learner]:
    def make() -> Learner:
        from importlib import import_module

        from driftsurf.learners.foreign import SklearnLearner

        return SklearnLearner(getattr(import_module(f"sklearn.{module}"), name)(**options))

    return make


def _pipeline() -> Learner:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    from driftsurf.learners.foreign import SklearnLearner

    return SklearnLearner(make_pipeline(StandardScaler(with_mean=False), LinearSVC()))


def _river(name: str) -> Callable[[], Learner]:
    def make() -> Learner:
        from river import linear_model, preprocessing, tree

        from driftsurf.learners.foreign import RiverLearner

        if name == "tree":
            return RiverLearner(tree.HoeffdingTreeClassifier(grace_period=50))
        linear = linear_model.LogisticRegression if name == "logistic" else linear_model.LinearRegression
        return RiverLearner(preprocessing.StandardScaler() | linear())

    return make


def _torch(task: Any) -> Callable[[], Learner]:
    def network(columns: int, outputs: int) -> Any:
        import torch

        torch.set_num_threads(1)
        return torch.nn.Linear(columns, outputs)

    def optimizer(parameters: Any) -> Any:
        import torch

        return torch.optim.Adam(parameters, lr=0.05)

    def make() -> Learner:
        from driftsurf.learners.foreign import TorchLearner

        return TorchLearner(network, optimizer=optimizer, task=task, passes=5.0)

    return make


_FOREIGN = (
    MatrixPart("SGDClassifier", _sklearn("linear_model", "SGDClassifier", loss="log_loss")),
    MatrixPart("DecisionTreeClassifier", _sklearn("tree", "DecisionTreeClassifier", max_depth=4)),
    MatrixPart("pipeline of LinearSVC", _pipeline),
    MatrixPart("GaussianNB", _sklearn("naive_bayes", "GaussianNB")),
    MatrixPart("SGDRegressor", _sklearn("linear_model", "SGDRegressor")),
    MatrixPart("DecisionTreeRegressor", _sklearn("tree", "DecisionTreeRegressor", max_depth=4)),
    MatrixPart("river tree", _river("tree"), requires=("river",)),
    MatrixPart("river logistic", _river("logistic"), requires=("river",)),
    MatrixPart("river linear", _river("linear"), requires=("river",)),
    MatrixPart("torch classifier", _torch("classification"), requires=("torch",)),
    MatrixPart("torch regressor", _torch("regression"), requires=("torch",)),
)


# ---------------------------------------------------------------------------- combinations


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One combination of a strategy, a learner, a task and a kind of rows."""

    strategy: MatrixPart
    learner: MatrixPart
    task: str
    kind: str

    def __str__(self) -> str:
        return f"{self.strategy.label} with {self.learner.label}, {self.task}, {self.kind} rows"

    @property
    def missing(self) -> list[str]:
        """Capabilities and tasks that are missing according to the registry and the learner's capabilities."""
        can: Capabilities = self.learner.make().capabilities
        needs = self.strategy.needs | ({"weights"} if self.kind == "weighted" else set())
        needs |= {"sparse"} if self.kind == "csr" else set()
        found = sorted(need for need in needs if not getattr(can, need))
        if self.task not in can.tasks or (self.task == "multiclass" and self.task not in self.strategy.tasks):
            found.append(self.task)
        if can.regression and "regression" not in self.strategy.tasks:
            found.append("classes")
        return found

    def run(self) -> None:
        """Learn five batches with a drift; CheckError unless that works, or is refused by the name of what is missing.

        A learner that cannot be used for the task refuses the targets, which is an InputError.
        """
        missing = self.missing
        named = [f"'{'regression' if name == 'classes' else name}'" for name in missing]
        try:
            self._learn()
        except (CapabilityError, InputError) as error:
            if not any(name in str(error) for name in named) or (
                isinstance(error, InputError) and self.task not in missing
            ):
                raise CheckError(f"{self}: {error} (missing: {', '.join(missing) or 'nothing'})") from error
            return
        if missing:
            raise CheckError(f"{self}: it works without {', '.join(missing)}")

    def _learn(self) -> None:
        random = np.random.default_rng(0)
        strategy: Strategy = self.strategy.make(self.learner.make())
        session = Session(strategy)
        beta, n_classes = random.normal(size=(4, 3)), TASKS[self.task]
        names = np.array(["b", "a", "c"])
        for step in range(STEPS):
            X = random.normal(size=(ROWS, 4)) * (random.random((ROWS, 4)) < 0.8)
            Z = X @ (beta if step < 3 else -beta)
            y: Any = 100.0 + Z[:, 0] if n_classes == 0 else names[Z[:, :n_classes].argmax(axis=1)]
            weight = random.random(ROWS) if self.kind == "weighted" else None
            seen = session.observe(csr_matrix(X) if self.kind == "csr" else X, y, weight=weight)
            if len(seen.labels) != ROWS or len(seen.decisions) != 1:
                raise CheckError(f"{self}: {len(seen.labels)} predictions and {len(seen.decisions)} decisions")
        scores = session.scores(X)
        if not np.isfinite(scores).all() or (scores.ndim == 2 and scores.shape != (ROWS, n_classes)):
            raise CheckError(f"{self}: scores of shape {scores.shape}, or not finite")


def cells(chosen: Iterable[str] | None = None, around: Iterable[str] | None = None) -> Iterator[MatrixCell]:
    """Yield all combinations of learners and strategies, or those of the named ones; uninstalled ones are left out."""
    parts = learners()
    inner = [part for part in parts.values() if part.installed] if chosen is None else [parts[name] for name in chosen]
    outer = strategies()
    named = outer.values() if around is None else [outer[name] for name in around]
    return (MatrixCell(*place) for place in product(named, inner, TASKS, KINDS))


def table(chosen: Iterable[str] | None = None) -> str:
    """Return a Markdown table with a row for each learner and a column for each strategy.

    A cell lists the tasks that work (2: two classes, K: more classes, R: regression), or what is missing. A variant of
    a strategy that works with the same learners has no column of its own.
    """
    inner = [part for part in learners().values() if _can_be_made(part) and (chosen is None or part.label in chosen)]
    columns = {label: [_entry(strategy, part) for part in inner] for label, strategy in strategies().items()}
    shown = [label for label in columns if columns[label] != columns.get(label.partition(",")[0]) or "," not in label]
    lines = [f"| learner | rows | {' | '.join(shown)} |", "|---|---|" + "---|" * len(shown)]
    for place, part in enumerate(inner):
        can: Capabilities = part.make().capabilities
        rows = ", ".join(["dense", *["CSR"] * can.sparse, *["weighted"] * can.weights])
        lines.append(f"| {part.label} | {rows} | {' | '.join(columns[label][place] for label in shown)} |")
    return "\n".join(lines)


def _can_be_made(part: MatrixPart) -> bool:
    """Whether the capabilities of a learner are known here; those of a network are, without PyTorch."""
    try:
        part.make()
    except ImportError:
        return False
    return True


def _entry(strategy: MatrixPart, learner: MatrixPart) -> str:
    missing = {task: MatrixCell(strategy, learner, task, "dense").missing for task in TASKS}
    works = [letter for letter, task in zip("2KR", TASKS, strict=True) if not missing[task]]
    if works:
        return " ".join(works)
    return "no " + ", ".join(sorted({name for names in missing.values() for name in names} - TASKS.keys()))
