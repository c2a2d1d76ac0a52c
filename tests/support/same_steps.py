"""Compares compiled time steps with generic ones, to the bit, while a strategy is saved, undone and copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from generic_steps import stepping_generically
from hypothesis import strategies as st
from linear_steps import batches

from driftsurf.core.contracts import Batch
from driftsurf.core.state import to_bytes
from driftsurf.errors import DivergenceError

DISTURBANCES = "saved", "undone", "copied", "pickled"
"""Events between two steps for ``disturbed``."""


def outcome(strategy: Any, batch: Batch, tested: Any = None) -> str:
    """Return the decision of a step as text, or its error; unscaled columns and a large step size may diverge."""
    try:
        return repr(strategy.step(batch, tested))
    except DivergenceError as error:
        return str(error)


def saved(strategy: Any) -> bytes:
    return to_bytes(strategy.state())


def disturbed(
    strategy: Any, event: str, make: Callable[[], Any], batch: Batch, *, shape: tuple[int, int, bool], classes: int
) -> Any:
    """Return a strategy that was saved, undone, copied or pickled between two steps, which changes nothing.

    ``make`` returns the strategy as it was before it learned anything. ``shape`` is the number of columns and of known
    classes, and whether rows are sparse; ``classes`` is the number of classes of the stream. Any other event leaves
    the strategy as it is.
    """
    match event:
        case "saved":
            state = strategy.state()
            strategy = make()
            width, n_classes, sparse = shape
            strategy.restore(state, width, sparse=sparse, n_classes=n_classes)
        case "undone":
            mark = strategy.mark()
            outcome(strategy, batch._replace(y=classes - 1.0 - batch.y))
            strategy.put_back(mark)
        case "copied":
            strategy = copy.deepcopy(strategy)
        case "pickled":
            strategy = pickle.loads(pickle.dumps(strategy))
    return strategy


def check_same_steps(
    make: Callable[[], Any],
    width: int,
    classes: int,
    seed: int,
    data: st.DataObject,
    *,
    values: bool,
    sparse: bool,
    renews: bool = False,
) -> None:
    """Check that a strategy takes the same native steps as generic ones.

    Parameters
    ----------
    make
        Returns the strategy, which has learned nothing.
    width, classes, seed, values, sparse
        Which batches it learns.
    data
        Draws what happens between two steps.
    renews
        Whether the strategy leaves further steps to the generic path: those that replace its model.
    """
    generic, compiled = stepping_generically(make()), make()
    known = generic.learner.capabilities.min_classes
    for strategy in (generic, compiled):
        strategy.begin(width, sparse=sparse, n_classes=known)
    if not generic._pool.grows:
        classes = 2
    for batch in batches(width, seed, generic.dtype, 24, values=values, classes=classes, sparse=sparse):
        tested = generic.test_scores(batch)
        assert compiled.test_scores(batch).tobytes() == tested.tobytes()
        asked = tested if data.draw(st.booleans()) else None
        expected = outcome(generic, batch, asked)
        assert outcome(compiled, batch, asked) == expected
        assert saved(compiled) == saved(generic)
        if expected.startswith("Decision"):
            assert renews or compiled._cell is not None  # a new class is learned in a larger cell
            known = known if values else max(known, int(batch.y.max()) + 1)
        event = data.draw(st.sampled_from(["", "", *DISTURBANCES]))
        compiled = disturbed(compiled, event, make, batch, shape=(width, known, sparse), classes=classes)
        assert saved(compiled) == saved(generic)
