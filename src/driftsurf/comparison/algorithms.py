"""Strategies as an evaluation runs them: with its budget, its batch size, and every row kept.

:func:`algorithm` knows every strategy and detector of :mod:`driftsurf.registry`, and the paper's variants of some.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from driftsurf import registry
from driftsurf.core.contracts import Learner, Strategy
from driftsurf.session.model_names import settable_options, strategy_around
from driftsurf.strategies import BudgetRule, Variant

__all__ = ["ALGORITHMS", "COMPARED", "Algorithm", "Setting", "algorithm"]


@dataclass(frozen=True)
class Setting:
    """The circumstances in which an evaluation runs an algorithm."""

    aware_steps: tuple[int, ...] = ()
    """Steps of the first batch of each new concept, for an oracle."""
    batch_size: int = 1000
    budget: BudgetRule = "each"
    variant: Variant = "algorithm-1"
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of DriftSurf that an experiment changes."""
    of_learner: Collection[str] = ()
    """Options of the learner that the user chose, which no algorithm replaces."""


Make = Callable[[Learner, Setting], Strategy]
"""Makes a strategy around a learner."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of an evaluation: its name, its title in tables and figures, and how it is made."""

    name: str
    title: str
    make: Make
    family: str
    """"oracle", "driftsurf", "detector", "ensemble" or "single"."""


def algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name in a comparison; OptionError if there is none.

    >>> algorithm("mddm-g").title, algorithm("no-greedy").family
    ('MDDM-G', 'driftsurf')
    """
    return COMPARED[name] if name in COMPARED else _algorithm(name)


def _algorithm(
    name: str,
    *,
    strategy: str = "",
    title: str = "",
    options: Mapping[str, Any] | None = None,
    adjust: Callable[[dict[str, Any], Setting], None] | None = None,
    template: Callable[[Learner, Setting], Learner] = lambda learner, at: learner,
) -> Algorithm:
    """Make the algorithm that runs a registered strategy, the one of this name unless ``strategy`` names another.

    ``options`` replace the strategy's defaults, ``adjust`` changes them for a setting, and ``template`` changes the
    learner.
    """
    strategy = strategy or name
    entry = registry.lookup(("strategy", "detector"), strategy) or registry.get("strategy", strategy)
    outer = registry.get("strategy", "reset-on-drift") if entry.kind == "detector" else entry
    # Evaluations drop no rows, as in the paper. A strategy of another package need not have a bound at all.
    fixed = {"max_rows": None} if "max_rows" in settable_options(outer.part) else {}

    def make(learner: Learner, at: Setting) -> Strategy:
        chosen: dict[str, Any] = dict(options or {})
        # The parameters of the baselines are their authors' where these give any, else a round number of batches.
        chosen |= {option: count * at.batch_size for option, count in entry.details.get("batches", {}).items()}
        if entry.details.get("shares_budget"):
            chosen["budget"] = at.budget
        if "drift_steps" in entry.needs:
            chosen["drift_steps"] = at.aware_steps
        if adjust is not None:
            adjust(chosen, at)
        return strategy_around(strategy, template(learner, at), **chosen, **fixed, seed=at.seed)

    family = "detector" if entry.kind == "detector" else entry.details.get("family", "single")
    return Algorithm(name, title or entry.title, make, family)


# ---------------------------------------------------------------------------- the paper's evaluation


def _adjust_driftsurf(options: dict[str, Any], at: Setting) -> None:
    options["variant"] = at.variant
    options.update(at.options)


def _share_equally(options: dict[str, Any], at: Setting) -> None:
    options["budget"] = "equal" if at.budget == "divided" else at.budget


def _drawn_uniformly(learner: Learner, at: Setting) -> Learner:
    """Return the learner as the paper's OBL trains it: every gradient is drawn uniformly from the sample set."""
    options = learner.get_params(deep=False)
    if options.get("optimizer") != "strsaga" or "optimizer" in at.of_learner:
        return learner
    return type(learner)(**(options | {"optimizer": "saga"}))


_PAPER = (
    _algorithm("aware"),
    _algorithm("aware-alternative", strategy="aware", title="Aware (informed late)", options={"informed": "after"}),
    _algorithm("driftsurf", adjust=_adjust_driftsurf),
    _algorithm(
        "no-greedy",
        strategy="driftsurf",
        title="DriftSurf (no-greedy)",
        options={"greedy": False},
        adjust=_adjust_driftsurf,
    ),
    *map(_algorithm, ("mddm-g", "mddm-a", "mddm-e", "ddm", "eddm", "adwin", "fhddm")),
    _algorithm("aue"),
    _algorithm("aue-2", strategy="aue", title="AUE (k=2)", options={"experts": 2}),
    _algorithm("aue-equal", strategy="aue", title="AUE (equal shares)", adjust=_share_equally),
    _algorithm("candor"),
    _algorithm("1pass-sgd", strategy="one-pass", title="1PASS-SGD"),
    _algorithm("oblivious", title="OBL", template=_drawn_uniformly),
    *map(_algorithm, ("perm", "sliding-window", "linear-decay", "exponential-decay")),
    *map(_algorithm, ("paired-learners", "dwm", "learn-nse", "dwmil", "dtel", "diversity-pool")),
)

ALGORITHMS: dict[str, Algorithm] = {one.name: one for one in _PAPER}
"""The algorithms of the paper's evaluation in the order of its tables, then the systems that it builds on."""

COMPARED: dict[str, Algorithm] = {"obl" if name == "oblivious" else name: one for name, one in ALGORITHMS.items()}
"""Strategies by their names in a comparison: "oblivious" keeps the learner as it is, "obl" is the paper's variant."""
