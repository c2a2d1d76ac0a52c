"""What the fuzzer of states changes: a small saved object of each kind, how it is loaded, and what is done with it."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from driftsurf import Fleet, learners, registry, saving
from driftsurf.core.contracts import Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.data.encoding import TableEncoder
from driftsurf.estimators.classes import estimator_class
from driftsurf.keyed import KeyedLearner, KeyRows
from driftsurf.keyed.serving import packed, unpacked
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.session.late import DelayedLabels
from driftsurf.session.saved import EstimatorTask
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

TASKS: tuple[EstimatorTask, ...] = "classification", "regression"
ROWS = 12
"""Rows of a batch."""


@dataclass(frozen=True)
class Subject:
    """A saved object that the fuzzer changes."""

    name: str
    state: dict[str, Any]
    load: Callable[[bytes], Any]
    use: Callable[[Any], None]
    """Predicts, learns and saves."""
    fold: Callable[[dict[str, Any]], bytes] = to_bytes

    def folded(self, state: dict[str, Any]) -> bytes:
        """Return a state as bytes, with a right checksum."""
        return self.fold(state)


def batch(seed: int, classes: int = 2, count: int = ROWS) -> tuple[Any, Any]:
    """Return rows, and labels of some classes or targets (``classes=0``)."""
    chance = np.random.default_rng(seed)
    X = chance.normal(size=(count, 3)).round(2)
    if not classes:
        return X, X[:, 0] + 1.0
    return X, np.where(chance.random(count) < 0.2, 0, np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes - 1)))


# ---------------------------------------------------------------------------- estimators


def _estimator(
    name: str, model: Any, classes: int = 2, form: Callable[[Any], Any] = np.asarray, steps: int = 7
) -> Subject:
    for seed in range(steps):
        X, y = batch(seed, classes)
        model.partial_fit(form(X), y if seed < 4 or not classes else y[::-1])

    def use(loaded: Any) -> None:
        for seed in (50, 51):
            X, y = batch(seed, classes)
            loaded.predict(form(X))
            loaded.partial_fit(form(X), y)
        if can.probabilities and classes:
            loaded.predict_proba(form(X))
        saving.dumps(loaded)

    can = model._session.strategy.learner.capabilities

    return Subject(name, from_bytes(saving.dumps(model)), saving.loads, use)


def _table(X: Any) -> Any:
    return {"a": X[:, 0], "b": X[:, 1], "c": [f"word {round(x)}" for x in X[:, 2].tolist()]}


def _estimators() -> list[Subject]:
    kinds = [learners.LogisticRegression, learners.SoftmaxRegression, learners.LinearSVM, learners.LinearRegression]
    found: list[Subject] = []
    for place, entry in enumerate(registry.entries("strategy")):
        for task in TASKS:
            if not entry.tasks & (registry.REGRESSION if task == "regression" else registry.CLASSIFICATION):
                continue
            made: Any = estimator_class(entry.name, task)
            for kind in kinds:
                if (kind is learners.LinearRegression) != (task == "regression"):
                    continue
                options: dict[str, Any] = {"random_state": 0, "max_rows": 40}
                options |= {"drift_steps": [3]} if entry.name == "aware" else {}
                form = sparse.csr_array if (place + len(found)) % 2 else np.asarray
                optimizer: Any = ("strsaga", "saga", "sgd")[len(found) % 3]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        model = made(kind(optimizer=optimizer), **options)
                        classes = 0 if task == "regression" else 3 if kind is learners.SoftmaxRegression else 2
                        found.append(_estimator(f"{entry.name} {kind.__name__} {optimizer}", model, classes, form))
                    except Exception as error:
                        if type(error).__name__ not in ("CapabilityError", "OptionError"):
                            raise
    return found


def _variants() -> list[Subject]:
    surf: Any = estimator_class("driftsurf")
    reset: Any = estimator_class("reset-on-drift")
    made: list[tuple[str, Any, Callable[[Any], Any]]] = [
        ("buffer", surf(random_state=0, batch_size=10), np.asarray),
        ("buffer of sparse rows", surf(random_state=0, batch_size=10), sparse.csr_array),
        ("float32", surf(random_state=0, dtype="float32"), np.asarray),
        ("prequential", surf(random_state=0, judge="prequential"), np.asarray),
        ("authors", estimator_class("driftsurf-authors")(random_state=0), sparse.csr_array),
        ("reactive", surf(random_state=0, threshold=0.0, stable_threshold=0.0), np.asarray),
        ("tables", surf(random_state=0), _table),
    ]
    made += [
        (f"reset {entry.name}", reset(random_state=0, detector=entry.part()), np.asarray)
        for entry in registry.entries("detector")
    ]
    return [_estimator(name, model, 2, form) for name, model, form in made]


# ---------------------------------------------------------------------------- parts


def _detectors() -> list[Subject]:
    def use(loaded: Any) -> None:
        loaded.update(np.tile([0.0, 1.0, 1.0, 0.0, 1.0], 40))
        saving.dumps(loaded)

    found = []
    for entry in registry.entries("detector"):
        made = entry.part()
        made.update(np.tile([0.0, 1.0, 0.0], 30))
        found.append(Subject(f"detector {entry.name}", from_bytes(saving.dumps(made)), saving.loads, use))
    return found


def _store(seed: int, classes: int, *, csr: bool) -> Samples:
    samples = Samples(3, sparse=csr)
    X, y = batch(seed, classes, 30)
    if csr:
        from driftsurf.core.input import Schema, read_rows

        X = read_rows(sparse.csr_array(X), Schema(3, sparse=True))
    samples.append(X, y.astype(float))
    return samples


def _parts() -> list[Subject]:
    found = []
    for kind, classes in (
        (learners.LogisticRegression, 2),
        (learners.SoftmaxRegression, 3),
        (learners.LinearSVM, 2),
        (learners.LinearRegression, 0),
    ):
        model = kind().fresh(1, 3, classes)
        model.update(_store(0, classes, csr=False), Segment(0, 30), 60)

        def use(loaded: Any, classes: int = classes) -> None:
            loaded.scores(batch(5, classes)[0])
            saving.dumps(loaded)

        found.append(Subject(f"learner {kind.__name__}", from_bytes(saving.dumps(model)), saving.loads, use))

    def use_store(loaded: Any) -> None:
        loaded.view(Segment(loaded.first_row, loaded.next_row))
        loaded.release(loaded.first_row + 3)
        saving.dumps(loaded)

    for csr in (False, True):
        state = from_bytes(saving.dumps(_store(0, 2, csr=csr)))
        found.append(Subject(f"rows{' in CSR' * csr}", state, saving.loads, use_store))
    table = {
        "price": [1.5, None, 2.0],
        "city": ["Rome", "Oslo", None],
        "day": np.array(["2020-01-01"] * 3, "datetime64[D]"),
    }

    def use_encoder(loaded: Any) -> None:
        loaded.transform(table)
        loaded.feature_names()
        saving.dumps(loaded)

    state = from_bytes(saving.dumps(TableEncoder().fit(table)))
    return [*found, Subject("encoder", state, saving.loads, use_encoder)]


# ---------------------------------------------------------------------------- sessions, fleets, keys, checkpoints


def _late() -> Subject:
    def new() -> DelayedLabels:
        return DelayedLabels(Session(DriftSurf(learners.LogisticRegression()), batch_size=8), max_pending=30)

    def fed(labels: DelayedLabels, first: int) -> None:
        X, y = batch(first, 2, 20)
        keys = [f"k{first + i}" for i in range(20)]
        labels.predict(keys, X)
        labels.label(keys[:15], y[:15].tolist())

    def load(data: bytes) -> DelayedLabels:
        labels = new()
        labels.restore(from_bytes(data))
        return labels

    def use(labels: DelayedLabels) -> None:
        fed(labels, 500)
        to_bytes(labels.state())

    made = new()
    for first in (0, 20):
        fed(made, first)
    return Subject("late labels", from_bytes(to_bytes(made.state())), load, use)


def _fleets() -> list[Subject]:
    surf: Any = estimator_class("driftsurf")
    numbers: Any = estimator_class("driftsurf", "regression")
    compiled = {"step_size": 0.1, "l2": 1e-3, "max_rows": 20, "threads": 1, "reactive_length": 2, "n_features": 3}
    models: list[tuple[str, dict[str, Any], list[Any], int]] = [
        ("int", compiled, [3, 8], 2),
        ("str", compiled, ["a", "bé"], 2),
        ("sessions", {"model": surf(max_rows=20)}, [3, 8], 2),
        ("softmax", {"model": surf(learners.SoftmaxRegression(), max_rows=20, guard=None)}, ["a", "bé"], 3),
        ("regression", {"model": numbers(max_rows=20)}, [3, 8], 0),
    ]
    found = []
    for kind, options, names, classes in models:
        made = Fleet(batch_size=10, **options)
        for seed in range(6):
            X, y = batch(seed, classes, 30)
            made.observe(np.resize(np.array(names), 30), X, y if seed < 3 else y[::-1])

        def use(fleet: Any, names: list[Any] = names, classes: int = classes) -> None:
            for seed in (50, 51):
                X, y = batch(seed, classes, 40)
                known = [key for key in names if key in fleet]
                if known:
                    fleet.predict(np.resize(np.array(known), 2), X[:2])
                    fleet.session(known[0])
                fleet.observe(np.resize(np.array(names), 40), X, y)
            fleet.table()
            fleet.to_bytes()

        found.append(Subject(f"fleet of {kind}", from_bytes(made.to_bytes()), saving.loads, use))
    return found


def _keys() -> list[Subject]:
    found = []
    for late, size in ((None, 8), (30.0, 8), (None, 12)):  # cells hold keys whose time steps have 10 rows or more
        strategy = DriftSurf(learners.LogisticRegression(), max_rows=30, dtype="float32")
        learner = KeyedLearner(
            strategy=strategy, features=("a", "b", "c"), classes=(0, 1), batch_size=size, delay=late, guard=2.0
        )

        def rows(first: int, late: float | None = late) -> KeyRows:
            X, y = batch(first, 2, 20)
            X[3, 1] = np.nan
            ids = None if late is None else [f"i{first + i}" for i in range(20)]
            return KeyRows(np.arange(first, first + 20), X, y.tolist(), ids)

        def load(data: bytes, learner: KeyedLearner = learner) -> tuple[KeyedLearner, bytes]:
            learner._open("key", data)
            return learner, data

        def use(held: tuple[KeyedLearner, bytes], rows: Callable[[int], KeyRows] = rows) -> None:
            learner, data = held
            learner.visit("key", learner.visit("key", data, rows(10**6)).state, rows(2 * 10**6))

        data: bytes | None = None
        for first in (0, 20, 40):
            data = learner.visit("key", data, rows(first)).state
        assert data is not None
        name = "key with late labels" if late else "key" if size == 8 else "key in a cell"
        found.append(Subject(name, _unpacked(from_bytes(data)), load, use, _packed))
    return found


PACKED = "model.strategy", "model.around", "model.late"


def _unpacked(state: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a key, those of its packed parts among them."""
    flat = {name: value for name, value in state.items() if name not in PACKED}
    for name in PACKED:
        if name in state:
            flat |= nest(name, unpacked(state[name]))
    return flat


def _packed(flat: dict[str, Any]) -> bytes:
    state: dict[str, Any] = {}
    for name, value in flat.items():
        if not name.startswith(tuple(f"{part}." for part in PACKED)):
            state[name] = value
    for part in PACKED:
        own = pick(part, flat)
        if own:
            state[part] = packed(own)
    return to_bytes(state)


def _checkpoint() -> Subject:
    def new() -> Session:
        return Session(DriftSurf(learners.LogisticRegression(), max_rows=40))

    scratch = tempfile.TemporaryDirectory()
    path = Path(scratch.name)
    made = new()
    with CheckpointFolder(path) as folder:
        for seed in range(3):
            made.learn(*batch(seed))
            folder.save(made.incremental_state())
        number = folder.generations()[-1]
        head = folder.file("head", number)
        state = from_bytes(head.read_bytes())

    def load(data: bytes) -> Session:
        head.write_bytes(data)
        found = CheckpointFolder(path).load(number)
        assert found is not None
        session = new()
        session.restore(found.state)
        return session

    def use(session: Session) -> None:
        session.observe(*batch(50))
        to_bytes(session.state())

    load.scratch = scratch  # type: ignore[attr-defined]  # keeps the folder
    return Subject("checkpoint", state, load, use)


@functools.cache
def subjects() -> list[Subject]:
    """Return all subjects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*_estimators(), *_variants(), *_detectors(), *_parts(), _late(), *_fleets(), *_keys(), _checkpoint()]
