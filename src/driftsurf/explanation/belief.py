"""Whom a portfolio of experts believed, when, and why that changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from driftsurf.core.decisions import Decision, ModelRecord, significant

__all__ = ["Belief", "beliefs", "describe_beliefs", "describe_largest_move", "experts_of"]

PATIENCE = 3
"""Number of steps in a row for which another expert has to have the largest share, to be the one believed most."""
EVIDENCE = 5
"""Number of batches over which losses are compared when that changes."""


@dataclass(frozen=True, slots=True)
class Belief:
    """Steps after which the same expert had the largest share of the weights."""

    name: str
    first: int
    last: int
    share: float
    """Mean share of the expert."""
    former: str = ""
    """Expert that was believed most before; empty for the first one."""
    losses: tuple[float, float] = (math.nan, math.nan)
    """Mean losses of this expert and of the former one on the batches before the change."""
    batches: int = 0
    """Number of these batches."""

    def describe(self) -> str:
        """Describe the span in a sentence or two.

        >>> Belief("Perceptron", 3, 9, 0.52, "NaiveBayes", (0.31, 0.42), 4).describe()
        'steps 3 to 9: Perceptron, with 52% of the weights on average. It took over from NaiveBayes: over the 4 \
batches before, its loss was 0.31, and that of NaiveBayes 0.42'
        """
        when = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        text = f"{when}: {self.name}, with {self.share:.0%} of the weights on average"
        if not self.former:
            return text
        mine, theirs = self.losses
        over = "batch" if self.batches == 1 else f"{self.batches} batches"
        better = "" if mine < theirs else "; its share rose because it knows what the others do not"
        return (
            f"{text}. It took over from {self.former}: over the {over} before, its loss was {significant(mine, 3)}, "
            f"and that of {self.former} {significant(theirs, 3)}{better}"
        )


def experts_of(decisions: Sequence[Decision]) -> list[str]:
    """Return the names of the experts of a portfolio; empty for the decisions of another strategy."""
    return decisions[-1].experts if decisions else []


def beliefs(decisions: Sequence[Decision]) -> list[Belief]:
    """Return the spans in which one expert of a portfolio was believed most; empty for another strategy."""
    names = experts_of(decisions)
    known = [decision for decision in decisions if len(decision.models) == len(names)]
    if not names or not known:
        return []
    leaders = _patient([_leader(decision.models) for decision in known])
    found = list[Belief]()
    start = 0
    for stop in range(1, len(known) + 1):
        if stop < len(known) and leaders[stop] == leaders[start]:
            continue
        place = leaders[start]
        shares = [decision.models[place].weight or 0.0 for decision in known[start:stop]]
        span = Belief(names[place], known[start].step, known[stop - 1].step, sum(shares) / len(shares))
        found.append(span if not found else _with_reason(span, known, start, place, leaders[start - 1]))
        start = stop
    return found


def describe_beliefs(decisions: Sequence[Decision], most: int) -> Iterator[str]:
    """Yield a line for each of the last ``most`` spans, and one for the largest move of the weights."""
    spans = beliefs(decisions)
    if not spans:
        return
    cut = f" (the last {most} of {len(spans)} spans)" if len(spans) > most else ""
    yield f"who was believed most{cut}"
    for span in spans[-most:]:
        yield f"  {span.describe()}"
    yield f"  {describe_largest_move(decisions)}"


def describe_largest_move(decisions: Sequence[Decision]) -> str:
    """Describe the step at which most of the weights moved to other experts, and the one that gained most by it."""
    step, move, gained = max(_moves(decisions), key=lambda one: one[1], default=(0, 0.0, ""))
    if not move:
        return "the weights did not move"
    return f"the largest move of the weights was at step {step}: {move:.0%} of them went to others, most to {gained}"


def _moves(decisions: Sequence[Decision]) -> Iterator[tuple[int, float, str]]:
    """Yield each step but the first, the share of the weights that moved, and the expert that gained most."""
    before = list[float]()
    for decision in decisions:
        shares = [record.weight or 0.0 for record in decision.models]
        if len(shares) == len(before):
            gains = [a - b for a, b in zip(shares, before, strict=True)]
            yield decision.step, sum(map(abs, gains)) / 2.0, decision.models[gains.index(max(gains))].name
        before = shares


def _leader(models: Sequence[ModelRecord]) -> int:
    shares = [record.weight or 0.0 for record in models]
    return shares.index(max(shares))


def _patient(leaders: list[int]) -> list[int]:
    """Return the leader after each step, without those that led for a few steps only.

    >>> _patient([0, 0, 1, 0, 0, 2, 2, 2])
    [0, 0, 0, 0, 0, 2, 2, 2]
    """
    lasting = {k: one for k, one in enumerate(leaders) if leaders[k : k + PATIENCE] == [one] * PATIENCE}
    early = leaders[: min(lasting, default=len(leaders))]
    chosen = Counter(early or leaders).most_common(1)[0][0]
    patient = []
    for place in range(len(leaders)):
        chosen = lasting.get(place, chosen)
        patient.append(chosen)
    return patient


def _with_reason(span: Belief, known: Sequence[Decision], start: int, place: int, former: int) -> Belief:
    """Return the span with the losses of the two experts on the batches up to its first step."""
    pairs = list[tuple[float, float]]()
    for decision in known[max(0, start + 1 - EVIDENCE) : start + 1]:
        mine, theirs = (decision.models[k].risk_before for k in (place, former))
        if mine is not None and theirs is not None and math.isfinite(mine + theirs):
            pairs.append((mine, theirs))
    if not pairs:
        return span
    means = tuple(sum(pair[k] for pair in pairs) / len(pairs) for k in (0, 1))
    former_name = known[start].models[former].name
    return Belief(span.name, span.first, span.last, span.share, former_name, (means[0], means[1]), len(pairs))
