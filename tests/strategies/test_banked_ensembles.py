"""Ensembles whose models are in a bank take generic steps to the bit: with any options, saved, undone, broken off."""

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
from numba import config
from same_steps import DISTURBANCES, disturbed, outcome, saved
from torture.lines import lines_of, raise_at

from driftsurf.core.state import to_bytes
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, DTEL, DWM, Candor
from driftsurf.strategies._ensemble import VotingStrategy
from driftsurf.strategies.compiled.slots import BankPool

pytestmark = [
    pytest.mark.python_kernels,
    # Steps that diverge compute with infinities; numpy says so where the kernels are plain Python.
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]
STRATEGIES: dict[str, Callable[..., VotingStrategy]] = {
    "aue": functools.partial(AUE, experts=4),
    "aue of one": functools.partial(AUE, experts=1),
    "aue divided": functools.partial(AUE, experts=3, budget="divided"),
    "aue equal": functools.partial(AUE, experts=5, budget="equal"),
    "dwm": functools.partial(DWM, experts=4, period=7),
    "candor": functools.partial(Candor, experts=4),
    "candor of one": functools.partial(Candor, experts=1, decay=0.0),
    "dtel": functools.partial(DTEL, experts=3),
    "dtel divided": functools.partial(DTEL, experts=1, budget="divided"),
    "dwm divided": functools.partial(DWM, experts=3, period=3, budget="divided", removal=0.1),
}
OPTIONS = st.fixed_dictionaries(
    {"seed": st.integers(0, 2**70)},
    optional={"max_rows": st.sampled_from([None, 50, 300]), "dtype": st.just("float32")},
)


def made(kind: str, learner: dict[str, Any], options: dict[str, Any], *, banked: bool = True) -> VotingStrategy:
    given = {name: value for name, value in learner.items() if name != "kind"}
    strategy = STRATEGIES[kind](KINDS[learner.get("kind", "logistic")](**given), **options)
    return strategy if banked else stepping_generically(strategy)


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
@settings(max_examples=10 if config.DISABLE_JIT else 100)  # interpreted steps are a hundred times as slow
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
    if values and kind.startswith("d"):  # there are no errors to count
        kind = "aue"
    if kind.startswith("candor"):  # the only learner with an anchor
        learner, values, classes = learner | {"kind": "logistic"}, False, 2
    generic, banked = (made(kind, learner, options, banked=choice) for choice in (False, True))
    known = generic.learner.capabilities.min_classes
    for strategy in (generic, banked):
        strategy.begin(width, sparse=sparse, n_classes=known)
    if not generic._pool.grows:
        classes = 2
    dtype = options.get("dtype", "float64")
    for batch in batches(width, seed, dtype, 24, values=values, classes=classes, sparse=sparse):
        if data.draw(st.integers(0, 9)) == 0:  # a batch without evidence
            batch = batch._replace(weight=np.zeros(len(batch.y)))
        tested = generic.test_scores(batch)
        assert banked.test_scores(batch).tobytes() == tested.tobytes()
        if data.draw(st.booleans()):
            expected, found = outcome(generic, batch, tested), outcome(banked, batch)
        else:
            expected, found = outcome(generic, batch), outcome(banked, batch, banked.test_scores(batch))
        assert found == expected
        learned = expected.startswith("Decision")
        grows = not values and batch.y.max() >= known
        assert not (learned and grows and isinstance(banked._pool, BankPool))  # the generic path makes room for a class
        if learned and grows:
            known = int(batch.y.max()) + 1
        assert saved(banked) == saved(generic)
        event = data.draw(st.sampled_from(["", "", *DISTURBANCES, "reset"]))
        make = functools.partial(made, kind, learner, options)
        banked = disturbed(banked, event, make, batch, shape=(width, known, sparse), classes=classes)
        if event == "reset":
            assert repr(banked.reset("asked")) == repr(generic.reset("asked"))
        assert saved(banked) == saved(generic)
        assert banked.scores(batch.X).tobytes() == generic.scores(batch.X).tobytes()


def drifting(steps: int, rows: int = 50) -> list[tuple[Any, Any]]:
    """Return batches whose labels are inverted every ten steps."""
    rng, made = np.random.default_rng(2), []
    for step in range(steps):
        X = rng.normal(size=(rows, 3))
        made.append((X, (X[:, 0] > 0.0) == ((step // 10) % 2 == 0)))
    return made


@pytest.mark.parametrize("kind", ["aue", "dwm", "candor", "dtel"])
def test_a_session_learns_the_same(kind: str) -> None:
    generic, banked = (Session(made(kind, {}, {"seed": 1}, banked=one)) for one in (False, True))
    for X, y in drifting(25):
        one, two = banked.observe(X, y), generic.observe(X, y)
        assert (one.scores.tobytes(), one.decisions) == (two.scores.tobytes(), two.decisions)
        strategy: Any = banked.strategy
        assert isinstance(strategy._pool, BankPool)
        assert strategy.nbytes > 0
        assert to_bytes(banked.state()) == to_bytes(generic.state())


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="interpreted kernels have thousands of lines to break off at")
@pytest.mark.parametrize("kind", ["aue", "dwm", "candor", "dtel"])
def test_a_step_can_be_broken_off_at_any_line(kind: str) -> None:
    *before, (X, y) = drifting(12)

    def begun() -> Session:
        session = Session(made(kind, {}, {"seed": 1, "max_rows": 200}), guard=None)
        for rows, labels in before:
            session.learn(rows, labels)
        return session

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


class Patient(AUE):
    """A subclass that changes a part of the step."""

    def _steps(self, segment: Any, shares: Any) -> list[int]:
        return super()._steps(segment, shares)


@pytest.mark.parametrize("experts", [3, 200])
def test_subclasses_and_very_large_ensembles_take_generic_steps(experts: int) -> None:
    strategy = (Patient if experts == 3 else AUE)(LogisticRegression(), experts=experts)
    strategy.begin(3, sparse=False, n_classes=2)
    for batch in batches(3, 0, "float64", 3):
        strategy.step(batch)
        assert not isinstance(strategy._pool, BankPool)


def test_the_models_of_a_bank_can_be_looked_at() -> None:
    generic, banked = (made("aue", {}, {"seed": 1}, banked=one) for one in (False, True))
    for strategy in (generic, banked):
        strategy.begin(3, sparse=False, n_classes=2)
        for batch in batches(3, 0, "float64", 9):
            strategy.step(batch)
    assert isinstance(banked._pool, BankPool)
    for one, two in zip(banked._live.experts, generic._live.experts, strict=True):
        assert one.learner.gradients == two.learner.gradients
        assert to_bytes(one.learner.state()) == to_bytes(two.learner.state())
