"""History of each model of a run: when it was created, which rows it learned, when it predicted, what replaced it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from driftsurf.core.decisions import Decision, Role, plain_expert
from driftsurf.core.wording import counted, plural

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
