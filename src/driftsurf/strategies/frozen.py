"""Models as they were at one moment: their scores can be computed, and they can be saved without their rows.

A strategy hands out its scores as a function of frozen values (``SnapshotScoring``). Those that are made of linear
models, naive Bayes, perceptrons and boosted trees, alone or in a portfolio, are saved here as these values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from driftsurf.core.abilities import Freezable, abilities_of
from driftsurf.core.contracts import FloatArray, Rows, State, Strategy
from driftsurf.core.fields import Array, Fields, Text, Whole
from driftsurf.core.state import nest, pick
from driftsurf.learners._multi import score_rows
from driftsurf.native.scores import MarginScorer

Scorer = Callable[[Rows], FloatArray]


def frozen(scorer: Any) -> Scorer | None:
    """Return a function of scores that depends on nothing else and can be saved; None if this one cannot be."""
    if not can_freeze(scorer):
        return None
    # The one of a portfolio has options: it remembers the rows that it scores, for the step that learns them.
    return functools.partial(scorer.func, *scorer.args) if getattr(scorer, "keywords", None) else scorer


def can_freeze(scorer: Any) -> bool:
    """Return whether a function of scores can be saved with ``frozen_state``."""
    if isinstance(scorer, MarginScorer) or _online(scorer) is not None:
        return True
    if not isinstance(scorer, functools.partial):
        return False
    if scorer.func is score_rows:
        return True
    from driftsurf.strategies import portfolio  # which most models do not need

    if scorer.func is portfolio.score:
        return all(map(can_freeze, scorer.args[0]))
    owner = getattr(scorer.func, "__self__", None)
    return Freezable in abilities_of(owner) and owner.freezes(scorer.args[0])  # type: ignore[union-attr]


def _online(scorer: Any) -> Any:
    """Return the model whose method a function of scores is, if it learns each row once; otherwise None."""
    owner = getattr(scorer, "__self__", None)
    if owner is None:
        return None
    from driftsurf.native.online import OnlineModel  # which most models do not need

    return owner if isinstance(owner, OnlineModel) else None


def frozen_state(scorer: Any) -> State:
    """Return the values of a function of scores, for which ``can_freeze`` is true, as flat entries."""
    if isinstance(scorer, MarginScorer):
        return {"kind": "margins", "weights": scorer.weights}
    if (model := _online(scorer)) is not None:
        return {"kind": "learner"} | nest("learner", model.entries())
    if scorer.func is score_rows:
        _, weights, limits = scorer.args
        own: State = {"kind": "linear", "matrix": np.ascontiguousarray(weights)}
        return own if limits is None else own | {"limits": np.asarray(limits)}
    from driftsurf.strategies import _mixing, portfolio

    if scorer.func is portfolio.score:
        scorers, live = scorer.args
        state: State = {"kind": "portfolio", "n_classes": live.n_classes} | _mixing.mixing_state(live)
        for place, one in enumerate(scorers):
            state |= nest(f"expert{place}", frozen_state(one))
        return state
    learner = scorer.func.__self__
    return {"kind": "learner"} | nest("learner", learner.frozen_state(scorer.args[0]))


def frozen_from(state: Mapping[str, Any], strategy: Strategy) -> Scorer:
    """Return the function of scores that ``frozen_state`` was called on; ``strategy`` is the one that it belongs to."""
    known = FIELDS.read(state)
    template: Any = strategy.learner
    kind = known["kind"]
    if kind == "margins":
        return MarginScorer(known["weights"])
    if kind == "linear":
        return functools.partial(score_rows, template.read, known["matrix"], known.get("limits"))
    if kind == "portfolio":
        from driftsurf.native.portfolio import PortfolioState
        from driftsurf.strategies import _mixing, portfolio

        mixed: Any = strategy
        experts, seeing = mixed.frozen_experts()
        n_classes = known["n_classes"]
        mixing = _mixing.mixing_from(state, len(experts) - seeing, n_classes, seeing)
        live = PortfolioState(n_classes=n_classes, **mixing)
        scorers = [frozen_from(pick(f"expert{place}", state), one) for place, one in enumerate(experts)]
        return functools.partial(portfolio.score, scorers, live)
    scorer: Scorer = template.frozen_scorer(pick("learner", state))
    return scorer


FIELDS = Fields(
    {
        "kind": Text(),
        "weights": Array(np.float64, ("margins",)),
        "matrix": Array(np.float64, ("columns", "outputs")),
        "limits": Array(np.float64, (2, "limits")),
        "n_classes": Whole(),
    },
    optional=["weights", "matrix", "limits", "n_classes"],
    parts=["mixer", "chain", "trail", "blend", "residuals", "expert*", "learner"],
)
"""Saved entries of a frozen model."""
