"""The verdict on a served model: its drifts and its errors as they are now."""

from __future__ import annotations

import threading

from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.evaluation.trace import Trace
from driftsurf.evaluation.verdict import verdict
from driftsurf.runs.folder import TRACE
from driftsurf.service.judgement import UNJUDGED, Judgement
from driftsurf.service.served_run import ServedRun

__all__ = ["Judge"]


class Judge:
    """Judges a model when it is asked to. The trace, which has the times of drifts, is read if a drift has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[Drifts, InputChanges] = Drifts(), InputChanges()
        """The drifts and the moves of the inputs, ..."""
        self._timed = self._known
        """... and the same with their times."""

    def judge(self, run: ServedRun | None) -> Judgement:
        """Return the verdict on the model of a run, and its drifts with their times."""
        if run is None or not run.fold.errors.rows:
            return UNJUDGED
        with self._lock:
            known = Drifts(run.drifts.known), InputChanges(run.drifts.changes)
            if known != self._known:
                trace, name = Trace.from_csv(run.newest(TRACE)), run.plan.name
                self._known, self._timed = known, (trace.timed(known[0], name), trace.timed(known[1], name))
            drifts, changes = self._timed
        return Judgement(verdict(drifts, run.fold.errors.rows, run.baselines()), tuple(drifts), tuple(changes))
