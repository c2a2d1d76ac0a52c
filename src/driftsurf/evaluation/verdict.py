"""Verdict on a model in a few sentences: whether the data drifted, and whether the model is any good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from driftsurf.core.drifts import Drifts
from driftsurf.evaluation.baselines import Baselines, baselines
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import Trace

__all__ = ["Verdict", "VerdictStatus", "verdict", "verdict_of"]

VerdictStatus: TypeAlias = Literal["fine", "drifting", "trivial", "waiting"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first thing that a person is told about a model.

    Examples
    --------
    >>> print(verdict(Drifts(), 10_000, Baselines("mean error", 0.051, {"majority": 0.4})).text)
    No drift in 10,000 rows. The error is 5.1 %, 87 % better than predicting the most frequent class so far.
    """

    status: VerdictStatus
    """"fine"; "drifting": the error has risen and is not back; "trivial": no better than a rule without a model;
    "waiting": no row was scored yet."""
    drift: str
    """Whether, when and why the data drifted."""
    quality: str
    """How good the model is, beside the best rule without a model."""

    @property
    def text(self) -> str:
        """The whole verdict."""
        return f"{self.drift} {self.quality}".strip()


def verdict_of(trace: Trace, model: str, drifts: Drifts, scores: Scores | None = None) -> Verdict:
    """Return the verdict on a model of a trace; ``scores`` has the average precision of a rare class."""
    if trace.is_empty:
        return Verdict("waiting", "No row was scored yet.", "")
    return verdict(drifts, int(trace.of(model)["rows"].sum()), baselines(trace, model, scores))


def verdict(drifts: Drifts, rows: int, quality: Baselines) -> Verdict:
    """Return the verdict, given the drifts, the number of scored rows and the errors beside trivial predictions."""
    poor = bool(quality.warning)
    status: VerdictStatus = "drifting" if drifts.open is not None else "trivial" if poor else "fine"
    return Verdict(status, drifts.describe() or f"No drift in {rows:,} rows.", quality.sentence)
