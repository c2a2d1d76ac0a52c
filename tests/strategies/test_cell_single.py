"""Native steps of strategies with one model equal generic ones to the bit, with resets, saving, undoing, sessions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from generic_steps import stepping_generically
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_steps import KINDS, LEARNERS, WIDTHS, batches
from same_steps import check_same_steps
from tests.reliability.lines import lines_of, raise_at

from driftsurf.core.contracts import Batch
from driftsurf.core.state import to_bytes
from driftsurf.detectors import ADWIN, DDM, EDDM, FHDDM, MDDM
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import PERM, Aware, ExponentialDecay, LinearDecay, Oblivious, ResetOnDrift, SlidingWindow
from driftsurf.strategies._single import SingleModel

DRIFTS = [3, 8, 9, 16]
STRATEGIES: dict[str, Callable[..., SingleModel]] = {
    "oblivious": Oblivious,
    "aware": lambda learner, **options: Aware(learner, DRIFTS, **options),
    "aware after": lambda learner, **options: Aware(learner, DRIFTS, informed="after", **options),
    "window": lambda learner, **options: SlidingWindow(learner, window=90, **options),
    "short window": lambda learner, **options: SlidingWindow(learner, window=20, **options),
    "linear decay": lambda learner, **options: LinearDecay(learner, window=150, **options),
    "exponential decay": lambda learner, **options: ExponentialDecay(learner, half_life=12.5, **options),
    "mddm": lambda learner, **options: ResetOnDrift(learner, MDDM(), **options),
    "ddm": lambda learner, **options: ResetOnDrift(learner, DDM(), **options),
    "eddm": lambda learner, **options: ResetOnDrift(learner, EDDM(), **options),
    "adwin": lambda learner, **options: ResetOnDrift(learner, ADWIN(), **options),
    "fhddm": lambda learner, **options: ResetOnDrift(learner, FHDDM(), **options),
}
OPTIONS = st.fixed_dictionaries(
    {"seed": st.integers(0, 2**70)},
    optional={"max_rows": st.sampled_from([None, 50, 300]), "dtype": st.just("float32")},
)


def made(kind: str, learner: dict[str, Any], options: dict[str, Any], *, compiled: bool = True) -> SingleModel:
    given = {name: value for name, value in learner.items() if name != "kind"}
    strategy = STRATEGIES[kind](KINDS[learner.get("kind", "logistic")](**given), **options)
    return strategy if compiled else stepping_generically(strategy)


@pytest.mark.parametrize("sparse", [False, True])
@given(
    kind=st.sampled_from([*STRATEGIES]),
    width=WIDTHS,
    classes=st.sampled_from([2, 2, 4]),
    learner=LEARNERS,
    options=OPTIONS,
    seed=st.integers(0, 999),
    data=st.data(),
)
@settings(max_examples=100)
def test_it_takes_the_same_steps(
    sparse: bool,
    kind: str,
    width: int,
    classes: int,
    learner: dict[str, Any],
    options: dict[str, Any],
    seed: int,
    data: st.DataObject,
) -> None:
    values = learner["kind"] in ("linear", "huber")
    if values and kind in ("mddm", "ddm", "eddm", "adwin", "fhddm"):  # there are no errors to watch
        kind = "oblivious"
    check_same_steps(
        functools.partial(made, kind, learner, options), width, classes, seed, data,
        values=values, sparse=sparse, renews=True,
    )  # fmt: skip


def drifting(steps: int, rows: int = 50) -> list[tuple[Any, Any]]:
    """Return batches whose labels are inverted every ten steps."""
    rng, made = np.random.default_rng(2), []
    for step in range(steps):
        X = rng.normal(size=(rows, 3))
        made.append((X, (X[:, 0] > 0.0) == ((step // 10) % 2 == 0)))
    return made


@pytest.mark.parametrize("kind", ["oblivious", "aware", "aware after", "mddm", "window", "linear decay"])
@pytest.mark.parametrize("guard", [None, 2.0])
def test_a_session_learns_the_same(kind: str, guard: float | None) -> None:
    generic, compiled = (Session(made(kind, {}, {"seed": 1}, compiled=one), guard=guard) for one in (False, True))
    resets = 0
    for number, (X, y) in enumerate(drifting(40)):
        if number % 7 == 6:
            X = X.copy()
            X[3, 1] = 1e3
        if number % 2:
            assert repr(compiled.learn(X, y)) == repr(generic.learn(X, y))
        else:
            one, two = compiled.observe(X, y), generic.observe(X, y)
            assert (one.scores.tobytes(), one.decisions) == (two.scores.tobytes(), two.decisions)
            resets += sum(len(decision.transitions) for decision in one.decisions)
        strategy: Any = compiled.strategy
        assert strategy._cell is not None
        assert strategy.nbytes > 0
        assert to_bytes(compiled.state()) == to_bytes(generic.state())
    assert (resets > 0) == (kind not in ("oblivious", "window", "linear decay"))


@pytest.mark.parametrize("kind", ["aware after", "mddm"])
def test_a_step_with_a_reset_can_be_broken_off_at_any_line(kind: str) -> None:
    *before, (X, y) = drifting(17 if kind == "aware after" else 11)

    def begun() -> Session:
        session = Session(made(kind, {}, {"seed": 1, "max_rows": 200}), guard=None)
        for rows, labels in before:
            session.learn(rows, labels)
        return session

    (decision,) = begun().learn(X, y)
    assert len(decision.transitions) == 1
    done = begun()
    states = [to_bytes(begun().state())]
    count = lines_of(functools.partial(done.learn, X, y))
    states.append(to_bytes(done.state()))
    seen = set[int]()
    for line in range(1, count + 1):
        session = begun()
        assert raise_at(line, functools.partial(session.learn, X, y))
        seen.add(states.index(to_bytes(session.state())))
    assert seen == {0, 1}


class Broken(MDDM):
    """A detector that fails when it has seen a thousand rows."""

    def update(self, values: Any) -> Any:
        self.fed = getattr(self, "fed", 0) + len(values)
        if self.fed > 1_000:
            raise ValueError("no more rows")
        return super().update(values)


def test_an_error_of_the_detector_changes_nothing() -> None:
    strategy = ResetOnDrift(LogisticRegression(), Broken(), seed=1)
    strategy.begin(3, sparse=False, n_classes=2)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    batch = Batch(X, (X[:, 0] > 0.0).astype(float), np.ones(100))
    for _ in range(10):
        strategy.step(batch)
    before = to_bytes(strategy.state())
    with pytest.raises(ValueError, match="no more rows"):
        strategy.step(batch)
    assert to_bytes(strategy.state()) == before


class Patient(Aware):
    """A subclass that changes a part of the step."""

    def _fit(self, model: Any, segment: Any, undo: Any) -> int:
        return super()._fit(model, segment, undo)


@pytest.mark.parametrize("kind", [PERM, Patient])
def test_others_take_generic_steps(kind: Callable[..., SingleModel]) -> None:
    strategy = kind(LogisticRegression())
    strategy.begin(3, sparse=False, n_classes=2)
    for batch in batches(3, 0, "float64", 3):
        strategy.step(batch)
        assert strategy._cell is None
