"""Saved files of every kind, kept in ``tests/golden/format-N`` for each state format N that is read.

Run this file to write those of the current format again, and the runs of ``golden_runs``::

    python tests/support/golden_states.py

Do so after a change to what any class saves, together with a new number in ``driftsurf.core.state`` if the format has
been released. Kinds whose optional dependency is not installed are left as they are.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.tree import DecisionTreeClassifier

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet, detectors, learners
from driftsurf.core.contracts import Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import FORMAT, nest
from driftsurf.data.encoding import TableEncoder
from driftsurf.estimators import ResetOnDriftClassifier
from driftsurf.keyed import KeyedLearner, KeyRows
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.strategies import DriftSurf

GOLDEN = Path(__file__).parents[1] / "golden"
TREE = DecisionTreeClassifier(max_depth=1)


def folder(number: int = FORMAT) -> Path:
    """Return the folder with the files of a format."""
    return GOLDEN / f"format-{number}"


def rows(seed: int, k: int = 2) -> tuple[Any, Any]:
    """Return 20 rows, and labels of ``k`` classes, or targets for ``k=0``."""
    X = np.random.default_rng(seed).normal(size=(20, 2)).round(2)
    return X, X[:, 0] if k == 0 else np.digitize(X[:, 0], np.linspace(-0.5, 0.5, k - 1)) if k > 2 else X[:, 0] > 0


def trained(model: Any, k: int = 2) -> Any:
    """Return the model after three batches."""
    for seed in range(3):
        model.partial_fit(*rows(seed, k))
    return model


def fleet() -> Fleet:
    """Return a fleet of two keys."""
    made = Fleet(n_features=2, step_size=0.1, l2=1e-3, batch_size=10, max_rows=20)
    X, y = rows(0)
    made.observe(np.arange(20) % 2, X, y.astype(int))
    return made


def store() -> Samples:
    """Return a store of 20 rows."""
    samples = Samples(2)
    samples.append(rows(0)[0], rows(0, 0)[1])
    return samples


def learner_alone() -> Any:
    """Return a learner that was trained without a strategy."""
    model = learners.LinearRegression().fresh(1, 2, 0)
    model.update(store(), Segment(0, 20), 40)
    return model


def detector() -> detectors.ADWIN:
    """Return a detector with a window of 90 errors."""
    made = detectors.ADWIN()
    made.update(np.tile([0.0, 1.0, 0.0], 30))
    return made


class Kind(NamedTuple):
    """How to make an object to save, and what ``load`` needs besides the file."""

    make: Callable[[], Any]
    k: int = 2
    """Number of classes; 0 for regression."""
    learner: Callable[[], Any] | None = None


KINDS = {
    "softmax": Kind(lambda: trained(DriftSurfClassifier(learners.SoftmaxRegression(), random_state=0), 3), 3),
    "svm": Kind(lambda: trained(DriftSurfClassifier(learners.LinearSVM(), random_state=0))),
    "regression": Kind(lambda: trained(DriftSurfRegressor(random_state=0), 0), 0),
    "resetting": Kind(lambda: trained(ResetOnDriftClassifier(detector=detectors.DDM(), random_state=0))),
    "buffered": Kind(lambda: trained(DriftSurfClassifier(batch_size=8, random_state=0))),
    "refitted": Kind(lambda: trained(DriftSurfClassifier(TREE, random_state=0)), learner=lambda: TREE),
    "fleet": Kind(fleet),
    "detector": Kind(detector),
    "encoder": Kind(lambda: TableEncoder().fit({"price": [1.5, None], "city": ["Rome", "Oslo"]})),
    "learner": Kind(learner_alone),
    "rows": Kind(store),
}


def keyed_learner() -> KeyedLearner:
    """Return the learner of the key whose state is kept as ``key.state``."""
    strategy = DriftSurf(learners.LogisticRegression(), max_rows=30, dtype="float32")
    return KeyedLearner(strategy=strategy, features=("a", "b"), classes=(0, 1), batch_size=8, seed=3)


def key_rows(seed: int) -> KeyRows:
    """Return 20 rows of one key, those of ``seed`` 1 after those of ``seed`` 0."""
    X, y = rows(seed)
    return KeyRows(np.arange(20) + 20 * seed, X, y.astype(int).tolist())


def write_checkpoints(path: Path) -> None:
    """Write three checkpoints of a growing store, of which the last two are kept; five rows are released."""
    samples = Samples(2)
    with CheckpointFolder(path) as kept:
        for seed in range(3):
            samples.append(rows(seed)[0], rows(seed, 0)[1])
            samples.release(5 * (seed == 2))
            kept.save(nest("rows", samples.incremental_state()))


def write() -> None:
    """Write the files of the current format."""
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory() as scratch:  # so that no previous file is kept beside it
            driftsurf.save(kind.make(), Path(scratch) / name)
            shutil.copyfile(Path(scratch) / name, place / f"{name}.state")
    (place / "key.state").write_bytes(keyed_learner().visit(7, None, key_rows(0)).state)
    with tempfile.TemporaryDirectory() as scratch:
        write_checkpoints(Path(scratch))
        shutil.rmtree(place / "checkpoints", ignore_errors=True)
        shutil.copytree(scratch, place / "checkpoints", ignore=shutil.ignore_patterns("*lock*"))


if __name__ == "__main__":
    import golden_runs

    write()
    golden_runs.write()
