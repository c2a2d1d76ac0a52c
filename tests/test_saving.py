"""``driftsurf.save`` and ``driftsurf.load`` for every kind of object, and the files in ``tests/golden``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import golden_states
import numpy as np
import pytest
from foreign_models import torch_learner
from golden_states import KINDS, Kind, rows, trained
from sklearn.linear_model import LogisticRegression

import driftsurf
from driftsurf import DriftSurfClassifier, detectors, learners, saving
from driftsurf.core.state import FORMAT, OLDEST, read_header, to_bytes
from driftsurf.errors import CapabilityError, InputError, RunFolderError, StateError, StateWarning
from driftsurf.estimators import ResetOnDriftClassifier
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.strategies import DriftSurf

HUGE = '[["price", "number", false, "0x1.0p99999", [], 0]]'
NETWORK = Kind(lambda: trained(DriftSurfClassifier(torch_learner(), random_state=0)), learner=torch_learner)
FORMATS = range(OLDEST, FORMAT + 1)
RENEW = "after a change to the format, run: python tests/support/golden_states.py"

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


def state_of(thing: Any) -> bytes:
    data: bytes = thing.to_bytes() if hasattr(thing, "to_bytes") else to_bytes(thing.state())
    return data


def layout(path: Path) -> list[list[Any]]:
    """Return name, kind and type of each entry of a saved state."""
    return [entry[: 3 if entry[1] == "array" else 2] for entry in read_header(path.read_bytes()).entries]


@pytest.mark.parametrize("kind", [*KINDS.values(), NETWORK], ids=[*KINDS, "network"])
def test_every_kind_is_the_same_after_loading(kind: Kind, tmp_path: Path) -> None:
    thing = kind.make()
    driftsurf.save(thing, tmp_path / "file.state")
    again = driftsurf.load(tmp_path / "file.state", None if kind.learner is None else kind.learner())
    assert type(again) is type(thing)
    assert state_of(again) == state_of(thing)


# ---------------------------------------------------------------------------- golden files


@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize("name", KINDS)
def test_golden_files_are_read(name: str, number: int) -> None:
    kind = KINDS[name]
    path = golden_states.folder(number) / f"{name}.state"
    thing = driftsurf.load(path, None if kind.learner is None else kind.learner())
    assert type(thing) is type(kind.make())
    if hasattr(thing, "predict") and name != "fleet":
        X, y = rows(9, kind.k)
        assert np.mean(np.abs(thing.predict(X).astype(float) - y) < 0.5) > 0.7
    if hasattr(thing, "partial_fit") and name != "encoder":
        thing.partial_fit(*rows(10, kind.k))


@pytest.mark.parametrize("number", FORMATS)
def test_golden_checkpoints_are_read(number: int) -> None:
    saved = CheckpointFolder(golden_states.folder(number) / "checkpoints").load()
    assert saved is not None
    assert saved.number == 3
    assert np.array_equal(saved.state["rows.y"], np.concatenate([rows(seed, 0)[1] for seed in range(3)])[5:])


@pytest.mark.parametrize("number", FORMATS)
def test_a_key_resumes_from_its_golden_state(number: int) -> None:
    learner = golden_states.keyed_learner()
    data = (golden_states.folder(number) / "key.state").read_bytes()
    visit = learner.visit(7, data, golden_states.key_rows(1))
    assert visit.sequence == list(range(20, 40))
    assert visit.summary.rows == 40


@pytest.mark.parametrize("name", KINDS)
def test_the_format_is_that_of_the_golden_files(name: str, tmp_path: Path) -> None:
    driftsurf.save(KINDS[name].make(), tmp_path / "file.state")
    assert layout(tmp_path / "file.state") == layout(golden_states.folder() / f"{name}.state"), RENEW


def test_the_format_of_keys_and_checkpoints_is_that_of_the_golden_files(tmp_path: Path) -> None:
    golden = golden_states.folder()
    (tmp_path / "key.state").write_bytes(golden_states.keyed_learner().visit(7, None, golden_states.key_rows(0)).state)
    assert layout(tmp_path / "key.state") == layout(golden / "key.state"), RENEW
    golden_states.write_checkpoints(tmp_path / "checkpoints")
    for path in (golden / "checkpoints").iterdir():
        assert layout(tmp_path / "checkpoints" / path.name) == layout(path), RENEW


# ---------------------------------------------------------------------------- detectors and refusals


@pytest.mark.parametrize("name", detectors.__all__)
def test_every_detector_resumes_where_it_was(name: str, tmp_path: Path) -> None:
    errors = (np.random.default_rng(0).random(3_000) < np.repeat([0.1, 0.6], 1_500)).astype(float)
    plain = getattr(detectors, name)()
    assert plain.update(errors[:1_000]).consumed <= 1_000
    driftsurf.save(plain, tmp_path / "file.state")
    again = driftsurf.load(tmp_path / "file.state")
    assert repr(again) == repr(plain)
    assert again.update(errors[1_000:]) == plain.update(errors[1_000:])
    assert to_bytes(again.state()) == to_bytes(plain.state())


def test_parameters_may_be_numpy_numbers(tmp_path: Path) -> None:
    driftsurf.save(detectors.DDM(min_rows=np.int64(40)), tmp_path / "file.state")  # type: ignore[arg-type]
    assert driftsurf.load(tmp_path / "file.state").min_rows == 40


SameName = type("ADWIN", (), {})


@pytest.mark.parametrize(
    ("thing", "error", "named"),
    [
        (DriftSurf(learners.LogisticRegression()), CapabilityError, "DriftSurf"),
        (LogisticRegression(), CapabilityError, "LogisticRegression"),
        (SameName(), CapabilityError, "ADWIN"),
        (learners.LogisticRegression(), StateError, "LogisticRegression"),
        (detectors.DDM(min_rows=1j), StateError, "1j"),  # type: ignore[arg-type]
    ],
    ids=["strategy", "other library", "same name", "untrained learner", "odd parameter"],
)
def test_an_object_that_cannot_be_saved_is_named(
    thing: Any, error: type[Exception], named: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=named):
        driftsurf.save(thing, tmp_path / "file.state")
    assert not list(tmp_path.iterdir())


def test_a_detector_inside_a_model_is_saved_once_its_class_is_registered(register: Any, tmp_path: Path) -> None:
    class Own(detectors.DDM):
        pass

    model = ResetOnDriftClassifier(detector=Own(min_rows=7)).partial_fit(*rows(0))
    with pytest.raises(StateError, match=r"detector Own.*register.'detector'"):
        driftsurf.save(model, tmp_path / "file.state")
    register("detector", "own")(Own)
    driftsurf.save(model, tmp_path / "file.state")
    assert driftsurf.load(tmp_path / "file.state").detector.min_rows == 7


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"object": "Strange"}, "'Strange'"),
        ({"a": 1}, None),
        ({"object": "ADWIN"}, "params"),
        ({"object": "ADWIN", "params": "{}"}, r"state\.level"),
        ({"object": "Samples"}, r"state\.n_features"),
        ({"object": "ADWIN", "params": '{"max_buckets": 4294967296}'}, "max_buckets.*4294967296.*1,000"),
        ({"object": "MDDM", "params": '{"window": 4294967296}'}, "window.*4294967296.*1,000,000"),
        ({"object": "TableEncoder", "state.params": "{}", "state.parts": HUGE}, None),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused(state: Any, named: str | None, tmp_path: Path) -> None:
    (tmp_path / "file.state").write_bytes(to_bytes(state))
    with pytest.raises(StateError, match=named):
        driftsurf.load(tmp_path / "file.state")


def test_estimator_that_is_not_registered_is_named() -> None:
    with pytest.raises(StateError, match="GoneClassifier"):
        saving.loads(to_bytes({"estimator": "GoneClassifier", "steps": 1}))


@pytest.mark.parametrize("path", [".", "/", "a\0b"])
def test_what_is_not_the_path_of_a_file_is_named(path: str) -> None:
    with pytest.raises(InputError, match=re.escape(repr(path))):
        driftsurf.save(trained(DriftSurfClassifier(random_state=0)), path)
    if "\0" in path:
        with pytest.raises(InputError, match=re.escape(repr(path))):
            driftsurf.load(path)
        with pytest.raises(InputError, match=re.escape(repr(path))):
            driftsurf.explain(path)


def test_a_path_that_does_not_exist_is_named_with_what_is_there(tmp_path: Path) -> None:
    driftsurf.save(trained(DriftSurfClassifier(random_state=0)), tmp_path / "prices.state")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(RunFolderError) as caught:
        driftsurf.load(tmp_path / "price.state")
    assert all(repr(name) in str(caught.value) for name in (str(tmp_path / "price.state"), "prices.state"))
    assert "notes.txt" not in str(caught.value)
    with pytest.raises(RunFolderError) as caught:
        driftsurf.load(tmp_path / "no" / "such" / "price.state")
    assert repr(str(tmp_path / "no" / "such")) in str(caught.value)
    driftsurf.save(trained(DriftSurfClassifier(random_state=0)), tmp_path / "prices.state")
    (tmp_path / "prices.state").unlink()
    with pytest.warns(StateWarning):
        assert isinstance(driftsurf.load(tmp_path / "prices.state"), DriftSurfClassifier)
