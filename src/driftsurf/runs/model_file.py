"""The model of a run as a file: what has been learned with how tables are encoded, in one object to be loaded."""

from __future__ import annotations

from pathlib import Path

from driftsurf import registry
from driftsurf.estimators.saved import can_be_saved, write_session
from driftsurf.runs.late_session import LateSession
from driftsurf.runs.live import LiveRun
from driftsurf.session.session import Session

__all__ = ["write_model"]


def write_model(live: LiveRun, path: Path) -> str:
    """Write the leading model of a run; return why it was not written, or "".

    Rows that wait for a late label are not part of the model.
    """
    leading = live.models[live.leading]
    session = leading.session if isinstance(leading, LateSession) else leading
    reason = _reason(session)
    if not reason:
        assert isinstance(session, Session)
        write_session(path, session, live.plan.frames())
    return reason


def _reason(model: object) -> str:
    """Return why a model cannot be written, or ""."""
    if not isinstance(model, Session) or registry.find("strategy", type(model.strategy)) is None:
        return "the strategy is not registered with driftsurf"
    if model.schema is None:
        return "it has learned nothing"
    learner = model.strategy.learner
    if not can_be_saved(learner):
        return f"the learner {registry.name_of('learner', learner)} cannot be saved"
    return ""
