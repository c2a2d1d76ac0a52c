"""Files of saved models: exact, atomic, and with the previous file as a backup."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from driftsurf import AwareClassifier, DriftSurfClassifier
from driftsurf.errors import InputError, StateError, StateVersionError, StateWarning
from driftsurf.streams import Mixed


def trained(steps: int = 6) -> DriftSurfClassifier:
    model = DriftSurfClassifier(random_state=0)
    for X, y in Mixed(n_rows=100 * steps).batches(100):
        model.partial_fit(X, y)
    return model


def test_save_keeps_the_previous_file(tmp_path: Path) -> None:
    path, old, new = tmp_path / "model.state", trained(5), trained(6)
    old.save(path)
    assert not (tmp_path / "model.state.previous").exists()
    new.save(str(path))
    assert DriftSurfClassifier.load(path).to_bytes() == new.to_bytes()
    assert (tmp_path / "model.state.previous").read_bytes() == old.to_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.state", "model.state.previous"]


def test_a_damaged_file_is_replaced_by_the_previous_one_with_a_warning(tmp_path: Path) -> None:
    path, old = tmp_path / "model.state", trained(5)
    old.save(path)
    trained(6).save(path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(StateWarning, match=r"model\.state .*model\.state\.previous"):
        assert DriftSurfClassifier.load(path).to_bytes() == old.to_bytes()
    trained(7).save(path)  # a damaged file does not replace a good backup
    assert (tmp_path / "model.state.previous").read_bytes() == old.to_bytes()
    path.unlink()
    with pytest.warns(StateWarning, match=r"model\.state .*model\.state\.previous"):
        assert DriftSurfClassifier.load(path).to_bytes() == old.to_bytes()
    (tmp_path / "model.state.previous").write_bytes(b"x")
    with pytest.raises(StateError, match=r"model\.state .*model\.state\.previous"):
        DriftSurfClassifier.load(path)
    (tmp_path / "model.state.previous").unlink()
    with pytest.raises(FileNotFoundError):
        DriftSurfClassifier.load(path)


def test_a_file_of_another_class_or_format_is_refused_although_there_is_a_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "model.state"
    trained(5).save(path)
    trained(6).save(path)
    with pytest.raises(StateError, match=r"DriftSurfClassifier.*AwareClassifier"):
        AwareClassifier.load(path)
    data = bytearray(path.read_bytes()[:-32])
    data[7] = 200
    path.write_bytes(bytes(data) + hashlib.sha256(data).digest())
    with pytest.raises(StateVersionError, match=" 200"):
        DriftSurfClassifier.load(path)


def test_a_huge_sample_weight_is_refused() -> None:
    with pytest.raises(InputError, match=r"sample_weight\[1\].* 1e\+16.* 1e\+15"):
        trained(5).partial_fit([[0.0] * 4] * 2, [1, -1], sample_weight=[1.0, 1e16])
