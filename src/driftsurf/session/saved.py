"""The saved form of an estimator, which needs no scikit-learn to be written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from driftsurf.core import files
from driftsurf.core.contracts import Learner, State, Strategy
from driftsurf.core.fields import Fields, Text
from driftsurf.core.state import nest, to_bytes, to_parts
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import CapabilityError
from driftsurf.registry import name_of
from driftsurf.session.described import described, to_json_value
from driftsurf.session.session import Session

if TYPE_CHECKING:
    from driftsurf.data.row_encoder import FrameEncoder

EstimatorTask: TypeAlias = Literal["classification", "regression"]
SUFFIXES: dict[EstimatorTask, str] = {"classification": "Classifier", "regression": "Regressor"}
"""How the name of an estimator ends, by its task."""

FIELDS = Fields(
    dict.fromkeys(("estimator", "params", "learner", "learner_params"), Text()), parts=["session", "encoder"]
)
"""Saved entries of an estimator; its parts declare their own."""


def estimator_bytes(
    name: str,
    params: Mapping[str, Any],
    session: Session,
    frames: FrameEncoder | None,
    *,
    trust_pickle: bool = False,
) -> bytes:
    """Return the bytes of an estimator: its class, its parameters, its session and the encoding of its tables."""
    head = _head(name, params, session)
    with session.lock:  # the arrays of a state are views, valid until the next step
        return to_bytes(_state(head, session, frames), trust_pickle=trust_pickle)


def _head(name: str, params: Mapping[str, Any], session: Session) -> State:
    """Return the entries that describe an estimator; CapabilityError if its learner cannot be saved."""
    learner = session.strategy.learner
    if not can_be_saved(learner):
        raise CapabilityError(
            f"the learner {name_of('learner', learner)} cannot be saved exactly (capability 'exact_state')"
        )
    return {
        "estimator": name,
        "params": json.dumps(params, sort_keys=True, default=to_json_value),
        "learner": type(learner).__name__,
        "learner_params": described(learner),
    }


def _state(head: State, session: Session, frames: FrameEncoder | None) -> State:
    """Return all entries of an estimator."""
    encoder = {} if frames is None else frames.state()
    return head | nest("session", session.state()) | nest("encoder", encoder)


def can_be_saved(learner: Learner) -> bool:
    """Return whether a learner can be saved, exactly or by pickle."""
    return learner.capabilities.exact_state or learner.capabilities.state_kind == "pickle"


def session_bytes(session: Session, frames: FrameEncoder | None) -> bytes:
    """Return a session that has learned as the bytes of an estimator around its strategy."""
    with session.lock:
        return to_bytes(_session_state(session, frames))


def write_session(path: Path, session: Session, frames: FrameEncoder | None) -> None:
    """Write the bytes of ``session_bytes`` to a file, without a copy of the rows in memory.

    A learner that only pickle can save is written too; to load it, pickle has to be trusted.
    """
    with session.lock:
        files.write_parts(path, to_parts(_session_state(session, frames), trust_pickle=True))


def _session_state(session: Session, frames: FrameEncoder | None) -> State:
    """Return the entries of a session that has learned, as those of an estimator around its strategy."""
    params = session.strategy.get_params(deep=False)
    params |= {"batch_size": session.batch_size, "guard": session.guard_factor, "random_state": params["seed"]}
    targets = session.targets
    if isinstance(targets, ClassTargets):
        params["classes"] = list(targets.labels) if targets.closed else None
    own = {name: value for name, value in params.items() if name not in ("learner", "seed")}
    return _state(_head(estimator_name(session.strategy), own, session), session, frames)


def estimator_name(strategy: Strategy) -> str:
    """Return the name of the estimator class of a strategy."""
    task: EstimatorTask = "regression" if strategy.learner.capabilities.regression else "classification"
    return type(strategy).__name__ + SUFFIXES[task]
