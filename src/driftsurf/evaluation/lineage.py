"""The models of a run: born when, from which rows, replaced by whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from driftsurf.decisions import Decision, Role

__all__ = ["Lineage", "lineages", "timeline"]


@dataclass(slots=True)
class Lineage:
    """One model from its first step to its last. Spans are of steps, both ends included."""

    id: int
    born: int
    first_row: int
    """The first row it was trained on."""
    last_step: int = -1
    rows_until: int = 0
    """The row after the last one that it learnt, or could have."""
    roles: list[tuple[Role, int, int]] = field(default_factory=list)
    predicted: list[tuple[int, int]] = field(default_factory=list)
    gradients: int = 0
    end: str = ""
    """What became of it; '' if it is there at the end."""
    replaced_by: int | None = None

    def describe(self) -> str:
        """One line for a person.

        >>> Lineage(1, 20, 4000, 40, 8200, [("predictive", 20, 40)], [(21, 40)], 900, "replaced by 3", 3).describe()
        'model 1: born at step 20, learnt rows 4,000 to 8,199; predicted steps 21 to 40; replaced by 3'
        """
        rows = f"learnt rows {self.first_row:,} to {self.rows_until - 1:,}"
        if self.rows_until <= self.first_row:
            rows = "learnt nothing yet"
        return (
            f"model {self.id}: born at step {self.born}, {rows}; "
            f"{_spans(self.predicted) or 'never predicted'}; {self.end or 'there at the end'}"
        )


def lineages(decisions: Iterable[Decision]) -> list[Lineage]:
    """The models that took part in these decisions, in the order of their birth."""
    found: dict[int, Lineage] = {}
    roles: dict[int, Role] = {}
    last = -1
    for decision in decisions:
        last = decision.step
        for record in decision.models:
            model = found.get(record.id)
            if model is None:
                born = decision.step - record.age
                model = found[record.id] = Lineage(record.id, born, record.first_row, rows_until=record.first_row)
            model.last_step, model.end, model.replaced_by = decision.step, "", None
            model.gradients += record.gradients
            if record.gradients:
                model.rows_until = decision.rows_seen
            _extend(model.roles, record.role, decision.step)
            roles[record.id] = record.role
        if decision.predicted_by in found:
            _lengthen(found[decision.predicted_by].predicted, decision.step)
        _ends(decision, found, roles)
    for model in found.values():
        if not model.end and model.last_step < last:
            model.end = f"not there any more after step {model.last_step}"
    return [found[key] for key in sorted(found)]


def _ends(decision: Decision, found: dict[int, Lineage], roles: dict[int, Role]) -> None:
    """Whose story ends with the transitions of a step."""
    here = [found[record.id] for record in decision.models]
    for transition in decision.transitions:
        new, at = transition.new, f"step {transition.step}"
        if transition.kind == "entered" and decision.variant != "authors":
            for model in here:
                if roles[model.id] == "stable":
                    model.end = f"given up at {at}, when a reactive state began"
        elif transition.kind == "kept" and new in found:
            found[new].end = f"lost to model {transition.old} at {at}"
        elif transition.kind in ("switched", "replaced", "reset") and transition.old in found:
            old = found[transition.old]
            old.end, old.replaced_by = f"replaced by model {new} at {at}", new


def _extend(spans: list[tuple[Role, int, int]], role: Role, step: int) -> None:
    if spans and spans[-1][0] == role:
        spans[-1] = role, spans[-1][1], step
    else:
        spans.append((role, step, step))


def _lengthen(spans: list[tuple[int, int]], step: int) -> None:
    if spans and spans[-1][1] == step - 1:
        spans[-1] = spans[-1][0], step
    else:
        spans.append((step, step))


def _spans(spans: Sequence[tuple[int, int]]) -> str:
    if not spans:
        return ""
    shown = [f"{first} to {last}" if last > first else f"{first}" for first, last in spans]
    if len(shown) > 4:
        count = sum(last - first + 1 for first, last in spans)
        return f"predicted {count} steps from {spans[0][0]} to {spans[-1][1]}"
    return f"predicted step{'s' * (len(shown) > 1 or ' ' in shown[0])} {', '.join(shown)}"


def timeline(models: Sequence[Lineage], width: int = 60) -> str:
    """A bar a model in plain characters: = where it predicted, - where it learnt beside another one.

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
