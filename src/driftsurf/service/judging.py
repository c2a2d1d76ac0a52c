"""The verdict on a served model, worked out from its trace for a small share of the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from driftsurf.core.drifts import Drifts
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import Trace
from driftsurf.evaluation.verdict import verdict_of
from driftsurf.runs.folder import SCORES, TRACE
from driftsurf.service.judgement import UNJUDGED, Judgement
from driftsurf.service.served_run import ServedRun

__all__ = ["Judge"]

SHARE = 0.1
"""Share of the time that reading the trace may take: of a long one, it is read again less often."""


class Judge:
    """Judges a model when it is asked to: anew after each drift, else for at most a tenth of the time.

    Parameters
    ----------
    clock
        Returns seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._known = UNJUDGED
        self._of: tuple[int, Drifts] = (-1, Drifts())
        """The step and the drifts that the judgement is about."""
        self._until = 0.0
        """Before this moment, the model is not judged again unless a drift has changed."""

    def judge(self, run: ServedRun | None) -> Judgement:
        """Return the verdict on the model of a run, and its drifts with their times."""
        if run is None:
            return UNJUDGED
        with self._lock:
            step, drifts = run.step, Drifts(run.drifts.known)
            began = self.clock()
            if drifts != self._of[1] or (step != self._of[0] and began >= self._until):
                self._known, self._of = _judged(run, drifts), (step, drifts)
                now = self.clock()
                self._until = now + (now - began) * (1 / SHARE - 1)
            return self._known


def _judged(run: ServedRun, drifts: Drifts) -> Judgement:
    trace = Trace.from_csv(run.newest(TRACE))
    if trace.is_empty:
        return UNJUDGED
    model = trace.models[0]
    timed = trace.timed(drifts, model)
    found = verdict_of(trace, model, timed, Scores.from_text(run.newest(SCORES), trace.warmup_steps))
    return Judgement(found, tuple(timed), tuple(run.input_changes))
