"""Saved foreign models: as the rows of their fit, as tensors, or as trusted pickles."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from foreign_models import LEARNERS, LOG, rows, torch_learner, trained
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.reliability import faults, harness

from driftsurf import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.cli import main
from driftsurf.core.contracts import Pickled, Segment
from driftsurf.core.state import from_bytes, peek, read_header, to_bytes
from driftsurf.errors import CapabilityError, StateError, StateWarning
from driftsurf.learners.foreign import SklearnLearner, TorchLearner
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.session.described import described
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf, LearnNSE, LinearDecay, SlidingWindow

KINDS = {
    "sgd": "pickle",
    "bayes": "pickle",
    "tree": "rows",
    "no probabilities": "rows",
    "values": "pickle",
    "refitted values": "rows",
    "torch": "tensors",
    "torch values": "tensors",
} | dict.fromkeys(("river tree", "river pipeline", "river many", "river values", "river many values"), "pickle")


def living(learner: Any, k: int, steps: int = 7) -> Any:
    face = DriftSurfClassifier if k else DriftSurfRegressor
    options: dict[str, Any] = {"classes": range(k)} if k else {}
    model = face(learner, random_state=3, reactive_length=2, max_rows=250, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(steps):
            model.partial_fit(*batch(step, k))
    return model


def batch(step: int, k: int) -> tuple[Any, Any]:
    X, y = rows(80, k, seed=step)
    if step % 8 >= 4:
        y = (k - 1 - y) if k else -y
    return X, y


def saved_kind(name: str) -> tuple[Any, int]:
    make, k = LEARNERS[name]
    learner = make()
    assert learner.capabilities.state_kind == KINDS[name]
    assert learner.capabilities.exact_state == (KINDS[name] != "pickle")
    return learner, k


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind != "pickle"])
def test_a_model_with_exact_state_continues_bit_for_bit_after_every_step(name: str, tmp_path: Path) -> None:
    learner, k = saved_kind(name)
    plain = living(learner, k, steps=1)
    lived = living(learner, k, steps=1)
    for step in range(1, 9):
        lived.save(tmp_path / "model.state")
        lived = type(lived).load(tmp_path / "model.state", learner)
        assert lived.to_bytes() == plain.to_bytes()
        for model in (lived, plain):
            model.partial_fit(*batch(step, k))
        X, _ = rows(40, k, seed=90)
        assert np.array_equal(lived.predict(X), plain.predict(X))
    assert not read_header(plain.to_bytes()).pickle


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind == "pickle"])
def test_a_pickle_is_refused_by_name_until_both_sides_trust_it(name: str, tmp_path: Path) -> None:
    learner, k = saved_kind(name)
    model, path = living(learner, k), tmp_path / "model.state"
    with pytest.raises(CapabilityError, match=f"(?s){type(learner).__name__}.*trust_pickle=True"):
        model.save(path)
    assert not path.exists()
    model.save(path, trust_pickle=True)
    assert read_header(path.read_bytes()).pickle
    with pytest.raises(StateError, match="trust_pickle=True"):
        type(model).load(path, learner)
    loaded = type(model).load(path, learner, trust_pickle=True)
    for step in range(7, 12):
        for one in (loaded, model):
            one.partial_fit(*batch(step, k))
        X, _ = rows(40, k, seed=step)
        assert np.array_equal(loaded.predict(X), model.predict(X))
    result = CliRunner().invoke(main, ["inspect", str(path)])
    assert result.exit_code == 0
    assert "trust_pickle=True" in result.output


@pytest.mark.parametrize("kind", ["dense", "csr", "weighted"])
@pytest.mark.parametrize("strategy", [LearnNSE, LinearDecay, SlidingWindow, DriftSurf])
def test_loading_preserves_fading_dropped_and_sparse_rows(strategy: Any, kind: str) -> None:
    """A retired model keeps a copy of its rows, and weights are those of the fit."""
    learner = SklearnLearner(DecisionTreeClassifier(max_depth=3))

    def begun() -> Session:
        return Session(strategy(learner, max_rows=150))

    session = begun()
    for step in range(6):
        X, y = rows(60, 2, seed=step)
        X[np.abs(X) < 0.3] = 0.0
        given: Any = csr_matrix(X) if kind == "csr" else X
        weight = np.random.default_rng(step).random(60) if kind == "weighted" else None
        session.learn(given, y if step < 3 else 1 - y, weight=weight)
        again = begun()
        again.restore(from_bytes(to_bytes(session.state())))
        assert to_bytes(again.state()) == to_bytes(session.state())
        assert np.array_equal(again.scores(given), session.scores(given))


def test_a_refit_that_waits_is_saved_by_the_rows_of_its_last_fit() -> None:
    learner = SklearnLearner(DecisionTreeClassifier(), passes=0.5, rows=200)
    session, again = Session(DriftSurf(learner, max_rows=150)), Session(DriftSurf(learner, max_rows=150))
    for step in range(12):
        session.learn(*rows(60, 2, seed=step))
        again.restore(from_bytes(to_bytes(session.state())))
        X, _ = rows(50, 2, seed=70)
        assert np.array_equal(again.scores(X), session.scores(X))


def test_a_refitted_model_that_predicts_differently_is_a_warning() -> None:
    learner = SklearnLearner(DecisionTreeClassifier(max_depth=3))
    data = living(learner, 2).to_bytes()
    state = from_bytes(data)
    digest = next(name for name in state if name.endswith(".probe_digest"))
    with pytest.warns(StateWarning, match="DecisionTreeClassifier"):
        DriftSurfClassifier.from_bytes(to_bytes(state | {digest: "0" * 64}), learner)


def test_an_untrained_model_is_saved_as_counts_only() -> None:
    for learner in (SklearnLearner(DecisionTreeClassifier()), SklearnLearner(SGDClassifier(**LOG))):
        fresh = learner.fresh(1, 3, 2)
        again = type(learner).from_state(learner, fresh.state())
        assert again.state() == fresh.state()
        again.refit(trained(learner, 2)[1])
        assert again.state() == fresh.state()


def test_untrained_networks_and_plain_optimisers_can_be_saved() -> None:
    good = torch_learner()
    import torch

    assert type(good).from_state(good, good.fresh(1, 3, 2).state()).needs() is None
    learner = TorchLearner(good.module, optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    model, samples = trained(learner, 2)
    again = TorchLearner.from_state(learner, model.state())
    new = samples.append(*rows(50, 2, seed=7))
    for one in (model, again):
        one.update(samples, new, 100)
    X, _ = rows(50, 2, seed=8)
    assert np.array_equal(model.scores(X), again.scores(X))


def test_tensors_that_do_not_fit_or_cannot_be_saved_are_refused() -> None:
    good = torch_learner()
    import torch

    state = trained(good, 2)[0].state()
    narrow = TorchLearner(lambda columns, outputs: torch.nn.Linear(columns, outputs), optimizer=good.optimizer)
    with pytest.raises(StateError):
        TorchLearner.from_state(narrow, state)
    halves = TorchLearner(lambda columns, outputs: torch.nn.Linear(columns, outputs).to(torch.bfloat16))
    model = halves.fresh(0, 3, 2)
    object.__setattr__(model._fitted, "model", halves._new(model._fitted, torch))
    with pytest.raises(CapabilityError, match="Adam"):
        model.state()


def test_another_learner_than_the_saved_one_is_refused() -> None:
    data = living(DecisionTreeClassifier(max_depth=3), 2).to_bytes()
    assert DriftSurfClassifier.from_bytes(data, DecisionTreeClassifier(max_depth=3)).to_bytes() == data
    with pytest.raises(StateError, match="learner="):
        DriftSurfClassifier.from_bytes(data)
    for other in (DecisionTreeClassifier(max_depth=4), LogisticRegression(), RandomForestClassifier()):
        with pytest.raises(StateError, match="SklearnLearner"):
            DriftSurfClassifier.from_bytes(data, other)


def test_parameters_of_all_kinds_are_described() -> None:
    learner = SklearnLearner(KNeighborsClassifier(metric=np.dot), risk=np.subtract)
    model = DriftSurfClassifier(learner, random_state=0)
    text = described(model._template())
    assert '"the function dot"' in text
    assert '"the function subtract"' in text
    with pytest.raises(StateError, match="1j"):
        described(SklearnLearner(SGDClassifier(alpha=1j)))


def test_forged_entries_are_refused() -> None:
    learner = SklearnLearner(DecisionTreeClassifier(max_depth=3))
    model, samples = trained(learner, 2)
    state = model.state()
    for name, wrong in (
        ("present", np.array([7])),
        ("fit.weight", np.ones(3)),
        ("fit.n_classes", 3),
        ("lo", 1.5),
        ("strange", 1),
    ):
        with pytest.raises(StateError) as error:
            SklearnLearner.from_state(learner, state | {name: wrong})
        assert error.value.entry == name
    far = SklearnLearner.from_state(learner, state | {"fit.hi": 10**6})
    assert far.outside(Segment(0, samples.next_row)) == "fit.hi"
    model.forget(samples, samples.next_row)
    kept = model.state()
    with pytest.raises(StateError) as error:
        SklearnLearner.from_state(learner, kept | {"fit.rows.y": np.full(len(np.asarray(kept["fit.rows.y"])), 1e9)})
    assert error.value.entry == "fit.rows.y"
    sgd = SklearnLearner(SGDClassifier(**LOG))
    with pytest.raises(StateError) as error:
        SklearnLearner.from_state(sgd, trained(sgd, 2)[0].state() | {"model": np.zeros(3, np.uint8)})
    assert error.value.entry == "model"


def test_undoing_a_retirement_restores_the_model() -> None:
    model, samples = trained(SklearnLearner(DecisionTreeClassifier(), rows=100), 2)
    size = model.nbytes
    undo = model.forget(samples, samples.next_row)
    assert model.needs() == samples.next_row
    assert model.nbytes > size
    assert model.forget(samples, samples.next_row) is not None
    undo()
    assert (model.needs(), model.nbytes) == (300, size)
    assert len(samples.view(Segment(300, 400)).y) == 100


# ---------------------------------------------------------------------------- pickles in files


OPENED: list[int] = []


class Trap:
    """An object whose pickle runs code when it is read."""

    def __reduce__(self) -> Any:
        return spring, (1,)


def spring(value: int) -> None:
    OPENED.append(value)


def test_a_pickle_runs_only_when_it_is_trusted(tmp_path: Path) -> None:
    state = {"a": 1, "b": Pickled("a trap", Trap()), "c": np.arange(3.0)}
    with pytest.raises(CapabilityError, match=r"a trap.*trust_pickle=True"):
        to_bytes(state)
    data = to_bytes(state, trust_pickle=True)
    with pytest.raises(StateError, match="trust_pickle=True"):
        from_bytes(data)
    seen: Any = peek(data)["b"]
    assert isinstance(seen, Pickled)
    assert isinstance(seen.value, bytes)
    (tmp_path / "file.state").write_bytes(data)
    assert "of a trap" in CliRunner().invoke(main, ["inspect", str(tmp_path / "file.state")]).output
    assert [*OPENED] == []
    assert from_bytes(data, trust_pickle=True)["a"] == 1
    assert [*OPENED] == [1]


class Broken:
    """An object whose pickle cannot be read."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_pickle_that_cannot_be_read_is_a_state_error() -> None:
    data = to_bytes({"b": Pickled("something", Broken())}, trust_pickle=True)
    with pytest.raises(StateError, match=r"'b'.*something"):
        from_bytes(data, trust_pickle=True)


def test_an_undeclared_pickle_is_refused() -> None:
    """A file whose header does not declare its pickles is refused."""
    from tests.reliability.fuzz import sealed

    from driftsurf.core.state import PREFIX, Header

    for header in (
        Header(1, "0.1.0", 4, [["b", "pickle", "x", 4]], False),
        Header(1, "0.1.0", 4, [["b", "pickle", "x", 9]], True),
        Header(1, "0.1.0", 4, [["b", "pickle", "x", True]], True),
    ):
        body = header.to_bytes()
        data = sealed(PREFIX + len(body).to_bytes(8, "little") + body + b"abcd")
        with pytest.raises(StateError, match=r"'b'|bytes"):
            from_bytes(data, trust_pickle=True)


def test_checkpoints_hold_pickles_only_if_they_are_trusted(tmp_path: Path) -> None:
    session = Session(DriftSurf(SklearnLearner(SGDClassifier(**LOG))), classes=(0, 1))
    session.learn(*rows(60, 2))
    with CheckpointFolder(tmp_path / "a") as folder, pytest.raises(CapabilityError, match="trust_pickle=True"):
        folder.save(session.incremental_state())
    with CheckpointFolder(tmp_path / "b", trust_pickle=True) as folder:
        folder.save(session.incremental_state())
    with pytest.raises(StateError, match="trust_pickle=True"):
        CheckpointFolder(tmp_path / "b").load()
    saved = CheckpointFolder(tmp_path / "b", trust_pickle=True).load()
    assert saved is not None
    again = Session(DriftSurf(SklearnLearner(SGDClassifier(**LOG))), classes=(0, 1))
    again.restore(saved.state)
    X, _ = rows(20, 2, seed=5)
    assert np.array_equal(again.scores(X), session.scores(X))


# ---------------------------------------------------------------------------- kills


def test_runs_with_exact_learners_survive_kills_and_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "FAILURES", tmp_path / "failures")
    outcome = faults.learners(0, seed=1, stride=23)
    assert min(outcome.figures.values()) > 2
    assert outcome.failed == 0, outcome.line()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_boosting_continues_bit_for_bit(package: str) -> None:
    boosting = pytest.importorskip(package, reason=f"{package} is not installed")
    trees: Any = (
        boosting.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
        if package == "lightgbm"
        else boosting.XGBClassifier(n_estimators=5, n_jobs=1)
    )
    model = living(trees, 3)
    again = DriftSurfClassifier.from_bytes(model.to_bytes(), trees)
    for one in (model, again):
        one.partial_fit(*batch(7, 3))
    assert again.to_bytes() == model.to_bytes()
