"""How well a model finds a rare class, where the share of wrong rows says little."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from driftsurf.core.measures import AVERAGE_PRECISION, percent, rare_class
from driftsurf.core.trivial import HARDLY_ABOVE_CHANCE
from driftsurf.evaluation.class_metrics import class_metrics
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import OTHER, Trace

__all__ = ["RareClass", "rare_class_of"]


@dataclass(frozen=True, slots=True)
class RareClass:
    """How well a model finds the rare class of imbalanced labels. Unknown shares are NaN.

    Examples
    --------
    >>> print(RareClass("fraud", 0.02, recall=0.62, precision=0.4, average_precision=0.55).sentence)
    The model finds 62 % of class 'fraud' with a precision of 40 %; average precision 0.55, by chance 0.02.
    """

    label: Any
    share: float
    """Share of the rows that belong to the class, which is the precision of chance."""
    recall: float
    """Share of the rows of the class that were predicted as it."""
    precision: float
    """Share of the rows predicted as the class that belong to it."""
    average_precision: float = math.nan

    @property
    def sentence(self) -> str:
        """How well the class is found, in one sentence."""
        found = f"The model finds {percent(self.recall)} of class {self.label!r}"
        found += "" if math.isnan(self.precision) else f" with a precision of {percent(self.precision)}"
        if math.isnan(self.average_precision):
            return f"{found}, which {percent(self.share)} of the rows belong to."
        return f"{found}; average precision {self.average_precision:.2f}, by chance {self.share:.2g}."

    def headline(self, rules: Iterable[str]) -> list[tuple[str, str, list[str]]]:
        """Return the name of each figure, that of the model, and those of trivial rules, "-" where they are not known.

        The most frequent class so far finds no row, and its scores are all equal, so that its precision is chance.
        """
        majority = [rule == "majority" for rule in rules]
        chance, none = (["-" if not own else text for own in majority] for text in (f"{self.share:.3f}", "0 %"))
        precision = "-" if math.isnan(self.precision) else percent(self.precision)
        ranked = (AVERAGE_PRECISION, f"{self.average_precision:.3f}", chance)
        shown = [] if math.isnan(self.average_precision) else [ranked]
        shown += [("recall", percent(self.recall), none), ("precision", precision, ["-"] * len(majority))]
        return [(f"{name} of class {self.label}", own, others) for name, own, others in shown]

    @property
    def warning(self) -> str:
        """Warning in words if the class is found no better, or hardly better, than by chance; else empty."""
        if math.isnan(self.average_precision):
            return "" if self.recall else f"The model finds no row of class {self.label!r}."
        if self.average_precision >= HARDLY_ABOVE_CHANCE * self.share:
            return ""
        how = "no" if self.average_precision <= self.share else "hardly"
        numbers = f"average precision {self.average_precision:.4f} against {self.share:.4f}"
        return f"The model finds class {self.label!r} {how} better than chance: {numbers}."


def rare_class_of(trace: Trace, model: str, scores: Scores | None = None) -> RareClass | None:
    """Return how well a model finds the rare class, without the warm-up steps; None if labels are not imbalanced.

    ``scores`` has the average precision, if the run recorded it.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> rare_class_of(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model") is None
    True
    """
    counted = trace.counted(model)
    counts = {label: int(counted[f"true:{label}"].sum()) for label in trace.labels}
    label = rare_class(counts)
    if label is None or label == OTHER:
        return None
    own = class_metrics(trace, model)[label]
    found = math.nan if scores is None else scores.average_precision(label)
    return RareClass(label, own.rows / sum(counts.values()), own.recall, own.precision, found)
