"""Experts of a portfolio: strategies made from whatever a user names, and those of the default portfolio.

The risk of a single row is noise: a DriftSurf that is given rows one at a time reacts to it all the time. So the rows
of small batches are gathered, and the experts that compare models by batches learn them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from driftsurf import registry
from driftsurf.core.abilities import Reversible, StrategyMaker, abilities_of, missing_members
from driftsurf.core.contracts import Batch, Categories, Learner, Segment, Strategy
from driftsurf.core.decisions import Decision, ModelRecord
from driftsurf.core.journal import Decided, Outcome
from driftsurf.core.numeric import derive
from driftsurf.core.options import shown
from driftsurf.core.samples import Samples
from driftsurf.errors import CapabilityError, OptionError
from driftsurf.learners.naive_bayes import NaiveBayes
from driftsurf.learners.nearest_neighbours import NearestNeighbours
from driftsurf.learners.perceptron import Perceptron
from driftsurf.strategies._base import saved_class
from driftsurf.strategies.driftsurf import DriftSurf
from driftsurf.strategies.oblivious import Oblivious

EXPERTS = (
    "a strategy such as DriftSurf(LogisticRegression()), a learner such as NaiveBayes(), or an estimator of this "
    "package, scikit-learn or river"
)
"""Experts that a portfolio accepts, for messages."""
ABRUPT = 0.25
"""Threshold of the DriftSurf expert for abrupt drift, in units of the log loss. The other one, with 0.1, notices weak
drifts. In small batches with noisy labels it also reacts to noise, and is then late when an abrupt drift comes."""
SHORT = 4
"""Number of batches of the short window."""
LIGHT_TREES: dict[str, Any] = {"tolerance": 0.05, "least_new": 0.06, "renewed": 0.5}
"""Options of the trees of the light portfolio, which are fitted less often."""
LIGHT_PASSES = 3.0
"""Passes of the perceptron of the light portfolio over each batch."""
SMALL = 8
"""Batches of fewer rows are gathered, until there are so many at first, and then as many as have been learned."""
MOST = 29
"""Largest number of rows that are gathered. Trees, which are given few rows, decide by more than that."""
NEAREST = "NearestNeighbours"
"""Learner of the default expert that needs dense rows."""
TREES = "LazyBoostedTrees"
"""Learner of the default experts that need LightGBM."""


def default_experts(
    learner: Learner, *, light: bool = False, trees: bool | None = None, nearest: bool = True
) -> list[Any]:
    """Return the default experts around a learner, or the few of the light portfolio.

    Those of LightGBM are among them if ``trees`` is true; None if it is installed. With ``nearest``, nearest
    neighbours are among those for classes, unless they are the few.
    """
    regression = learner.capabilities.regression
    task: Any = "regression" if regression else "classification"
    boosted = registry.get("learner", "lightgbm-lazy")
    trees = boosted.installed if trees is None else trees
    abrupt: dict[str, Any] = {} if regression else {"threshold": ABRUPT}
    experts: list[Any] = [DriftSurf(learner, judge="prequential"), DriftSurf(learner, judge="training", **abrupt)]
    if not light:
        experts.append(learner)
    if trees:
        more: list[dict[str, Any]] = [LIGHT_TREES] if light else [{"thorough": True}, {"batches": SHORT}]
        experts += [boosted.make(task=task, **options) for options in more]
    experts.append(Perceptron(task=task, passes=LIGHT_PASSES) if light else Perceptron(task=task))
    if regression:
        return experts
    return [*experts, NaiveBayes(), NearestNeighbours()] if nearest and not light else [*experts, NaiveBayes()]


def small_batch_experts(learner: Learner, *, trees: bool | None = None) -> list[Any]:
    """Return the default experts that see earlier targets as further columns, and learn and predict few rows at a time.

    ``trees`` is as for ``default_experts``.
    """
    boosted = registry.get("learner", "lightgbm-lazy")
    task = "regression" if learner.capabilities.regression else "classification"
    return [boosted.make(task=task)] if (boosted.installed if trees is None else trees) else []


def make_experts(
    models: Iterable[Any], *, seed: int, categories: Categories, first: int = 0, **options: Any
) -> tuple[Any, ...]:
    """Return a strategy for each model, which has learned nothing and shares nothing with the others.

    Expert k, counted from ``first``, draws its random numbers from the k-th child of ``seed``. ``options`` (``dtype``
    and ``max_rows``) are set where a strategy has them.
    """
    each = enumerate(models, first)
    return tuple(_made(model, place, derive(seed, place), categories, options) for place, model in each)


def _made(model: Any, place: int, seed: int, categories: Categories, options: dict[str, Any]) -> Any:
    strategy = as_strategy(model, place)
    params = strategy.get_params(deep=False)
    if "max_rows" in params and strategy is model:
        options = {name: value for name, value in options.items() if name != "max_rows"}
    changed = {name: value for name, value in options.items() if name in params}
    learner: Any = strategy.learner
    if learner.capabilities.categories:
        changed["learner"] = learner.with_categories(categories)
    return type(strategy)(**(params | changed | {"seed": seed}))


def as_strategy(model: Any, place: int = 0) -> Strategy:
    """Return the strategy that a user means: a strategy, an estimator of this package, or a learner that never resets.

    OptionError if it is none of these; CapabilityError if a step of the strategy cannot be taken back. ``place`` is its
    number in the list of experts, which an error names.
    """
    if isinstance(model, StrategyMaker) and not isinstance(model, type):
        strategy = model.new_strategy(seed=0)
    elif not isinstance(model, type) and not missing_members(model, Strategy):
        strategy = model
    else:
        if isinstance(model, type) or missing_members(model, Learner):
            remedy = "; estimators of other libraries in an adapter of driftsurf.learners.foreign"
            raise OptionError(f"experts[{place}] is {shown(model)}; expected {EXPERTS}{remedy}")
        return Oblivious(model)
    if Reversible not in abilities_of(strategy):
        raise CapabilityError(
            f"the expert {strategy!r} cannot take a step back (it has no mark and put_back), so that a step of all "
            "experts could not be complete or undone; derive it from a strategy of driftsurf.strategies"
        )
    return strategy


def names_of(strategies: Sequence[Any]) -> list[str]:
    """Return a name for each expert; those of the same kind are told apart by an option, or by all that differ.

    Experts that differ in nothing but their random numbers are counted.

    >>> from driftsurf.learners import SoftmaxRegression
    >>> names_of([DriftSurf(SoftmaxRegression(), judge=judge) for judge in ("training", "prequential")])
    ['DriftSurf(judge=training)', 'DriftSurf(judge=prequential)']
    >>> names_of([Oblivious(NaiveBayes()), Oblivious(NaiveBayes())])
    ['NaiveBayes #1', 'NaiveBayes #2']
    """
    labels = [_label(type(one), one) for one in strategies]
    names = []
    for strategy, label in zip(strategies, labels, strict=True):
        alike = [_options(one) for one, other in zip(strategies, labels, strict=True) if other == label]
        own = _options(strategy)
        differing = [name for name in own if any(repr(other.get(name)) != repr(own[name]) for other in alike)]
        telling = [name for name in differing if len({repr(other.get(name)) for other in alike}) == len(alike)]
        inside = [f"{name}={own[name]}" for name in telling[:1] or differing if own[name] is not None]
        outer, inner = label.removesuffix(")").split("(", 1)
        outer, usual = (inner, inner) if outer == Oblivious.__name__ else (outer, label)
        names.append(f"{outer}({', '.join(inside)})" if inside else usual)
    return [name if names.count(name) == 1 else f"{name} #{names[: k + 1].count(name)}" for k, name in enumerate(names)]


def _options(strategy: Any) -> dict[str, Any]:
    """Return the options of an expert and of its learner that say what it is."""
    options = strategy.learner.get_params(deep=False) | strategy.get_params(deep=False)
    return {name: value for name, value in options.items() if name not in ("learner", "seed", "categories")}


def label_of(strategy: Any) -> str:
    """Return the name of an expert in messages and saved states, such as "DriftSurf(SoftmaxRegression)"."""
    return _label(saved_class(strategy), strategy)


def _label(kind: type, strategy: Any) -> str:
    return f"{kind.__name__}({type(strategy.learner).__name__})"


def gathers(expert: Any) -> bool:
    """Return whether an expert learns the rows of small batches together: it compares models by batches, or is fitted
    to many rows in any case."""
    return type(expert) is DriftSurf or type(expert.learner).__name__ == TREES


def due_batch(waiting: Samples, batch: Batch, learned: int) -> Batch | None:
    """Return the rows that are learned now, the gathered ones included; None if more are gathered first.

    ``learned`` is the number of rows that the experts have learned; the first batch is learned as it is.
    """
    if not len(waiting) and (len(batch.y) >= SMALL or not learned):
        return batch
    waiting.append(batch.X, batch.y, batch.weight)
    if len(waiting) < min(MOST, max(SMALL, learned)):
        return None
    return waiting.view(Segment(waiting.first_row, waiting.next_row))


class Resting(Decided):
    """The outcome of a step in which an expert has learned nothing and gathered rows."""

    __slots__ = ()
    switched = False

    @classmethod
    def after(cls, outcome: Outcome | None, expert: Any) -> Resting:
        """Return it for an expert whose last step had this outcome; None if that is not known, as after a restore."""
        if isinstance(outcome, Resting):
            return outcome
        if outcome is None:
            live = expert._live
            model, reactive = live.predictor, getattr(live, "reactive", None) is not None
            own = ModelRecord("predictive", model.id, live.step - 1 - model.born, model.first_row)
        else:
            made = outcome.decision()
            ended = any(one.kind in ("switched", "kept") for one in made.transitions)
            reactive = made.state == "reactive" and not ended
            known = (one for one in made.models if one.id == made.predicts_next)
            last = next(known, ModelRecord("predictive", made.predicts_next, 0, made.first_row))
            own = ModelRecord("predictive", last.id, last.age, last.first_row)
        state: Any = "reactive" if reactive else "stable"
        return cls(Decision(own.age, own.first_row, 0, state, own.id, own.first_row, own.id, (own,)))
