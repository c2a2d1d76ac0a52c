"""Sessions: a strategy in use, in memory. Checked rows in, predictions and decisions out.

This package holds the session itself, its observations, the guard against extreme rows, labels that arrive late, and
models by name. Files, sources, threads and signals do not belong here; a session that must survive a crash is a run
(:mod:`driftsurf.runs`).
"""

from driftsurf.session.observation import Observation
from driftsurf.session.session import Session

__all__ = ["Observation", "Session"]
