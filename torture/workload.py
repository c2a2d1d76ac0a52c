"""A small run with everything in it: two models, drifts, reactive states, a capped store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LogisticRegression
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.runtime.run import JOURNAL, TRACE, Run
from driftsurf.runtime.session import Session
from driftsurf.runtime.source import StreamSource
from driftsurf.state import to_bytes
from driftsurf.strategies import Aware, DriftSurf
from driftsurf.streams import ArrayStream, Drift


@dataclass(frozen=True)
class Workload:
    """What to run: ``steps`` batches of ``rows`` rows, with a checkpoint after ``every`` of them."""

    steps: int = 24
    rows: int = 15
    every: int = 2
    max_rows: int = 120
    seed: int = 0
    learner: Any = field(default_factory=LogisticRegression)

    @property
    def stream(self) -> ArrayStream:
        """Labels that turn around twice."""
        return _stream(self.steps, self.rows, self.seed)

    def run(self, folder: CheckpointFolder) -> Run:
        """The run, not yet begun."""
        learner, stream = self.learner, self.stream
        sessions = {
            "driftsurf": Session(DriftSurf(learner, max_rows=self.max_rows, reactive_length=3), classes=(-1, 1)),
            "aware": Session(Aware(learner, stream.drift_steps(self.rows), max_rows=self.max_rows), classes=(-1, 1)),
        }
        source, recorder = StreamSource(stream, self.rows), TraceRecorder(stream, self.rows)
        return Run(source, sessions, recorder, folder.path.joinpath, folder=folder, every=self.every)

    def finish(self, path: Path) -> dict[str, str]:
        """Begin or go on in this folder, to the end."""
        with CheckpointFolder(path) as folder, self.run(folder) as run:
            saved = folder.load()
            if saved is None:
                run.begin()
            else:
                run.resume(saved)
            run.go()
            return digests(run)

    def reference(self, path: Path) -> tuple[dict[str, str], list[str]]:
        """What comes of it undisturbed, and the digest of the state at each checkpoint."""
        states: list[str] = []
        with CheckpointFolder(path) as folder, self.run(folder) as run:
            save = folder.save

            def watched(state, outputs=None, spare=()):  # type: ignore[no-untyped-def]
                number = save(state, outputs, spare)
                states.append(state_digest(state))
                return number

            folder.save = watched  # type: ignore[method-assign]
            run.begin()
            run.go()
            return digests(run), states


def state_digest(state: object) -> str:
    """The digest of a state, whatever grows in it."""
    return hashlib.sha256(to_bytes(state)).hexdigest()  # type: ignore[arg-type]


def digests(run: Run) -> dict[str, str]:
    """What must be the same: every model, the journal, the trace."""
    models = {name: hashlib.sha256(to_bytes(session.state())).hexdigest() for name, session in run.sessions.items()}
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
