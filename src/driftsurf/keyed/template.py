"""The model that every key of a fleet starts with: as it is given, as a session, and as saved text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from driftsurf import registry
from driftsurf.core.abilities import check_contract
from driftsurf.core.contracts import Strategy
from driftsurf.core.options import whole
from driftsurf.core.targets import ClassTargets
from driftsurf.core.typing import Classes, LearnerLike
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.session.described import described, part_from_json, same_learner, to_json_value
from driftsurf.session.protocols import SessionMaker
from driftsurf.session.session import Session

__all__ = ["BATCH_SIZE", "FleetModel", "template_from", "template_of", "template_settings"]

BATCH_SIZE = 32
"""Rows of a time step, unless a model or its owner says otherwise."""
FleetModel: TypeAlias = SessionMaker | Strategy | Session
"""An estimator, a strategy, or a session."""


def template_of(model: FleetModel, classes: Classes | None = None, batch_size: int | None = None) -> Session:
    """Return the session that every key starts with, apart from its seed; ``model`` is not changed.

    ``classes`` are those of a strategy; an estimator or a session has its own.
    """
    given: Any = model
    if isinstance(model, Session | SessionMaker) and not isinstance(given, type):
        if classes is not None:
            raise OptionError(f"classes is {classes!r}, but the model {model!r} has its own: set them there")
        found = model if isinstance(model, Session) else model.make_session()
        targets = found.targets
        closed = isinstance(targets, ClassTargets) and targets.closed
        strategy, guard, classes = found.strategy, found.guard_factor, targets.labels if closed else None
        batch_size = found.batch_size if batch_size is None else batch_size
    else:
        choices = "an estimator such as DriftSurfClassifier(), or a strategy; Fleet(n_features=3) has a default model"
        check_contract(given, Strategy, "model", choices)
        strategy, guard = given, None
    size = BATCH_SIZE if batch_size is None else whole("batch_size", batch_size, at_least=1, otherwise=", or None")
    return Session(strategy.fresh(0), classes=classes, batch_size=size, guard=guard)


def template_settings(template: Session) -> dict[str, Any]:
    """Return all that makes a template, as plain values; CapabilityError if that cannot be saved."""
    strategy, learner, targets = template.strategy, template.strategy.learner, template.targets
    entry, can = registry.find("strategy", type(strategy)), learner.capabilities
    if entry is None:
        raise CapabilityError(f"{strategy!r} is not registered, so that a fleet of it cannot be saved")
    if not can.exact_state and can.state_kind != "pickle":
        raise CapabilityError(
            f"the learner {registry.name_of('learner', learner)} cannot be saved exactly (capability 'exact_state')"
        )
    options = {
        name: value for name, value in strategy.get_params(deep=False).items() if name not in ("learner", "seed")
    }
    closed = isinstance(targets, ClassTargets) and targets.closed
    return {
        "strategy": type(strategy).__name__,
        "options": json.dumps(options, sort_keys=True, default=to_json_value),
        "learner": type(learner).__name__,
        "learner_params": described(learner),
        "guard": template.guard_factor,
        "classes": list(targets.labels) if closed else None,
        "batch_size": template.batch_size,
    }


def template_from(settings: Mapping[str, Any], learner: LearnerLike | None) -> Session:
    """Return the template with these settings; ``learner`` is the learner, if it is one of another library."""
    entry = registry.find("strategy", str(settings["strategy"]))
    if entry is None:
        raise StateError(f"the strategy of these bytes is {settings['strategy']!r}, which is not registered")
    options = json.loads(settings["options"], object_hook=part_from_json)
    strategy = entry.part(same_learner(learner, settings["learner"], settings["learner_params"]), **options)
    return Session(strategy, classes=settings["classes"], batch_size=settings["batch_size"], guard=settings["guard"])
