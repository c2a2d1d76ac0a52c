"""Results of models on a source, or over all sources: who is first, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftsurf.comparison.matches import InUnits
from driftsurf.core.measures import percent
from driftsurf.evaluation.class_metrics import ClassQuality
from driftsurf.evaluation.resampling import Interval

__all__ = ["SAME", "Standing", "Standings"]

SAME = 1e-12
"""Errors that differ by no more are the same: a sum in another order may differ in its last bit."""


@dataclass(frozen=True)
class Standing:
    """Result of a model on one source, or over all sources."""

    model: str
    error: Interval
    """Share of wrong rows, or relative error of a regression: mean over steps but the first, seeds and sources."""
    behind: Interval
    """Its error minus the error of the winner."""
    wins: float
    """Share of the resamples in which its error was the lowest; models with the same lowest error share a resample."""
    rank: float
    """Rank among the models, 1 for the lowest error; over all sources the mean rank."""
    seconds: float
    """CPU seconds for one seed, summed over all sources."""
    gradients_per_row: float
    """0 for models that do not count gradients."""
    in_units: InUnits | None = None
    """Errors of a regression on one source in the unit of the label."""
    relative_rmse: float | None = None
    """For a regression: the RMSE relative to that of predicting the mean of all targets before the batch."""
    diverged: bool = False
    """Whether training diverged on any source with any seed."""
    quality: ClassQuality | None = None
    """For classes: kappa, balanced error and log loss, averaged over seeds and sources."""
    curve: tuple[float, ...] = ()
    """Its error over time on one source: means over equal spans of the steps that count, averaged over seeds."""


@dataclass(frozen=True)
class Standings:
    """Results of all models on one source, or over all sources, in the order in which the models were named."""

    title: str
    n_rows: int
    steps: int
    models: tuple[Standing, ...]

    @property
    def winner(self) -> Standing:
        """Model with the lowest error; the first of those that are tied."""
        return min(self.models, key=lambda one: one.error.value)

    @property
    def tied(self) -> tuple[Standing, ...]:
        """Models with the lowest error: the winner alone, unless others have the same error."""
        return tuple(one for one in self.models if one.behind.value <= SAME)

    @property
    def second(self) -> Standing | None:
        """Model with the second lowest error; None if there is a single model."""
        return next(iter(sorted(self.models, key=lambda one: one.error.value)[1:]), None)

    @property
    def sure(self) -> bool:
        """Whether the winner is ahead of every other model by more than chance."""
        return not self.close

    @property
    def close(self) -> tuple[Standing, ...]:
        """Models behind the winner by a gap whose interval includes 0, the nearest first."""
        others = (one for one in self.models if one is not self.winner and one.behind.low <= 0.0)
        return tuple(sorted(others, key=lambda one: one.error.value))

    def verdict(self) -> str:
        """Return a sentence that names the winner, the models that are tied, or those that chance might put first."""
        best, next_best = self.winner, self.second
        what = "error" if best.relative_rmse is None else "relative error"
        found = f"{best.error.value:.4f} ({best.error.low:.4f} to {best.error.high:.4f})"
        if next_best is None:
            return f"{best.model} has {_a(what)} of {found}"
        if len(self.tied) > 1:
            return f"{_and([one.model for one in self.tied])} are tied with {_a(what)} of {found}"
        if self.close:
            gaps = [f"{one.model} ({_gap(one)})" for one in self.close]
            return (
                f"No clear winner: {best.model} has the lowest {what}, {found}, but chance may explain its lead over "
                f"{_and(gaps)}"
            )
        return (
            f"{best.model} wins with {_a(what)} of {found}: lower than that of {next_best.model} by {_gap(next_best)}, "
            f"and the lowest in {percent(best.wins)} of the resamples"
        )


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _gap(one: Standing) -> str:
    gap = one.behind
    return f"{gap.value:.4f}, 95 % interval {gap.low:.4f} to {gap.high:.4f}"
