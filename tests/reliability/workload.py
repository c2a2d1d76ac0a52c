"""A small run that uses everything: two models, drifts, reactive states, a bounded sample store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core.state import to_bytes
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LogisticRegression
from driftsurf.runs.batches import StreamBatches
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.execute import RunLoop
from driftsurf.runs.folder import JOURNAL, TRACE
from driftsurf.runs.live import LiveRun
from driftsurf.runs.plan import RunPlan
from driftsurf.session.session import Session
from driftsurf.strategies import Aware, DriftSurf
from driftsurf.streams import ArrayStream, Drift


@dataclass(frozen=True)
class Workload:
    """Run of ``steps`` batches of ``rows`` rows, with a checkpoint after every ``every`` batches."""

    steps: int = 24
    rows: int = 15
    every: int = 2
    max_rows: int = 120
    seed: int = 0
    learner: Any = field(default_factory=LogisticRegression)

    @property
    def stream(self) -> ArrayStream:
        """Stream whose labels are inverted twice."""
        return _stream(self.steps, self.rows, self.seed)

    def run(self, folder: CheckpointFolder) -> LiveRun:
        """Return the run, not yet begun."""
        learner, stream = self.learner, self.stream
        sessions = {
            "driftsurf": Session(DriftSurf(learner, max_rows=self.max_rows, reactive_length=3), classes=(-1, 1)),
            "aware": Session(Aware(learner, stream.drift_steps(self.rows), max_rows=self.max_rows), classes=(-1, 1)),
        }
        plan = RunPlan(
            name=stream.name,
            source=StreamBatches(stream, self.rows),
            models=sessions,
            recorder=TraceRecorder(stream, self.rows),
            every=self.every,
        )
        return LiveRun(plan, folder.path.joinpath, folder)

    def finish(self, path: Path) -> dict[str, str]:
        """Begin or resume the run in this folder, run it to its end, and return its digests."""
        with CheckpointFolder(path) as folder, self.run(folder) as run:
            saved = folder.load()
            if saved is None:
                run.begin()
            else:
                run.resume(saved)
            RunLoop(run).run()
            return digests(run)

    def reference(self, path: Path) -> tuple[dict[str, str], list[str]]:
        """Return the digests of an undisturbed run, and those of the state at each checkpoint."""
        states: list[str] = []
        with CheckpointFolder(path) as folder, self.run(folder) as run:
            save = folder.save

            def watched(state, outputs=None, spare=()):  # type: ignore[no-untyped-def]
                number = save(state, outputs, spare)
                states.append(state_digest(state))
                return number

            folder.save = watched  # type: ignore[method-assign]
            run.begin()
            RunLoop(run).run()
            return digests(run), states


def state_digest(state: object) -> str:
    """Return the digest of a state."""
    return hashlib.sha256(to_bytes(state)).hexdigest()  # type: ignore[arg-type]


def digests(run: LiveRun) -> dict[str, str]:
    """Return the digests of everything that must be the same: each model, the journal, the trace."""
    models = {name: hashlib.sha256(to_bytes(session.state())).hexdigest() for name, session in run.models.items()}
    grown = {name: hashlib.sha256(run.text(name).encode()).hexdigest() for name in (JOURNAL, TRACE)}
    return models | grown


@cache
def _stream(steps: int, rows: int, seed: int) -> ArrayStream:
    generator = np.random.default_rng(seed)
    count = steps * rows
    X = generator.normal(size=(count, 3)).round(3)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)
    drifts = (count // 3, 2 * count // 3)
    y[drifts[0] : drifts[1]] *= -1
    return ArrayStream(X, y, drifts=tuple(Drift(place, place) for place in drifts), name="turning")
