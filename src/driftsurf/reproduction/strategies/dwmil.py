"""DWMIL: a bag of balanced models per batch; bags lose weight by their G-mean error and leave below a threshold."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Batch, FloatArray, IntArray, Learner, Segment, gathered, take_rows
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import FieldRule, Fields
from driftsurf.core.numeric import derive
from driftsurf.core.options import number, whole
from driftsurf.native import maths
from driftsurf.native.linear import fill_uniform
from driftsurf.registry import CLASSIFICATION, Example, register
from driftsurf.reproduction.strategies._ensemble import Combine, Ensemble, VotingStrategy, voting_fields
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member
from driftsurf.strategies._votes import labels, weighted_vote

DRAWS = 2**63
"""Child of the seed that bags are drawn from; no model has this number."""


@register(
    "strategy",
    "dwmil",
    tasks=CLASSIFICATION,
    family="ensemble",
    draws=True,
    examples=[Example({"experts": 3, "bags": 3})],
)
class DWMIL(VotingStrategy):
    r"""Dynamic Weighted Majority for imbalanced classes: a bag of balanced models for each batch, weighted by G-mean.

    Each batch t trains a bag H_t of T models. A model of the bag learns all rows of the smallest class and as many
    rows of each other class, drawn without replacement (underbagging); the bag predicts by the majority of its models.
    Before that, every older bag j loses weight by its error on the batch,

    .. math:: w_j \leftarrow (1 - \varepsilon_j)\, w_j, \qquad
        \varepsilon_j = 1 - \Big(\prod_{c = 1}^{C} \text{recall}_c(H_j)\Big)^{1 / C},

    where C counts the classes of the batch, so that a rare class counts as much as a frequent one. Bags whose weight is
    below theta are removed, and the new bag joins with weight 1. Predictions are the weighted vote of the bags.

    A batch with rows of a single class has no G-mean and cannot be balanced: it changes nothing. Rows without weight
    are not drawn. The number of bags is bounded here, because a bag without errors would stay for ever.

    Parameters
    ----------
    learner
        Template of all models. It must be a classifier.
    bags
        T, the number of models in a bag; an odd number avoids ties between two classes.
    removal
        theta, the weight below which a bag is removed.
    experts
        The largest number of bags; when a new one joins, the one with the lowest weight is removed.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`. The draws of a bag depend on the seed and the step alone.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = DWMIL(LogisticRegression(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(6):  # about one row in fifteen is positive
    ...     X = rng.normal(size=(200, 2))
    ...     batch = Batch(X, (X[:, 0] > 1.5).astype(float), np.ones(200))
    ...     found = strategy.test_scores(batch)[batch.y > 0] > 0
    ...     decision = strategy.step(batch)
    >>> bool(found.mean() > 0.9), len(decision.models)
    (True, 6)

    References
    ----------
    Y. Lu, Y.-m. Cheung, Y. Y. Tang. Dynamic weighted majority for incremental learning of imbalanced data streams with
    concept drift. IJCAI 2017.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        bags: int = 11,
        removal: float = 0.1,
        experts: int = 10,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.bags = bags
        self.removal = removal
        self.experts = experts

    def _check(self) -> None:
        whole("bags", self.bags, at_least=1)
        number("removal", self.removal, at_least=0.0, below=1.0)
        whole("experts", self.experts, at_least=1)
        self._require_classes()

    def _fields(self) -> Fields:
        size = int(self.bags)
        return voting_fields(
            FieldRule("experts", f"must be a multiple of {size}", lambda known: known["experts"] % size == 0),
            FieldRule("weights", "must be equal within each bag", lambda known: _alike(known["weights"], size)),
        )

    def _learning(self, live: Ensemble) -> tuple[Member, ...]:
        return ()

    def _combining(self, live: Ensemble) -> Combine:
        size = int(self.bags)
        return functools.partial(bagged_vote, weights=np.array(live.weights[::size]), size=size)

    def _advance(self, live: Ensemble, segment: Segment, undo: UndoStack) -> tuple[Ensemble, Decision]:
        batch, size = self._pool.samples.view(segment), int(self.bags)
        bags = [live.experts[place : place + size] for place in range(0, len(live.experts), size)]
        weights = list(live.weights[::size])
        counted = np.bincount(batch.y[batch.weight > 0.0].astype(np.int64))
        removed, spent = [], 0
        if np.count_nonzero(counted) > 1:
            votes = votes_of_bags(self._ballots_on(batch.X), size)
            weights = [weight * g_mean(vote, batch) for weight, vote in zip(weights, votes, strict=True)]
            staying = [place for place, weight in enumerate(weights) if weight >= self.removal and weight > 0.0]
            if len(staying) == self.experts:
                staying.remove(min(staying, key=weights.__getitem__))
            removed = [bag[0].record("expert", live.step) for place, bag in enumerate(bags) if place not in staying]
            newest, spent = self._bag(live.step, segment, counted, undo)
            bags, weights = [*(bags[place] for place in staying), newest], [*(weights[p] for p in staying), 1.0]
        records = [
            bag[0].record("expert", live.step, weight=weight / sum(weights), gradients=spent if bag is bags[-1] else 0)
            for bag, weight in zip(bags, weights, strict=True)
        ]
        every = tuple(member for bag in bags for member in bag)
        after = Ensemble(every, tuple(weight for weight in weights for _ in range(size)), live.step + 1)
        return after, self._decision(live, after, segment, removed + records)

    def _bag(self, step: int, segment: Segment, counted: IntArray, undo: UndoStack) -> tuple[tuple[Member, ...], int]:
        """Return a new bag, trained on balanced draws of a batch, and the gradients spent."""
        batch = self._pool.samples.view(segment)
        key = derive(derive(self._pool.seed, DRAWS), step)
        bag, spent = list[Member](), 0
        for place in range(int(self.bags)):
            drawn = Drawn(batch, balanced(batch, counted, key, place * len(segment)))
            rows = Segment(segment.lo, segment.lo + len(drawn.batch.y))
            member = self._pool.make(step, segment.lo)
            spent += self._pool.train(member, rows, self.learner.budget(rows), undo, seen_as=drawn)
            undo.callback(member.learner.forget(drawn, segment.hi))
            bag.append(member)
        return tuple(bag), spent


class Drawn:
    """A sample store of some rows of a batch, numbered from the first row of the batch on."""

    def __init__(self, batch: Batch, places: IntArray) -> None:
        self.batch: Batch = Batch(gathered(batch.X, places), batch.y[places], batch.weight[places], batch.first_row)

    def view(self, segment: Segment) -> Batch:
        """Return the drawn rows with these numbers."""
        drawn = self.batch
        lo, hi = segment.lo - drawn.first_row, segment.hi - drawn.first_row
        return Batch(take_rows(drawn.X, lo, hi), drawn.y[lo:hi], drawn.weight[lo:hi], segment.lo)


def balanced(batch: Batch, counted: IntArray, key: int, words: int) -> IntArray:
    """Return places of rows with weight, of each class as many as the smallest class has, in the order of the batch.

    ``counted`` are the rows of each class. Each row gets a random number, from word ``words`` on, and those with the
    lowest numbers are drawn.
    """
    chance = np.empty(len(batch.y))
    fill_uniform(chance, key, words)
    size = int(counted[counted > 0].min())
    order = np.argsort(chance, kind="stable")
    order = order[batch.weight[order] > 0.0]
    drawn = [order[batch.y[order] == code][:size] for code in np.flatnonzero(counted)]
    return np.sort(np.concatenate(drawn))


def g_mean(scores: FloatArray, batch: Batch) -> float:
    """Return the geometric mean of the recalls of the classes that a batch has; 1 minus it is the error of a bag."""
    right = (labels(scores) == batch.y) * batch.weight
    codes = batch.y.astype(np.int64)
    mass, found = np.bincount(codes, batch.weight), np.bincount(codes, right)
    recalls = found[mass > 0.0] / mass[mass > 0.0]
    return maths.power(float(np.prod(recalls)), 1.0 / len(recalls))


def votes_of_bags(ballots: Sequence[FloatArray], size: int) -> list[FloatArray]:
    """Return the vote of each bag of ``size`` models, in which every model counts the same."""
    return [weighted_vote(ballots[k : k + size], np.ones(size)) for k in range(0, len(ballots), size)]


def bagged_vote(ballots: Sequence[FloatArray], weights: FloatArray, size: int) -> FloatArray:
    """Return the weighted vote of the bags, given the scores of each model."""
    return weighted_vote(votes_of_bags(ballots, size), weights)


def _alike(weights: FloatArray, size: int) -> bool:
    return len(weights) % size != 0 or bool((weights.reshape(-1, size) == weights[::size, None]).all())
