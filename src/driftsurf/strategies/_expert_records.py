"""Decision of a portfolio, put together from those of its experts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from driftsurf.core.contracts import Batch, FloatArray
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.journal import Decided, Outcome
from driftsurf.strategies.cell import CellStrategy
from driftsurf.strategies.oblivious import Oblivious

SURE = 2.0
"""Standard errors by which a mixture has to be worse than guessing."""


class ExpertRecord(NamedTuple):
    """One expert at one step: its name, its own decision, its share from now on, and its loss on the batch."""

    name: str
    decision: Decision
    share: float
    risk: float | None


class JointOutcome:
    """What a step of a portfolio leaves behind, of which its decision is made when somebody asks for it.

    Putting it together takes as long as learning a row, and most decisions are never looked at.
    """

    __slots__ = ("_after", "_before", "_first_row", "_names", "_outcomes", "_risks", "_rows", "_step", "_turned")

    def __init__(
        self,
        names: Sequence[str],
        outcomes: Sequence[Outcome],
        weights: tuple[FloatArray, FloatArray],
        risks: Sequence[float | None],
        place: tuple[int, int, int],
        *,
        turned: bool,
    ) -> None:
        self._names, self._outcomes, self._risks, self._turned = names, outcomes, risks, turned
        self._before, self._after = weights
        self._step, self._first_row, self._rows = place

    @property
    def transitions(self) -> int:
        """Number of transitions."""
        return sum([one.transitions for one in self._outcomes])

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self._first_row + self._rows

    def decision(self) -> Decision:
        """Return the decision."""
        count = len(self._names)
        before, shares = expert_shares(self._before, count), expert_shares(self._after, count)
        parts = zip(self._names, self._outcomes, shares, self._risks, strict=True)
        records = [ExpertRecord(name, one.decision(), share, risk) for name, one, share, risk in parts]
        best = before.index(max(before)), shares.index(max(shares))
        return joint_decision(records, self._step, self._first_row, self._rows, best, turned=self._turned)


def learned_by(expert: Any, batch: Batch, tested: FloatArray) -> Outcome:
    """Let a marked expert learn a batch, given its scores; its decision is made when it is read, if it can wait."""
    if type(expert) is Oblivious:
        return expert.learn_marked(batch, tested)
    if type(expert).step is CellStrategy.step:
        outcome: Outcome = expert.learned(batch, tested)
        return outcome
    return Decided(expert.step(batch, tested))


def expert_shares(weights: FloatArray, experts: int) -> list[float]:
    """Return the share of each expert among the experts, without that of the last label, given the mixer's weights."""
    each = weights.tolist()
    if len(each) > experts:  # those of the votes are the second half
        half = len(each) // 2
        each = [each[place] + each[half + place] for place in range(experts)]
    total = sum(each)
    return [weight / total if total > 0.0 else 1.0 / experts for weight in each]


def identity(place: int, number: int, experts: int) -> int:
    """Return the number of a model of an expert among all models; the first model of expert k has the number k."""
    return place + experts * max(number, 0)


def joint_decision(
    records: Sequence[ExpertRecord], step: int, first_row: int, rows: int, best: tuple[int, int], *, turned: bool
) -> Decision:
    """Return the decision of a step.

    It has a record of the model with which each expert predicts next, records of all their other models, and what the
    experts decided. ``best`` are the places of the experts with the largest shares before and after the step, and
    ``turned`` is whether the weights went to experts with fresh models.
    """
    count = len(records)
    models, others, transitions = list[ModelRecord](), list[ModelRecord](), list[Transition]()
    for place, (name, decision, share, risk) in enumerate(records):
        number, nested = decision.predicts_next, bool(decision.experts)
        age = max((model.age for model in decision.models), default=step)
        unknown = ModelRecord("expert", number, age, decision.trained_from)
        own = next((model for model in decision.models if model.id == number), unknown)
        # A portfolio inside this one predicts with all its models; they are listed by the names of their own experts.
        work = 0 if nested else own.gradients
        shown = identity(place, number, count)
        models.append(
            ModelRecord("expert", shown, own.age, own.first_row, risk, gradients=work, weight=share, name=name)
        )
        for model in (*decision.models, *decision.others):
            if nested or model is not own:
                weight = None if model.weight is None else model.weight * share
                shown = identity(place, model.id, count)
                others.append(replace(model, id=shown, weight=weight, name=_within(name, model.name)))
        for one in decision.transitions:
            old, new = identity(place, one.old, count), identity(place, one.new, count)
            transitions.append(one.by_expert(_within(name, one.expert), old, new))
    before, after = best
    reacting = tuple(
        _within(name, inner)
        for name, decision, _, _ in records
        if decision.state == "reactive"
        for inner in decision.reacting or ("",)
    )
    return Decision(
        step=step,
        first_row=first_row,
        rows=rows,
        state="reactive" if reacting else "stable",
        predicted_by=identity(before, records[before].decision.predicted_by, count),
        trained_from=records[before].decision.trained_from,
        predicts_next=models[after].id,
        models=tuple(models),
        transitions=tuple(transitions),
        others=tuple(others),
        reacting=reacting,
        turned=turned,
    )


def _within(name: str, inner: str) -> str:
    """Return the name of an expert, or of an expert inside it if it is a portfolio too."""
    return f"{name} > {inner}" if inner else name


def fresh_places(outcomes: Sequence[Outcome]) -> list[int]:
    """Return the places of the experts that predict next with another model than before, which began with this batch.

    >>> new = ModelRecord("reactive", 1, age=0, first_row=500)
    >>> switched = Decision(5, 500, 100, "reactive", predicted_by=0, trained_from=0, predicts_next=1, models=(new,))
    >>> fresh_places([Decided(Decision(5, 500, 100, "stable", 0, 0, 0, ())), Decided(switched)])
    [1]
    """
    found = []
    for place, outcome in enumerate(outcomes):
        if getattr(outcome, "switched", True):
            made = outcome.decision()
            next_one = [model for model in made.models if model.id == made.predicts_next != made.predicted_by]
            if any(model.first_row >= made.first_row for model in next_one):
                found.append(place)
    return found


def is_worse_than_guessing(mixture: FloatArray, batch: Batch, n_classes: int) -> bool:
    """Return whether scores were wrong about more rows of a batch than random guesses are, by two standard errors.

    >>> scores, y = np.log([[0.9, 0.1]] * 100), np.ones(100)
    >>> [is_worse_than_guessing(scores, Batch(scores, one, np.ones(100)), 2) for one in (y, np.arange(100) % 2)]
    [True, False]
    """
    y, weight = batch.y, batch.weight
    mass, rows = float(weight.sum()), int(np.count_nonzero(weight))
    if n_classes < 2 or not mass > 0.0:
        return False
    error = float(weight[mixture.argmax(axis=1) != y].sum()) / mass
    right = 1.0 / n_classes
    return error > 1.0 - right + SURE * math.sqrt(right * (1.0 - right) / rows)


def batch_risks(
    together: FloatArray, batch: Batch, scores: Sequence[FloatArray | None], n_classes: int
) -> list[float | None]:
    """Return the mean loss of each expert on a batch, as the mixer sees it: log loss, or the squared error.

    ``together`` has what the mixer was given: logarithms of probabilities (rows, classes, 2 x experts), or predicted
    numbers (rows, experts). Experts that have no ``scores`` for the batch have no loss.
    """
    known = min(len(scores), together.shape[2] // 2 if n_classes else together.shape[1])
    risks = [*_risks(together, batch, known, n_classes), *[None] * (len(scores) - known)]
    return [None if own is None else risk for own, risk in zip(scores, risks, strict=True)]


def _risks(together: FloatArray, batch: Batch, experts: int, n_classes: int) -> list[float]:
    y, weight = batch.y, batch.weight
    mass = float(weight[0]) if len(y) == 1 else float(weight.sum())
    if not mass > 0.0:
        return [float("nan")] * experts
    if n_classes and len(y) == 1:
        return [-loss for loss in together[0, int(y[0]), :experts].tolist()]
    if n_classes:
        losses = -together[np.arange(len(y)), y.astype(np.int64), :experts]
    else:
        losses = np.square(together[:, :experts] - y[:, None])
    return [float(risk) for risk in (weight[:, None] * losses).sum(axis=0) / mass]
