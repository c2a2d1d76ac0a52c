"""Anything in a file, and files of this version that later ones must read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet, detectors, learners
from driftsurf.baselines import ResetOnDriftClassifier
from driftsurf.encoding import TableEncoder
from driftsurf.errors import CapabilityError, StateError
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.samples import Samples
from driftsurf.state import to_bytes
from driftsurf.strategies import DriftSurf
from test_adapters import torch_learner

GOLDEN = Path(__file__).parent / "golden"
VERSION = "0.1.0"
HUGE = '[["price", "number", false, "0x1.0p99999", [], 0]]'


def rows(seed: int, k: int = 2) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).normal(size=(20, 2)).round(2)
    return X, X[:, 0] if k == 0 else np.digitize(X[:, 0], np.linspace(-0.5, 0.5, k - 1)) if k > 2 else X[:, 0] > 0


def taught(model: Any, k: int = 2) -> Any:
    for seed in range(3):
        model.partial_fit(*rows(seed, k))
    return model


def fleet() -> Fleet:
    made = Fleet(2, step_size=0.1, l2=1e-3, batch_size=10, max_rows=20)
    X, y = rows(0)
    made.observe(np.arange(20) % 2, X, y.astype(int))
    return made


def store() -> Samples:
    samples = Samples(2)
    samples.append(rows(0)[0], rows(0, 0)[1])
    return samples


def model_alone() -> Any:
    samples = store()
    model = learners.LinearRegression().fresh(1, 2, 0)
    from driftsurf.base import Segment

    model.update(samples, Segment(0, 20), 40)
    return model


def detector() -> detectors.ADWIN:
    made = detectors.ADWIN()
    made.update(np.tile([0.0, 1.0, 0.0], 30))
    return made


TREE = DecisionTreeClassifier(max_depth=1)
KINDS: dict[str, tuple[Any, Any]] = {
    "softmax": (lambda: taught(DriftSurfClassifier(learners.SoftmaxRegression(), random_state=0), 3), None),
    "svm": (lambda: taught(DriftSurfClassifier(learners.LinearSVM(), random_state=0)), None),
    "regression": (lambda: taught(DriftSurfRegressor(random_state=0), 0), None),
    "resetting": (lambda: taught(ResetOnDriftClassifier(detector=detectors.DDM(), random_state=0)), None),
    "buffered": (lambda: taught(DriftSurfClassifier(batch_size=8, random_state=0)), None),
    "refitted": (lambda: taught(DriftSurfClassifier(TREE, random_state=0)), lambda: TREE),
    "network": (lambda: taught(DriftSurfClassifier(torch_learner(), random_state=0)), torch_learner),
    "fleet": (fleet, None),
    "detector": (detector, None),
    "encoder": (lambda: TableEncoder().fit({"price": [1.5, None], "city": ["Rome", "Oslo"]}), None),
    "learner": (model_alone, None),
    "rows": (store, None),
}
"""How to make one of each, and the learner to give again."""


def state_of(thing: Any) -> bytes:
    data: bytes = thing.to_bytes() if hasattr(thing, "to_bytes") else to_bytes(thing.state())
    return data


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.filterwarnings("ignore:the first")
def test_anything_is_the_same_after_loading(kind: str, tmp_path: Path) -> None:
    make, learner = KINDS[kind]
    thing = make()
    driftsurf.save(thing, tmp_path / "file.state")
    again = driftsurf.load(tmp_path / "file.state", None if learner is None else learner())
    assert type(again) is type(thing)
    assert state_of(again) == state_of(thing)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.filterwarnings("ignore:the first")
def test_files_of_this_version_are_read_for_ever(kind: str) -> None:
    make, learner = KINDS[kind]
    template = None if learner is None else learner()
    thing = driftsurf.load(GOLDEN / f"{kind}-{VERSION}.state", template)
    assert type(thing) is type(make())
    if hasattr(thing, "predict") and kind != "fleet":
        X, y = rows(9, {"softmax": 3, "regression": 0}.get(kind, 2))
        assert np.mean(np.abs(thing.predict(X).astype(float) - y) < 0.5) > 0.7
    if hasattr(thing, "partial_fit") and kind != "encoder":
        thing.partial_fit(*rows(10, {"softmax": 3, "regression": 0}.get(kind, 2)))


def test_checkpoints_of_this_version_are_read_for_ever() -> None:
    saved = CheckpointFolder(GOLDEN / f"checkpoints-{VERSION}").load()
    assert saved is not None
    assert saved.number == 3
    assert np.array_equal(saved.state["rows.y"], np.concatenate([rows(seed, 0)[1] for seed in range(3)])[5:])


@pytest.mark.parametrize("name", detectors.__all__)
def test_every_detector_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    errors = (np.random.default_rng(0).random(3_000) < np.repeat([0.1, 0.6], 1_500)).astype(float)
    plain = getattr(detectors, name)()
    assert plain.update(errors[:1_000]) <= 1_000
    driftsurf.save(plain, tmp_path / "file.state")
    again = driftsurf.load(tmp_path / "file.state")
    assert repr(again) == repr(plain)
    assert again.update(errors[1_000:]) == plain.update(errors[1_000:])
    assert to_bytes(again.state()) == to_bytes(plain.state())


def test_parameters_may_be_numpys(tmp_path: Path) -> None:
    driftsurf.save(detectors.DDM(min_rows=np.int64(40)), tmp_path / "file.state")  # type: ignore[arg-type]
    assert driftsurf.load(tmp_path / "file.state").min_rows == 40


SameName = type("ADWIN", (), {})


def test_what_cannot_be_saved_or_loaded_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "file.state"
    with pytest.raises(CapabilityError, match="nothing that can be saved by itself"):
        driftsurf.save(DriftSurf(learners.LogisticRegression()), path)
    for stranger in (LogisticRegression(), SameName()):
        with pytest.raises(CapabilityError, match="nothing that can be saved by itself"):
            driftsurf.save(stranger, path)
    with pytest.raises(StateError, match=r"LogisticRegression\(.* has learnt nothing yet"):
        driftsurf.save(learners.LogisticRegression(), path)
    with pytest.raises(StateError, match="a parameter is 1j, which cannot be saved"):
        driftsurf.save(detectors.DDM(min_rows=1j), path)  # type: ignore[arg-type]
    assert not path.exists()
    for state, words in (
        ({"object": "Strange"}, "'Strange', which load does not know"),
        ({"a": 1}, "something"),
        ({"object": "ADWIN"}, "does not fit together"),
        ({"object": "ADWIN", "params": "{}"}, "no entry 'level'"),
        ({"object": "Samples"}, "does not fit together"),
        ({"object": "ADWIN", "params": '{"max_buckets": 4294967296}'}, "from 2 to 1,000"),
        ({"object": "MDDM", "params": '{"window": 4294967296}'}, "from 1 to 1,000,000"),
        ({"object": "TableEncoder", "state.params": "{}", "state.parts": HUGE}, "no saved encoder"),
    ):
        path.write_bytes(to_bytes(state))
        with pytest.raises(StateError, match=words):
            driftsurf.load(path)
