"""What the experts of a portfolio that compare models by batches do while few rows are learned at a time.

The risk of a single row is noise: a DriftSurf that is given rows one at a time reacts to it all the time. So the rows
of small batches are gathered, and these experts learn them together.
"""

from __future__ import annotations

from typing import Any

from driftsurf.core.contracts import Batch, Segment
from driftsurf.core.decisions import Decision, ModelRecord
from driftsurf.core.journal import Decided, Outcome
from driftsurf.core.samples import Samples
from driftsurf.strategies.driftsurf import DriftSurf

SMALL = 8
"""Batches of fewer rows are gathered, until there are so many at first, and then as many as have been learned."""
MOST = 30
"""Largest number of rows that are gathered."""


def gathers(expert: Any) -> bool:
    """Return whether an expert learns the rows of small batches together."""
    return type(expert) is DriftSurf


def due_batch(waiting: Samples, batch: Batch, learned: int) -> Batch | None:
    """Return the rows that are learned now, the gathered ones included; None if more are gathered first.

    ``learned`` is the number of rows that the experts have learned; the first batch is learned as it is.
    """
    if not len(waiting) and (len(batch.y) >= SMALL or not learned):
        return batch
    waiting.append(batch.X, batch.y, batch.weight)
    if len(waiting) < min(MOST, max(SMALL, learned)):
        return None
    return waiting.view(Segment(waiting.first_row, waiting.next_row))


class Resting(Decided):
    """The outcome of a step in which an expert has learned nothing and gathered rows."""

    __slots__ = ()
    switched = False

    @classmethod
    def after(cls, outcome: Outcome | None, expert: Any) -> Resting:
        """Return it for an expert whose last step had this outcome; None if that is not known, as after a restore."""
        if isinstance(outcome, Resting):
            return outcome
        if outcome is None:
            live = expert._live
            model, reactive = live.predictor, live.reactive is not None
            own = ModelRecord("predictive", model.id, live.step - 1 - model.born, model.first_row)
        else:
            made = outcome.decision()
            ended = any(one.kind in ("switched", "kept") for one in made.transitions)
            reactive = made.state == "reactive" and not ended
            known = (one for one in made.models if one.id == made.predicts_next)
            last = next(known, ModelRecord("predictive", made.predicts_next, 0, made.first_row))
            own = ModelRecord("predictive", last.id, last.age, last.first_row)
        state: Any = "reactive" if reactive else "stable"
        return cls(Decision(own.age, own.first_row, 0, state, own.id, own.first_row, own.id, (own,)))
