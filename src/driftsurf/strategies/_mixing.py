"""The last targets as columns, and the saved state of what mixes the experts of a portfolio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, FieldRule, Fields, Real, Truth, Values, Whole
from driftsurf.core.state import nest, pick
from driftsurf.native import maths
from driftsurf.native.portfolio import Chain, Last, Mixer, PortfolioState
from driftsurf.strategies._residuals import Residuals

LARGEST = 1e12
"""Weights and curvatures stay within this."""
MEMORIES = 5.0, 25.0
"""Numbers of rows in which the two running means of a trail lose half of their value."""
TRAIL = 3 + len(MEMORIES)
"""Number of columns of a trail."""
LONGEST = 250
"""Of a batch, so many last targets count for a trail; its means have forgotten the ones before."""


@dataclass(frozen=True)
class Trail:
    """The last targets, as columns that trees can split: the last three, and two running means."""

    last: tuple[float, ...] = (0.0,) * 3
    """The last targets, the newest first."""
    sums: tuple[float, ...] = (0.0,) * len(MEMORIES)
    """Sums of the targets, of which older ones are forgotten."""
    masses: tuple[float, ...] = (0.0,) * len(MEMORIES)
    """The same sums with ones in place of targets."""

    @property
    def columns(self) -> tuple[float, ...]:
        """Values of the columns for the next rows."""
        return (*self.last, *(sum_ / mass if mass else 0.0 for sum_, mass in zip(self.sums, self.masses, strict=True)))

    def after(self, y: FloatArray) -> Trail:
        """Return the trail after these targets."""
        found = self
        for target in y[-LONGEST:].tolist():
            parts = zip(FORGOTTEN, found.sums, found.masses, strict=True)
            sums, masses = zip(*((keep * old + target, keep * mass + 1.0) for keep, old, mass in parts), strict=True)
            found = Trail((target, *found.last[:-1]), sums, masses)
        return found

    def beside(self, X: FloatArray) -> FloatArray:
        """Return rows with these columns after their own, the same in each row.

        >>> Trail().after(np.array([1.0, 0.0])).beside(np.array([[7.0]])).round(2)
        array([[7.  , 0.  , 1.  , 0.  , 0.47, 0.49]])
        """
        rows = np.empty((len(X), X.shape[1] + TRAIL), X.dtype)
        rows[:, :-TRAIL], rows[:, -TRAIL:] = X, self.columns
        return rows

    def along(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Return rows with columns of the targets before each of them, those of earlier rows of ``X`` included."""
        rows, trail = self.beside(X), self
        for place in range(1, len(y)):
            trail = trail.after(y[place - 1 : place])
            rows[place, -TRAIL:] = trail.columns
        return rows

    def state(self) -> State:
        """Return the entries to save."""
        return {name: np.array(value) for name, value in vars(self).items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the trail that ``state()`` was called on."""
        return cls(**{name: tuple(values.tolist()) for name, values in PAST.read(state).items()})


NO_TRAIL = Trail()


def mixing_state(live: PortfolioState) -> State:
    """Return the entries of what mixes the experts."""
    state = nest("mixer", live.mixer.state())
    state |= {} if live.chain is None else nest("chain", live.chain.state())
    state |= {} if live.trail == NO_TRAIL else nest("trail", live.trail.state())
    state |= {} if live.blend is None else nest("blend", live.blend.state())
    return state if live.residuals is None else state | nest("residuals", live.residuals.state())


def mixing_from(state: Mapping[str, Any], experts: int, n_classes: int, seeing: int = 0) -> dict[str, Any]:
    """Return the fields of ``PortfolioState`` that mix the experts, from the entries that ``mixing_state`` wrote.

    ``seeing`` experts more see earlier targets.
    """
    found: dict[str, Any] = {"mixer": _mixer_from(pick("mixer", state), experts, votes=bool(n_classes))}
    if chain := pick("chain", state):
        found["chain"] = _chain_from(chain, n_classes) if n_classes else _last_from(chain)
    if blend := pick("blend", state):
        found["blend"] = _mixer_from(blend, experts + seeing + 1, votes=bool(n_classes))
    trail = pick("trail", state)
    found["trail"] = Trail.from_state(trail) if trail else NO_TRAIL
    if not n_classes:  # version 0.2 had none
        residuals = pick("residuals", state)
        found["residuals"] = Residuals.from_state(residuals) if residuals else Residuals.of_nothing()
    return found


def _mixer_from(state: Mapping[str, Any], experts: int, *, votes: bool) -> Mixer:
    known = MIXER.read(state, parts=2 * experts if votes else experts)
    return Mixer(known["weights"], known["precision"], votes, known.get("unit", 0.0))


def _chain_from(state: Mapping[str, Any], n_classes: int) -> Chain:
    known = CHAIN.read(state, n_classes=n_classes)
    return Chain(*(known[name] for name in CHAIN.entries))


def _last_from(state: Mapping[str, Any]) -> Last:
    known = NUMBER.read(state)
    return Last(known["value"], known["known"])


FORGOTTEN = tuple(maths.power(0.5, 1.0 / memory) for memory in MEMORIES)
PAST = Fields(
    {
        "last": Array(np.float64, (3,)),
        "sums": Array(np.float64, (len(MEMORIES),)),
        "masses": Array(np.float64, (len(MEMORIES),), least=0.0, most=100.0),
    }
)
"""Saved entries of a trail."""
NUMBER = Fields({"value": Real(), "known": Truth()})
"""Saved entries of a last number."""
CHAIN = Fields(
    {
        "counts": Array(np.float64, ("known", "known"), least=0.0, most=1e12),
        "rates": Array(np.float64, (2, "known"), least=0.0, most=1e15),
        "last": Whole(-1),
        "lead": Real(),
    },
    rules=[
        FieldRule(
            "counts", "must be for no more classes than there are", lambda known: known["known"] <= known["n_classes"]
        ),
        FieldRule("last", "must be the code of a class that is counted", lambda known: known["last"] < known["known"]),
    ],
)
"""Saved entries of a chain."""


def _is_positive(known: Values) -> bool:
    A = known["precision"]
    if not (A == A.T).all():
        return False
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    return True


MIXER = Fields(
    {
        "weights": Array(np.float64, ("parts",), least=0.0, most=LARGEST),
        "precision": Array(np.float64, ("parts", "parts"), least=-LARGEST, most=LARGEST),
        "unit": Real(0.0),
    },
    optional=["unit"],
    rules=[FieldRule("precision", "must be symmetric and positive definite", _is_positive)],
)
"""Saved entries of a mixer."""
