"""Any models on any sources, beside each other: their errors, what they cost, who wins and how surely."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from driftsurf import __version__
from driftsurf._options import number, whole
from driftsurf.assembly.models import names
from driftsurf.base import FloatArray
from driftsurf.errors import CapabilityError, Option, OptionError, RunFolderError
from driftsurf.evaluation.ranks import ranks
from driftsurf.evaluation.resampling import Interval, interval, resampled_means
from driftsurf.experiments.inputs import Input
from driftsurf.experiments.matches import FIRST_STEP, InUnits, Match, Score
from driftsurf.experiments.models import Model, Situation, model
from driftsurf.experiments.runner import Ledger, run

__all__ = [
    "METHOD",
    "RELATIVE",
    "USUAL",
    "USUAL_FOR_VALUES",
    "Comparison",
    "Standing",
    "Standings",
    "compare",
    "stand",
    "to_json",
]

USUAL = "driftsurf:logistic,aue:logistic,oblivious:logistic,majority,persistence"
"""The models where none are named."""
USUAL_FOR_VALUES = "driftsurf:linear,aue:linear,sliding-window:linear,oblivious:linear,mean,persistence"

METHOD = (
    "95 % intervals by a circular block bootstrap of 2,000 resamples: blocks of time steps drawn for all models at "
    "once, seeds for each model by itself; streams as given"
)
RELATIVE = "the absolute error over that of the mean of all values before the batch"
"""What the error of values is."""


@dataclass(frozen=True)
class Standing:
    """How a model did, on one source or over all of them."""

    model: str
    error: Interval
    """The share of wrong rows, of values ``RELATIVE``: the mean over the steps but the first, seeds and sources."""
    behind: Interval
    """Its error less that of the winner, batch by batch."""
    wins: float
    """In what share of the resamples its error was the lowest."""
    rank: float
    """Among the models, 1 for the lowest error; over all sources the mean rank."""
    seconds: float
    """Of the CPU for one seed, over all sources in sum."""
    gradients_per_row: float
    """0 where they are not counted."""
    in_units: InUnits | None = None
    """Of values on one source."""
    relative_rmse: float | None = None
    """Of values: the root mean squared error over that of the mean of all values before the batch."""
    diverged: bool = False
    """Whether its training did, on a source and with a seed."""


@dataclass(frozen=True)
class Standings:
    """The models on one source, or over all of them, in the order in which they were named."""

    title: str
    n_rows: int
    steps: int
    models: tuple[Standing, ...]

    @property
    def winner(self) -> Standing:
        """The model of the lowest error."""
        return min(self.models, key=lambda one: one.error.value)

    @property
    def second(self) -> Standing:
        """The one behind it."""
        return sorted(self.models, key=lambda one: one.error.value)[1]

    @property
    def sure(self) -> bool:
        """Whether the winner is ahead of every other one by more than chance."""
        return all(one.behind.low > 0.0 for one in self.models if one is not self.winner)

    def verdict(self) -> str:
        """Who wins, and how surely, in words."""
        best, next_best = self.winner, self.second
        gap = next_best.behind
        surely = "ahead of all others beyond chance" if self.sure else "not surely ahead of all others"
        what = "an error" if best.relative_rmse is None else "a relative error"
        return (
            f"{best.model} wins with {what} of {best.error.value:.4f} ({best.error.low:.4f} to "
            f"{best.error.high:.4f}): {gap.value:.4f} ({gap.low:.4f} to {gap.high:.4f}) ahead of {next_best.model}, "
            f"{surely}, the best in {best.wins:.0%} of the resamples"
        )


@dataclass(frozen=True)
class Comparison:
    """Everything that was run."""

    sources: tuple[Standings, ...]
    overall: Standings
    """The one source again where there is but one."""
    seeds: tuple[int, ...]
    gradients_per_row: float | None

    @property
    def values(self) -> bool:
        """Whether values were predicted."""
        return self.overall.winner.relative_rmse is not None


def compare(
    folder: Path,
    sources: Sequence[Input],
    models: Sequence[str] | None = None,
    *,
    trials: int = 1,
    seed: int = 0,
    jobs: int = 1,
    gradients_per_row: float | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Run every model on every source, once for each seed; what ``folder / "ledger.jsonl"`` has is not run again.

    Without ``models`` they are the usual ones for classes or for values.
    """
    if not sources:
        raise OptionError("there is no source to compare on: give a stream, or a file")
    values = _values(sources)
    chosen = names(USUAL_FOR_VALUES if values else USUAL) if models is None else models
    contenders = {one.name: one for one in map(model, chosen)}
    if len(contenders) < 2:
        raise OptionError(Option("models"), f" are {', '.join(chosen) or 'none'}; give two at least, to compare")
    if gradients_per_row is not None:
        number("gradients_per_row", gradients_per_row, above=0.0)
    seeds = tuple(range(seed, seed + whole("trials", trials, at_least=1)))
    ledger = Ledger(folder / "ledger.jsonl")
    if folder.exists() and any(folder.iterdir()) and not ledger.path.exists():
        raise RunFolderError(f"{str(folder)!r} holds files of others; choose a folder for the comparison alone")
    _check(contenders.values(), sources, Situation(0 if values else 2, gradients_per_row=gradients_per_row))
    matches = {
        (what, name, one): Match(what, name, gradients_per_row, contender.built_on, one)
        for what in sources
        for name, contender in contenders.items()
        for one in seeds
    }
    digests = {what.source: what.digest() for what in sources}
    report = None if on_progress is None else lambda done, total: on_progress("matches", done, total)
    done = cast(
        "dict[Match, Score]",
        run(matches.values(), ledger, jobs=jobs, on_done=report, digest=digests.__getitem__),
    )
    found = [
        (what.title, {name: [done[matches[what, name, one]] for one in seeds] for name in contenders})
        for what in sources
    ]
    return stand(found, seeds, gradients_per_row)


def _values(sources: Sequence[Input]) -> bool:
    """Whether all sources have values to predict; OptionError if only some do."""
    kinds = {what.title: what.values() for what in sources}
    if len(set(kinds.values())) > 1:
        first = {values: title for title, values in reversed(kinds.items())}
        raise OptionError(
            f"the label of {first[False]} is classes and that of {first[True]} values; their errors have no mean: "
            "compare them apart"
        )
    return any(kinds.values())


def _check(contenders: Iterable[Model], sources: Sequence[Input], at: Situation) -> None:
    """Make each model once, so that one that cannot take part is refused before the first match."""
    told = replace(at, drift_steps=())
    for one in contenders:
        try:
            one.make(told)
        except CapabilityError as error:
            raise CapabilityError(
                f"{one.name} cannot be compared on {sources[0].title}, whose label is {at.learnt}: ", *error.args
            ) from error


def stand(
    found: Sequence[tuple[str, dict[str, list[Score]]]], seeds: tuple[int, ...], gradients_per_row: float | None
) -> Comparison:
    """The standings of scores: for each source its title, and for each model a score a seed."""
    each = [_of_source(title, scores) for title, scores in found]
    single = tuple(_standings(one) for one in each)
    overall = single[0] if len(each) == 1 else _standings(_over_all(each))
    return Comparison(single, overall, seeds, gradients_per_row)


@dataclass(frozen=True)
class _Numbers:
    """Of one source, or over all of them: in arrays an entry for each model."""

    title: str
    n_rows: int
    steps: int
    models: tuple[str, ...]
    errors: FloatArray
    means: FloatArray
    """The errors in each resample, (resamples, models)."""
    costs: FloatArray
    """Seconds and gradients, (models, 2)."""
    ranks: FloatArray
    diverged: tuple[bool, ...]
    in_units: tuple[InUnits, ...] = ()
    """Of values on one source."""
    relative_rmse: FloatArray | None = None
    """Of values."""


def _of_source(title: str, scores: dict[str, list[Score]]) -> _Numbers:
    tables = [np.array([score.error[FIRST_STEP:] for score in of_seeds]) for of_seeds in scores.values()]
    any_score = next(iter(scores.values()))[0]
    errors = np.array([table.mean() for table in tables])
    costs = [np.mean([(score.seconds, score.gradients) for score in of_seeds], axis=0) for of_seeds in scores.values()]
    in_units: tuple[InUnits, ...] = ()
    if any_score.in_units is not None:
        means = (
            np.mean([astuple(score.in_units) for score in of_seeds if score.in_units is not None], axis=0)
            for of_seeds in scores.values()
        )
        in_units = tuple(InUnits(*map(float, mean)) for mean in means)
    return _Numbers(
        title,
        any_score.n_rows,
        len(any_score.error),
        tuple(scores),
        errors,
        resampled_means(tables),
        np.array(costs),
        ranks(errors),
        tuple(any(score.diverged for score in of_seeds) for of_seeds in scores.values()),
        in_units,
        np.array([one.relative_rmse for one in in_units]) if in_units else None,
    )


def _over_all(each: Sequence[_Numbers]) -> _Numbers:
    ratios = [one.relative_rmse for one in each if one.relative_rmse is not None]
    return _Numbers(
        f"mean of {len(each)} sources",
        sum(one.n_rows for one in each),
        sum(one.steps for one in each),
        each[0].models,
        np.mean([one.errors for one in each], axis=0),
        np.mean([one.means for one in each], axis=0),
        np.sum([one.costs for one in each], axis=0),
        np.mean([one.ranks for one in each], axis=0),
        tuple(map(any, zip(*(one.diverged for one in each), strict=True))),
        relative_rmse=np.mean(ratios, axis=0) if ratios else None,
    )


def _standings(of: _Numbers) -> Standings:
    best = int(of.errors.argmin())
    lowest = of.means.argmin(axis=1)
    models = tuple(
        Standing(
            name,
            interval(of.errors[k], of.means[:, k]),
            interval(of.errors[k] - of.errors[best], of.means[:, k] - of.means[:, best]),
            float(np.mean(lowest == k)),
            float(of.ranks[k]),
            float(of.costs[k, 0]),
            float(of.costs[k, 1]) / of.n_rows,
            of.in_units[k] if of.in_units else None,
            None if of.relative_rmse is None else float(of.relative_rmse[k]),
            of.diverged[k],
        )
        for k, name in enumerate(of.models)
    )
    return Standings(of.title, of.n_rows, of.steps, models)


def to_json(result: Comparison) -> str:
    """Everything as JSON."""
    whole_result: dict[str, Any] = {
        "driftsurf": __version__,
        "error": RELATIVE if result.values else "the share of wrong rows",
        "method": METHOD,
        "seeds": result.seeds,
        "gradients_per_row": result.gradients_per_row,
        "winner": result.overall.winner.model,
        "verdict": result.overall.verdict(),
        "overall": asdict(result.overall),
        "sources": [asdict(one) for one in result.sources],
    }
    return json.dumps(whole_result, indent=1) + "\n"
