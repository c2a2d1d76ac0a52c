"""History of each model of a run: what it learned, when it predicted; which experts a portfolio trusted, and why."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from driftsurf.core.decisions import Decision, ModelRecord, Role, expert_noun, plain_expert
from driftsurf.core.wording import counted, percent, plural, significant

LEAST_SHARE = 0.005
"""Share of an expert from which on it counts; a smaller one rounds to 0 %."""
MOST_MODELS = 40
"""Largest number of models described for a run."""


@dataclass(slots=True)
class Lineage:
    """History of one model. Spans are pairs of steps, both included."""

    id: int
    born: int
    first_row: int
    """First row that the model was trained on; negative if it began before the run."""
    last_step: int = -1
    rows_until: int = 0
    """Row after the last one that the model could learn from."""
    roles: list[tuple[Role, int, int]] = field(default_factory=list)
    predicted: list[tuple[int, int]] = field(default_factory=list)
    gradients: int = 0
    end: str = ""
    """Why the model went out of use; empty if it is still in use at the end of the run."""
    replaced_by: int | None = None
    name: str = ""
    """Name of the expert of a portfolio that the model belongs to; empty for other models."""
    late: bool = False
    """Whether the steps that the model predicted are not known: it is of a portfolio, and labels came late."""

    def describe(self) -> str:
        """Describe the model in one line.

        >>> Lineage(1, 20, 4000, 40, 8200, [("predictive", 20, 40)], [(21, 40)], 900, "replaced by 3", 3).describe()
        'model 1: created at step 20, learned rows 4,000 to 8,199; predicted steps 21 to 40; replaced by 3'
        """
        before = self.first_row < 0
        created = "created before the run" if before else f"created at step {self.born}"
        learned = [describe_row(self.first_row)] if before else []
        if self.rows_until > max(self.first_row, 0):
            learned.append(f"rows {max(self.first_row, 0):,} to {self.rows_until - 1:,}")
        parts = [f"{created}, learned {', then '.join(learned) or 'no rows'}"]
        parts += [] if self.late else [self._describe_predictions()]
        kind = f" ({plain_expert(self.name)})" if self.name else ""
        return f"model {self.id}{kind}: {'; '.join([*parts, self.end or 'still in use'])}"

    def _describe_predictions(self) -> str:
        """Describe the steps that the model predicted, alone or with a share in a portfolio."""
        if self.predicted:
            return _describe_spans(self.predicted, "had a share in predicting" if self.name else "predicted")
        if any(role == "stable" for role, _, _ in self.roles):
            return "never predicted: it was the stable model, the reference for reactions"
        if self.name:
            return "had no share in predictions"
        return "did not predict in it" if self.first_row < 0 else "never predicted"


def describe_row(number: int) -> str:
    """Describe the number of a row; rows from before the run have negative numbers.

    >>> describe_row(4000), describe_row(-150)
    ('row 4,000', '150 rows before the run')
    """
    return f"row {number:,}" if number >= 0 else f"{counted(-number, 'row')} before the run"


def lineages(decisions: Iterable[Decision], predicted_by: Mapping[int, int] | None = None) -> list[Lineage]:
    """Return the history of every model in these decisions, ordered by id.

    ``predicted_by`` has the model behind the predictions of each step, if it is not the one that the decision names:
    where labels come late, rows were predicted before. It names one model, and says nothing about a portfolio.
    """
    found: dict[int, Lineage] = {}
    roles: dict[int, Role] = {}
    last = -1
    sharing = set[int]()
    for decision in decisions:
        last = decision.step
        for record in (*decision.models, *decision.others):
            model = found.get(record.id)
            if model is None:
                born = decision.step - record.age
                model = found[record.id] = Lineage(
                    record.id, born, record.first_row, rows_until=record.first_row, name=record.name
                )
            if len(record.name) > len(model.name):
                model.name = record.name  # one of a portfolio inside the portfolio, which has a longer name
            # A model that appears again is still in use: a transition may only change which model predicts.
            model.last_step, model.end, model.replaced_by = decision.step, "", None
            model.gradients += record.gradients
            if record.gradients:
                model.rows_until = decision.rows_seen
            _extend_role(model.roles, record.role, decision.step)
            roles[record.id] = record.role
        predictors = {decision.predicted_by if predicted_by is None else predicted_by.get(decision.step, -1)}
        if decision.experts:
            predictors, sharing = _predictors(decision, sharing), _sharing(decision)
        for predictor in predictors & found.keys():
            _extend_span(found[predictor].predicted, decision.step)
        _note_ends(decision, found, roles)
    for model in found.values():
        model.late = bool(model.name) and predicted_by is not None
        if model.late:
            model.predicted.clear()
        if not model.end and model.last_step < last:
            model.end = f"not used after step {model.last_step}"
    return [found[key] for key in sorted(found)]


def _sharing(decision: Decision) -> set[int]:
    """Return the models of a portfolio that have a share in predicting the batch after a decision."""
    return {record.id for record in (*decision.models, *decision.others) if (record.weight or 0.0) >= LEAST_SHARE}


def _predictors(decision: Decision, sharing: set[int]) -> set[int]:
    """Return the models of a portfolio that predicted the batch of a decision; ``sharing`` had a share after the last.

    If none of these is left, the record begins here or all models were reset: those that are older than the batch
    predicted it, or all if the batch was the first one.
    """
    if sharing & {record.id for record in (*decision.models, *decision.others)}:
        return sharing
    return {record.id for record in decision.models if record.age} or {record.id for record in decision.models}


def _note_ends(decision: Decision, found: dict[int, Lineage], roles: dict[int, Role]) -> None:
    """Record which models went out of use at a step, and why."""
    here = [found[record.id] for record in (*decision.models, *decision.others)]
    for transition in decision.transitions:
        new, at = transition.new, f"step {transition.step}"
        if transition.kind == "entered" and decision.variant != "authors":
            for model in here:
                if roles[model.id] == "stable" and model.name == transition.expert:
                    model.end = f"dropped at {at}, when the test of a new model began"
        elif transition.kind == "kept" and new in found:
            found[new].end = f"rejected in favour of model {transition.old} at {at}"
        elif transition.kind in ("switched", "replaced", "reset", "recalled") and transition.old in found:
            old = found[transition.old]
            old.end, old.replaced_by = f"replaced by model {new} at {at}", new


def _extend_role(spans: list[tuple[Role, int, int]], role: Role, step: int) -> None:
    """Add a step to the spans of roles."""
    if spans and spans[-1][0] == role:
        spans[-1] = role, spans[-1][1], step
    else:
        spans.append((role, step, step))


def _extend_span(spans: list[tuple[int, int]], step: int) -> None:
    """Add a step to the last span if it follows directly, else as a new span."""
    if spans and spans[-1][1] == step - 1:
        spans[-1] = spans[-1][0], step
    else:
        spans.append((step, step))


def _describe_spans(spans: Sequence[tuple[int, int]], verb: str) -> str:
    """Describe the steps that a model predicted."""
    shown = [f"{first} to {last}" if last > first else f"{first}" for first, last in spans]
    if len(shown) > 4:
        count = sum(last - first + 1 for first, last in spans)
        return f"{verb} {count} of the steps {spans[0][0]} to {spans[-1][1]}"
    several = len(shown) > 1 or " " in shown[0]
    return f"{verb} {plural('step', 1 + several)} {', '.join(shown)}"


def describe_models(models: Sequence[Lineage], width: int = 60) -> str:
    """Return the timeline of the last models, what its marks mean, and a line about each of these models."""
    shown = models[-MOST_MODELS:]
    cut = f"; the last {MOST_MODELS} of {len(models)}" if len(models) > MOST_MODELS else ""
    if any(model.late for model in models):
        marks = "- in use"
    elif any(model.name for model in models):
        marks = "= had a share in the prediction, - learned without one"
    else:
        marks = "= predicted, - learned without predicting"
    drawn = textwrap.indent(timeline(shown, width), "  ")
    return "\n".join([f"models ({marks}){cut}", drawn, "", *(f"  {model.describe()}" for model in shown)])


def timeline(models: Sequence[Lineage], width: int = 60) -> str:
    """Draw one line of text for each model: = where it predicted, - where it learned without predicting.

    >>> old = Lineage(0, 0, 0, 9, 100, [("predictive", 0, 9)], [(0, 6)], end="replaced by model 1 at step 9")
    >>> new = Lineage(1, 6, 60, 19, 200, [("reactive", 6, 9), ("predictive", 10, 19)], [(7, 19)])
    >>> print(timeline([old, new], width=20))
    model 0  =======---
    model 1        -=============
    """
    if not models:
        return ""
    first, last = min(model.born for model in models), max(model.last_step for model in models)
    scale = min(1.0, width / (last - first + 1))
    lines = []
    for model in models:
        bar = [" "] * (int((last - first) * scale) + 1)
        for mark, spans in (("-", [(model.born, model.last_step)]), ("=", model.predicted)):
            for start, stop in spans:
                for place in range(int((start - first) * scale), int((stop - first) * scale) + 1):
                    bar[place] = mark
        lines.append(f"model {model.id:<{len(str(models[-1].id))}}  {''.join(bar).rstrip()}")
    return "\n".join(lines)


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
