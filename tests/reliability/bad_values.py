"""Bad values: the damage that one bad batch does to our models and to those of other libraries."""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from tests.reliability.harness import RESULTS, ROOT, Outcome
from tests.reliability.values import CLASSES, DETECTOR_VALUES

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, learners

ROWS, BEFORE, AFTER = 200, 10, 5
STREAMS = 10
GOOD_VALUES = "labels: a third class", "labels: a half", "labels: all of a third class"
"""Classes that are valid targets of a regression: a batch of them is a drift, not a mistake."""
LASTING = 0.02
"""A larger loss of accuracy, after 1,000 clean rows, counts as lasting damage."""


class Candidate(Protocol):
    """Model of any library."""

    def learn(self, X: Any, y: Any, weight: Any) -> None:
        """Learn a batch."""
        ...

    def accuracy(self, X: Any, y: Any) -> float:
        """Return the accuracy on labelled rows."""
        ...

    def fingerprint(self) -> Any:
        """Return a value that differs if the state does."""
        ...

    def fingerprint_before(self) -> Any:
        """Return the fingerprint before the last call, of a batch or of a row, as the library is used."""
        ...


class Ours:
    """DriftSurf with one of our learners for classification."""

    def __init__(self, learner: Any) -> None:
        self.model: Any = DriftSurfClassifier(learner, classes=(-1, 1), random_state=0)

    def learn(self, X: Any, y: Any, weight: Any) -> None:
        """Learn a batch."""
        self.before = self.fingerprint() if hasattr(self.model, "n_features_in_") else b""
        self.model.partial_fit(X, y, sample_weight=weight)

    def accuracy(self, X: Any, y: Any) -> float:
        """Return the accuracy on labelled rows."""
        return float(np.mean(self.model.predict(X) == y))

    def fingerprint(self) -> Any:
        """Return the saved bytes."""
        return self.model.to_bytes()

    def fingerprint_before(self) -> Any:
        """Return the fingerprint before the last batch."""
        return self.before


class OurRegression(Ours):
    """DriftSurf with one of our learners for regression; the labels -1 and 1 are its targets."""

    def __init__(self, learner: Any) -> None:
        self.model = DriftSurfRegressor(learner, random_state=0)

    def accuracy(self, X: Any, y: Any) -> float:
        """Return the share of predictions with the right sign."""
        return float(np.mean(np.sign(self.model.predict(X)) == y))


class Sklearn:
    """Model of scikit-learn."""

    def __init__(self, name: str, **options: Any) -> None:
        module, _, kind = name.rpartition(".")
        self.model = getattr(importlib.import_module(f"sklearn.{module}"), kind)(**options)

    def learn(self, X: Any, y: Any, weight: Any) -> None:
        """Learn a batch."""
        self.before = self.fingerprint()
        options = {} if weight is None else {"sample_weight": weight}
        self.model.partial_fit(X, y, classes=[-1, 1], **options)

    def accuracy(self, X: Any, y: Any) -> float:
        """Return the accuracy on labelled rows; 0 for a model that cannot predict any more."""
        try:
            return float(np.mean(self.model.predict(X) == y))
        except Exception:
            return 0.0

    def fingerprint(self) -> Any:
        """Return the fitted attributes that are numbers."""
        fitted = {name: value for name, value in vars(self.model).items() if name.endswith("_")}
        return {name: np.array(value) for name, value in fitted.items() if np.asarray(value).dtype.kind in "fiub"}

    def fingerprint_before(self) -> Any:
        """Return the fingerprint before the last batch."""
        return self.before


class River:
    """Model of river, which learns row by row."""

    def __init__(self, name: str) -> None:
        module, _, kind = name.rpartition(".")
        self.model = getattr(importlib.import_module(f"river.{module}"), kind)()

    def learn(self, X: Any, y: Any, weight: Any) -> None:
        """Learn row by row."""
        self.before = self.fingerprint()
        if hasattr(X, "toarray"):
            raise TypeError("river does not support sparse matrices")
        weights = [None] * len(y) if weight is None else weight
        for row, label, own in zip(X, y, weights, strict=True):
            named = dict(enumerate(row))
            known = isinstance(label, int | float | np.number) and label in (-1, 1)
            target = bool(label == 1) if known else label
            self.before = self.fingerprint()
            if own is None:
                self.model.learn_one(named, target)
            else:
                self.model.learn_one(named, target, w=own)

    def accuracy(self, X: Any, y: Any) -> float:
        """Return the accuracy on labelled rows; 0 for a model that cannot predict any more."""
        try:
            labels = [self.model.predict_one(dict(enumerate(row))) for row in X]
        except Exception:
            return 0.0
        pairs = zip(labels, y, strict=True)
        return float(np.mean([one is not None and bool(one) == (label == 1) for one, label in pairs]))

    def fingerprint(self) -> Any:
        """Return the attributes of the model and of its parts as text."""
        return repr([repr(vars(part)) for part in _parts(self.model)])

    def fingerprint_before(self) -> Any:
        """Return the fingerprint before the last row."""
        return self.before


def _parts(model: Any) -> list[Any]:
    return [model, *(value for value in vars(model).values() if hasattr(value, "__dict__"))]


def clean(seed: int, batch: int) -> tuple[Any, Any]:
    """Return batch number ``batch`` of a stream without drift."""
    generator = np.random.default_rng([seed, batch])
    X = generator.normal(size=(ROWS, 4))
    return X, np.where(X @ np.array([1.0, -1.0, 0.5, 0.0]) > 0, 1, -1)


def verdict(make: Callable[[], Candidate], name: str, seed: int, usual: float) -> str:
    """Return the effect of a bad batch: "refused", "taken", "half-learned" or "lasting damage"."""
    model = make()
    for batch in range(BEFORE):
        model.learn(*clean(seed, batch), None)
    ended = "taken"
    try:
        model.learn(*CLASSES[name](*clean(seed, BEFORE)))
    except Exception:
        ended = "refused"
    if ended == "refused" and not _same(model.fingerprint_before(), model.fingerprint()):
        return "half-learned"
    for batch in range(BEFORE + 1, BEFORE + 1 + AFTER):
        try:
            model.learn(*clean(seed, batch), None)
        except Exception:
            return "lasting damage"
    X, y = clean(seed, 1_000)
    return "lasting damage" if model.accuracy(X, y) < usual - LASTING else ended


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    try:
        return bool(np.array_equal(left, right, equal_nan=True))
    except TypeError:
        return bool(left == right)


def usual_accuracy(make: Callable[[], Candidate], seed: int) -> float:
    """Return the accuracy of a model that was not given the bad batch."""
    model = make()
    for batch in range(BEFORE + 1 + AFTER):
        if batch != BEFORE:
            model.learn(*clean(seed, batch), None)
    return model.accuracy(*clean(seed, 1_000))


def our_learners() -> dict[str, Callable[[], Candidate]]:
    """Return every learner of the package, with each optimizer or loss that it has."""
    templates: dict[str, Any] = {
        f"LogisticRegression {optimizer}": learners.LogisticRegression(optimizer=optimizer)
        for optimizer in ("strsaga", "saga", "sgd", "one-pass")
    }
    templates |= {"SoftmaxRegression": learners.SoftmaxRegression(), "LinearSVM": learners.LinearSVM()}
    templates |= {f"LinearRegression {loss}": learners.LinearRegression(loss=loss) for loss in ("squared", "huber")}
    return {
        name: functools.partial(OurRegression if template.capabilities.regression else Ours, template)
        for name, template in templates.items()
    }


PEERS: dict[str, dict[str, Callable[[], Candidate]]] = {
    "scikit-learn": {
        "SGDClassifier": lambda: Sklearn("linear_model.SGDClassifier", loss="log_loss", random_state=0),
        "Perceptron": lambda: Sklearn("linear_model.Perceptron", random_state=0),
        "GaussianNB": lambda: Sklearn("naive_bayes.GaussianNB"),
    },
    "river": {
        "LogisticRegression": lambda: River("linear_model.LogisticRegression"),
        "GaussianNB": lambda: River("naive_bayes.GaussianNB"),
        "HoeffdingTreeClassifier": lambda: River("tree.HoeffdingTreeClassifier"),
    },
}


def ours(scale: float, seed: int, names: list[str] | None = None) -> Outcome:
    """Try every class of bad batch on every learner: no lasting damage, no half-learned rows."""
    outcome = Outcome("bad values, our learners", seed)
    chosen = list(CLASSES) if names is None else names
    outcome.figures = {"classes": len(chosen), "learners": 0}
    outcome.figures |= dict.fromkeys(("refused", "taken", "lasting damage", "half-learned"), 0)
    for learner, make in our_learners().items():
        outcome.count("learners")
        for stream in range(seed, seed + max(1, round(STREAMS * scale))):
            usual = usual_accuracy(make, stream)
            for name in chosen:
                if learner.startswith("LinearRegression") and name in GOOD_VALUES:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    got = verdict(make, name, stream, usual)
                outcome.count(got)
                good = got in ("refused", "taken")
                outcome.check(good, {"learner": learner, "class": name, "stream": stream, "got": got})
    return outcome


def peers(scale: float, seed: int) -> Outcome:
    """Try every class of bad batch on models of scikit-learn and river, in processes that a class may crash."""
    outcome = Outcome("bad values, other libraries", seed)
    table: dict[str, dict[str, str]] = {}
    for library, models in PEERS.items():
        try:
            importlib.import_module({"scikit-learn": "sklearn"}.get(library, library))
        except ImportError:
            outcome.figures[library] = "not installed"
            continue
        for model in models:
            command = [sys.executable, "-m", "tests.reliability.bad_values", library, model, str(seed)]
            got: dict[str, str] = {}
            while len(got) < len(CLASSES):  # after a crash, continue with the next class
                ran = subprocess.run([*command, str(len(got))], cwd=ROOT, capture_output=True, text=True, check=False)
                lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
                got |= dict(lines)
                if ran.returncode and len(got) < len(CLASSES):
                    got[list(CLASSES)[len(got)]] = "crashed the process"
            table[f"{library} {model}"] = got
            outcome.tried += len(got)
        mine = [one for name, row in table.items() if name.startswith(library) for one in row.values()]
        harmful = sum(one not in ("refused", "taken") for one in mine)
        outcome.figures[library] = f"{harmful} of {len(mine)} harmful"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bad-values.json").write_text(json.dumps(table, indent=1) + "\n")
    return outcome


def _main() -> None:
    library, model, seed, skipped = sys.argv[1:]
    make = PEERS[library][model]
    warnings.simplefilter("ignore")
    usual = usual_accuracy(make, int(seed))
    for name in list(CLASSES)[int(skipped) :]:
        print(json.dumps([name, verdict(make, name, int(seed), usual)]), flush=True)


def detectors(scale: float, seed: int) -> Outcome:
    """Give bad values to every detector; the next true drift is found at most a tenth later than usual."""
    outcome = Outcome("bad values, our detectors", seed)
    try:
        module: Any = importlib.import_module("driftsurf.detectors")
    except ImportError:
        outcome.skipped = "this version has no detectors"
        return outcome
    trials = max(5, round(50 * scale))
    outcome.figures = {"detectors": 0, "classes": len(DETECTOR_VALUES), "trials of each": trials, "refused": 0}
    for name in module.__all__:
        outcome.count("detectors")
        make = getattr(module, name)
        usual = float(np.mean([_delay(make(), seed, trial, None)[0] for trial in range(trials)]))
        for what, value in DETECTOR_VALUES.items():
            got = [_delay(make(), seed, trial, value) for trial in range(trials)]
            outcome.count("refused", sum(refused for _, refused in got))
            delay = float(np.mean([delay for delay, _ in got]))
            case = {"detector": name, "class": what, "mean delay": delay, "usual": usual}
            outcome.check(delay <= 1.1 * usual, case)
    return outcome


def _delay(detector: Any, seed: int, trial: int, bad: Any) -> tuple[int, bool]:
    """Return the number of rows from a drift to the signal, and whether the bad value before it was refused."""
    generator = np.random.default_rng([seed, trial])
    calm, wild = ((generator.random(4_000) < rate).astype(float) for rate in (0.1, 0.6))
    _feed(detector, calm[:2_000])
    refused = False
    if bad is not None:
        try:
            _feed(detector, bad if isinstance(bad, list) else [bad])
        except (ValueError, TypeError, OverflowError):
            refused = True
    _feed(detector, calm[2_000:])
    return detector.update(wild).consumed, refused


def _feed(detector: Any, values: Any) -> None:
    while len(values):
        values = values[detector.update(values).consumed :]


if __name__ == "__main__":
    _main()
