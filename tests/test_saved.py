"""Models in files: exact, whole or not at all, the previous one kept and used when the newest is damaged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from driftsurf import AwareClassifier, DriftSurfClassifier
from driftsurf.errors import InputError, StateError, StateVersionError, StateWarning
from driftsurf.streams import Mixed

GOLDEN = Path(__file__).parent / "golden"


def grown(steps: int = 6) -> DriftSurfClassifier:
    model = DriftSurfClassifier(random_state=0)
    for X, y in Mixed(n_rows=100 * steps).batches(100):
        model.partial_fit(X, y)
    return model


def test_a_saved_file_is_the_model_and_the_one_before_is_kept(tmp_path: Path) -> None:
    path, old, new = tmp_path / "model.state", grown(5), grown(6)
    old.save(path)
    assert not (tmp_path / "model.state.previous").exists()
    new.save(str(path))
    assert DriftSurfClassifier.load(path).to_bytes() == new.to_bytes()
    assert (tmp_path / "model.state.previous").read_bytes() == old.to_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.state", "model.state.previous"]


def test_a_damaged_file_makes_room_for_the_one_before_and_says_so(tmp_path: Path) -> None:
    path, old = tmp_path / "model.state", grown(5)
    old.save(path)
    grown(6).save(path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(
        StateWarning, match=r"model\.state cannot be used: .*checksum.*model\.state\.previous, saved before"
    ):
        assert DriftSurfClassifier.load(path).to_bytes() == old.to_bytes()
    grown(7).save(path)  # what is damaged does not take the place of what is good
    assert (tmp_path / "model.state.previous").read_bytes() == old.to_bytes()
    path.unlink()
    with pytest.warns(StateWarning, match="No such file"):
        assert DriftSurfClassifier.load(path).to_bytes() == old.to_bytes()
    (tmp_path / "model.state.previous").write_bytes(b"x")
    with pytest.raises(StateError, match=r"and neither can model\.state\.previous"):
        DriftSurfClassifier.load(path)
    (tmp_path / "model.state.previous").unlink()
    with pytest.raises(FileNotFoundError):
        DriftSurfClassifier.load(path)


def test_a_file_of_another_kind_or_version_is_refused_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model.state"
    grown(5).save(path)
    grown(6).save(path)
    with pytest.raises(StateError, match="hold a 'DriftSurfClassifier', not a AwareClassifier"):
        AwareClassifier.load(path)
    data = bytearray(path.read_bytes()[:-32])
    data[7] = 200
    path.write_bytes(bytes(data) + hashlib.sha256(data).digest())
    with pytest.raises(StateVersionError, match="has format 200"):
        DriftSurfClassifier.load(path)


def test_every_released_version_is_still_read() -> None:
    model = DriftSurfClassifier.load(GOLDEN / "state-0.1.0.state")
    assert model._session.steps == 16
    assert model.classes_.tolist() == [-1, 1]
    X = np.vstack([np.eye(3), -np.eye(3)])
    labels = [1, 1, 1, -1, -1, 1]
    assert model.predict(X).tolist() == labels
    model.partial_fit(np.vstack([X] * 5), labels * 5)
    assert model._session.steps == 18


def test_weights_out_of_all_proportion_are_refused() -> None:
    with pytest.raises(InputError, match=r"sample_weight\[1\] is 1e\+16: give weights up to 1e\+15"):
        grown(5).partial_fit([[0.0] * 4] * 2, [1, -1], sample_weight=[1.0, 1e16])
