"""The model of a run as a file: what has been learned with how tables are encoded, in one object to be loaded."""

from __future__ import annotations

from pathlib import Path

from driftsurf import registry
from driftsurf.core import files
from driftsurf.estimators.saved import session_bytes
from driftsurf.runs.late_session import LateSession
from driftsurf.runs.live import LiveRun
from driftsurf.session.session import Session

__all__ = ["write_model"]

LARGEST_MODEL = 2**28
"""Bytes of rows and models above which a model is not written: a run with the paper's settings keeps every row."""


def write_model(live: LiveRun, path: Path) -> str:
    """Write the leading model of a run; return why it was not written, or "".

    Rows that wait for a late label are not part of the model.
    """
    leading = live.models[live.leading]
    session = leading.session if isinstance(leading, LateSession) else leading
    reason = _reason(session)
    if not reason:
        assert isinstance(session, Session)
        files.write_bytes(path, session_bytes(session, live.plan.frames()))
    return reason


def _reason(model: object) -> str:
    """Return why a model cannot be written, or ""."""
    if not isinstance(model, Session) or registry.find("strategy", type(model.strategy)) is None:
        return "the strategy is not registered with driftsurf"
    if model.schema is None:
        return "it has learned nothing"
    learner = model.strategy.learner
    if not learner.capabilities.exact_state:
        return f"only pickle can save the learner {type(learner).__name__}"
    if model.strategy.nbytes > LARGEST_MODEL:
        return f"its rows take more than {LARGEST_MODEL // 2**20} MB; limit them with max_rows"
    return ""
