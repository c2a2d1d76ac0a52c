"""Adaptive learners that predict each row first, compared with river, Vowpal Wabbit and CapyMOA."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Contest
from driftsurf import DriftSurfClassifier
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, Candor, DriftSurf
from driftsurf.streams import SEA

BATCH_ROWS = 1_000
OWN_ROWS = 100_000
ROWS = {"ADWINBagging": 2_000, "ARF": 1_000, "SRP": 500, "LogisticRegression": 5_000}
"""Number of rows for libraries that learn row by row: more would take minutes."""


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield one contest, on SEA with 10 % noise."""
    X, y = SEA(noise=0.1, n_rows=OWN_ROWS // (10 if quick else 1)).arrays()
    contenders = [_ours(X, y), *_strategies(X, y), _row_by_row(X, y)]
    try:
        contenders += _river(X, y, 10 if quick else 1)
    except ImportError as error:
        note(f"river: skipped, {error.name} is not installed (see benchmarks/README.md).")
    try:
        contenders.append(_vowpal_wabbit(X, y))
    except ImportError:
        note("Vowpal Wabbit: skipped, vowpalwabbit is not installed.")
    try:
        contenders += _capymoa(X, y, quick)
    except ImportError as error:
        note(f"CapyMOA: skipped, {error}.")
    yield Contest(f"SEA, 3 columns, {len(y):,} rows", "row", contenders[0].name, contenders)


def _error(truth: Any) -> Callable[[Any], str]:
    return lambda predicted: f"error {np.mean(np.asarray(predicted) != truth[: len(predicted)]):.3f}"


def _ours(X: Any, y: Any) -> Contender:
    def run(model: DriftSurfClassifier) -> Any:
        starts = range(0, len(y), BATCH_ROWS)
        return np.concatenate([model.test_then_train(X[a : a + BATCH_ROWS], y[a : a + BATCH_ROWS]) for a in starts])

    return Contender("driftsurf", len(y), lambda: DriftSurfClassifier(classes=(-1, 1), random_state=0), run, _error(y))


def _strategies(X: Any, y: Any) -> Iterator[Contender]:
    def run(session: Session) -> Any:
        starts = range(0, len(y), BATCH_ROWS)
        parts = [session.observe(X[a : a + BATCH_ROWS], y[a : a + BATCH_ROWS]).labels for a in starts]
        return np.concatenate(parts)

    for kind, words in ((AUE, "10 experts"), (Candor, "25 experts")):
        make = lambda kind=kind: Session(kind(LogisticRegression(), seed=0), classes=(-1, 1))  # noqa: E731
        yield Contender(f"driftsurf {kind.__name__}, {words}", len(y), make, run, _error(y))


def _row_by_row(X: Any, y: Any) -> Contender:
    rows = [(X[i : i + 1], y[i : i + 1]) for i in range(min(len(y), 5_000))]

    def run(session: Session) -> Any:
        return np.concatenate([session.observe(*row).labels for row in rows])

    make = lambda: Session(DriftSurf(LogisticRegression(), seed=0), classes=(-1, 1), batch_size=100)  # noqa: E731
    return Contender(f"driftsurf row by row, first {len(rows):,} rows", len(rows), make, run, _error(y))


def _river(X: Any, y: Any, less: int) -> Iterator[Contender]:
    linear = importlib.import_module("river.linear_model").LogisticRegression
    ensemble, forest = (importlib.import_module(f"river.{name}") for name in ("ensemble", "forest"))
    makers: dict[str, Callable[[], Any]] = {
        "LogisticRegression": linear,
        "ADWINBagging": lambda: ensemble.ADWINBaggingClassifier(model=linear(), n_models=10, seed=0),
        "ARF": lambda: forest.ARFClassifier(n_models=10, seed=0),
        "SRP": lambda: ensemble.SRPClassifier(n_models=10, seed=0),
    }
    for name, make in makers.items():
        count = ROWS[name] // less
        rows = [(dict(enumerate(x.tolist())), int(label)) for x, label in zip(X[:count], y[:count], strict=True)]

        def run(model: Any, rows: Any = rows) -> Any:
            predicted = []
            for x, label in rows:
                predicted.append(model.predict_one(x) or -1)
                model.learn_one(x, label)
            return predicted

        yield Contender(f"river {name}, first {count:,} rows", count, make, run, _error(y))


def _vowpal_wabbit(X: Any, y: Any) -> Contender:
    """Return Vowpal Wabbit reading from a file, its usual mode; it predicts each row before learning it."""
    workspace = importlib.import_module("vowpalwabbit").Workspace
    folder = tempfile.TemporaryDirectory()
    data = Path(folder.name) / "rows.vw"
    rows = (f"{label} | " + " ".join(f"f{c}:{v:.6g}" for c, v in enumerate(x)) for x, label in zip(X, y, strict=True))
    data.write_text("\n".join(rows) + "\n", encoding="utf-8")

    def run(_: None, folder: Any = folder) -> None:
        workspace(f"--loss_function logistic --quiet -d {data}").finish()

    return Contender("Vowpal Wabbit, from a file", len(y), lambda: None, run)


def _capymoa(X: Any, y: Any, quick: bool) -> Iterator[Contender]:
    if shutil.which("java") is None:
        raise ImportError("there is no Java here")
    with contextlib.redirect_stdout(None):
        base, classifier, stream = (
            importlib.import_module(f"capymoa.{name}") for name in ("base", "classifier", "stream")
        )
    updated = importlib.import_module("moa.classifiers.meta").AccuracyUpdatedEnsemble
    count = min(len(y), 1_000 if quick else 10_000)
    labels = (y[:count] == 1).astype(int)

    def run(model: Any) -> Any:
        source = stream.NumpyStream(X[:count], labels, target_type="categorical")
        predicted = []
        while source.has_more_instances():
            instance = source.next_instance()
            predicted.append(2 * (model.predict(instance) or 0) - 1)
            model.train(instance)
        return predicted

    schema = stream.NumpyStream(X[:10], labels[:10], target_type="categorical").get_schema()
    makers: dict[str, Callable[[], Any]] = {
        "CapyMOA ARF(10)": lambda: classifier.AdaptiveRandomForestClassifier(schema, ensemble_size=10),
        "MOA AUE2": lambda: base.MOAClassifier(schema=schema, moa_learner=updated()),
    }
    for name, make in makers.items():
        yield Contender(f"{name}, first {count:,} rows", count, make, run, _error(y))
