"""Any models on any sources, beside each other: their errors, what they cost, who wins and how surely."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from driftsurf import __version__
from driftsurf._options import number, whole
from driftsurf.base import FloatArray
from driftsurf.errors import Option, OptionError, RunFolderError
from driftsurf.evaluation.ranks import ranks
from driftsurf.evaluation.resampling import Interval, interval, resampled_means
from driftsurf.experiments.inputs import Input
from driftsurf.experiments.matches import Match, Score
from driftsurf.experiments.models import model
from driftsurf.experiments.runner import Ledger, run

__all__ = ["METHOD", "Comparison", "Standing", "Standings", "compare", "stand", "to_json"]

METHOD = (
    "95 % intervals by a circular block bootstrap of 2,000 resamples: blocks of time steps drawn for all models at "
    "once, seeds for each model by itself; streams as given"
)
FIRST_STEP = 1
"""The batch before it is predicted by models that have learnt nothing."""


@dataclass(frozen=True)
class Standing:
    """How a model did, on one source or over all of them."""

    model: str
    error: Interval
    """The mean over the steps but the first, over seeds, and over sources."""
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
        return (
            f"{best.model} wins with an error of {best.error.value:.4f} ({best.error.low:.4f} to "
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


def compare(
    folder: Path,
    sources: Sequence[Input],
    models: Sequence[str],
    *,
    trials: int = 1,
    seed: int = 0,
    jobs: int = 1,
    gradients_per_row: float | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Run every model on every source, once for each seed; what ``folder / "ledger.jsonl"`` has is not run again."""
    contenders = {one.name: one for one in map(model, models)}
    if len(contenders) < 2:
        raise OptionError(Option("models"), f" are {', '.join(models) or 'none'}; give two at least, to compare")
    if not sources:
        raise OptionError("there is no source to compare on: give a stream, or a file")
    if gradients_per_row is not None:
        number("gradients_per_row", gradients_per_row, above=0.0)
    seeds = tuple(range(seed, seed + whole("trials", trials, at_least=1)))
    ledger = Ledger(folder / "ledger.jsonl")
    if folder.exists() and any(folder.iterdir()) and not ledger.path.exists():
        raise RunFolderError(f"{str(folder)!r} holds files of others; choose a folder for the comparison alone")
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


def stand(
    found: Sequence[tuple[str, dict[str, list[Score]]]], seeds: tuple[int, ...], gradients_per_row: float | None
) -> Comparison:
    """The standings of scores: for each source its title, and for each model a score a seed."""
    each = [_Source(title, scores) for title, scores in found]
    single = tuple(
        _standings(one.title, one.n_rows, one.steps, list(one.scores), one.errors, one.means, one.costs, one.ranks)
        for one in each
    )
    if len(each) == 1:
        return Comparison(single, single[0], seeds, gradients_per_row)
    overall = _standings(
        f"mean of {len(each)} sources",
        sum(one.n_rows for one in each),
        sum(one.steps for one in each),
        list(each[0].scores),
        np.mean([one.errors for one in each], axis=0),
        np.mean([one.means for one in each], axis=0),
        np.sum([one.costs for one in each], axis=0),
        np.mean([one.ranks for one in each], axis=0),
    )
    return Comparison(single, overall, seeds, gradients_per_row)


class _Source:
    """The numbers of one source, an entry for each model."""

    def __init__(self, title: str, scores: dict[str, list[Score]]) -> None:
        self.title = title
        self.scores = scores
        tables = [np.array([score.error[FIRST_STEP:] for score in of_seeds]) for of_seeds in scores.values()]
        any_score = next(iter(scores.values()))[0]
        self.n_rows, self.steps = any_score.n_rows, len(any_score.error)
        self.errors = np.array([table.mean() for table in tables])
        self.means = resampled_means(tables)
        self.costs = np.array(
            [np.mean([(score.seconds, score.gradients) for score in of_seeds], axis=0) for of_seeds in scores.values()]
        )
        self.ranks = ranks(self.errors)


def _standings(
    title: str,
    n_rows: int,
    steps: int,
    names: list[str],
    errors: FloatArray,
    means: FloatArray,
    costs: FloatArray,
    placed: FloatArray,
) -> Standings:
    best = int(errors.argmin())
    lowest = means.argmin(axis=1)
    models = tuple(
        Standing(
            name,
            interval(errors[k], means[:, k]),
            interval(errors[k] - errors[best], means[:, k] - means[:, best]),
            float(np.mean(lowest == k)),
            float(placed[k]),
            float(costs[k, 0]),
            float(costs[k, 1]) / n_rows,
        )
        for k, name in enumerate(names)
    )
    return Standings(title, n_rows, steps, models)


def to_json(result: Comparison) -> str:
    """Everything as JSON."""
    whole_result: dict[str, Any] = {
        "driftsurf": __version__,
        "method": METHOD,
        "seeds": result.seeds,
        "gradients_per_row": result.gradients_per_row,
        "winner": result.overall.winner.model,
        "verdict": result.overall.verdict(),
        "overall": asdict(result.overall),
        "sources": [asdict(one) for one in result.sources],
    }
    return json.dumps(whole_result, indent=1) + "\n"
