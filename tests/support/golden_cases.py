"""What a version leaves behind and a later one goes on with: models, fleets and detectors that are saved halfway.

Each case makes its rows from a seed, so that only states and a few results are stored in ``tests/golden/VERSION``:
see ``tests/golden/write.py``. Folders of runs and of served models are in ``golden_folders.py``. A case that a released
version has written keeps its name and its rows; another one may be added at any time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pandas as pd
from fleet_models import MODELS as FLEET_MODELS
from fleet_models import calls as fleet_calls
from fleet_models import two
from scipy.sparse import csr_matrix

import driftsurf
from driftsurf import Fleet, learners, recommended, registry
from driftsurf.core.decisions import Decision, Transition
from driftsurf.estimators import estimator_class
from driftsurf.learners.foreign import RiverLearner, SklearnLearner

ROWS = 30
"""Rows of a batch."""
BEFORE, AFTER = 8, 8
"""Batches that are learned before a model is saved, and after it was loaded."""
FLIPS = 6, 12
"""Batches from which on the rule is another one: one shortly before a model is saved, and one after it was loaded."""
SAVED = "model.state"
CLASSES = {"binary": ("no", "yes"), "multiclass": ("low", "middle", "high")}
DECIDED = "kind", "step", "condition", "left", "right", "margin", "over", "old", "new"
"""Fields of a transition that are decisions; texts for people and names of experts may change."""
Record = dict[str, Any]
Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """Something that is begun, saved, loaded and continued."""

    begin: Callable[[Path], None]
    """Learn the first half of the rows, and save what is needed to go on to a folder."""
    go_on: Callable[[Path], Record]
    """Load what ``begin`` has saved, learn the second half, and return what was predicted and decided."""
    libraries: tuple[str, ...] = ()
    """Packages of others that decide the results: these are compared if the versions are the same."""
    same_library: bool = False
    """Whether a state holds pickles, which only the same version of a library is sure to read."""

    @property
    def missing(self) -> list[str]:
        """Packages that are not installed."""
        return [name for name in self.libraries if find_spec(name) is None]


# ---------------------------------------------------------------------------- rows


def rows(step: int, task: str, kind: str = "dense") -> tuple[Any, Labels]:
    """Return the rows and labels of a batch; ``kind`` is "dense", "csr" or "frame"."""
    random = np.random.default_rng([7, step])
    X = random.normal(size=(ROWS, 4)).round(2) * (random.random((ROWS, 4)) < 0.9)
    beta = np.array([2.0, -1.0, 0.5, 0.0]) * (-1.0 if FLIPS[0] <= step < FLIPS[1] else 1.0)
    z = X @ beta + random.normal(scale=0.3, size=ROWS).round(2)
    y: Labels = (100.0 + z).round(2)
    if task != "regression":
        names = np.array(CLASSES[task])
        y = names[np.digitize(z, np.linspace(-1, 1, len(names) + 1)[1:-1])]
    return _frame(X, step) if kind == "frame" else csr_matrix(X) if kind == "csr" else X, y


def _frame(X: Labels, step: int) -> pd.DataFrame:
    """Return rows as a frame with text, categories, dates, booleans and gaps; later batches have unseen words."""
    random = np.random.default_rng([8, step])
    cities = np.array(["Oslo", "Rome", "Bern", "Lima" if step >= BEFORE else "Bern"])
    places = np.array(cities[random.integers(4, size=len(X))], dtype=object)
    places[random.random(len(X)) < 0.1] = None
    price, days = X[:, 0].copy(), random.integers(400, size=len(X))
    price[random.random(len(X)) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "price": price,
            "size": X[:, 1],
            "city": places,
            "grade": pd.Categorical(np.array(["a", "b", "c"])[random.integers(3, size=len(X))]),
            "day": np.datetime64("2026-01-01") + days.astype("timedelta64[D]"),
            "new": X[:, 2] > 0,
        }
    )


def transitions_of(decisions: Iterable[Decision]) -> list[Record]:
    """Return the transitions of decisions as plain values."""
    return [_plain(one) for decision in decisions for one in decision.transitions]


def _plain(one: Transition) -> Record:
    return {name: value for name, value in asdict(one).items() if name in DECIDED}


def sampled(scores: Labels) -> list[Any]:
    """Return the scores of every seventh row."""
    found: list[Any] = np.asarray(scores)[::7].tolist()
    return found


# ---------------------------------------------------------------------------- models


def model_case(
    make: Callable[[], Any],
    task: str,
    kind: str = "dense",
    *,
    learner: Callable[[], Any] | None = None,
    trust: bool = False,
    libraries: tuple[str, ...] = (),
    part: int = ROWS,
) -> Case:
    """Return the case of an estimator. It takes ``part`` rows of each batch in one call, and the others in another."""

    def parts(step: int) -> Iterator[tuple[Any, Labels]]:
        X, y = rows(step, task, kind)
        for rest in (slice(0, part), slice(part, ROWS)):
            if len(y[rest]):
                yield X[rest], y[rest]

    def begin(place: Path) -> None:
        model = make()
        for step in range(BEFORE):
            for X, y in parts(step):
                model.partial_fit(X, y)
        driftsurf.save(model, place / SAVED, trust_pickle=trust)

    def go_on(place: Path) -> Record:
        model = driftsurf.load(place / SAVED, None if learner is None else learner(), trust_pickle=trust)
        probe = rows(99, task, kind)[0]
        found: Record = {"class": type(model).__name__, "loaded": model.predict(probe).tolist(), "labels": []}
        # 0.2.0 has no drifts: what it wrote is loaded without any.
        found |= {"scores": [], "transitions": [], "drifts": len(getattr(model, "drifts_", ()))}
        if task != "regression":
            found["loaded scores"] = sampled(model.decision_function(probe))
        for step in range(BEFORE, BEFORE + AFTER):
            for X, y in parts(step):
                seen = model.observe(X, y)
                found["labels"] += [seen.labels.tolist()] if task != "regression" else []
                found["scores"].append(sampled(seen.scores))
                found["transitions"] += transitions_of(seen.decisions)
        return found | {"learned": model.predict(probe).tolist()}

    return Case(begin, go_on, libraries, trust)


def _strategies() -> Iterator[tuple[str, Case]]:
    """Yield every registered strategy with its examples and tasks, with dense rows; for two classes with sparse too."""
    for entry in registry.entries("strategy"):
        if entry.name == "portfolio":
            continue
        for example in entry.examples:
            for task in sorted(entry.tasks if example.tasks is None else example.tasks):
                for kind in ("dense", "csr") if task == "binary" else ("dense",):
                    for detector in registry.names("detector") if "detector" in entry.needs else [""]:
                        label = "-".join(filter(None, [entry.name, example.label, detector, task, kind]))
                        options = dict(example.options) | {"random_state": 0}
                        yield label, model_case(_estimator(entry.name, task, options, detector), task, kind)


def _estimator(
    name: str, task: str, options: Mapping[str, Any], detector: str = "", learner: Callable[[], Any] | None = None
) -> Callable[[], Any]:
    def make() -> Any:
        own = dict(options) | ({"detector": registry.get("detector", detector).make()} if detector else {})
        inner = () if learner is None else (learner(),)
        made: Any = estimator_class(name, "regression" if task == "regression" else "classification")
        return made(*inner, **own)

    return make


def _learners() -> Iterator[tuple[str, Case]]:
    """Yield DriftSurf and AUE around every registered learner with its examples."""
    for entry in registry.entries("learner"):
        for example in entry.examples:
            for task in sorted(entry.tasks if example.tasks is None else example.tasks):
                for around in ("driftsurf", "aue"):
                    label = "-".join(filter(None, [around, entry.name, example.label, task])).replace(" ", "-")
                    make = _estimator(around, task, {"random_state": 0}, learner=_maker(entry, example.options))
                    yield label, model_case(make, task, libraries=("lightgbm",) if "lightgbm" in entry.name else ())


def _maker(entry: registry.Entry, options: Mapping[str, Any]) -> Callable[[], Any]:
    return lambda: entry.make(**options)


OPTIONS: dict[str, dict[str, Any]] = {
    "buffer": {"batch_size": 50},
    "buffer-few": {"batch_size": 7, "judge": "training"},
    "few-rows": {"max_rows": 100},
    "float32": {"dtype": "float32", "max_rows": 60},
    "no-guard": {"guard": None},
    "not-greedy": {"greedy": False, "threshold": 0.02},
}


def _options() -> Iterator[tuple[str, Case]]:
    """Yield DriftSurf with options that change what is saved: a buffer, few rows, another type, no guard."""
    for name, options in OPTIONS.items():
        for task in ("binary", "multiclass", "regression"):
            make = _estimator("driftsurf", task, options | {"random_state": 0})
            yield f"{name}-{task}", model_case(make, task, part=11 if "buffer" in name else ROWS)
    svm = _estimator("driftsurf", "binary", {"random_state": 0}, learner=learners.LinearSVM)
    yield "svm-csr", model_case(svm, "binary", "csr")
    paper: Any = driftsurf.paper(1e-2, 1e-3, classes=("no", "yes"), random_state=0)
    yield "paper", model_case(lambda: paper, "binary")


def _portfolios() -> Iterator[tuple[str, Case]]:
    """Yield the recommended models, and a portfolio that began without LightGBM."""
    for name in ("portfolio", "light", "trees", "linear"):
        for task in ("binary", "multiclass", "regression"):
            libraries = ("lightgbm",) if name in ("portfolio", "trees") else ()
            yield f"{name}-{task}", model_case(_recommended(name, task), task, libraries=libraries)
    yield "light-binary-csr", model_case(_recommended("light", "binary"), "binary", "csr")
    yield "light-binary-buffer", model_case(_recommended("light", "binary", batch_size=50), "binary", part=11)
    for task in ("binary", "regression"):
        plain = model_case(_recommended("portfolio", task), task)

        def begin(place: Path, plain: Case = plain) -> None:
            with mock.patch.dict(sys.modules, {"lightgbm": None}):
                plain.begin(place)

        yield f"portfolio-without-trees-{task}", Case(begin, plain.go_on)


def _recommended(name: Any, task: str, **options: Any) -> Callable[[], Any]:
    kind: Any = "regression" if task == "regression" else "classification"
    return lambda: recommended(name, task=kind, random_state=0, **options)


def _sgd() -> SklearnLearner:
    from sklearn.linear_model import SGDClassifier

    return SklearnLearner(SGDClassifier(loss="log_loss", random_state=0))


def _tree() -> SklearnLearner:
    from sklearn.tree import DecisionTreeClassifier

    return SklearnLearner(DecisionTreeClassifier(max_depth=3, random_state=0))


def _tree_of_numbers() -> SklearnLearner:
    from sklearn.tree import DecisionTreeRegressor

    return SklearnLearner(DecisionTreeRegressor(max_depth=3, random_state=0))


def _hoeffding() -> RiverLearner:
    from river.tree import HoeffdingTreeClassifier

    return RiverLearner(HoeffdingTreeClassifier(grace_period=20))


def _river_linear() -> RiverLearner:
    from river import linear_model, preprocessing

    return RiverLearner(preprocessing.StandardScaler() | linear_model.LinearRegression())


WRAPPED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "sklearn-sgd": (_sgd, "multiclass", "sklearn"),
    "sklearn-tree": (_tree, "multiclass", "sklearn"),
    "sklearn-tree-regression": (_tree_of_numbers, "regression", "sklearn"),
    "river-tree": (_hoeffding, "binary", "river"),
    "river-linear": (_river_linear, "regression", "river"),
}


def _wrapped() -> Iterator[tuple[str, Case]]:
    """Yield models of other libraries under three strategies."""
    for name, (learner, task, library) in WRAPPED.items():
        for around in ("driftsurf", "sliding-window", "aue"):
            make = _estimator(around, task, {"random_state": 0}, learner=learner)
            yield f"{around}-{name}", model_case(make, task, learner=learner, trust=True, libraries=(library,))


def _frames() -> Iterator[tuple[str, Case]]:
    """Yield estimators that were fitted on frames with text, categories, dates and gaps."""
    for task in ("binary", "multiclass", "regression"):
        yield f"light-{task}", model_case(_recommended("light", task), task, "frame")
        yield f"linear-{task}", model_case(_recommended("linear", task), task, "frame")
        yield f"driftsurf-{task}", model_case(_estimator("driftsurf", task, {"random_state": 0}), task, "frame")
    trees = model_case(_recommended("trees", "binary"), "binary", "frame", libraries=("lightgbm",))
    yield "trees-binary", trees
    aue = _estimator("aue", "binary", {"experts": 3, "random_state": 0})
    yield "aue-binary", model_case(aue, "binary", "frame")


# ---------------------------------------------------------------------------- fleets and detectors


def fleet_case(make: Callable[[], Fleet], labels: Any, *, bad: bool = False, learner: Any = None) -> Case:
    """Return the case of a fleet; with ``bad`` some values are missing, and one key gets a label it cannot learn."""

    def given() -> list[Any]:
        calls = [(keys, X.round(2), y) for keys, X, y in fleet_calls(labels, n_calls=20)]
        if bad:
            for number, (_, X, y) in enumerate(calls):
                X[::5, 1] = np.nan
                y[-1] = 7 if number == 4 else y[-1]
        return calls

    def begin(place: Path) -> None:
        fleet = make()
        for call in given()[:12]:
            fleet.observe(*call)
        driftsurf.save(fleet, place / SAVED)

    def go_on(place: Path) -> Record:
        fleet = driftsurf.load(place / SAVED, learner)
        probe = np.random.default_rng(9).normal(size=(4, 3))
        found: Record = {"loaded": fleet.predict(range(4), probe).tolist(), "labels": []}
        found["table"] = _table(fleet.table())
        for call in given()[12:]:
            found["labels"].append(np.asarray(fleet.observe(*call)).tolist())
        found |= {"table at the end": _table(fleet.table()), "transitions": _table(fleet.transitions())}
        return found | {"learned": fleet.predict(range(4), probe).tolist()}

    return Case(begin, go_on, ("sklearn",) if learner is not None else ())


def _table(columns: Mapping[str, Labels]) -> Record:
    """Return the columns of a table as lists, without sizes of models and figures derived from predictions."""
    return {name: np.asarray(column).tolist() for name, column in columns.items() if name not in ("bytes", "error")}


def _fleets() -> Iterator[tuple[str, Case]]:
    """Yield fleets of compiled cells and of sessions."""
    for name, (model, labels) in FLEET_MODELS.items():
        learner = model.learner if name == "tree" else None
        yield name.replace(",", "").replace(" ", "-"), fleet_case(_fleet(model), labels, learner=learner)
    gaps: dict[str, Any] = {"on_gap": "fill", "on_bad": "quarantine", "batch_size": 10, "max_rows": 40}
    yield "default", fleet_case(lambda: Fleet(batch_size=10, threshold=0.1, max_rows=40), two)
    yield "step-size", fleet_case(lambda: Fleet(step_size=0.1, batch_size=10, threshold=0.1, max_rows=40), two)
    yield "gaps-and-quarantine", fleet_case(lambda: Fleet(**gaps), two, bad=True)


def _fleet(model: Any) -> Callable[[], Fleet]:
    return lambda: Fleet(model, batch_size=10, seed=3)


def _detectors() -> Iterator[tuple[str, Case]]:
    """Yield every registered detector in the middle of a stream of errors."""
    for entry in registry.entries("detector"):
        yield entry.name, _detector_case(entry)


def _detector_case(entry: registry.Entry) -> Case:
    errors = (np.random.default_rng(0).random(3_000) < np.repeat([0.1, 0.6, 0.2], 1_000)).astype(float)

    def begin(place: Path) -> None:
        detector = entry.make()
        detector.update(errors[:800])
        driftsurf.save(detector, place / SAVED)

    def go_on(place: Path) -> Record:
        detector, at, signals = driftsurf.load(place / SAVED), 800, list[int]()
        while at < len(errors):
            seen = detector.update(errors[at:])
            at += seen.consumed
            signals.append(at)
        return {"stopped at": signals}

    return Case(begin, go_on)


GROUPS: dict[str, Callable[[], Iterator[tuple[str, Case]]]] = {
    "strategies": _strategies,
    "learners": _learners,
    "options": _options,
    "portfolios": _portfolios,
    "wrapped": _wrapped,
    "frames": _frames,
    "fleets": _fleets,
    "detectors": _detectors,
}
"""Cases by their name, in groups; each group is one archive."""
