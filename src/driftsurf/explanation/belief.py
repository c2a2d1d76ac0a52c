"""Which experts a portfolio trusted, when, and why that changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from driftsurf.core.decisions import Decision, ModelRecord, expert_noun, plain_expert
from driftsurf.core.wording import counted, percent, significant

PATIENCE = 3
"""Number of steps in a row for which another expert has to have the largest share, to be the one trusted most."""
LEAD = 0.1
"""How far the largest share has to be from that of equal experts, on the way to 1, for its expert to be trusted."""
TURNED = "wrong on more rows than random guesses would be"
"""Why the weights go to experts with fresh models."""
NOBODY = -1
"""Place of the leader where no expert is trusted more than the others."""
EVIDENCE = 5
"""Number of batches over which losses are compared when that changes."""


@dataclass(frozen=True, slots=True)
class Belief:
    """Steps after which the same expert was trusted most, or none more than the others."""

    name: str
    """Name of the expert in the journal; empty if the shares were about equal."""
    first: int
    last: int
    share: float
    """Mean share of the expert; the mean of the largest share if no expert was trusted more than the others."""
    former: str = ""
    """Expert that was trusted most before; empty for the first one, and after steps with equal shares."""
    losses: tuple[float, float] = (math.nan, math.nan)
    """Mean losses of this expert and of the former one on the batches before the change."""
    batches: int = 0
    """Number of these batches."""
    turned: bool = False
    """Whether the weights went to this expert because it had a fresh model after an abrupt change."""

    def describe(self) -> str:
        """Describe the span in a sentence or two.

        >>> Belief("Perceptron", 3, 9, 0.52, "NaiveBayes", (0.31, 0.42), 4).describe()
        'steps 3 to 9: the network, with 52 % of the weights on average. It took over from naive Bayes: over the 4 \
batches before, its loss was 0.31, and that of naive Bayes 0.42'
        """
        when = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        if not self.name:
            largest = f"the largest share was {percent(self.share)} on average"
            return f"{when}: no expert was trusted more than the others; {largest}"
        name, former = expert_noun(self.name), expert_noun(self.former)
        text = f"{when}: {name}, with {percent(self.share)} of the weights on average"
        if self.turned:
            return f"{text}. At step {self.first} the portfolio was {TURNED}, and this expert had a new model"
        if not self.former:
            return text
        mine, theirs = self.losses
        over = "batch" if self.batches == 1 else counted(self.batches, "batch")
        better = "" if mine < theirs else "; its share rose because it knows what the others do not"
        own, other = significant(mine, 3), significant(theirs, 3)
        losses = f"its loss was {own}, and that of {former} {other}"
        if own == other:
            losses = f"its loss was about that of {former}, {own}"
        return f"{text}. It took over from {former}: over the {over} before, {losses}{better}"


def experts_of(decisions: Sequence[Decision]) -> list[str]:
    """Return the plain names of the experts of a portfolio; empty for the decisions of another strategy."""
    return [plain_expert(name) for name in decisions[-1].experts] if decisions else []


def beliefs(decisions: Sequence[Decision]) -> list[Belief]:
    """Return the spans in which one expert of a portfolio was trusted most; empty for another strategy."""
    names = decisions[-1].experts if decisions else []
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
        shares = [_share(decision, place) for decision in known[start:stop]]
        name = "" if place == NOBODY else names[place]
        span = Belief(name, known[start].step, known[stop - 1].step, sum(shares) / len(shares))
        found.append(span if not found else _with_reason(span, known, start, place, leaders[start - 1]))
        start = stop
    return found


def describe_beliefs(decisions: Sequence[Decision], most: int) -> Iterator[str]:
    """Yield a line for each of the last ``most`` spans, and one for the largest move of the weights."""
    spans = beliefs(decisions)
    if not spans:
        return
    cut = f" (the last {most} of {len(spans)} spans)" if len(spans) > most else ""
    yield f"which experts were trusted most{cut}"
    for span in spans[-most:]:
        yield f"  {span.describe()}"
    yield f"  {describe_largest_move(decisions)}"


def describe_largest_move(decisions: Sequence[Decision]) -> str:
    """Describe the step at which most of the weights moved to other experts, and the one that gained most by it."""
    step, move, gained = max(_moves(decisions), key=lambda one: one[1], default=(0, 0.0, ""))
    if not move:
        return "the weights did not move"
    most = f"most to {expert_noun(gained)}"
    return f"the largest move of the weights was at step {step}: {percent(move)} of them went to others, {most}"


def _moves(decisions: Sequence[Decision]) -> Iterator[tuple[int, float, str]]:
    """Yield each step but the first, the share of the weights that moved, and the expert that gained most."""
    before = list[float]()
    for decision in decisions:
        shares = [record.weight or 0.0 for record in decision.models]
        if len(shares) == len(before):
            gains = [a - b for a, b in zip(shares, before, strict=True)]
            yield decision.step, sum(map(abs, gains)) / 2.0, decision.models[gains.index(max(gains))].name
        before = shares


def describe_reacting(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield a sentence about the steps in which experts of a portfolio were in a reactive state; none without such."""
    steps = [decision for decision in decisions if decision.reacting]
    if steps:
        most = max(decision.reacting_experts for decision in steps)
        together = "one at a time" if most == 1 else f"up to {most} at a time"
        of = counted(len(decisions), "step")
        last = decisions[-1].describe_state()
        yield f"Experts were reacting in {len(steps):,} of {of}, {together}; in the last step: {last}."


def _leader(models: Sequence[ModelRecord]) -> int:
    """Return the place of the expert with the largest share, or NOBODY if that share is near those of the others."""
    shares = [record.weight or 0.0 for record in models]
    largest, equal = max(shares), 1.0 / len(shares)
    return shares.index(largest) if largest >= equal + LEAD * (1.0 - equal) else NOBODY


def _share(decision: Decision, place: int) -> float:
    """Return the share of an expert; the largest one for NOBODY."""
    shares = [record.weight or 0.0 for record in decision.models]
    return max(shares) if place == NOBODY else shares[place]


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
    if known[start].turned:
        return replace(span, turned=True)
    if NOBODY in (place, former):
        return span
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
