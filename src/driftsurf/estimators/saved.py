"""The saved form of an estimator, which needs no scikit-learn to be written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from driftsurf.core.contracts import Strategy
from driftsurf.core.fields import Fields, Text
from driftsurf.core.state import nest, to_bytes
from driftsurf.core.targets import ClassTargets
from driftsurf.data.frame_encoder import FrameEncoder
from driftsurf.errors import CapabilityError
from driftsurf.session.described import described, to_json_value
from driftsurf.session.session import Session

__all__ = ["FIELDS", "SUFFIXES", "EstimatorTask", "estimator_bytes", "estimator_name", "session_bytes"]

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
    learner = session.strategy.learner
    can = learner.capabilities
    if not can.exact_state and can.state_kind != "pickle":
        raise CapabilityError(f"{type(learner).__name__} cannot be saved exactly (capability 'exact_state')")
    head = {
        "estimator": name,
        "params": json.dumps(params, sort_keys=True, default=to_json_value),
        "learner": type(learner).__name__,
        "learner_params": described(learner),
    }
    encoder = {} if frames is None else frames.state()
    with session.lock:  # the arrays of a state are views, valid until the next step
        state = head | nest("session", session.state()) | nest("encoder", encoder)
        return to_bytes(state, trust_pickle=trust_pickle)


def session_bytes(session: Session, frames: FrameEncoder | None) -> bytes:
    """Return a session that has learned as the bytes of an estimator around its strategy."""
    params = session.strategy.get_params(deep=False)
    params |= {"batch_size": session.batch_size, "guard": session.guard_factor, "random_state": params["seed"]}
    targets = session.targets
    if isinstance(targets, ClassTargets):
        params["classes"] = list(targets.labels) if targets.closed else None
    own = {name: value for name, value in params.items() if name not in ("learner", "seed")}
    return estimator_bytes(estimator_name(session.strategy), own, session, frames)


def estimator_name(strategy: Strategy) -> str:
    """Return the name of the estimator class of a strategy."""
    task: EstimatorTask = "regression" if strategy.learner.capabilities.regression else "classification"
    return type(strategy).__name__ + SUFFIXES[task]
