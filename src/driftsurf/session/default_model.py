"""The model of a run or a comparison over tables, where none is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from driftsurf import registry
from driftsurf.errors import Message, Option
from driftsurf.session.model_names import read_model, settable_options

__all__ = ["TREES", "DefaultModel", "choose_model", "has_trees"]

TREES, LINEAR, STRATEGY = "recommended", "recommended-linear", "driftsurf"


class DefaultModel(NamedTuple):
    """The name of a model that was chosen, and why."""

    name: str
    why: Message
    """One line for people: which model it is, and how to get another."""


def has_trees() -> bool:
    """Return whether LightGBM, the learner of "recommended", is installed; it is not imported."""
    return registry.get("learner", "lightgbm").installed


def choose_model(learner: str | None = None, parameters: Iterable[str] = ()) -> DefaultModel:
    """Return the model for tables: "recommended" if LightGBM is installed, else "recommended-linear".

    Options may call for another one. A ``learner`` is put into "driftsurf", and ``parameters`` that the trees do not
    have, such as ``step_size``, choose "recommended-linear".

    >>> choose_model(parameters=["l2"]).name, choose_model("svm").name
    ('recommended-linear', 'driftsurf')
    """
    if learner is not None:
        return DefaultModel(STRATEGY, Message(f"{STRATEGY}, around the learner {learner}"))
    found = read_model(TREES)
    parts = [registry.get("strategy", found.strategy.name), registry.get("learner", "lightgbm")]
    known = {name for entry in parts for name in settable_options(entry.part)}
    other = next((name for name in parameters if name not in known), None)
    if other is not None:
        return DefaultModel(LINEAR, Message(f"{LINEAR}, since ", Option(other), " is an option of linear learners"))
    if not has_trees():
        install = registry.get("learner", "lightgbm").install
        return DefaultModel(LINEAR, Message(f"{LINEAR}; for boosted trees, usually more accurate: {install}"))
    return DefaultModel(
        TREES, Message(f"{TREES}, boosted trees of LightGBM; for the faster one: ", Option("model", LINEAR))
    )
