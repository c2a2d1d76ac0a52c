"""The model of a run or a comparison over tables, where none is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from driftsurf import registry
from driftsurf.errors import Message, Option
from driftsurf.session.model_names import read_model, settable_options

PORTFOLIO, TREES, LINEAR, STRATEGY = "recommended", "recommended-trees", "recommended-linear", "driftsurf"


class DefaultModel(NamedTuple):
    """The name of a model that was chosen, and why."""

    name: str
    why: Message
    """One line for people: which model it is, and what decided that."""


def has_trees() -> bool:
    """Return whether LightGBM, whose trees are experts of "recommended", can be used; it is not imported."""
    return registry.get("learner", "lightgbm").installed


def choose_model(learner: str | None = None, parameters: Iterable[str] = ()) -> DefaultModel:
    """Return the model for tables: "recommended", a portfolio, which has boosted trees if LightGBM can be used.

    Options may call for another one. A ``learner`` is put into "driftsurf". ``parameters`` that the portfolio does not
    have choose "recommended-trees", if DriftSurf and its trees have all of them and LightGBM can be used, and else
    "recommended-linear".

    >>> choose_model(parameters=["l2"]).name, choose_model("svm").name
    ('recommended-linear', 'driftsurf')
    """
    if learner is not None:
        return DefaultModel(STRATEGY, Message(f"{STRATEGY}, around the learner {learner}"))
    parameters = list(parameters)
    other = _first_other(parameters, [registry.get("strategy", read_model(PORTFOLIO).strategy.name)])
    if other is not None:
        parts = [registry.get("strategy", STRATEGY), registry.get("learner", "lightgbm")]
        of_linear = _first_other(parameters, parts)
        if of_linear is not None:
            return DefaultModel(
                LINEAR, Message(f"{LINEAR}, since ", Option(of_linear), " is an option of linear learners")
            )
        return DefaultModel(
            TREES if has_trees() else LINEAR,
            Message(f"{TREES if has_trees() else LINEAR}, since ", Option(other), " is an option of DriftSurf"),
        )
    if not has_trees():
        return DefaultModel(PORTFOLIO, Message(f"{PORTFOLIO}, a portfolio of models without boosted trees"))
    return DefaultModel(PORTFOLIO, Message(f"{PORTFOLIO}, a portfolio of models (", Option("model"), ")"))


def _first_other(parameters: list[str], parts: list[registry.Entry]) -> str | None:
    """Return the first parameter that none of these parts has; None if they have all."""
    known = {name for entry in parts for name in settable_options(entry.part)}
    return next((name for name in parameters if name not in known), None)
